//! Bytes to bytes, without I/O.

mod checksum;
mod piece_sum;

pub use checksum::{BLOCK_BYTES, BLOCKS_PER_RECORD, BlockSums, block_sum};
pub use piece_sum::{PieceSum, is_zeros};
