//! The default engine of one host: an LSM store in this process, behind a bounded cache.
//!
//! Invariants: a commit is in the page cache of the operating system before it returns, so it survives
//! the death of the process; a cached value is always the newest committed one.

mod cache;
mod flusher;
mod open;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fjall::{Database, Keyspace};
use intarsia_types::{Error, PartitionId, Result};
use parking_lot::RwLock;

use self::cache::Cache;
use self::flusher::Flusher;
use super::{Changes, check_prefix, no_partition, prefix_end, resolve};
use crate::{CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value, keys};

/// How an embedded engine uses memory and the disk.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Budget of the cache of inodes, dentries and extended attributes.
    pub cache_bytes: u64,
    /// Longest time that a commit waits for stable storage; `None` leaves it to `sync`.
    pub flush_interval: Option<Duration>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self { cache_bytes: 128 << 20, flush_interval: Some(Duration::from_secs(1)) }
    }
}

/// Keeps metadata in an embedded LSM store (`fjall`) with one partition.
pub struct EmbeddedEngine {
    // Dropped before the tables, so that its thread is gone when they close.
    flusher: Flusher,
    tables: Tables,
    cache: Cache,
    /// Held for writing by a commit from its conditions to its cache update, for reading by a cache
    /// miss: so a miss never puts an old value back over a newer one. Hits take no lock.
    commit_lock: RwLock<()>,
    counters: Counters,
    path: PathBuf,
}

/// The tables on disk. Bodies and checksums have their own, so that their bytes are neither rewritten
/// nor read past when names are compacted and listed.
pub(crate) struct Tables {
    database: Database,
    names: Keyspace,
    bodies: Keyspace,
}

#[derive(Default)]
struct Counters {
    commits: AtomicU64,
    conflicts: AtomicU64,
    gets: AtomicU64,
    cache_hits: AtomicU64,
    scans: AtomicU64,
}

impl EmbeddedEngine {
    /// Opens the database in the directory `path`, creating it when there is none.
    ///
    /// A database that another process holds gives `Busy`; a directory with other contents, or a damaged
    /// database, gives `Engine` with what is wrong.
    pub fn open(path: &Path, options: &EmbeddedOptions) -> Result<Self> {
        let tables = open::open(path)?;
        let flusher = Flusher::start(tables.database.clone(), options.flush_interval)?;
        Ok(Self {
            flusher,
            tables,
            cache: Cache::new(options.cache_bytes),
            commit_lock: RwLock::new(()),
            counters: Counters::default(),
            path: path.to_owned(),
        })
    }

    /// The value, from the cache or the tables. For callers that hold the commit lock.
    fn read_locked(&self, key: &[u8]) -> Result<Option<Value>> {
        if let Some(known) = self.cache.get(key) {
            return Ok(known);
        }
        let value = self.tables.get(key)?;
        self.cache.remember(key, value.as_ref());
        Ok(value)
    }

    fn read(&self, key: &[u8]) -> Result<Option<Value>> {
        self.counters.gets.fetch_add(1, Relaxed);
        if let Some(known) = self.cache.get(key) {
            self.counters.cache_hits.fetch_add(1, Relaxed);
            return Ok(known);
        }
        let _no_commit = self.commit_lock.read();
        let value = self.tables.get(key)?;
        self.cache.remember(key, value.as_ref());
        Ok(value)
    }

    fn read_pair(
        &self,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
        read: impl Fn(&[u8]) -> Result<Option<Value>>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        let Some(first) = read(key)? else { return Ok(None) };
        let second = match follow(&first) {
            Some(key) => read(&key)?,
            None => None,
        };
        Ok(Some((first, second)))
    }

    fn holds(&self, condition: &Condition) -> Result<bool> {
        Ok(match condition {
            Condition::Absent(key) => self.read_locked(key)?.is_none(),
            Condition::Present(key) => self.read_locked(key)?.is_some(),
            Condition::Equals(key, value) => self.read_locked(key)?.as_ref() == Some(value),
            Condition::PrefixEmpty(prefix) => self.tables.scan(prefix, None, 1)?.is_empty(),
        })
    }

