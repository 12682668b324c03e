//! The head of an inode's record, of fixed width: the fields that change with a directory's entries, so that an engine can
//! change them without knowing the rest.

use intarsia_types::{Error, FileKind, InodeId, Result, Timestamp};

/// The first byte of every record, which says what follows the fields. A new form gets a new number, and the old decoder stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Format {
    /// Nothing.
    Plain = 2,
    /// How the bytes of the file are encoded.
    Encoded = 3,
    /// The hints, then how the bytes are encoded, even if they are plain.
    Hinted = 4,
}

impl Format {
    fn of(record: &[u8]) -> Option<Self> {
        let number = *record.first()?;
        [Self::Plain, Self::Encoded, Self::Hinted].into_iter().find(|known| *known as u8 == number)
    }
}

/// Numbers are big-endian; seconds are signed. Offsets: format 0, kind 1, version 2, nlink 10,
/// entries 14, mtime 22 (8 bytes seconds, 4 bytes nanoseconds), ctime 34.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) format: Format,
    pub(crate) kind: FileKind,
    pub(crate) version: u64,
    pub(crate) nlink: u32,
    pub(crate) entries: u64,
    pub(crate) mtime: Timestamp,
    pub(crate) ctime: Timestamp,
}

impl Head {
    pub(crate) const LEN: usize = 46;

    /// The head of a record, and the bytes after it. `ino` is only named in errors.
    pub(crate) fn split(ino: InodeId, record: &[u8]) -> Result<(Self, &[u8])> {
        let corrupt = |what: String| Error::Corrupt { ino, what };
        let Some(format) = Format::of(record) else {
            return Err(corrupt(record.first().map_or_else(
                || "an empty inode record".into(),
                |number| format!("inode record of unknown format {number}"),
            )));
        };
        Self::parse(format, record)
            .filter(|(head, _)| head.kind == FileKind::Regular || format != Format::Encoded)
            .ok_or_else(|| corrupt("inode record (its head)".into()))
    }

    fn parse(format: Format, record: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = record.split_first_chunk::<{ Self::LEN }>()?;
        let (&[_, kind], fields) = head.split_first_chunk()?;
        let (version, fields) = fields.split_first_chunk()?;
        let (nlink, fields) = fields.split_first_chunk()?;
        let (entries, fields) = fields.split_first_chunk()?;
        let (mtime, ctime) = fields.split_first_chunk()?;
        let head = Self {
            format,
            kind: FileKind::from_number(kind)?,
            version: u64::from_be_bytes(*version),
            nlink: u32::from_be_bytes(*nlink),
            entries: u64::from_be_bytes(*entries),
            mtime: parse_time(*mtime)?,
            ctime: parse_time(ctime.try_into().ok()?)?,
        };
        Some((head, rest))
    }

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = self.format as u8;
        bytes[1] = self.kind as u8;
        bytes[2..10].copy_from_slice(&self.version.to_be_bytes());
        bytes[10..14].copy_from_slice(&self.nlink.to_be_bytes());
        bytes[14..22].copy_from_slice(&self.entries.to_be_bytes());
        bytes[22..34].copy_from_slice(&encode_time(self.mtime));
        bytes[34..].copy_from_slice(&encode_time(self.ctime));
        bytes
    }
}

fn parse_time(bytes: [u8; 12]) -> Option<Timestamp> {
    let (secs, nanos) = bytes.split_first_chunk()?;
    let nanos = u32::from_be_bytes(nanos.try_into().ok()?);
    Some(Timestamp { secs: i64::from_be_bytes(*secs), nanos })
}

/// The form of a time in the head.
pub(crate) fn encode_time(time: Timestamp) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&time.secs.to_be_bytes());
    bytes[8..].copy_from_slice(&time.nanos.to_be_bytes());
    bytes
}
