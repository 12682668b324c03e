//! Checksums of a file's blocks: CRC-64/NVME of each 64 KiB, kept in records of 1,024 blocks.
//!
//! A CRC finds what disks, memory and software do by accident; it is no defence against forgery.
//! The last block of a file is summed at its true length, so a cut or grown tail is found too.

use crc_fast::CrcAlgorithm;

/// Bytes that one sum covers.
pub const BLOCK_BYTES: u64 = 64 << 10;
/// Sums in one stored record (64 MiB of content in 8 KiB).
pub const BLOCKS_PER_RECORD: usize = 1024;

/// The sum of one block.
#[must_use]
pub fn block_sum(data: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, data)
}

/// The sums of all blocks of a file, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockSums(Vec<u64>);

impl BlockSums {
    /// Sums `content` from its first byte.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let block = usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX);
        Self(content.chunks(block).map(block_sum).collect())
    }

    /// Number of blocks known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no block is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sum of block `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u64> {
        self.0.get(index).copied()
    }

    /// Sets the sum of block `index`; blocks skipped over get the sum of nothing, to be set later.
    pub fn set(&mut self, index: usize, sum: u64) {
        if index >= self.0.len() {
            self.0.resize(index + 1, block_sum(&[]));
        }
        if let Some(slot) = self.0.get_mut(index) {
            *slot = sum;
        }
    }

    /// Forgets blocks from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Whether `data` is the content of block `index`.
    #[must_use]
    pub fn verify(&self, index: usize, data: &[u8]) -> bool {
        self.get(index) == Some(block_sum(data))
    }

    /// The stored records: up to [`BLOCKS_PER_RECORD`] sums each, little-endian.
    pub fn records(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.0
            .chunks(BLOCKS_PER_RECORD)
            .map(|sums| sums.iter().flat_map(|s| s.to_le_bytes()).collect())
    }

    /// Appends a stored record; `false` when its length is not a whole number of sums.
    #[must_use]
    pub fn push_record(&mut self, record: &[u8]) -> bool {
        let (sums, rest) = record.as_chunks::<8>();
        self.0.extend(sums.iter().map(|s| u64::from_le_bytes(*s)));
        rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn matches_the_published_check_value() {
        // CRC-64/NVME check value, catalogue of parametrised CRC algorithms.
        assert_eq!(block_sum(b"123456789"), 0xae8b_1486_0a79_9888);
    }

    proptest! {
        #[test]
        fn a_flipped_bit_is_found(
            mut data in proptest::collection::vec(any::<u8>(), 1..2000),
            at in any::<prop::sample::Index>(),
            bit in 0u8..8,
        ) {
            let sums = BlockSums::of(&data);
            prop_assert!(sums.verify(0, &data));
            let at = at.index(data.len());
            data[at] ^= 1 << bit;
            prop_assert!(!sums.verify(0, &data));
        }

        #[test]
        fn records_survive_the_round_trip(sums in proptest::collection::vec(any::<u64>(), 0..3000)) {
            let mut original = BlockSums::default();
            for (i, s) in sums.iter().enumerate() { original.set(i, *s); }
            let mut back = BlockSums::default();
            for record in original.records() { prop_assert!(back.push_record(&record)); }
            prop_assert_eq!(back, original);
        }

        #[test]
        fn any_record_is_taken_or_refused(record in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut sums = BlockSums::default();
            prop_assert_eq!(sums.push_record(&record), record.len() % 8 == 0);
        }
    }
}
