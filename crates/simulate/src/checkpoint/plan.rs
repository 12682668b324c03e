//! How jobs of one size work: when they write checkpoints, where to, and how they come back.

use intarsia_des::Span;

use super::course::Course;

/// Longer patterns of levels are refused: nobody means them, and each takes memory.
pub(super) const LONGEST_PATTERN: u64 = 1 << 16;

/// The plan of jobs of one size.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Work between two checkpoints; none when no checkpoint is ever written.
    pub(super) interval: Option<Span>,
    /// Levels of the first checkpoints; then they repeat.
    pub(super) pattern: Vec<usize>,
    /// Time to write a checkpoint, per level.
    pub(super) writes: Vec<Span>,
    /// Time to read one back, per level.
    pub(super) restores: Vec<Span>,
    /// Time to reboot.
    pub(super) reboot: Span,
}

impl Plan {
    /// The course of a job with `work` to do.
    pub(super) fn course(&self, work: Span) -> Course {
        match self.interval {
            Some(interval) => Course::new(work, interval, self.pattern.clone(), &self.writes),
            None => Course::without_checkpoints(work),
        }
    }
}

/// The levels of the first checkpoints: to the last level that is due, each being due at every
/// `every`-th. Levels go from cheap to safe. None when the pattern is too long.
pub(super) fn pattern(every: &[u64]) -> Option<Vec<usize>> {
    let length = every.iter().try_fold(1_u64, |length, n| {
        let joint = length.checked_mul(n / greatest_common_divisor(length, *n))?;
        (joint <= LONGEST_PATTERN).then_some(joint)
    })?;
    let due = |checkpoint: u64| every.iter().rposition(|n| checkpoint.is_multiple_of(*n));
    (1..=length).map(due).collect()
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_safest_level_that_is_due_is_written() {
        assert_eq!(pattern(&[1]), Some(vec![0]));
        assert_eq!(pattern(&[1, 2, 4]), Some(vec![0, 1, 0, 2]));
        assert_eq!(pattern(&[1, 1]), Some(vec![1]));
        assert_eq!(pattern(&[2]), None, "the first checkpoint would go nowhere");
        assert_eq!(pattern(&[1, 65_535, 65_537]), None, "too long");
    }
}
