//! The engine in memory, which forgets everything when it is dropped: an ordered map with a lock for each partition.
//!
//! It can take commits back, for simulations of metadata servers that lose what their replicas do not have yet.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use intarsia_sync::RwLock;
use intarsia_types::{PartitionId, Result};

use super::{Changes, check_prefix, is_unheld, no_partition, resolve};
use crate::{CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value};

/// What a record costs beyond its bytes: its share of the map's nodes and two reference counts.
const RECORD_OVERHEAD_BYTES: u64 = 96;

type Table = BTreeMap<Key, Value>;

/// Keeps all metadata in memory. It is the engine of `durability=memory`, and the one that the others are compared with.
pub struct MemoryEngine {
    partitions: Vec<RwLock<Table>>,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    memory_bytes: AtomicU64,
    commits: AtomicU64,
    conflicts: AtomicU64,
    gets: AtomicU64,
    scans: AtomicU64,
    syncs: AtomicU64,
}

/// What it takes to take a commit back: the keys that it changed, with the values that they had before.
#[derive(Debug, Default)]
pub struct Undo(Changes);

impl Undo {
    /// Whether the commit changed a key for which `is` returns true.
    #[must_use]
    pub fn changes(&self, is: impl Fn(&[u8]) -> bool) -> bool {
        self.0.iter().any(|(key, _)| is(key))
    }
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new(1)
    }
}

impl MemoryEngine {
    /// An empty engine with `partitions` partitions, at least one.
    #[must_use]
    pub fn new(partitions: u16) -> Self {
        let partitions = (0..partitions.max(1)).map(|_| RwLock::default()).collect();
        Self { partitions, counters: Counters::default() }
    }

    fn table(&self, partition: PartitionId) -> Result<&RwLock<Table>> {
        self.partitions
            .get(usize::from(partition.0))
            .ok_or_else(|| no_partition(partition, self.partitions()))
    }

    /// As [`MetaEngine::commit`]. Returns also what it takes to take the commit back.
    ///
    /// # Errors
    /// As [`MetaEngine::commit`].
    pub fn commit_with_undo(
        &self,
        partition: PartitionId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<(CommitOutcome, Undo)> {
        let mut table = self.table(partition)?.write();
        if let Some(index) = conditions.iter().position(|c| !holds(&table, c)) {
            self.counters.conflicts.fetch_add(1, Relaxed);
            return Ok((CommitOutcome::Conflict { index }, Undo::default()));
        }
        let changes = resolve(mutations, |key| Ok(table.get(key).cloned()))?;
        let undo = self.apply(&mut table, changes);
        self.counters.commits.fetch_add(1, Relaxed);
        Ok((CommitOutcome::Applied, undo))
    }

    /// Takes back the last commits of a partition. `last` returns them in their order, and is called while nothing else can be
    /// committed in the partition.
    ///
    /// # Errors
    /// There is no such partition.
    pub fn take_back(
        &self,
        partition: PartitionId,
        last: impl FnOnce() -> Vec<Undo>,
    ) -> Result<()> {
        let mut table = self.table(partition)?.write();
        for Undo(before) in last().into_iter().rev() {
            self.apply(&mut table, before.into_iter().rev().collect());
        }
        Ok(())
    }

    fn apply(&self, table: &mut Table, changes: Changes) -> Undo {
        let (mut gained, mut lost) = (0, 0);
        let mut before = Changes::with_capacity(changes.len());
        for (key, value) in changes {
            let key_len = key.len();
            let (new, old) = match value {
                Some(value) => (record_bytes(key_len, &value), table.insert(key.clone(), value)),
                None => (0, table.remove(&key)),
            };
            gained += new;
            lost += old.as_ref().map_or(0, |old| record_bytes(key_len, old));
            before.push((key, old));
        }
        self.counters.memory_bytes.fetch_add(gained, Relaxed);
        self.counters.memory_bytes.fetch_sub(lost, Relaxed);
        Undo(before)
    }
}

fn record_bytes(key_len: usize, value: &Value) -> u64 {
    (key_len + value.len()) as u64 + RECORD_OVERHEAD_BYTES
}

fn holds(table: &Table, condition: &Condition) -> bool {
    match condition {
        Condition::Absent(key) => !table.contains_key(key),
        Condition::Present(key) => table.contains_key(key),
        Condition::Unheld(key) => table.get(key).is_some_and(|value| is_unheld(value)),
        Condition::Equals(key, value) => table.get(key) == Some(value),
        Condition::AbsentOr(key, value) => table.get(key).is_none_or(|found| found == value),
        Condition::PrefixEmpty(prefix) => after(table, prefix, None).next().is_none(),
    }
}

fn after<'t>(
    table: &'t Table,
    prefix: &'t [u8],
    after: Option<&[u8]>,
) -> impl Iterator<Item = (&'t Key, &'t Value)> {
    let from = match after {
        Some(key) if key >= prefix => Bound::Excluded(key),
        _ => Bound::Included(prefix),
    };
    table
        .range::<[u8], _>((from, Bound::Unbounded))
        .take_while(move |(key, _)| key.starts_with(prefix))
}

impl MetaEngine for MemoryEngine {
    fn partitions(&self) -> u16 {
        u16::try_from(self.partitions.len()).unwrap_or(u16::MAX)
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.counters.gets.fetch_add(1, Relaxed);
        Ok(self.table(partition)?.read().get(key).cloned())
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.counters.gets.fetch_add(2, Relaxed);
        let table = self.table(partition)?.read();
        Ok(table.get(key).map(|first| {
            let second = follow(first).and_then(|key| table.get(&key).cloned());
            (first.clone(), second)
        }))
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        from: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        check_prefix(prefix)?;
        self.counters.scans.fetch_add(1, Relaxed);
        let table = self.table(partition)?.read();
        let records = after(&table, prefix, from).take(limit);
        Ok(records.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn commit(
        &self,
        partition: PartitionId,
        _op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        self.commit_with_undo(partition, conditions, mutations).map(|(outcome, _)| outcome)
    }

    fn sync(&self) -> Result<()> {
        self.counters.syncs.fetch_add(1, Relaxed);
        Ok(())
    }

    fn stats(&self) -> EngineStats {
        EngineStats {
            memory_bytes: self.counters.memory_bytes.load(Relaxed),
            disk_bytes: 0,
            commits: self.counters.commits.load(Relaxed),
            conflicts: self.counters.conflicts.load(Relaxed),
            gets: self.counters.gets.load(Relaxed),
            cache_hits: self.counters.gets.load(Relaxed),
            scans: self.counters.scans.load(Relaxed),
            syncs: self.counters.syncs.load(Relaxed),
        }
    }
}
