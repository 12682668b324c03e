//! From a name to its inode.

use intarsia_types::{Error, InodeId, Result};

use super::{Namespace, Stored, name};
use crate::dentry::{self, Dentry};
use crate::intent::Intent;
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

    /// As [`Namespace::lookup`], where `parent` is known to be a directory: that nothing is found there is not
    /// looked into further.
    pub fn lookup_in_directory(&self, parent: InodeId, name: &[u8]) -> Result<Inode> {
        match name {
            b"." | b".." => self.lookup(parent, name),
            _ => Ok(self.try_find(parent, name)?.ok_or(Error::NotFound)?.stored.inode),
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
        self.retry(|| {
            let key = self.dentry_key(parent, name);
            let pair = self.engine.get_follow(parent.partition(), &key, dentry::follow)?;
            let Some((value, record)) = pair else { return Ok(Some(None)) };
            if self.conclude_value(parent.partition(), &key, &value)? {
                return Ok(None);
            }
            let dentry = Dentry::decode(parent, &value)?;
            let Some(record) = self.record(parent, dentry.ino, record)? else {
                return self.vanished(parent, &key, &value, dentry.ino);
            };
            let stored = Stored { inode: Inode::decode(dentry.ino, &record)?, value: record };
            if is_elsewhere(&stored.inode, parent, name)
                && !self.still_means(parent, &key, &value)?
            {
                return Ok(None);
            }
            Ok(Some(Some(Found { key, dentry, value, stored })))
        })
    }

    /// The record of the inode that a name in `parent` means, if it was not read with the name.
    fn record(
        &self,
        parent: InodeId,
        ino: InodeId,
        beside: Option<Value>,
    ) -> Result<Option<Value>> {
        let key = keys::by_inode(keys::INODE, ino);
        match beside {
            Some(record) if Intent::of(&key, &record).is_none() => Ok(Some(record)),
            None if ino.partition() == parent.partition() => Ok(None),
            _ => self.read(ino.partition(), &key),
        }
    }

    /// A name was read and then its inode was not there: tried again if the name is gone too.
    fn vanished<T>(
        &self,
        parent: InodeId,
        key: &[u8],
        value: &Value,
        ino: InodeId,
    ) -> Result<Option<T>> {
        if self.is_partitioned() && !self.still_means(parent, key, value)? {
            return Ok(None);
        }
        Err(Error::Corrupt { ino, what: format!("a name in directory {parent} but no record") })
    }

    fn still_means(&self, parent: InodeId, key: &[u8], value: &Value) -> Result<bool> {
        Ok(self.engine.get(parent.partition(), key)?.as_ref() == Some(value))
    }
}

/// Whether an inode was renamed or unlinked after a name of it in another partition was read.
fn is_elsewhere(inode: &Inode, parent: InodeId, name: &[u8]) -> bool {
    let knows_name = || inode.parent == parent && inode.name == name;
    inode.ino.partition() != parent.partition()
        && (inode.nlink == 0 || (inode.is_directory() && !knows_name()))
}
