//! One commit as it is put together.

use intarsia_types::{Error, InodeId, PartitionId, Result};

use super::Stored;
use crate::{Condition, DirDelta, Inode, Key, Mutation, Value, keys};

/// The error that a failed condition means; `None` means "try again".
type Meaning = Option<fn() -> Error>;

/// Conditions, what their failure means, and mutations, all within one partition.
pub(super) struct Transaction {
    pub(super) partition: PartitionId,
    pub(super) conditions: Vec<Condition>,
    pub(super) meanings: Vec<Meaning>,
    pub(super) mutations: Vec<Mutation>,
}

impl Transaction {
    /// An empty transaction in the partition of `ino`.
    pub(super) fn at(ino: InodeId) -> Self {
        Self::in_partition(ino.partition())
    }

    pub(super) fn in_partition(partition: PartitionId) -> Self {
        Self {
            partition,
            conditions: Vec::with_capacity(4),
            meanings: Vec::with_capacity(4),
            mutations: Vec::with_capacity(8),
        }
    }

    /// Refuses an inode of another partition: engines with several need intent records for that.
    pub(super) fn within(&self, ino: InodeId) -> Result<()> {
        if ino.partition() == self.partition {
            return Ok(());
        }
        Err(Error::NotSupported("a change over two partitions"))
    }

    /// A condition whose failure is the operation's error.
    pub(super) fn require(&mut self, condition: Condition, otherwise: fn() -> Error) {
        self.conditions.push(condition);
        self.meanings.push(Some(otherwise));
    }

    /// A condition whose failure means that what was read is stale.
    pub(super) fn expect(&mut self, condition: Condition) {
        self.conditions.push(condition);
        self.meanings.push(None);
    }

    /// Expects that an inode is still as it was read.
    pub(super) fn expect_unchanged(&mut self, stored: &Stored) {
        let key = keys::inode(stored.inode.ino);
        self.expect(Condition::Equals(key, stored.value.clone()));
    }

    pub(super) fn put(&mut self, key: impl Into<Key>, value: Value) {
        self.mutations.push(Mutation::Put(key.into(), value));
    }

    /// A record that says all by being there.
    pub(super) fn mark(&mut self, key: &[u8]) {
        self.put(key, Value::default());
    }

    pub(super) fn delete(&mut self, key: impl Into<Key>) {
        self.mutations.push(Mutation::Delete(key.into()));
    }

    pub(super) fn put_inode(&mut self, inode: &Inode) -> Result<()> {
        self.put(keys::inode(inode.ino), inode.encode()?);
        Ok(())
    }

    pub(super) fn merge(&mut self, dir: InodeId, delta: DirDelta) {
        self.mutations.push(Mutation::Merge { key: keys::inode(dir), delta });
    }

    /// Counts inodes that come or go.
    pub(super) fn count_inodes(&mut self, delta: i64) {
        self.mutations.push(Mutation::Add { key: super::superblock::inodes_key(), delta });
    }
}
