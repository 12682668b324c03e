//! Writing a log.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use super::{MARK, MAX_BLOCK_BYTES, block};
use crate::record::Record;

/// A log that grows by whole blocks.
#[derive(Debug)]
pub struct Writer {
    file: File,
    written_bytes: u64,
}

impl Writer {
    /// Begins a log, readable by its owner alone.
    ///
    /// # Errors
    /// The system's own; also when there is a file of that name.
    pub fn create(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(MARK)?;
        Ok(Self { file, written_bytes: MARK.len() as u64 })
    }

    /// Encodes a record behind others, for a block.
    pub fn encode(record: &Record, block: &mut Vec<u8>) {
        // Into memory; it cannot fail but for a length that none of these has.
        if let Ok(longer) = postcard::to_extend(record, std::mem::take(block)) {
            *block = longer;
        }
    }

    /// Appends encoded records as one block, in one write.
    ///
    /// # Errors
    /// The system's own; what was written of the block then counts as torn.
    pub fn append(&mut self, records: &[u8]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        if records.len() > MAX_BLOCK_BYTES {
            return Err(io::Error::other("a block of a log is too long"));
        }
        let block = block(records);
        self.file.write_all(&block)?;
        self.written_bytes += block.len() as u64;
        Ok(())
    }

    /// Bytes so far.
    #[must_use]
    pub const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }
}
