//! The sum of a content that travels in pieces: they may arrive in any order, and holes are left out.

use crate::block_sum;

/// Sum over pieces with their places. A piece that is missing, damaged, doubled or misplaced changes it.
///
/// A piece of zeros counts as a hole, and so for nothing: file systems take space that was allocated and never written for a
/// hole first, and for data later.
///
/// It is the sum, modulo 2^64, of the CRC-64/NVME of each piece's offset and own CRC-64/NVME, both as 8
/// bytes little-endian: addition takes the pieces in any order and, unlike exclusive-or, does not cancel
/// out two that changed places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieceSum(u64);

impl PieceSum {
    /// Adds the piece at `offset_bytes`.
    pub fn add(&mut self, offset_bytes: u64, piece: &[u8]) {
        if is_zeros(piece) {
            return;
        }
        let mut place = [0; 16];
        place[..8].copy_from_slice(&offset_bytes.to_le_bytes());
        place[8..].copy_from_slice(&block_sum(piece).to_le_bytes());
        self.0 = self.0.wrapping_add(block_sum(&place));
    }

    /// The sum so far.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

/// Whether there is nothing but zeros, as in a hole.
#[must_use]
pub fn is_zeros(piece: &[u8]) -> bool {
    // All of a part is looked at, which is faster than byte by byte.
    piece.chunks(4096).all(|part| part.iter().fold(0, |bits, byte| bits | byte) == 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use proptest::prelude::*;

    use super::*;

    fn sum(pieces: &[(u64, &[u8])]) -> u64 {
        let mut sum = PieceSum::default();
        pieces.iter().for_each(|(at, piece)| sum.add(*at, piece));
        sum.value()
    }

    /// Bytes that are not all zeros.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        (prop::collection::vec(any::<u8>(), 0..20), 1u8..).prop_map(|(mut bytes, last)| {
            bytes.push(last);
            bytes
        })
    }

    #[test]
    fn zeros_count_for_nothing_wherever_they_are() {
        let data = (5 << 20, &b"some bytes"[..]);
        for zeros in [&[0; 3][..], &[0; 4096], &vec![0; 1 << 20]] {
            assert_eq!(sum(&[(0, zeros), data, (1 << 30, zeros)]), sum(&[data]));
        }
        let mut long = vec![0; 1 << 20];
        *long.last_mut().unwrap() = 1;
        assert_ne!(sum(&[(0, &long), data]), sum(&[data]));
    }

    proptest! {
        #[test]
        fn the_order_does_not_matter_and_the_places_do(
            mut pieces in prop::collection::vec((any::<u64>(), bytes()), 2..9),
            bit in any::<prop::sample::Index>(),
        ) {
            let of = |pieces: &[(u64, Vec<u8>)]| {
                sum(&pieces.iter().map(|(at, piece)| (*at, piece.as_slice())).collect::<Vec<_>>())
            };
            let right = of(&pieces);
            let mut turned = pieces.clone();
            turned.reverse();
            prop_assert_eq!(of(&turned), right);
            let mut fewer = pieces.clone();
            fewer.pop();
            prop_assert_ne!(of(&fewer), right);
            let mut swapped = pieces.clone();
            let (first, last) = (swapped[0].0, swapped[1].0);
            (swapped[0].0, swapped[1].0) = (last, first);
            prop_assert_eq!(of(&swapped) == right, first == last || pieces[0].1 == pieces[1].1);
            let at = bit.index(64);
            pieces[0].0 ^= 1 << at;
            prop_assert_ne!(of(&pieces), right);
        }
    }
}
