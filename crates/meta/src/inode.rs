//! The record of one inode.

mod format_1;
mod head;

use intarsia_types::{
    Attr, Encoding, Error, FileKind, InodeId, Layout, RecordedHints, Result, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::Bytes;

pub(crate) use self::head::{Format, Head, encode_time};

/// Everything about a file except its names, extended attributes and bytes.
///
/// Stored as a [`Head`] of fixed width and `postcard` of the other fields in this order: never reorder
/// them. Hints and encoding follow where there is something to say, in formats of their own ([`Format`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inode {
    /// Inode number. It is in the record's key, not in the record.
    #[serde(skip, default = "no_inode")]
    pub ino: InodeId,
    /// Kind of file. In the head.
    #[serde(skip, default = "no_kind")]
    pub kind: FileKind,
    /// Permission bits including set-uid, set-gid and sticky (07777).
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Hard links; for a directory 2 plus its sub-directories. 0 once nothing names it. In the head.
    #[serde(skip)]
    pub nlink: u32,
    /// Device number of a device file.
    pub rdev: u32,
    /// Length in bytes.
    pub size_bytes: u64,
    /// Disk use in units of 512 bytes.
    pub blocks_512: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the content. In the head.
    #[serde(skip)]
    pub mtime: Timestamp,
    /// Last change of the inode. In the head.
    #[serde(skip)]
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// Grows by 1 with every change of the record, and wraps around to 0. In the head.
    #[serde(skip)]
    pub version: u64,
    /// Entries of a directory, without "." and "..". In the head.
    #[serde(skip)]
    pub entries: u64,
    /// The directory that holds this directory; the root is its own. For other kinds, in a store of several hosts, the
    /// directory with their only name if both are in one partition, so that a lease on it covers them; else `InodeId(0)`.
    pub parent: InodeId,
    /// The name of this directory in its parent, so that a path takes one read for each level; empty for the root and for other
    /// kinds.
    pub name: Vec<u8>,
    /// Whether there are extended attributes, so that asking for one costs nothing where there are none.
    pub has_xattrs: bool,
    /// Whether lists of sums of the body are stored.
    pub checksummed: bool,
    /// Where the bytes of a regular file are.
    pub layout: Layout,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
    /// How the bytes of a regular file are encoded where they are.
    #[serde(skip)]
    pub encoding: Encoding,
    /// What its attributes `user.intarsia.*` say, so that nobody has to read those. `None` if a version wrote the record last
    /// that did not note them: then only the attributes tell. An inode without attributes has no hints.
    #[serde(skip)]
    pub hints: Option<RecordedHints>,
}

const fn no_kind() -> FileKind {
    FileKind::Regular
}

const fn no_inode() -> InodeId {
    InodeId(0)
}

/// The hints of a record that does not note them.
fn no_hints(has_xattrs: bool) -> Option<RecordedHints> {
    (!has_xattrs).then(RecordedHints::default)
}

impl Inode {
    /// Decodes a record. Never panics, whatever the bytes.
    pub fn decode(ino: InodeId, record: &[u8]) -> Result<Self> {
        let inode = match record.first() {
            Some(&format_1::FORMAT) => format_1::decode(ino, record)?,
            _ => Self::decode_current(ino, record)?,
        };
        if !inode.times_are_valid() {
            return Err(Error::Corrupt { ino, what: "inode record".into() });
        }
        Ok(inode)
    }

    fn decode_current(ino: InodeId, record: &[u8]) -> Result<Self> {
        let (head, fields) = Head::split(ino, record)?;
        let rest = Self::decode_rest(ino, head, fields)?;
        Ok(Self {
            ino,
            kind: head.kind,
            nlink: head.nlink,
            mtime: head.mtime,
            ctime: head.ctime,
            version: head.version,
            entries: head.entries,
            ..rest
        })
    }

    /// The fields after the head. What could be written in a shorter form is refused, so that an inode has only one record.
    fn decode_rest(ino: InodeId, head: Head, fields: &[u8]) -> Result<Self> {
        let corrupt = |what: &str| Error::Corrupt { ino, what: format!("inode record ({what})") };
        let rest = match head.format {
            Format::Plain => decode_fields(ino, fields)?,
            Format::Encoded => {
                let (rest, encoding): (Self, Encoding) = decode_fields(ino, fields)?;
                if encoding.is_plain() {
                    return Err(corrupt("its encoding"));
                }
                Self { encoding, ..rest }
            }
            Format::Hinted => {
                let (rest, hints, encoding): (Self, _, Encoding) = decode_fields(ino, fields)?;
                if !encoding.is_plain() && head.kind != FileKind::Regular {
                    return Err(corrupt("its encoding"));
                }
                if !rest.has_xattrs {
                    return Err(corrupt("its hints"));
                }
                return Ok(Self { encoding, hints: Some(hints), ..rest });
            }
        };
        Ok(Self { hints: no_hints(rest.has_xattrs), ..rest })
    }

    /// Encodes the record.
    pub fn encode(&self) -> Result<Bytes> {
        match (self.format(), &self.hints) {
            (Format::Hinted, Some(hints)) => self.encode_fields(&(self, hints, self.encoding)),
            (Format::Encoded, _) => self.encode_fields(&(self, self.encoding)),
            _ => self.encode_fields(self),
        }
    }

    fn encode_fields(&self, fields: &impl Serialize) -> Result<Bytes> {
        let head = self.head().encode();
        // A record without a long target or layout fits, and is then copied once, to its exact size.
        let mut small = [0; 192];
        let (start, room) = small.split_at_mut(head.len());
        start.copy_from_slice(&head);
        if let Ok(fields) = postcard::to_slice(fields, room) {
            let len = head.len() + fields.len();
            return Ok(Bytes::copy_from(&small[..len]));
        }
        postcard::to_extend(fields, head.to_vec())
            .map(Bytes::from)
            .map_err(|e| Error::Engine(format!("cannot encode inode {}: {e}", self.ino)))
    }

    const fn format(&self) -> Format {
        match (&self.hints, self.encoding.is_plain()) {
            (Some(_), _) if self.has_xattrs => Format::Hinted,
            (_, true) => Format::Plain,
            (_, false) => Format::Encoded,
        }
    }

    const fn head(&self) -> Head {
        Head {
            format: self.format(),
            kind: self.kind,
            version: self.version,
            nlink: self.nlink,
            entries: self.entries,
            mtime: self.mtime,
            ctime: self.ctime,
        }
    }

    /// What `stat` shows.
    #[must_use]
    pub const fn attr(&self) -> Attr {
        Attr {
            ino: self.ino,
            kind: self.kind,
            perm: self.perm,
            uid: self.uid,
            gid: self.gid,
            nlink: self.nlink,
            rdev: self.rdev,
            size_bytes: self.size_bytes,
            blocks_512: self.blocks_512,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
        }
    }

    /// Whether this is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    fn times_are_valid(&self) -> bool {
        [self.atime, self.mtime, self.ctime, self.btime].iter().all(|t| t.nanos < 1_000_000_000)
    }
}

/// Decodes the whole of `fields`; bytes left over are damage.
fn decode_fields<'f, T: Deserialize<'f>>(ino: InodeId, fields: &'f [u8]) -> Result<T> {
    let corrupt = |what: String| Error::Corrupt { ino, what };
    let (value, rest) =
        postcard::take_from_bytes(fields).map_err(|e| corrupt(format!("inode record ({e})")))?;
    if rest.is_empty() { Ok(value) } else { Err(corrupt("inode record (too long)".into())) }
}
