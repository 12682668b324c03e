//! Where the bytes of a striped file lie: chunk i is in part i mod N, behind the chunks dealt to it before.

use std::ops::Range;

/// How chunks are dealt over parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    parts: u64,
    chunk_bytes: u64,
}

/// A run of bytes that lie together both in the file and in one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of the part.
    pub part: usize,
    /// First byte within the part.
    pub part_offset_bytes: u64,
    /// First byte within the file.
    pub offset_bytes: u64,
    /// How many.
    pub len_bytes: u64,
}

impl Stripe {
    /// `None` for no parts, and for chunks without length.
    #[must_use]
    pub fn new(parts: usize, chunk_bytes: u64) -> Option<Self> {
        let parts = u64::try_from(parts).ok()?;
        (parts > 0 && chunk_bytes > 0).then_some(Self { parts, chunk_bytes })
    }

    /// The spans that make up a range of the file, in its order. Those of one part follow one another within it
    /// without a gap.
    pub fn spans(self, range: Range<u64>) -> impl Iterator<Item = Span> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let (chunk, within) = (at / self.chunk_bytes, at % self.chunk_bytes);
            let len_bytes = (self.chunk_bytes - within).min(range.end - at);
            let span = Span {
                part: usize::try_from(chunk % self.parts).unwrap_or(usize::MAX),
                part_offset_bytes: chunk / self.parts * self.chunk_bytes + within,
                offset_bytes: at,
                len_bytes,
            };
            at += len_bytes;
            Some(span)
        })
    }

    /// How long a part is of a file of `size_bytes` without holes; 0 if there are fewer parts.
    #[must_use]
    pub fn part_bytes(self, part: usize, size_bytes: u64) -> u64 {
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        if part >= self.parts {
            return 0;
        }
        let (chunks, rest) = (size_bytes / self.chunk_bytes, size_bytes % self.chunk_bytes);
        let (rounds, last) = (chunks / self.parts, chunks % self.parts);
        let further = match part.cmp(&last) {
            std::cmp::Ordering::Less => self.chunk_bytes,
            std::cmp::Ordering::Equal => rest,
            std::cmp::Ordering::Greater => 0,
        };
        rounds * self.chunk_bytes + further
    }

    /// Where the file ends if its last byte is the last one of a part that is `part_bytes` long.
    #[must_use]
    pub fn end_of_part(self, part: usize, part_bytes: u64) -> u64 {
        let Some(last) = part_bytes.checked_sub(1) else { return 0 };
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        let (round, within) = (last / self.chunk_bytes, last % self.chunk_bytes);
        let chunk = round.saturating_mul(self.parts).saturating_add(part);
        chunk.saturating_mul(self.chunk_bytes).saturating_add(within + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn chunks_are_dealt_in_turn() {
        let stripe = Stripe::new(3, 10).unwrap();
        let spans: Vec<_> = stripe
            .spans(25..52)
            .map(|s| (s.part, s.part_offset_bytes, s.offset_bytes, s.len_bytes))
            .collect();
        assert_eq!(spans, [(2, 5, 25, 5), (0, 10, 30, 10), (1, 10, 40, 10), (2, 10, 50, 2)]);
        assert_eq!([0, 1, 2].map(|part| stripe.part_bytes(part, 47)), [20, 17, 10]);
        assert_eq!(stripe.end_of_part(1, 17), 47);
        assert_eq!(stripe.end_of_part(1, 0), 0);
        assert_eq!(Stripe::new(0, 10), None);
        assert_eq!(Stripe::new(3, 0), None);
    }

    proptest! {
        #[test]
        fn every_byte_has_one_place_and_the_parts_tell_the_length(
            parts in 1_usize..7, chunk in 1_u64..20, start in 0_u64..300, len in 0_u64..300,
        ) {
            let stripe = Stripe::new(parts, chunk).unwrap();
            let end = start + len;
            let mut at = start;
            let mut ends = vec![None; parts];
            for span in stripe.spans(start..end) {
                prop_assert_eq!(span.offset_bytes, at);
                prop_assert!(span.len_bytes > 0 && span.part < parts);
                let from = stripe.part_bytes(span.part, at);
                prop_assert_eq!(span.part_offset_bytes, from, "behind what was dealt before");
                let before: &mut Option<u64> = &mut ends[span.part];
                prop_assert!(before.is_none_or(|end| end == from), "without a gap");
                *before = Some(from + span.len_bytes);
                at += span.len_bytes;
            }
            prop_assert_eq!(at, end);
            let lengths: Vec<_> = (0..parts).map(|part| stripe.part_bytes(part, end)).collect();
            prop_assert_eq!(lengths.iter().sum::<u64>(), end);
            let ends = lengths.iter().enumerate().map(|(part, len)| stripe.end_of_part(part, *len));
            prop_assert_eq!(ends.max().unwrap(), end);
        }
    }
}
