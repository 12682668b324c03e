//! Reading a log, whole or torn.

use std::fmt;

use super::{HEADER_BYTES, MARK, MAX_BLOCK_BYTES, checksum};
use crate::record::{Record, VERSION};

/// Why something is no log of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// It begins otherwise.
    NoLog,
    /// Its first block does not say who wrote it.
    NoHost,
    /// It was written by a newer version than this one knows.
    Newer {
        /// Which.
        version: u32,
    },
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLog => f.write_str("is no log of recorded operations"),
            Self::NoHost => f.write_str("ends before it says which host wrote it"),
            Self::Newer { version } => write!(
                f,
                "has version {version}, and this program knows {VERSION}; read it with the program that wrote it"
            ),
        }
    }
}

impl std::error::Error for LogError {}

/// How a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Behind a whole block.
    Whole,
    /// Within a block, of which so many bytes are there: the node ended before it was written.
    Torn {
        /// Bytes left out.
        bytes: u64,
    },
    /// A block is damaged: what comes behind `offset` is left out.
    Damaged {
        /// Where the block begins.
        offset: u64,
    },
}

/// The records of a log, in order. What is not whole ends it; [`Reader::tail`] says how.
#[derive(Debug)]
pub struct Reader<'a> {
    log: &'a [u8],
    /// Where the next block begins.
    next: usize,
    records: &'a [u8],
    tail: Tail,
}

impl<'a> Reader<'a> {
    /// Begins to read the content of a log.
    ///
    /// # Errors
    /// What is no log, or of a newer version.
    pub fn new(log: &'a [u8]) -> Result<Self, LogError> {
        if !log.starts_with(MARK) {
            // A log that was cut within its mark is one all the same.
            let is_cut = !log.is_empty() && MARK.starts_with(log);
            return Err(if is_cut { LogError::NoHost } else { LogError::NoLog });
        }
        let mut first = Self { log, next: MARK.len(), records: &[], tail: Tail::Whole };
        match first.next() {
            Some(Record::Host(host)) if host.version == VERSION => {}
            Some(Record::Host(host)) => return Err(LogError::Newer { version: host.version }),
            _ => return Err(LogError::NoHost),
        }
        Ok(Self { log, next: MARK.len(), records: &[], tail: Tail::Whole })
    }

    /// How the log ends; known once there is no next record.
    #[must_use]
    pub const fn tail(&self) -> Tail {
        self.tail
    }

    /// The next block; none at the end.
    fn block(&mut self) -> Option<&'a [u8]> {
        let rest = self.log.get(self.next..).filter(|rest| !rest.is_empty())?;
        let torn = Tail::Torn { bytes: rest.len() as u64 };
        let damaged = Tail::Damaged { offset: self.next as u64 };
        let found =
            rest.split_first_chunk().map(|(length, rest)| (u32::from_le_bytes(*length), rest));
        let found = found.and_then(|(length, rest)| {
            let (sum, rest) = rest.split_first_chunk()?;
            Some((length as usize, u64::from_le_bytes(*sum), rest))
        });
        let end = match found {
            None => Err(torn),
            Some((length, ..)) if length == 0 || length > MAX_BLOCK_BYTES => Err(damaged),
            Some((length, _, rest)) if rest.len() < length => Err(torn),
            Some((length, sum, rest)) if checksum(&rest[..length]) == sum => Ok(&rest[..length]),
            Some(_) => Err(damaged),
        };
        match end {
            Ok(block) => {
                self.next += HEADER_BYTES + block.len();
                Some(block)
            }
            Err(tail) => {
                self.tail = tail;
                self.next = self.log.len();
                None
            }
        }
    }
}

impl Iterator for Reader<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.records.is_empty() {
            self.records = self.block()?;
        }
        match postcard::take_from_bytes(self.records) {
            Ok((record, rest)) => {
                self.records = rest;
                Some(record)
            }
            Err(_) => {
                // Its checksum is right: somebody else wrote what we do not know.
                let left = self.records.len() + HEADER_BYTES;
                self.tail = Tail::Damaged { offset: (self.next.saturating_sub(left)) as u64 };
                (self.records, self.next) = (&[], self.log.len());
                None
            }
        }
    }
}
