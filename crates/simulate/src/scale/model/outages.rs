//! Endpoints that fail and come back.

use intarsia_des::{Span, Time};

use crate::scale::hash::hash_of;
use crate::scale::system::Outage;

/// Keeps the hashes of failures apart from those of files.
const SALT: u64 = 0x6F75_7461_6765_7321;

/// When which endpoint is away. The failures of an endpoint follow from a hash, so that its device and
/// its service meet the same ones, however far either is booked ahead.
pub(super) struct Outages {
    mean_seconds: f64,
    outage: Span,
    seed: u64,
    cursors: Vec<[Cursor; 2]>,
    /// Requests that an outage held up.
    pub(super) held: u64,
}

/// What of an endpoint is asked.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Device,
    Service,
}

/// The next failure that a part of an endpoint has not left behind.
#[derive(Clone, Copy, Default)]
struct Cursor {
    at: Time,
    number: u32,
}

impl Outages {
    /// Endpoints that have been up since time zero.
    pub(super) fn new(law: Outage, endpoints: usize, seed: u64) -> Self {
        let mut outages = Self {
            mean_seconds: law.mtbf_seconds,
            outage: Span::from_secs_f64(law.seconds),
            seed: seed ^ SALT,
            cursors: Vec::with_capacity(endpoints),
            held: 0,
        };
        for endpoint in (0_u32..).take(endpoints) {
            let first = Cursor { at: Time::ZERO + outages.life(endpoint, 0), number: 0 };
            outages.cursors.push([first; 2]);
        }
        outages
    }

    /// When `work` is done that a part of an endpoint could begin at `start`: a failure throws it away,
    /// and it is begun again when the endpoint is back.
    pub(super) fn end_of(&mut self, endpoint: u32, part: Part, start: Time, work: Span) -> Time {
        let place = (endpoint as usize, part as usize);
        let Some(mut cursor) = self.cursors.get(place.0).map(|parts| parts[place.1]) else {
            return start + work;
        };
        let mut begin = start;
        while cursor.at < begin + work && cursor.at < Time::NEVER {
            let back = cursor.at + self.outage;
            begin = begin.max(back);
            cursor.number = cursor.number.wrapping_add(1);
            cursor.at = back + self.life(endpoint, cursor.number);
        }
        self.held += u64::from(begin > start);
        self.cursors[place.0][place.1] = cursor;
        begin + work
    }

    /// How long an endpoint is up before its failure `number`: exponential.
    fn life(&self, endpoint: u32, number: u32) -> Span {
        // The middle of one of 2⁵³ equal parts of the unit interval, so never zero.
        let even = ((hash_of(self.seed, endpoint, number) >> 11) as f64 + 0.5) / 2_f64.powi(53);
        Span::from_secs_f64(-even.ln() * self.mean_seconds)
    }

    /// Memory, in bytes.
    pub(super) fn state_bytes(&self) -> usize {
        self.cursors.capacity() * size_of::<[Cursor; 2]>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: Outage = Outage { mtbf_seconds: 100.0, seconds: 10.0 };

    fn seconds(seconds: f64) -> Time {
        Time::ZERO + Span::from_secs_f64(seconds)
    }

    #[test]
    fn what_an_outage_meets_is_begun_again() {
        let mut outages = Outages::new(LAW, 1, 1);
        let first = outages.cursors[0][0].at.as_secs_f64();
        let end = outages.end_of(0, Part::Device, seconds(first - 1.0), Span::from_secs_f64(0.5));
        assert_eq!(end, seconds(first - 0.5), "done before it");
        let work = Span::from_secs_f64(2.0);
        let end = outages.end_of(0, Part::Device, seconds(first - 1.0), work);
        assert_eq!(end, seconds(first + 10.0) + work);
        // The service met the same one.
        let end = outages.end_of(0, Part::Service, seconds(first + 3.0), work);
        assert_eq!(end, seconds(first + 10.0) + work);
        assert_eq!(outages.held, 2);
    }

    /// Work of S that failures at rate λ begin again after an outage of D takes (e^(λS) − 1)(1/λ + D).
    #[test]
    fn work_takes_as_long_as_the_formula_says() {
        let mut outages = Outages::new(LAW, 20_000, 7);
        let work = Span::from_secs_f64(50.0);
        let took: intarsia_des::Tally = (0..20_000)
            .map(|endpoint| outages.end_of(endpoint, Part::Device, Time::ZERO, work).as_secs_f64())
            .collect();
        let exact = 0.5_f64.exp_m1() * 110.0;
        let interval = took.interval(0.999);
        assert!(interval.contains(exact), "{exact} is outside {interval}");
    }
}
