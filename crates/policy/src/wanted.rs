//! Which part of a broadcast file a host takes, by what its programs have read of it: no more than they are about to read, so
//! that who reads a part does not make the host take the whole.

use std::ops::Range;

/// So many times what was read in order is taken ahead of it.
const AHEAD_FACTOR: u64 = 8;
/// And no less than this: while it comes, others take it from here.
const AHEAD_MIN_BYTES: u64 = 1 << 20;
/// Reads of one program arrive out of order by so much: the kernel reads ahead.
const SLACK_BYTES: u64 = 1 << 20;

/// So many programs are followed, each at its place.
const RUNS_MAX: usize = 8;

/// What a host's programs are about to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The one that read last comes last.
    runs: Vec<Run>,
}

/// Reads in order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    /// Where they have come to.
    next: u64,
    /// Their bytes.
    bytes: u64,
    /// A single read, not of the file's start, may be one at random.
    goes_on: bool,
}

impl Run {
    const fn is_near(&self, read: &Range<u64>) -> bool {
        read.start <= self.next.saturating_add(SLACK_BYTES)
            && read.start.saturating_add(SLACK_BYTES) >= self.next
    }

    /// What it is about to read, and has read a moment ago.
    fn range(&self, size_bytes: u64) -> Range<u64> {
        let ahead = self.bytes.saturating_mul(AHEAD_FACTOR).max(AHEAD_MIN_BYTES);
        let start = self.next.saturating_sub(self.bytes.min(2 * SLACK_BYTES));
        start.min(size_bytes)..self.next.saturating_add(ahead).min(size_bytes)
    }
}

impl Wanted {
    /// Notes a read; whether it goes on from those before, or begins the file. Others are better asked of the home.
    pub fn note(&mut self, read: &Range<u64>) -> bool {
        let len = read.end.saturating_sub(read.start);
        let run = match self.runs.iter().position(|run| run.is_near(read)) {
            Some(at) => {
                let Run { next, bytes, .. } = self.runs.remove(at);
                Run { next: next.max(read.end), bytes: bytes.saturating_add(len), goes_on: true }
            }
            None => Run { next: read.end, bytes: len, goes_on: read.start == 0 },
        };
        let goes_on = run.goes_on;
        if self.runs.len() == RUNS_MAX {
            self.runs.remove(0);
        }
        self.runs.push(run);
        goes_on
    }

    /// What to take of a file of `size_bytes`, for each program that reads in order.
    pub fn ranges(&self, size_bytes: u64) -> impl Iterator<Item = Range<u64>> {
        self.runs.iter().filter(|run| run.goes_on).map(move |run| run.range(size_bytes))
    }

    /// Whether some bytes are among them.
    #[must_use]
    pub fn covers(&self, read: &Range<u64>) -> bool {
        self.ranges(u64::MAX).any(|range| range.start <= read.start && read.end <= range.end)
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are meant")]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SIZE: u64 = 100 * MIB;

    fn wanted_after(reads: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut wanted = Wanted::default();
        for read in reads {
            let goes_on = wanted.note(read);
            assert!(!goes_on || wanted.covers(read), "who waits for it waits for ever: {read:?}");
        }
        wanted.ranges(SIZE).collect()
    }

    #[test]
    fn who_reads_from_the_start_soon_has_all_taken() {
        assert_eq!(wanted_after(&[]), []);
        let reads: Vec<_> = (0..96).map(|n| n * MIB / 8..(n + 1) * MIB / 8).collect();
        assert_eq!(wanted_after(&reads[..1]), [0..MIB / 8 + MIB]);
        assert_eq!(wanted_after(&reads[..40]), [3 * MIB..45 * MIB]);
        assert_eq!(wanted_after(&reads), [10 * MIB..SIZE]);
    }

    #[test]
    fn who_reads_a_part_takes_little_more() {
        assert_eq!(wanted_after(&[0..4096]), [0..4096 + MIB]);
        assert_eq!(wanted_after(&[50 * MIB..51 * MIB]), [], "it may be a read at random");
        let region = [50 * MIB..51 * MIB, 51 * MIB..52 * MIB];
        assert_eq!(wanted_after(&region), [50 * MIB..68 * MIB]);
    }

    #[test]
    fn reads_that_come_out_of_order_are_a_run_and_those_at_random_none() {
        let reads = [0, 256, 128, 512, 384].map(|kib| kib << 10..(kib + 128) << 10);
        assert_eq!(wanted_after(&reads), [0..(640 << 10) + 5 * MIB]);
        assert_eq!(wanted_after(&[70, 3, 30, 90].map(|at| at * MIB..at * MIB + 4096)), []);
    }

    #[test]
    fn programs_at_several_places_do_not_disturb_each_other() {
        let mut reads = Vec::new();
        for n in 0..4 {
            reads.extend([n, 20 + n, 60 + n].map(|at| at * MIB..(at + 1) * MIB));
        }
        assert_eq!(
            wanted_after(&reads),
            [2 * MIB..36 * MIB, 22 * MIB..56 * MIB, 62 * MIB..96 * MIB]
        );
        reads.extend((0..20).map(|n| n * 5 * MIB + 77..n * 5 * MIB + 78));
        assert!(wanted_after(&reads).len() <= RUNS_MAX);
    }
}
