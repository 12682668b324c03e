//! Names of the lower file system: each gets an inode at its first use. One that is removed here is hidden for ever, because
//! nothing is removed in the lower file system.
//!
//! That a name is hidden is recorded before the name here is removed. In between there are both, and then the name here is what
//! shows.

use std::collections::HashSet;

use intarsia_types::{Error, InodeId, Result, Timestamp};

use super::{Namespace, NewInode, Transaction, name, xattr};
use crate::dentry::Dentry;
use crate::{Bytes, Condition, Inode, keys};

impl Namespace {
    /// Gives a name of the lower file system in `parent` an inode. The times of `parent` stay as they are, since programs have
    /// seen the name there before.
    ///
    /// # Errors
    /// [`Error::Exists`] when the name is there already, [`Error::NotFound`] when it is hidden.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "it is consumed in meaning: one description makes one inode"
    )]
    pub fn adopt_lower(
        &self,
        parent: &Inode,
        name: &[u8],
        new: NewInode,
        now: Timestamp,
    ) -> Result<Inode> {
        name::check_new(name)?;
        new.xattrs.iter().try_for_each(|(name, value)| xattr::check(name, value))?;
        let dir = parent.ino;
        let partition = self.birth_partition(dir, name, new.kind);
        self.retry(|| {
            let ino = self.new_ino(partition)?;
            let mut transaction = Transaction::at(dir);
            let hidden = Condition::Absent(keys::hidden(dir, name));
            transaction.of(dir).require(hidden, || Error::NotFound);
            let dentry = Dentry { ino, kind: new.kind };
            self.name(&mut transaction, dir, name, dentry, parent.mtime)?;
            let inode = self.write_new(&mut transaction, ino, (dir, name), &new, now)?;
            Ok(self.commit(transaction)?.then_some(inode))
        })
    }

    /// Hides a name of the lower file system in `parent`, for ever.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the directory is gone.
    pub fn hide_lower(&self, parent: InodeId, name: &[u8]) -> Result<()> {
        self.retry(|| {
            let mut transaction = Transaction::at(parent);
            let part = transaction.of(parent);
            part.require(Condition::Present(keys::inode(parent)), || Error::NotFound);
            part.put(keys::hidden(parent, name), Bytes::default());
            Ok(self.commit(transaction)?.then_some(()))
        })
    }

    /// Whether a name of the lower file system is hidden in `parent`.
    ///
    /// # Errors
    /// The engine's own.
    pub fn is_hidden(&self, parent: InodeId, name: &[u8]) -> Result<bool> {
        Ok(self.engine.get(parent.partition(), &keys::hidden(parent, name))?.is_some())
    }

    /// All names of the lower file system that are hidden in `parent`.
    ///
    /// # Errors
    /// The engine's own.
    pub fn hidden_names(&self, parent: InodeId) -> Result<HashSet<Vec<u8>>> {
        let prefix = keys::by_inode(keys::HIDDEN, parent);
        let keys = self.keys_of(parent.partition(), &prefix, None)?;
        Ok(keys.iter().map(|key| key[prefix.len()..].to_vec()).collect())
    }
}
