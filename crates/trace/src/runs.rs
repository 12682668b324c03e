//! Reads and writes of one open file, merged.

use crate::record::{Detail, Range};

/// A pause longer than this ends a run.
const PAUSE_NS: u64 = 10_000_000;
/// Coarsely, ranges of an open file that are kept apart; what comes after is merged.
const COARSE_RANGES: u32 = 32;

/// Reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Reading.
    Read,
    /// Writing.
    Write,
}

/// The run of reads and the run of writes that go on in an open file.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    read: Option<Range>,
    write: Option<Range>,
    told: u32,
    /// Bytes read and written in all.
    pub bytes: [u64; 2],
}

/// One request: its first byte, its length, when it came and was answered.
type Request = (u64, u64, u64, u64);

impl Runs {
    /// Notes a request, of `size` bytes from `offset` on; returns the range that it does not go on with, if any.
    pub fn note(
        &mut self,
        handle: u64,
        direction: Direction,
        (offset, size, began_ns, ended_ns): Request,
        detail: Detail,
    ) -> Option<Range> {
        if size == 0 {
            return None;
        }
        self.bytes[direction as usize] += size;
        let is_merged = detail == Detail::Coarse && self.told >= COARSE_RANGES;
        let (run, is_write) = match direction {
            Direction::Read => (&mut self.read, false),
            Direction::Write => (&mut self.write, true),
        };
        let end = offset.saturating_add(size);
        if let Some(run) = run.as_mut().filter(|run| is_merged || goes_on(run, offset, began_ns)) {
            let last = run.offset.saturating_add(run.span_bytes).max(end);
            run.offset = run.offset.min(offset);
            run.span_bytes = last - run.offset;
            run.bytes = run.bytes.saturating_add(size);
            run.calls += 1;
            run.ended_ns = run.ended_ns.max(ended_ns);
            run.took_ns += ended_ns.saturating_sub(began_ns);
            return None;
        }
        self.told += u32::from(run.is_some());
        run.replace(Range {
            handle,
            is_write,
            offset,
            span_bytes: end - offset,
            bytes: size,
            calls: 1,
            began_ns,
            ended_ns,
            took_ns: ended_ns.saturating_sub(began_ns),
        })
    }

    /// What goes on, which then begins anew.
    pub fn take(&mut self) -> impl Iterator<Item = Range> + use<> {
        let taken = [self.read.take(), self.write.take()];
        self.told += taken.iter().flatten().map(|_| 1).sum::<u32>();
        taken.into_iter().flatten()
    }
}

/// Whether a request goes on where the run ended.
const fn goes_on(run: &Range, offset: u64, began_ns: u64) -> bool {
    offset == run.offset.saturating_add(run.span_bytes)
        && began_ns.saturating_sub(run.ended_ns) < PAUSE_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(runs: &mut Runs, offset: u64, at_ns: u64, detail: Detail) -> Option<Range> {
        runs.note(1, Direction::Write, (offset, 10, at_ns, at_ns + 5), detail)
    }

    #[test]
    fn what_goes_on_is_one_range() {
        let mut runs = Runs::default();
        for n in 0..100 {
            assert_eq!(note(&mut runs, n * 10, n * 20, Detail::Fine), None);
        }
        let ranges: Vec<Range> = runs.take().collect();
        assert_eq!(ranges.len(), 1);
        let Range { offset, span_bytes, bytes, calls, took_ns, .. } = ranges[0];
        assert_eq!((offset, span_bytes, bytes, calls, took_ns), (0, 1000, 1000, 100, 500));
        assert_eq!(runs.bytes, [0, 1000]);
        assert_eq!(runs.take().count(), 0);
    }

    #[test]
    fn a_gap_or_a_pause_begins_a_new_range() {
        let mut runs = Runs::default();
        assert_eq!(note(&mut runs, 0, 0, Detail::Fine), None);
        assert_eq!(note(&mut runs, 50, 20, Detail::Fine).unwrap().span_bytes, 10);
        assert_eq!(note(&mut runs, 60, PAUSE_NS + 25, Detail::Fine).unwrap().offset, 50);
        assert_eq!(runs.take().next().unwrap().offset, 60);
    }

    #[test]
    fn coarsely_a_file_has_few_ranges_and_all_its_bytes() {
        let mut runs = Runs::default();
        let mut ranges = Vec::new();
        for n in 0..1000 {
            // Backwards, so that none goes on with the one before.
            ranges.extend(note(&mut runs, (1000 - n) * 100, n * 20, Detail::Coarse));
        }
        ranges.extend(runs.take());
        assert_eq!(ranges.len(), COARSE_RANGES as usize + 1);
        assert_eq!(ranges.iter().map(|range| range.bytes).sum::<u64>(), 10_000);
        assert_eq!(ranges.iter().map(|range| range.calls).sum::<u64>(), 1000);
        assert_eq!(ranges.last().unwrap().offset, 100);
    }

    #[test]
    fn the_end_of_all_numbers_is_no_overflow() {
        let mut runs = Runs::default();
        for _ in 0..40 {
            let request = (u64::MAX - 3, 10, u64::MAX, 0);
            runs.note(1, Direction::Read, request, Detail::Coarse);
        }
        assert!(runs.take().all(|range| range.span_bytes <= 10));
    }
}
