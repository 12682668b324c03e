//! The queue in of a host: frames of several senders, first come, first served.
//!
//! The frames of a message leave their sender one after the other, so they arrive in even steps: a *train*. What a frame
//! at a time would cost an event each is computed for whole trains, with the same result. A train whose steps are not
//! longer than the service of a frame keeps the queue busy from its first frame to its last; meanwhile the order of
//! frames changes nothing for the time at which the queue is free, so those of all trains are added at once.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The frames of one message on their way to a host. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    /// Trains are served in this order where frames arrive at the same instant.
    pub(super) number: u64,
    /// The first frame arrives.
    pub(super) first: f64,
    /// From one frame to the next, but for the last one.
    pub(super) step: f64,
    /// The last frame arrives.
    pub(super) last: f64,
    /// How many.
    pub(super) frames: u64,
    /// What a frame takes, but for the last one.
    pub(super) service: f64,
    /// What the last frame takes.
    pub(super) last_service: f64,
    /// Frames that were counted.
    pub(super) done: u64,
}

/// By first frame, earliest on top of a heap.
#[derive(Debug)]
struct Coming(Train);

impl PartialEq for Coming {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Coming {}
impl PartialOrd for Coming {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Coming {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.first.total_cmp(&other.0.first).then(self.0.number.cmp(&other.0.number))
    }
}

/// A queue with one server.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    coming: BinaryHeap<Reverse<Coming>>,
    /// Trains that have begun, and of which frames are not counted yet.
    active: Vec<Train>,
    /// Until here the queue is never idle: the end of the last dense train that has begun.
    busy_until: f64,
    /// When all frames that were counted are served.
    free: f64,
}

impl Train {
    /// When the next frame that was not counted arrives.
    fn next(&self) -> f64 {
        if self.done + 1 >= self.frames { self.last } else { self.at(self.done) }
    }

    #[expect(clippy::cast_precision_loss, reason = "frames of one message")]
    fn at(&self, frame: u64) -> f64 {
        self.first + frame as f64 * self.step
    }

    const fn is_over(&self) -> bool {
        self.done >= self.frames
    }

    /// While it arrives the queue is never idle.
    fn is_dense(&self) -> bool {
        self.step <= self.service
    }

    /// Counts the frames that arrive up to `until`, that instant included if `also`; gives their service.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "frames of one message; a cast saturates"
    )]
    fn take(&mut self, until: f64, also: bool) -> f64 {
        let comes = |at: f64| if also { at <= until } else { at < until };
        if self.is_over() || !comes(self.next()) {
            return 0.0;
        }
        let due = if comes(self.last) {
            self.frames
        } else if self.step > 0.0 {
            let steps = (until - self.first) / self.step;
            let full = if also { steps.floor() + 1.0 } else { steps.ceil() };
            (full as u64).clamp(self.done + 1, self.frames - 1)
        } else {
            self.frames - 1
        };
        let full = due.min(self.frames - 1).saturating_sub(self.done);
        let last = if due == self.frames { self.last_service } else { 0.0 };
        self.done = due;
        full as f64 * self.service + last
    }
}

impl Inbound {
    /// A train is on its way.
    pub(super) fn expect(&mut self, train: Train) {
        self.coming.push(Reverse(Coming(train)));
    }

    /// When the last frame of train `number`, which arrives at `last`, is served. To be asked at that instant, in the
    /// order of the numbers where several end at one.
    pub(super) fn served(&mut self, number: u64, last: f64) -> f64 {
        while let Some(Reverse(Coming(train))) = self.coming.peek()
            && (train.first < last || (train.first == last && train.number <= number))
        {
            let (first, other) = (train.first, train.number);
            if self.busy_until < first {
                self.take_until(first, other, false);
            }
            self.begin();
        }
        self.take_until(last, number, true);
        self.active.retain(|train| !train.is_over());
        self.free
    }

    /// A train begins. While the queue is busy its first frame is counted later, with the others.
    fn begin(&mut self) {
        let Some(Reverse(Coming(train))) = self.coming.pop() else { return };
        let (first, busy_until) = (train.first, self.busy_until);
        if train.is_dense() {
            self.busy_until = busy_until.max(train.last);
        }
        self.active.push(train);
        if busy_until < first {
            self.take_one(self.active.len() - 1);
        }
    }

