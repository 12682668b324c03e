//! From a name to its inode.

use intarsia_types::{Error, InodeId, Result};

use super::{Namespace, Stored, name};
use crate::dentry::{self, Dentry};
use crate::keys::{self, DentryKey};
use crate::{Condition, Inode, Value};

/// A name with its inode, as read together.
pub(super) struct Found {
    pub(super) key: DentryKey,
    pub(super) dentry: Dentry,
    pub(super) value: Value,
    pub(super) stored: Stored,
}

impl Found {
    /// The condition that the name still means the same.
    pub(super) fn unchanged(&self) -> Condition {
        Condition::Equals(self.key.to_bytes(), self.value.clone())
    }
}

impl Namespace {
    /// The inode that `name` in the directory `parent` means; "." and ".." work.
    pub fn lookup(&self, parent: InodeId, name: &[u8]) -> Result<Inode> {
        match name {
            b"." => self.directory(parent),
            b".." => self.get(self.directory(parent)?.parent),
            _ => Ok(self.find(parent, name)?.stored.inode),
        }
    }

    /// The inode, which must be a directory.
    pub(super) fn directory(&self, ino: InodeId) -> Result<Inode> {
        let inode = self.get(ino)?;
        if inode.is_directory() { Ok(inode) } else { Err(Error::NotDirectory) }
    }

    /// The hash of a name in this store.
    pub(super) fn hash(&self, name: &[u8]) -> u64 {
        keys::hash63(self.seed, name)
    }

    pub(super) fn dentry_key(&self, parent: InodeId, name: &[u8]) -> DentryKey {
        DentryKey::new(parent, self.hash(name), name)
    }

    pub(super) fn find(&self, parent: InodeId, name: &[u8]) -> Result<Found> {
        match self.try_find(parent, name)? {
            Some(found) => Ok(found),
            // Nothing is found below a file either; say which it was.
            None => self.directory(parent).and(Err(Error::NotFound)),
        }
    }

    pub(super) fn try_find(&self, parent: InodeId, name: &[u8]) -> Result<Option<Found>> {
        name::check(name)?;
        let key = self.dentry_key(parent, name);
        let pair = self.engine.get_follow(parent.partition(), &key, dentry::follow)?;
        let Some((value, record)) = pair else { return Ok(None) };
        let dentry = Dentry::decode(parent, &value)?;
        let stored = match record {
            Some(record) => Stored { inode: Inode::decode(dentry.ino, &record)?, value: record },
            None => self.named(parent, dentry.ino)?,
        };
        Ok(Some(Found { key, dentry, value, stored }))
    }

    /// The inode of a dentry that was not found beside it.
    fn named(&self, parent: InodeId, ino: InodeId) -> Result<Stored> {
        if ino.partition() != parent.partition() {
            return self.stored(ino);
        }
        Err(Error::Corrupt { ino, what: format!("a name in directory {parent} but no record") })
    }
}
