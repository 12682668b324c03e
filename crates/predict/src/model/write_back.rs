//! Bytes that memory has taken in and that a device has yet to get.

use intarsia_des::{Span, Time};

use crate::profile::WriteBack;

/// The bytes that are not written back yet, of one tier of one host: they flow out at the rate of the device, and who
/// adds to them above the limit waits until that much has flowed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unwritten {
    limit_bytes: f64,
    bytes_per_second: f64,
    bytes: f64,
    updated: Time,
}

impl Unwritten {
    #[expect(clippy::cast_precision_loss, reason = "a limit")]
    pub(super) const fn new(write_back: &WriteBack) -> Self {
        Self {
            limit_bytes: write_back.bytes as f64,
            bytes_per_second: write_back.bytes_per_second,
            bytes: 0.0,
            updated: Time::ZERO,
        }
    }

    /// So many bytes come in. Gives how long their writer waits.
    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    pub(super) fn add(&mut self, bytes: u64, now: Time) -> Span {
        let flowed = now.since(self.updated).as_secs_f64() * self.bytes_per_second;
        self.bytes = (self.bytes - flowed).max(0.0) + bytes as f64;
        self.updated = now;
        let above = (self.bytes - self.limit_bytes).max(0.0);
        Span::from_secs_f64(above / self.bytes_per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_waits_when_memory_is_full_and_no_longer_when_it_has_flowed_out() {
        let mut unwritten = Unwritten::new(&WriteBack { bytes: 100, bytes_per_second: 10.0 });
        let at = |seconds: f64| Time::ZERO + Span::from_secs_f64(seconds);
        assert_eq!(unwritten.add(100, at(0.0)), Span::ZERO);
        assert_eq!(unwritten.add(50, at(0.0)).as_secs_f64(), 5.0);
        assert_eq!(unwritten.add(20, at(5.0)).as_secs_f64(), 2.0);
        assert_eq!(unwritten.add(100, at(1000.0)), Span::ZERO);
    }
}
