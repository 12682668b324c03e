//! What a process writes into files that it keeps open through the death of the node.

use std::path::Path;

use crate::pattern;

/// The two files of `posix-actor hold`, and what they hold after so many pieces.
#[derive(Clone, Copy, Debug)]
pub struct Held;

impl Held {
    /// Written through a descriptor.
    pub const WRITTEN: &str = "written";
    /// Written through a mapping.
    pub const MAPPED: &str = "mapped";
    /// Length of both; the pieces go round.
    pub const LEN_BYTES: usize = PIECES * PIECE_BYTES;

    /// Where a piece goes, and its bytes.
    #[must_use]
    pub fn piece(count: usize) -> (usize, Vec<u8>) {
        (count % PIECES * PIECE_BYTES, pattern(count as u64, PIECE_BYTES))
    }

    /// The pieces that a log says were written.
    #[must_use]
    pub fn count(log: &Path) -> usize {
        std::fs::read_to_string(log).unwrap_or_default().lines().count()
    }

    /// Compares both files with what so many pieces leave.
    ///
    /// # Panics
    /// When they differ.
    pub fn verify(dir: &Path, count: usize) {
        let mut expected = vec![0; Self::LEN_BYTES];
        for count in count.saturating_sub(PIECES)..count {
            let (offset, bytes) = Self::piece(count);
            expected[offset..offset + PIECE_BYTES].copy_from_slice(&bytes);
        }
        for (name, len) in
            [(Self::WRITTEN, count.min(PIECES) * PIECE_BYTES), (Self::MAPPED, Self::LEN_BYTES)]
        {
            let path = dir.join(name);
            let found = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let piece_differs = |i: &usize| {
                let range = i * PIECE_BYTES..(i + 1) * PIECE_BYTES;
                found.get(range.clone()) != expected.get(range)
            };
            let wrong: Vec<usize> = (0..len / PIECE_BYTES).filter(piece_differs).collect();
            assert_eq!(found.len(), len, "{}: length after {count} pieces", path.display());
            assert!(wrong.is_empty(), "{}: pieces {wrong:?} of {count}", path.display());
        }
    }
}

const PIECES: usize = 64;
const PIECE_BYTES: usize = 4096;
