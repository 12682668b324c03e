//! The course of a job between failures: work and checkpoints in turn.
//!
//! Checkpoint number *k* is written when *k* intervals of work are done, so the number of the last
//! checkpoint says how much work is safe, and its level follows from the number alone. Between two
//! failures nothing is left to chance: where a job stands after some time is computed, not
//! simulated, and a failure costs one event however many checkpoints lie before it.

use intarsia_des::Span;

/// Which level checkpoints go to, and what one costs. Level *l* is due at every `every[l]`-th
/// checkpoint; of several that are due, the last one (the safest) is written.
#[derive(Clone, Debug)]
pub(super) struct Course {
    work: Span,
    interval: Span,
    /// Level of the checkpoints 1 to period.
    levels: Vec<usize>,
    /// Time for the first n checkpoints of a period, n from 0 to period.
    sums: Vec<u64>,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The number of the last completed checkpoint.
    pub(super) checkpoint: u64,
    /// Time since then: work, and perhaps a part of the next checkpoint.
    pub(super) since: Span,
}

impl Course {
    /// A job with `work` to do that never writes a checkpoint.
    pub(super) fn without_checkpoints(work: Span) -> Self {
        Self { work, interval: work, levels: vec![0], sums: vec![0, 0] }
    }

    /// A job with `work` to do and a checkpoint after each `interval` of it. `levels` are the levels
    /// of the first checkpoints, repeated for ever, and `costs` the time that a checkpoint of each
    /// level takes.
    pub(super) fn new(work: Span, interval: Span, levels: Vec<usize>, costs: &[Span]) -> Self {
        let mut sums = vec![0_u64];
        for level in &levels {
            let cost = costs.get(*level).map_or(0, |cost| cost.as_nanos());
            sums.push(sums.last().copied().unwrap_or(0).saturating_add(cost));
        }
        Self { work, interval: interval.max(Span::from_nanos(1)), levels, sums }
    }

    /// How many checkpoints the job writes in all: none after the last piece of work.
    pub(super) fn checkpoints(&self) -> u64 {
        self.work.as_nanos().div_ceil(self.interval.as_nanos()).saturating_sub(1)
    }

    /// Work that is done when `checkpoint` is written.
    pub(super) fn work_until(&self, checkpoint: u64) -> Span {
        Span::from_nanos(
            self.interval.as_nanos().saturating_mul(checkpoint).min(self.work.as_nanos()),
        )
    }

    /// Work from `checkpoint` to the end.
    pub(super) fn work_after(&self, checkpoint: u64) -> Span {
        self.work - self.work_until(checkpoint)
    }

    /// The level of a checkpoint, counted from 1.
    pub(super) fn level(&self, checkpoint: u64) -> usize {
        let period = self.levels.len() as u64;
        let index = checkpoint.saturating_sub(1) % period.max(1);
        usize::try_from(index).ok().and_then(|i| self.levels.get(i)).copied().unwrap_or(0)
    }

    /// The last checkpoint from `least` to `most` that was written to `level`.
    pub(super) fn last_of(&self, level: usize, least: u64, most: u64) -> Option<u64> {
        let reach = self.levels.len() as u64;
        let earliest = least.max(most.saturating_sub(reach - 1)).max(1);
        (earliest..=most).rev().find(|checkpoint| self.level(*checkpoint) == level)
    }

    /// Time that the checkpoints after `from`, up to `to`, take.
    pub(super) fn checkpoint_time(&self, from: u64, to: u64) -> Span {
        Span::from_nanos(self.cost_until(to) - self.cost_until(from))
    }

    /// Time from `checkpoint` to the end of the job.
    pub(super) fn time_after(&self, checkpoint: u64) -> Span {
        let last = self.checkpoints().max(checkpoint);
        self.work_after(checkpoint) + self.checkpoint_time(checkpoint, last)
    }

    /// Where the job stands `elapsed` after it went on from `checkpoint`.
    pub(super) fn position(&self, checkpoint: u64, elapsed: Span) -> Position {
        let (mut low, mut high) = (checkpoint, self.checkpoints().max(checkpoint));
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

    fn time_between(&self, from: u64, to: u64) -> Span {
        self.work_until(to) - self.work_until(from) + self.checkpoint_time(from, to)
    }

    /// Nanoseconds that the first `checkpoints` checkpoints take.
    fn cost_until(&self, checkpoints: u64) -> u64 {
        let period = (self.sums.len() - 1) as u64;
        let whole = self.sums.last().copied().unwrap_or(0).saturating_mul(checkpoints / period);
        let rest = usize::try_from(checkpoints % period).unwrap_or(0);
        whole.saturating_add(self.sums.get(rest).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(nanos: u64) -> Span {
        Span::from_nanos(nanos)
    }

    #[test]
    fn no_checkpoint_follows_the_last_piece_of_work() {
        let course = |work| Course::new(span(work), span(10), vec![0], &[span(2)]);
        assert_eq!(course(30).checkpoints(), 2);
        assert_eq!(course(31).checkpoints(), 3);
        assert_eq!(course(30).time_after(0), span(34));
        assert_eq!(course(5).time_after(0), span(5));
        assert_eq!(Course::without_checkpoints(span(30)).time_after(0), span(30));
    }

    #[test]
    fn the_number_of_a_checkpoint_gives_its_level() {
        let course = Course::new(span(1000), span(10), vec![0, 0, 1], &[span(1), span(5)]);
        assert_eq!([1, 2, 3, 4, 6].map(|k| course.level(k)), [0, 0, 1, 0, 1]);
        assert_eq!(course.checkpoint_time(1, 4), span(1 + 5 + 1));
        assert_eq!(course.last_of(1, 0, 5), Some(3));
        assert_eq!(course.last_of(1, 4, 5), None);
        assert_eq!(course.last_of(0, 0, 6), Some(5));
    }

    proptest! {
        /// Stepping through work and checkpoints nanosecond by nanosecond leads to the same place.
        #[test]
        fn agrees_with_stepping(
            work in 1u64..200, interval in 1u64..30, costs in (0u64..5, 0u64..9),
            every in 1usize..4, start in 0u64..5, elapsed in 0u64..300,
        ) {
            let levels: Vec<usize> = (1..=every).map(|k| usize::from(k == every)).collect();
            let cost = [costs.0, costs.1];
            let course = Course::new(span(work), span(interval), levels, &cost.map(span));
            let start = start.min(course.checkpoints());
            let elapsed = elapsed.min(course.time_after(start).as_nanos());
            let (mut at, mut left) = (start, elapsed);
            while at < course.checkpoints() {
                let step = interval + cost[course.level(at + 1)];
                if step > left { break; }
                left -= step;
                at += 1;
            }
            let expected = Position { checkpoint: at, since: span(left) };
            prop_assert_eq!(course.position(start, span(elapsed)), expected);
        }
    }
}
