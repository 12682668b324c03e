//! When to fetch what a reader has not asked for yet.
//!
//! A reader that goes through a file from front to back has a window: so much is fetched ahead of it. The window
//! doubles when the reader had to wait all the same, and halves when an answer took long: then the link or the
//! other host is slow, and a longer queue only delays everybody (as TCP Vegas reasons; Brakmo and Peterson 1995).
//! Nobody says where a reader will stop, so the window is never longer than half of what it has read, or one piece: then no
//! more than a third of what comes can be in vain.

use std::ops::Range;

/// What is fetched with one request. Larger ones fall out of the processor's cache between the steps of their way.
pub const PIECE_BYTES: u64 = 512 << 10;
/// The longest window.
pub const WINDOW_MAX_BYTES: u64 = 8 << 20;
/// Readers told apart in one file; of more, the one heard of longest ago is forgotten.
const READERS_MAX: usize = 8;

/// One reader's way through the file.
#[derive(Clone, Debug)]
struct Sequence {
    number: u64,
    /// Where its first read ended.
    began_at: u64,
    /// Where the next read is expected.
    next: u64,
    /// What is before this has been asked for.
    asked_to: u64,
    window_bytes: u64,
    last_turn: u64,
}

/// What is to be fetched now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The bytes, in whole pieces but at both ends.
    pub range: Range<u64>,
    /// For which reader.
    pub sequence: u64,
}

/// The readers of one file.
#[derive(Debug, Default)]
pub struct Sequences {
    known: Vec<Sequence>,
    turn: u64,
}

impl Sequences {
    /// Notes a read of `read` in a file of `size_bytes`; `is_late` when what it wants is not here yet.
    pub fn follow(&mut self, read: &Range<u64>, size_bytes: u64, is_late: bool) -> Option<Ahead> {
        self.turn += 1;
        // The kernel's own requests ahead arrive in no strict order: several threads take them.
        let slack = 2 * (read.end - read.start);
        let near = |s: &Sequence| read.start <= s.next + slack && s.next <= read.start + slack;
        let Some(sequence) = self.known.iter_mut().find(|s| near(s)) else {
            self.begin(read.end);
            return None;
        };
        sequence.last_turn = self.turn;
        if read.end <= sequence.next {
            return None;
        }
        sequence.next = read.end;
        sequence.window_bytes = match sequence.window_bytes {
            0 => PIECE_BYTES,
            bytes if is_late => (bytes * 2).min(WINDOW_MAX_BYTES),
            bytes => bytes,
        };
        let half_read = (sequence.next.saturating_sub(sequence.began_at) / 2).max(PIECE_BYTES);
        sequence.window_bytes = sequence.window_bytes.min(half_read);
        let window_end = sequence.next + sequence.window_bytes;
        let whole_pieces = window_end / PIECE_BYTES * PIECE_BYTES;
        let end = if window_end < size_bytes { whole_pieces } else { size_bytes };
        let start = sequence.asked_to.max(sequence.next);
        (start < end).then_some(Ahead { range: start..end, sequence: sequence.number })
    }

    fn begin(&mut self, next: u64) {
        if self.known.len() == READERS_MAX
            && let Some(oldest) =
                (0..self.known.len()).min_by_key(|i| self.known.get(*i).map(|s| s.last_turn))
        {
            self.known.swap_remove(oldest);
        }
        let (number, last_turn) = (self.turn, self.turn);
        self.known.push(Sequence {
            number,
            began_at: next,
            next,
            asked_to: 0,
            window_bytes: 0,
            last_turn,
        });
    }

    /// Notes how far requests for a reader went.
    pub fn asked_to(&mut self, sequence: u64, end: u64) {
        if let Some(sequence) = self.find(sequence) {
            sequence.asked_to = end;
        }
    }

    /// Notes that an answer for a reader took long.
    pub fn slow_down(&mut self, sequence: u64) {
        if let Some(sequence) = self.find(sequence) {
            sequence.window_bytes = (sequence.window_bytes / 2).max(PIECE_BYTES);
        }
    }

    /// Where the reader is, if it is still known: what was fetched for it and lies before is not wanted any more.
    pub fn position(&self, sequence: u64) -> Option<u64> {
        self.known.iter().find(|s| s.number == sequence).map(|s| s.next)
    }

