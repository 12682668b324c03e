//! From a name to its inode.

use std::collections::HashMap;

use intarsia_sync::Mutex;
use intarsia_types::{Error, InodeId, PartitionId, Result};

use super::{Namespace, Stored, name};
use crate::dentry::{self, Dentry};
use crate::intent::Intent;
use crate::keys::{self, DentryKey};
use crate::{Condition, Inode, Value};

/// Most names that are remembered after they were looked up.
const RECENT_MAX: usize = 256;

/// What names meant when they were looked up. The kernel looks a name up before it removes it, so the removal need not read it
/// again. The commit that uses what is remembered has the condition that nothing of it has changed.
#[derive(Default)]
pub(super) struct Recent(Mutex<HashMap<(InodeId, Vec<u8>), Found>>);

impl Recent {
    /// Remembers what a name means.
    fn note(&self, parent: InodeId, name: &[u8], found: Found) {
        let mut recent = self.0.lock();
        if recent.len() >= RECENT_MAX {
            recent.clear();
        }
        recent.insert((parent, name.to_vec()), found);
    }

    /// What a name meant when it was looked up, once.
    pub(super) fn take(&self, parent: InodeId, name: &[u8]) -> Option<Found> {
        let mut recent = self.0.lock();
        if recent.is_empty() { None } else { recent.remove(&(parent, name.to_vec())) }
    }
}

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
            _ => Ok(self.remembered(parent, name, self.find(parent, name)?)),
        }
    }

    /// As [`Namespace::lookup`], where `parent` is known to be a directory. If nothing is found, it is not read whether it is
    /// one.
    pub fn lookup_in_directory(&self, parent: InodeId, name: &[u8]) -> Result<Inode> {
        match name {
            b"." | b".." => self.lookup(parent, name),
            _ => {
                let found = self.try_find(parent, name)?.ok_or(Error::NotFound)?;
                Ok(self.remembered(parent, name, found))
            }
        }
    }

    fn remembered(&self, parent: InodeId, name: &[u8], found: Found) -> Inode {
        let inode = found.stored.inode.clone();
        if self.is_partitioned() {
            self.recent.note(parent, name, found);
        }
        inode
    }

    /// The version of the record of an inode in the engine, not the one that is kept under a lease on its directory.
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is gone.
    pub fn version(&self, ino: InodeId) -> Result<u64> {
        let key = keys::inode(ino);
        self.retry(|| {
            let record = self.committed(ino.partition(), &key)?.ok_or(Error::NotFound)?;
            if self.conclude_value(ino.partition(), &key, &record)? {
                return Ok(None);
            }
            Ok(Some(Inode::decode(ino, &record)?.version))
        })
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

    /// A name with its inode.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such name, [`Error::NotDirectory`] if `parent` is no directory.
    pub(super) fn find(&self, parent: InodeId, name: &[u8]) -> Result<Found> {
        match self.try_find(parent, name)? {
            Some(found) => Ok(found),
            // Nothing is found below a file either; the error has to say whether `parent` is one.
            None => self.directory(parent).and(Err(Error::NotFound)),
        }
    }

    /// A name with its inode; `None` if there is no such name.
    pub(super) fn try_find(&self, parent: InodeId, name: &[u8]) -> Result<Option<Found>> {
        name::check(name)?;
        let mut is_outrun = false;
        self.retry(|| {
            let key = self.dentry_key(parent, name);
            let pair = match &self.leases {
                // What was kept of the name was older than what the engine has of its inode.
                Some(leases) if is_outrun => {
                    leases.engine.get_follow_committed(parent.partition(), &key, dentry::follow)?
                }
                _ => self.engine.get_follow(parent.partition(), &key, dentry::follow)?,
            };
            let Some((value, record)) = pair else { return Ok(Some(None)) };
            if self.conclude_value(parent.partition(), &key, &value)? {
                return Ok(None);
            }
            let dentry = Dentry::decode(parent, &value)?;
            let Some(record) = self.record(parent, dentry.ino, record)? else {
                is_outrun = true;
                return self.vanished(parent, &key, &value, dentry.ino);
            };
            let stored = Stored { inode: Inode::decode(dentry.ino, &record)?, value: record };
            if is_elsewhere(&stored.inode, parent, name)
                && !self.still_means(parent, &key, &value)?
            {
                is_outrun = true;
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

    /// A name was read, and then its inode was not there: `None`, to try again, if the name does not mean it any more.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it does.
    fn vanished<T>(
        &self,
        parent: InodeId,
        key: &[u8],
        value: &Value,
        ino: InodeId,
    ) -> Result<Option<T>> {
        if !self.still_means(parent, key, value)? {
            return Ok(None);
        }
        Err(Error::Corrupt { ino, what: format!("a name in directory {parent} but no record") })
    }

    fn still_means(&self, parent: InodeId, key: &[u8], value: &Value) -> Result<bool> {
        Ok(self.committed(parent.partition(), key)?.as_ref() == Some(value))
    }

    /// The value of a key in the engine, not the one that is kept under a lease.
    pub(super) fn committed(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        match &self.leases {
            Some(leases) => leases.engine.get_committed(partition, key),
            None => self.engine.get(partition, key),
        }
    }
}

/// Whether an inode may have been renamed or unlinked after a name of it was read. The two are read one after the other if
/// they are in two partitions, or if only the name is kept under a lease.
fn is_elsewhere(inode: &Inode, parent: InodeId, name: &[u8]) -> bool {
    let knows_name = || inode.parent == parent && inode.name == name;
    let is_apart = inode.ino.partition() != parent.partition();
    inode.nlink == 0 || (is_apart && inode.is_directory() && !knows_name())
}
