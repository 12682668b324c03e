//! Bytes to bytes, without I/O.

mod checksum;

pub use checksum::{BLOCK_BYTES, BLOCKS_PER_RECORD, BlockSums, block_sum};
