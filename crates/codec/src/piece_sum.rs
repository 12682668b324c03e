//! The sum of a content that travels in pieces: they may arrive in any order, and holes are left out.

use crate::block_sum;

/// Sum over pieces with their places. A piece that is missing, damaged, doubled or misplaced changes it.
///
/// It is the sum, modulo 2^64, of the CRC-64/NVME of each piece's offset and own CRC-64/NVME, both as 8
/// bytes little-endian: addition takes the pieces in any order and, unlike exclusive-or, does not cancel
/// out two that changed places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieceSum(u64);

impl PieceSum {
    /// Adds the piece at `offset_bytes`.
    pub fn add(&mut self, offset_bytes: u64, piece: &[u8]) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(pieces: &[(u64, &[u8])]) -> u64 {
        let mut sum = PieceSum::default();
        pieces.iter().for_each(|(at, piece)| sum.add(*at, piece));
        sum.value()
    }

    proptest! {
        #[test]
        fn the_order_does_not_matter_and_the_places_do(
            mut pieces in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..20)), 2..9),
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
