//! The log: a mark, then blocks of records, each with its length and checksum.
//!
//! ```text
//! "intarsia-trace\n"   then any number of:   length u32 LE │ CRC-64/NVME of the records u64 LE │ records
//! ```

mod reader;
mod writer;

pub use reader::{LogError, Reader, Tail};
pub use writer::Writer;

/// The first bytes of a log.
pub const MARK: &[u8; 15] = b"intarsia-trace\n";
/// Length and checksum in front of a block.
const HEADER_BYTES: usize = 12;
/// No block is longer.
pub const MAX_BLOCK_BYTES: usize = 1 << 24;

/// Encoded records as one block.
#[must_use]
pub fn block(records: &[u8]) -> Vec<u8> {
    let length = u32::try_from(records.len()).unwrap_or(u32::MAX);
    let mut block = Vec::with_capacity(HEADER_BYTES + records.len());
    block.extend_from_slice(&length.to_le_bytes());
    block.extend_from_slice(&checksum(records).to_le_bytes());
    block.extend_from_slice(records);
    block
}

fn checksum(records: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, records)
}
