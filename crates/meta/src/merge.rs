//! Changes that an engine applies to a stored record inside a commit. Pure functions of the old record,
//! so that every engine computes the same.

use intarsia_types::{Error, FileKind, InodeId, Result, Timestamp};

use crate::inode::Head;
use crate::{Bytes, Inode};

/// What a change of its entries does to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirDelta {
    /// The new modification time, and change time unless that is later already.
    pub time: Timestamp,
    /// Sub-directories gained or lost.
    pub nlink: i32,
    /// Entries gained or lost.
    pub entries: i64,
}

/// The record of a directory after `delta`. Only the head of the record is read and changed, so that the functions in a
/// Redis server can do exactly the same; a record of the first format is put into the present one before. `ino` is only
/// named in errors.
pub fn merge_directory(ino: InodeId, record: &[u8], delta: DirDelta) -> Result<Bytes> {
    let Ok((mut head, rest)) = Head::split(ino, record) else {
        return merge_directory(ino, &Inode::decode(ino, record)?.encode()?, delta);
    };
    if head.kind != FileKind::Directory {
        return Err(Error::NotDirectory);
    }
    head.mtime = delta.time;
    head.ctime = head.ctime.max(delta.time);
    head.nlink = head.nlink.saturating_add_signed(delta.nlink);
    head.entries = head.entries.saturating_add_signed(delta.entries);
    head.version = head.version.wrapping_add(1);
    Ok(Bytes::from([&head.encode(), rest].concat()))
}

/// A counter after `delta`; it never falls below zero.
pub fn merge_counter(record: Option<&[u8]>, delta: i64) -> Result<Bytes> {
    let old = record.map_or(Ok(0), decode_counter)?;
    Ok(encode_counter(old.saturating_add_signed(delta)))
}

pub(crate) fn encode_counter(value: u64) -> Bytes {
    Bytes::copy_from(&value.to_be_bytes())
}

pub(crate) fn decode_counter(record: &[u8]) -> Result<u64> {
    let bytes = record
        .try_into()
        .map_err(|_| Error::Engine(format!("a counter of {} bytes; expected 8", record.len())))?;
    Ok(u64::from_be_bytes(bytes))
}
