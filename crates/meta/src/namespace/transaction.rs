//! A change of the namespace while it is put together: a part for each partition that it touches.

use intarsia_types::{Error, InodeId, PartitionId};

use super::Stored;
use crate::{Condition, DirDelta, Inode, Key, Mutation, Value, keys};

/// The error that a failed condition means; `None` means "try again".
pub(super) type Meaning = Option<fn() -> Error>;

/// What a transaction asks of one partition: conditions, what their failure means, and mutations.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) partition: PartitionId,
    pub(super) conditions: Vec<Condition>,
    pub(super) meanings: Vec<Meaning>,
    pub(super) mutations: Vec<Mutation>,
    /// It only makes what nobody can know of before another part has taken place, such as the inode of a new directory. So it
    /// needs no intents.
    pub(super) is_unknown: bool,
}

/// Parts that all happen or none. One part is one commit; more follow the protocol of `two_phase`.
pub(super) struct Transaction {
    pub(super) first: Part,
    pub(super) others: Vec<Part>,
    /// Directories whose leases cover what the transaction changes, so that other hosts may keep it.
    pub(super) touched: Vec<InodeId>,
}

impl Transaction {
    /// An empty transaction in the partition of `ino`.
    pub(super) fn at(ino: InodeId) -> Self {
        Self::in_partition(ino.partition())
    }

    pub(super) fn in_partition(partition: PartitionId) -> Self {
        Self { first: Part::new(partition), others: Vec::new(), touched: Vec::new() }
    }

    /// The part for the partition of `ino`, which is made if there is none yet.
    pub(super) fn of(&mut self, ino: InodeId) -> &mut Part {
        self.part(ino.partition())
    }

    /// The part for a partition, which is made if there is none yet.
    pub(super) fn part(&mut self, partition: PartitionId) -> &mut Part {
        if self.first.partition == partition {
            return &mut self.first;
        }
        let known = self.others.iter().position(|part| part.partition == partition);
        let at = known.unwrap_or_else(|| {
            self.others.push(Part::new(partition));
            self.others.len() - 1
        });
        &mut self.others[at]
    }

    /// Expects that an inode is still as it was read.
    pub(super) fn expect_unchanged(&mut self, stored: &Stored) {
        let ino = stored.inode.ino;
        self.touch(&stored.inode);
        self.of(ino).expect(Condition::Equals(keys::inode(ino), stored.value.clone()));
    }

    /// Adds the record of an inode.
    pub(super) fn put_inode(&mut self, inode: &Inode) -> intarsia_types::Result<()> {
        let record = inode.encode()?;
        self.touch(inode);
        self.of(inode.ino).put(keys::inode(inode.ino), record);
        Ok(())
    }

    /// Notes the directory whose lease covers an inode that changes.
    fn touch(&mut self, inode: &Inode) {
        if let Some(dir) = inode.covered_by() {
            self.touch_directory(dir);
        }
    }

    fn touch_directory(&mut self, dir: InodeId) {
        if !self.touched.contains(&dir) {
            self.touched.push(dir);
        }
    }

    /// Adds a change of a directory's times and counts.
    pub(super) fn merge(&mut self, dir: InodeId, delta: DirDelta) {
        self.touch_directory(dir);
        self.of(dir).mutations.push(Mutation::Merge { key: keys::inode(dir), delta });
    }
}

impl Part {
    fn new(partition: PartitionId) -> Self {
        Self {
            partition,
            conditions: Vec::with_capacity(4),
            meanings: Vec::with_capacity(4),
            mutations: Vec::with_capacity(8),
            is_unknown: false,
        }
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

    pub(super) fn put(&mut self, key: impl Into<Key>, value: Value) {
        self.mutations.push(Mutation::Put(key.into(), value));
    }

    /// Puts an empty record: that it is there says all.
    pub(super) fn mark(&mut self, key: &[u8]) {
        self.put(key, Value::default());
    }

    pub(super) fn delete(&mut self, key: impl Into<Key>) {
        self.mutations.push(Mutation::Delete(key.into()));
    }

    /// Changes the number of inodes in the partition.
    pub(super) fn count_inodes(&mut self, delta: i64) {
        self.mutations.push(Mutation::Add { key: super::superblock::inodes_key(), delta });
    }

    /// Expects that no transaction holds a directory into which a mutation merges, so that no merge meets an intent. In a store
    /// of one partition nothing is ever held.
    pub(super) fn guard_merges(&mut self) {
        let merged: Vec<Key> = merged_keys(&self.mutations).cloned().collect();
        for key in merged {
            if !self.conditions.iter().any(|c| matches!(c, Condition::Unheld(k) if *k == key)) {
                self.expect(Condition::Unheld(key));
            }
        }
    }

    /// Whether a mutation sets or removes this key.
    pub(super) fn writes(&self, key: &Key) -> bool {
        self.mutations.iter().any(|m| m.sets(key))
    }
}

impl Mutation {
    fn sets(&self, key: &Key) -> bool {
        matches!(self, Self::Put(set, _) | Self::Delete(set) if set == key)
    }
}

/// The keys of merges that change the stored value, not one that an earlier mutation of the same commit sets.
pub(super) fn merged_keys(mutations: &[Mutation]) -> impl Iterator<Item = &Key> {
    mutations.iter().enumerate().filter_map(|(at, mutation)| match mutation {
        Mutation::Merge { key, .. } if !mutations[..at].iter().any(|m| m.sets(key)) => Some(key),
        _ => None,
    })
}
