//! What the namespace asks of a metadata engine: ordered keys in partitions and atomic conditional commits.

use intarsia_types::{PartitionId, Result};

use crate::Bytes;
use crate::merge::DirDelta;

/// A key; its first byte names its table (see [`crate::keys`]).
pub type Key = Bytes;
/// A value.
pub type Value = Bytes;

/// Names one commit for ever. If the answer of an engine is lost, the commit can be sent again under the same name, and is not
/// applied twice. Engines in this process never lose an answer and ignore the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId {
    /// Chosen at random when the namespace was opened.
    pub session: u64,
    /// Counts within the session.
    pub number: u64,
}

/// What must hold at the moment of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The key has no value.
    Absent(Key),
    /// The key has a value.
    Present(Key),
    /// The key has a value that is no intent: one that starts with another byte than
    /// [`crate::intent::TAG`], or is empty.
    Unheld(Key),
    /// The key has exactly this value.
    Equals(Key, Value),
    /// The key has no value, or exactly this one: a lease is nobody's, or this host's. A transaction over several partitions
    /// checks this, but does not hold the key.
    AbsentOr(Key, Value),
    /// No key starts with this prefix.
    PrefixEmpty(Key),
}

impl Condition {
    /// The condition that the key still has `value`, or no value if that is `None`.
    #[must_use]
    pub fn still(key: Key, value: Option<Value>) -> Self {
        match value {
            Some(value) => Self::Equals(key, value),
            None => Self::Absent(key),
        }
    }
}

/// One change of a commit. Mutations apply in order; each sees the ones before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Sets the value.
    Put(Key, Value),
    /// Removes the key, whether it is there or not.
    Delete(Key),
    /// Changes the record of a directory in place (see [`crate::merge::merge_directory`]), so that two creates in one
    /// directory never conflict. Without a record the whole commit fails with [`intarsia_types::Error::NotFound`].
    Merge {
        /// Key of the directory's inode record.
        key: Key,
        /// What changes.
        delta: DirDelta,
    },
    /// Adds to a counter (see [`crate::merge::merge_counter`]); an absent counter is 0.
    Add {
        /// Key of the counter.
        key: Key,
        /// What is added.
        delta: i64,
    },
}

impl Mutation {
    /// The key that changes.
    #[must_use]
    pub const fn key(&self) -> &Key {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
            Self::Merge { key, .. } | Self::Add { key, .. } => key,
        }
    }
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum CommitOutcome {
    /// All mutations are visible to every later read.
    Applied,
    /// Nothing changed, because of a condition.
    Conflict {
        /// Position of the first condition that did not hold.
        index: usize,
    },
}

/// What an engine has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Bytes held in memory: tables not yet written out, and caches.
    pub memory_bytes: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Commits applied.
    pub commits: u64,
    /// Commits refused because of a condition.
    pub conflicts: u64,
    /// Point reads.
    pub gets: u64,
    /// Point reads answered by the cache.
    pub cache_hits: u64,
    /// Scans.
    pub scans: u64,
    /// Times that the engine forced its journal to stable storage.
    pub syncs: u64,
}

/// An ordered key-value store in partitions. A commit is atomic within one partition.
///
/// Every operation may wait for a device or a server, but never without bound.
pub trait MetaEngine: Send + Sync + 'static {
    /// The number of partitions; they are numbered from 0.
    fn partitions(&self) -> u16;

    /// The value of a key; `None` if it has none.
    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>>;

    /// Reads a record, and the record in the same partition whose key `follow` finds in it, in one round trip. The second is
    /// missing in the answer only if it was missing while the first was there.
    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>>;

    /// The values of several keys, in their order. They need not be of one moment.
    fn get_many(&self, partition: PartitionId, keys: &[Key]) -> Result<Vec<Option<Value>>> {
        keys.iter().map(|key| self.get(partition, key)).collect()
    }

    /// Up to `limit` records whose keys start with `prefix` (at least one byte) and come after `after`,
    /// in the order of their keys.
    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>>;

    /// Applies all mutations, or none when a condition does not hold.
    fn commit(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome>;

    /// Returns when everything that was committed before the call is as safe as the engine can make it: on stable storage, or
    /// at all metadata replicas in sync. Callers that come at the same time share one flush of a device.
    fn sync(&self) -> Result<()>;

    /// Figures for status and metrics.
    fn stats(&self) -> EngineStats;
}
