//! The course of a job between failures: work, verifications and checkpoints in turn.
//!
//! Checkpoint number *k* is written when *k* intervals of work are done, so the number of the last
//! checkpoint says how much work is safe, and its level follows from the number alone. Between two
//! failures nothing is left to chance: where a job stands after some time is computed, not
//! simulated, and a failure costs one event however many checkpoints lie before it.

use std::sync::Arc;

use intarsia_des::Span;

/// What is repeated: an interval of work in pieces, a verification after each piece, a checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Rhythm {
    interval: Span,
    /// Verifications of an interval.
    pieces: u64,
    verification: Span,
    /// Time for the first n checkpoints of a period, n from 0 to period.
    sums: Vec<u64>,
}

/// A job's work and its rhythm.
#[derive(Clone, Debug)]
pub(super) struct Course {
    work: Span,
    rhythm: Arc<Rhythm>,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The number of the last completed checkpoint.
    pub(super) checkpoint: u64,
    /// Time since then: work, verifications, and perhaps a part of the next checkpoint.
    pub(super) since: Span,
}

impl Rhythm {
    /// A checkpoint after each `interval` of work. `costs` is the time that each of the first
    /// checkpoints takes; then they repeat.
    pub(super) fn new(interval: Span, costs: impl IntoIterator<Item = Span>) -> Self {
        let mut sums = vec![0_u64];
        for cost in costs {
            sums.push(sums.last().copied().unwrap_or(0).saturating_add(cost.as_nanos()));
        }
        let interval = interval.max(Span::from_nanos(1));
        Self { interval, pieces: 1, verification: Span::ZERO, sums }
    }

    /// No checkpoint, ever.
    pub(super) fn without_checkpoints() -> Self {
        Self::new(Span::FOREVER, [Span::ZERO])
    }

    /// The same with a verification after each of `pieces` equal parts of the work.
    pub(super) fn verified(self, pieces: u64, verification: Span) -> Self {
        Self { pieces: pieces.max(1), verification, ..self }
    }

    /// Nanoseconds that the first `checkpoints` checkpoints take.
    fn cost_until(&self, checkpoints: u64) -> u64 {
        let period = (self.sums.len() as u64 - 1).max(1);
        let whole = self.sums.last().copied().unwrap_or(0).saturating_mul(checkpoints / period);
        let rest = usize::try_from(checkpoints % period).unwrap_or(0);
        whole.saturating_add(self.sums.get(rest).copied().unwrap_or(0))
    }

    fn piece_nanos(&self) -> u64 {
        self.interval.as_nanos().div_ceil(self.pieces)
    }
}

impl Course {
    /// A job with `work` to do.
    pub(super) fn new(work: Span, rhythm: Arc<Rhythm>) -> Self {
        Self { work, rhythm }
    }

    /// How many checkpoints the job writes in all: none after the last piece of work.
    pub(super) fn checkpoints(&self) -> u64 {
        self.work.as_nanos().div_ceil(self.rhythm.interval.as_nanos()).saturating_sub(1)
    }

    /// Work that is done when `checkpoint` is written.
    pub(super) fn work_until(&self, checkpoint: u64) -> Span {
        let work = self.rhythm.interval.as_nanos().saturating_mul(checkpoint);
        Span::from_nanos(work.min(self.work.as_nanos()))
    }

    /// Work from `checkpoint` to the end.
    pub(super) fn work_after(&self, checkpoint: u64) -> Span {
        self.work - self.work_until(checkpoint)
    }

    /// The last checkpoint of all, or `from` when that is later.
    fn last_checkpoint(&self, from: u64) -> u64 {
        self.checkpoints().max(from)
    }

    /// Time that the checkpoints after `from`, up to `to`, take.
    pub(super) fn checkpoint_time(&self, from: u64, to: u64) -> Span {
        Span::from_nanos(self.rhythm.cost_until(to) - self.rhythm.cost_until(from))
    }

    /// Time that the checkpoints from `from` to the end take.
    pub(super) fn checkpoint_time_after(&self, from: u64) -> Span {
        self.checkpoint_time(from, self.last_checkpoint(from))
    }

    /// Time that the verifications of the work between two checkpoints take.
    pub(super) fn verification_time(&self, from: u64, to: u64) -> Span {
        self.verifications((to - from).saturating_mul(self.rhythm.pieces))
    }

    /// Time that the verifications from `from` to the end take.
    pub(super) fn verification_time_after(&self, from: u64) -> Span {
        let last = self.last_checkpoint(from);
        let rest = self.work_after(last).as_nanos().div_ceil(self.rhythm.piece_nanos());
        self.verification_time(from, last) + self.verifications(rest)
    }

    /// How long a verification takes.
    pub(super) fn verification(&self) -> Span {
        self.rhythm.verification
    }

    /// The next piece of work up to a verification, `worked` after `checkpoint`; zero at the end of
    /// the interval.
    pub(super) fn piece(&self, checkpoint: u64, worked: Span) -> Span {
        let interval = self.work_until(checkpoint + 1) - self.work_until(checkpoint);
        Span::from_nanos(self.rhythm.piece_nanos()).min(interval - worked)
    }

    fn verifications(&self, number: u64) -> Span {
        Span::from_nanos(self.rhythm.verification.as_nanos().saturating_mul(number))
    }

    /// Time from `checkpoint` to the end of the job.
    pub(super) fn time_after(&self, checkpoint: u64) -> Span {
        self.work_after(checkpoint)
            + self.verification_time_after(checkpoint)
            + self.checkpoint_time_after(checkpoint)
    }

