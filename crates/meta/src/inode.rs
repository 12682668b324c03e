//! The record of one inode.

use intarsia_types::{Attr, Error, FileKind, InodeId, Layout, Result, Timestamp};
use serde::{Deserialize, Serialize};

use crate::Bytes;

/// First byte of every record. A new form gets a new number and the old decoder stays.
const FORMAT: u8 = 1;

/// Everything about a file except its names, extended attributes and bytes.
///
/// Stored as the format byte and `postcard` of the fields in this order: never reorder them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inode {
    /// Inode number. It is in the record's key, not in the record.
    #[serde(skip, default = "no_inode")]
    pub ino: InodeId,
    /// Kind of file.
    pub kind: FileKind,
    /// Permission bits including set-uid, set-gid and sticky (07777).
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Hard links; for a directory 2 plus its sub-directories. 0 once nothing names it.
    pub nlink: u32,
    /// Device number of a device file.
    pub rdev: u32,
    /// Length in bytes.
    pub size_bytes: u64,
    /// Disk use in units of 512 bytes.
    pub blocks_512: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// Grows with every change of the record, and begins anew at 0 after its last number.
    pub version: u64,
    /// Entries of a directory, without "." and "..".
    pub entries: u64,
    /// The directory that holds this directory; the root is its own. `InodeId(0)` for other kinds.
    pub parent: InodeId,
    /// The name of this directory in its parent, so that a path costs one read a level; empty for the
    /// root and for other kinds.
    pub name: Vec<u8>,
    /// Whether extended attributes exist, so that asking for one costs nothing where there are none.
    pub has_xattrs: bool,
    /// Whether checksum lists of the body exist.
    pub checksummed: bool,
    /// Where the bytes of a regular file are.
    pub layout: Layout,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
}

const fn no_inode() -> InodeId {
    InodeId(0)
}

impl Inode {
    /// Decodes a record. Never panics, whatever the bytes.
    pub fn decode(ino: InodeId, record: &[u8]) -> Result<Self> {
        let corrupt = |what: String| Error::Corrupt { ino, what };
        let (&format, fields) =
            record.split_first().ok_or_else(|| corrupt("an empty inode record".into()))?;
        if format != FORMAT {
            return Err(corrupt(format!("inode record of unknown format {format}")));
        }
        let (inode, rest) = postcard::take_from_bytes::<Self>(fields)
            .map_err(|e| corrupt(format!("inode record ({e})")))?;
        if !rest.is_empty() || !inode.times_are_valid() {
            return Err(corrupt("inode record".into()));
        }
        Ok(Self { ino, ..inode })
    }

    /// Encodes the record.
    pub fn encode(&self) -> Result<Bytes> {
        // A record without a long target or layout fits, and is then copied once, to its exact size.
        let mut small = [0; 192];
        small[0] = FORMAT;
        if let Ok(fields) = postcard::to_slice(self, &mut small[1..]) {
            let len = 1 + fields.len();
            return Ok(Bytes::copy_from(&small[..len]));
        }
        postcard::to_extend(self, vec![FORMAT])
            .map(Bytes::from)
            .map_err(|e| Error::Engine(format!("cannot encode inode {}: {e}", self.ino)))
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