    fn first_failure(&self, conditions: &[Condition]) -> Result<Option<usize>> {
        for (index, condition) in conditions.iter().enumerate() {
            if !self.holds(condition)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn check_partition(&self, partition: PartitionId) -> Result<()> {
        if partition.0 != 0 {
            return Err(no_partition(partition, self.partitions()));
        }
        Ok(())
    }
}

impl Tables {
    fn of(&self, key: &[u8]) -> &Keyspace {
        match key.first() {
            Some(&(keys::BODY | keys::CHECKSUM)) => &self.bodies,
            _ => &self.names,
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.of(key).get(key).map_err(failed("read"))?.map(Value::from))
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let from = match after {
            Some(key) if key >= prefix => Excluded(key.to_vec()),
            _ => Included(prefix.to_vec()),
        };
        let to = prefix_end(prefix).map_or(Unbounded, Excluded);
        if is_empty_range(&from, &to) {
            return Ok(Vec::new());
        }
        self.of(prefix)
            .range::<Vec<u8>, _>((from, to))
            .take(limit)
            .map(|record| {
                let (key, value) = record.into_inner().map_err(failed("scan"))?;
                Ok((key.into(), value.into()))
            })
            .collect()
    }

    fn write(&self, changes: &Changes) -> Result<()> {
        let mut batch = self.database.batch();
        for (key, value) in changes {
            let table = self.of(key);
            match value {
                Some(value) => {
                    batch.insert(table, key.clone().into_slice(), value.clone().into_slice());
                }
                None => batch.remove(table, key.clone().into_slice()),
            }
        }
        batch.commit().map_err(failed("commit"))
    }
}

/// Whether a range holds nothing by its bounds; the tables demand that the start is not past the end.
fn is_empty_range(from: &std::ops::Bound<Vec<u8>>, to: &std::ops::Bound<Vec<u8>>) -> bool {
    use std::ops::Bound::{Excluded, Included};
    match (from, to) {
        (Included(from) | Excluded(from), Excluded(to)) => from >= to,
        _ => false,
    }
}

/// Turns a failure of the store into ours. A full disk keeps its own kind.
pub(crate) fn failed(what: &'static str) -> impl Fn(fjall::Error) -> Error {
    move |error| match error {
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            Error::io(format!("metadata {what}"), source)
        }
        fjall::Error::Locked => Error::Busy("another process has the metadata open".into()),
        fjall::Error::Poisoned => Error::Engine(format!(
            "{what}: an earlier write failed, so the database takes no more; restart the node"
        )),
        other => Error::Engine(format!("{what}: {other:?}")),
    }
}

impl MetaEngine for EmbeddedEngine {
    fn partitions(&self) -> u16 {
        1
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.check_partition(partition)?;
        self.read(key)
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.check_partition(partition)?;
        match self.read_pair(key, follow, |key| self.read(key))? {
            // Perhaps a commit came between the two reads; look again with commits held off.
            Some((_, None)) => {
                let _no_commit = self.commit_lock.read();
                self.read_pair(key, follow, |key| self.read_locked(key))
            }
            pair => Ok(pair),
        }
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        self.check_partition(partition)?;
        check_prefix(prefix)?;
        self.counters.scans.fetch_add(1, Relaxed);
        self.tables.scan(prefix, after, limit)
    }

    fn commit(
        &self,
        partition: PartitionId,
        _op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        self.check_partition(partition)?;
        let _alone = self.commit_lock.write();
        if let Some(index) = self.first_failure(conditions)? {
            self.counters.conflicts.fetch_add(1, Relaxed);
            return Ok(CommitOutcome::Conflict { index });
        }
        let changes = resolve(mutations, |key| self.read_locked(key))?;
        self.tables.write(&changes)?;
        for (key, value) in changes {
            self.cache.update(key, value);
        }
        self.flusher.note_commit();
        self.counters.commits.fetch_add(1, Relaxed);
        Ok(CommitOutcome::Applied)
    }

    fn sync(&self) -> Result<()> {
        self.flusher.sync()
    }

    fn stats(&self) -> EngineStats {
        let database = &self.tables.database;
        EngineStats {
            memory_bytes: database.write_buffer_size()
                + database.cache_size()
                + self.cache.weight(),
            disk_bytes: disk_bytes(&self.path),
            commits: self.counters.commits.load(Relaxed),
            conflicts: self.counters.conflicts.load(Relaxed),
            gets: self.counters.gets.load(Relaxed),
            cache_hits: self.counters.cache_hits.load(Relaxed),
            scans: self.counters.scans.load(Relaxed),
            syncs: self.flusher.syncs(),
        }
    }
}

/// What the database's own files occupy. The journal is preallocated sparsely, so its length says little.
fn disk_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, meta)| if meta.is_dir() { disk_bytes(&path) } else { meta.blocks() * 512 })
        .sum()
}