    /// Time from the moment when checkpoint `from` was complete to that of checkpoint `to`.
    pub(super) fn time_between(&self, from: u64, to: u64) -> Span {
        self.work_until(to) - self.work_until(from)
            + self.verification_time(from, to)
            + self.checkpoint_time(from, to)
    }

    /// Where the job stands `elapsed` after it went on from `checkpoint`.
    pub(super) fn position(&self, checkpoint: u64, elapsed: Span) -> Position {
        let (mut low, mut high) = (checkpoint, self.last_checkpoint(checkpoint));
        // The last checkpoint that was completed in time.
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.time_between(checkpoint, middle) <= elapsed {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Position { checkpoint: low, since: elapsed - self.time_between(checkpoint, low) }
    }

    /// The last checkpoint that is written before so much `work` is done, or with it.
    pub(super) fn checkpoint_before(&self, work: Span) -> u64 {
        work.as_nanos() / self.rhythm.interval.as_nanos()
    }

    /// Time until so much `work` is done from `checkpoint` on, verifications of its interval left
    /// out.
    pub(super) fn done_after(&self, checkpoint: u64, work: Span) -> Span {
        let done = self.work_until(checkpoint) + work;
        let before = self.checkpoint_before(done).max(checkpoint);
        self.time_between(checkpoint, before) + (done - self.work_until(before))
    }

    /// When an error that strikes after `work` from `checkpoint` is found: at the end of the next
    /// verification. None when the job is done before it strikes.
    pub(super) fn found_after(&self, checkpoint: u64, work: Span) -> Option<Span> {
        if work >= self.work_after(checkpoint) {
            return None;
        }
        let struck = self.work_until(checkpoint) + work;
        let before = self.checkpoint_before(struck).max(checkpoint);
        let piece_nanos = self.rhythm.piece_nanos();
        let piece = (struck.as_nanos() - self.work_until(before).as_nanos()) / piece_nanos + 1;
        let interval = self.work_until(before + 1) - self.work_until(before);
        let worked = Span::from_nanos(piece.saturating_mul(piece_nanos)).min(interval);
        Some(self.time_between(checkpoint, before) + worked + self.verifications(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(nanos: u64) -> Span {
        Span::from_nanos(nanos)
    }

    fn course(work: u64, interval: u64, costs: &[u64]) -> Course {
        let rhythm = Rhythm::new(span(interval), costs.iter().copied().map(span));
        Course::new(span(work), Arc::new(rhythm))
    }

    #[test]
    fn no_checkpoint_follows_the_last_piece_of_work() {
        assert_eq!(course(30, 10, &[2]).checkpoints(), 2);
        assert_eq!(course(31, 10, &[2]).checkpoints(), 3);
        assert_eq!(course(30, 10, &[2]).time_after(0), span(34));
        assert_eq!(course(5, 10, &[2]).time_after(0), span(5));
        let never = Course::new(span(30), Arc::new(Rhythm::without_checkpoints()));
        assert_eq!(never.time_after(0), span(30));
    }

    #[test]
    fn the_number_of_a_checkpoint_gives_its_cost() {
        let course = course(1000, 10, &[1, 1, 5]);
        assert_eq!(course.checkpoint_time(1, 4), span(1 + 5 + 1));
        assert_eq!(course.time_between(3, 6), span(30 + 7));
    }

    /// Two verifications of 1 in each 10 of work, checkpoints of 2.
    #[test]
    fn errors_are_found_by_the_next_verification() {
        let rhythm = Rhythm::new(span(10), [span(2)]).verified(2, span(1));
        let course = Course::new(span(23), Arc::new(rhythm));
        assert_eq!(course.time_after(0), span(14 + 14 + 3 + 1));
        assert_eq!(course.found_after(0, span(0)), Some(span(6)));
        assert_eq!(course.found_after(0, span(5)), Some(span(12)));
        assert_eq!(course.found_after(0, span(10)), Some(span(14 + 6)));
        assert_eq!(course.found_after(0, span(22)), Some(span(32)));
        assert_eq!(course.found_after(1, span(0)), Some(span(6)));
        assert_eq!(course.found_after(1, span(13)), None);
    }

    proptest! {
        /// Stepping through work, verifications and checkpoints one by one leads to the same place.
        #[test]
        fn agrees_with_stepping(
            work in 1u64..200, interval in 1u64..30, costs in prop::collection::vec(0u64..9, 1..4),
            pieces in 1u64..4, verification in 0u64..3, start in 0u64..5, elapsed in 0u64..300,
        ) {
            let rhythm = Rhythm::new(span(interval), costs.iter().copied().map(span));
            let rhythm = rhythm.verified(pieces, span(verification));
            let course = Course::new(span(work), Arc::new(rhythm));
            let start = start.min(course.checkpoints());
            let elapsed = elapsed.min(course.time_after(start).as_nanos());
            let (mut at, mut left) = (start, elapsed);
            while at < course.checkpoints() {
                let cost = costs[usize::try_from(at).unwrap() % costs.len()];
                let step = interval + pieces * verification + cost;
                if step > left { break; }
                left -= step;
                at += 1;
            }
            let expected = Position { checkpoint: at, since: span(left) };
            prop_assert_eq!(course.position(start, span(elapsed)), expected);
        }

        /// An error is found after it strikes, at the latest when the job ends.
        #[test]
        fn errors_are_found_before_the_end(
            work in 1u64..200, interval in 1u64..30, pieces in 1u64..4, struck in 0u64..200,
        ) {
            let rhythm = Rhythm::new(span(interval), [span(3)]).verified(pieces, span(1));
            let course = Course::new(span(work), Arc::new(rhythm));
            match course.found_after(0, span(struck)) {
                None => prop_assert!(struck >= work),
                Some(found) => prop_assert!(found > span(struck) && found <= course.time_after(0)),
            }
        }
    }
}
