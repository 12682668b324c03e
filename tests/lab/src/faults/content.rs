//! What a file holds, by the seeds of its pieces.

use intarsia_posix_tests::pattern;
use serde::{Deserialize, Serialize};

/// Bytes of a seed, at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Piece {
    offset: usize,
    seed: u64,
    len: usize,
}

/// The pieces that were written, in their order; zeros where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    len: usize,
    pieces: Vec<Piece>,
}

impl Content {
    /// That of one piece.
    pub(crate) fn of(seed: u64, len: usize) -> Self {
        Self { len, pieces: vec![Piece { offset: 0, seed, len }] }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// With a piece written over it.
    pub(crate) fn written(mut self, offset: usize, seed: u64, len: usize) -> Self {
        self.pieces.push(Piece { offset, seed, len });
        self.len = self.len.max(offset + len);
        self
    }

    /// Cut or made longer.
    pub(crate) fn cut(mut self, len: usize) -> Self {
        self.pieces.retain(|piece| piece.offset < len);
        for piece in &mut self.pieces {
            piece.len = piece.len.min(len - piece.offset);
        }
        self.len = len;
        self
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        for piece in &self.pieces {
            // A piece that was cut has the first bytes of its seed.
            let all = pattern(piece.seed, piece.len);
            bytes[piece.offset..piece.offset + piece.len].copy_from_slice(&all);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_lie_over_each_other_and_are_cut() {
        let content = Content::of(1, 10).written(8, 2, 10).cut(12).cut(14);
        let mut expected = pattern(1, 10);
        expected.truncate(8);
        expected.extend(pattern(2, 4));
        expected.extend([0, 0]);
        assert_eq!(content.bytes(), expected);
    }
}
