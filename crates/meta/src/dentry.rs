//! The value of a directory entry: which inode a name means.

use intarsia_types::{Error, FileKind, InodeId, Result};

use crate::{Bytes, Key, keys};

const FORMAT: u8 = 1;
const LEN: usize = 10;

/// What a name means. The name itself is in the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dentry {
    pub(crate) ino: InodeId,
    pub(crate) kind: FileKind,
}

impl Dentry {
    pub(crate) fn encode(self) -> Bytes {
        let mut bytes = [0; LEN];
        bytes[0] = FORMAT;
        bytes[1] = self.kind as u8;
        bytes[2..].copy_from_slice(&self.ino.0.to_be_bytes());
        Bytes::copy_from(&bytes)
    }

    /// `parent` is only named in errors.
    pub(crate) fn decode(parent: InodeId, bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes)
            .ok_or_else(|| Error::Corrupt { ino: parent, what: "a directory entry".into() })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let [FORMAT, kind, ino @ ..] = bytes else { return None };
        let ino = InodeId(u64::from_be_bytes(ino.try_into().ok()?));
        Some(Self { ino, kind: FileKind::from_number(*kind)? })
    }
}

/// The key of the inode that an encoded dentry names.
pub(crate) fn follow(bytes: &[u8]) -> Option<Key> {
    Dentry::parse(bytes).map(|dentry| keys::inode(dentry.ino))
}