    /// Forgets what was asked for, which has been thrown away.
    pub fn begin_anew(&mut self) {
        self.known.clear();
    }

    fn find(&mut self, number: u64) -> Option<&mut Sequence> {
        self.known.iter_mut().find(|s| s.number == number)
    }
}

/// Cuts a range at the borders of pieces.
pub fn pieces_of(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let end = ((at / PIECE_BYTES + 1) * PIECE_BYTES).min(range.end);
        let piece = at..end;
        at = end;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u64 = 128 << 10;
    const LARGE: u64 = 1 << 30;

    /// Reads in the order of `starts`, in units of one read; what was fetched ahead.
    fn fetched(starts: impl IntoIterator<Item = u64>, len: u64) -> u64 {
        let (mut sequences, mut total) = (Sequences::default(), 0);
        for start in starts {
            let read = start * len..(start + 1) * len;
            if let Some(ahead) = sequences.follow(&read, LARGE, true) {
                assert!(ahead.range.start >= read.end, "{ahead:?} after {read:?}");
                total += ahead.range.end - ahead.range.start;
                sequences.asked_to(ahead.sequence, ahead.range.end);
            }
        }
        total
    }

    #[test]
    fn a_reader_in_order_gets_a_window_that_grows_to_its_limit() {
        assert_eq!(fetched([0], READ), 0, "one read says nothing");
        let ahead = fetched(0..200, READ);
        assert_eq!(ahead, (200 * READ + WINDOW_MAX_BYTES) / PIECE_BYTES * PIECE_BYTES - 2 * READ);
        assert!(fetched([0, 2, 1, 4, 3, 5, 7, 6], READ) > PIECE_BYTES, "a little disorder");
    }

    #[test]
    fn of_a_region_no_more_than_half_its_length_is_fetched_beyond_it() {
        for reads in [8, 20, 40, 100, 200] {
            let beyond = (2 * READ + fetched(0..reads, READ)).saturating_sub(reads * READ);
            assert!(beyond <= (reads * READ / 2).max(PIECE_BYTES), "{beyond} after {reads} reads");
        }
    }

    #[test]
    fn reads_here_and_there_fetch_nothing() {
        let scattered = (0..10_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 200_000);
        let total = fetched(scattered, 4096);
        assert!(total < 10_000 * 4096 / 10, "{total} bytes for reads of 40 MB");
        assert_eq!(fetched((0..1000).rev().map(|i| i * 4), 4096), 0, "backwards in steps");
    }

    #[test]
    fn several_readers_of_one_file_do_not_disturb_each_other() {
        let interleaved = (0..50).flat_map(|i| [i, 2000 + i, 5000 + i]);
        let one = fetched(0..50, READ);
        let three = fetched(interleaved, READ);
        assert!(three.abs_diff(3 * one) <= 6 * PIECE_BYTES, "{three} and {one}");
    }

    #[test]
    fn a_window_ends_with_the_file_and_shrinks_when_answers_take_long() {
        let mut sequences = Sequences::default();
        let size = 3 * READ + 17;
        assert_eq!(sequences.follow(&(0..READ), size, true), None);
        let ahead = sequences.follow(&(READ..2 * READ), size, true).unwrap();
        assert_eq!(ahead.range, 2 * READ..size);
        sequences.asked_to(ahead.sequence, ahead.range.end);
        assert_eq!(sequences.follow(&(2 * READ..3 * READ), size, true), None);
        for _ in 0..10 {
            sequences.slow_down(ahead.sequence);
        }
        assert_eq!(sequences.known[0].window_bytes, PIECE_BYTES);
    }

    #[test]
    fn pieces_are_cut_at_their_borders() {
        let pieces: Vec<_> = pieces_of(PIECE_BYTES / 2..3 * PIECE_BYTES + 1).collect();
        assert_eq!(pieces.len(), 4);
        assert_eq!(pieces[0], PIECE_BYTES / 2..PIECE_BYTES);
        assert_eq!(pieces[3], 3 * PIECE_BYTES..3 * PIECE_BYTES + 1);
        assert_eq!(pieces_of(5..5).count(), 0);
    }
}