    /// Counts what arrives before the frame of train `number` at `until`; if `also`, that frame too.
    fn take_until(&mut self, until: f64, number: u64, also: bool) {
        // While it is busy, what arrives only adds to its work.
        let busy = self.busy_until.min(until);
        for train in &mut self.active {
            let at_end = busy < until || train.number < number || (also && train.number == number);
            self.free += train.take(busy, at_end);
        }
        if busy < until {
            self.take_one_by_one(until, number, also);
        }
    }

    /// The same where the queue may be idle between two frames.
    fn take_one_by_one(&mut self, until: f64, number: u64, also: bool) {
        while let Some((next, place)) = self.earliest() {
            let other = self.active[place].number;
            let is_due =
                next < until || (next == until && (other < number || (also && other == number)));
            if !is_due {
                break;
            }
            self.take_one(place);
        }
    }

    /// The train whose next frame arrives first: when, and its place.
    fn earliest(&self) -> Option<(f64, usize)> {
        let trains = self.active.iter().enumerate().filter(|(_, train)| !train.is_over());
        let nexts = trains.map(|(place, train)| (train.next(), place));
        nexts.min_by(|a, b| {
            let numbers = || self.active[a.1].number.cmp(&self.active[b.1].number);
            a.0.total_cmp(&b.0).then_with(numbers)
        })
    }

    /// The next frame of one train.
    fn take_one(&mut self, place: usize) {
        let train = &mut self.active[place];
        let at = train.next();
        let is_last = train.done + 1 == train.frames;
        let service = if is_last { train.last_service } else { train.service };
        train.done += 1;
        self.free = self.free.max(at) + service;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every frame by itself: arrival, number of its train, service.
    fn one_by_one(trains: &[Train]) -> Vec<f64> {
        let mut frames = Vec::new();
        for train in trains {
            for frame in 0..train.frames {
                let is_last = frame + 1 == train.frames;
                let at = if is_last { train.last } else { train.at(frame) };
                let service = if is_last { train.last_service } else { train.service };
                frames.push((at, train.number, service, is_last));
            }
        }
        frames.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut ends = vec![0.0; trains.len()];
        let mut free = 0.0_f64;
        for (at, number, service, is_last) in frames {
            free = free.max(at) + service;
            if is_last {
                ends[usize::try_from(number).unwrap()] = free;
            }
        }
        ends
    }

    fn train(
        number: u64,
        (first, step, frames, service, rest): (u32, u32, u64, u32, u32),
    ) -> Train {
        let first = f64::from(first);
        let rest = f64::from(rest) / 8.0;
        let before = (0..frames.saturating_sub(1)).fold(first, |at, frame| {
            if frame + 2 == frames { at + f64::from(step) * rest } else { at + f64::from(step) }
        });
        let (service, step) = (f64::from(service), f64::from(step));
        Train {
            number,
            first,
            step,
            last: before,
            frames,
            service,
            last_service: service * rest,
            done: 0,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn whole_trains_give_what_every_frame_by_itself_gives(
            trains in prop::collection::vec((0_u32..40, 1_u32..9, 1_u64..12, 1_u32..9, 1_u32..=8), 1..7),
        ) {
            let trains: Vec<Train> = (0..).zip(trains).map(|(n, shape)| train(n, shape)).collect();
            let mut queue = Inbound::default();
            // A train is known when its first frame arrives at the latest.
            trains.iter().for_each(|train| queue.expect(*train));
            let mut order: Vec<&Train> = trains.iter().collect();
            order.sort_by(|a, b| a.last.total_cmp(&b.last).then(a.number.cmp(&b.number)));
            let expected = one_by_one(&trains);
            for train in order {
                let end = queue.served(train.number, train.last);
                let expected = expected[usize::try_from(train.number).unwrap()];
                prop_assert!((end - expected).abs() < 1e-9, "{end} for {expected}");
            }
        }
    }
}
