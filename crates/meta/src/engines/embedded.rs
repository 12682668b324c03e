//! The default engine of one host: an LSM store in this process, behind a bounded cache.
//!
//! Invariants: a commit is in the page cache of the operating system before it returns, so it survives
//! the death of the process; a cached value is always the newest committed one.

mod cache;
mod flusher;
mod journal;
mod open;
mod reopen;
mod space;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use intarsia_types::{Error, PartitionId, Result};
use parking_lot::RwLock;

use self::cache::Cache;
use self::flusher::Flusher;
use self::reopen::Pause;
use self::space::Space;
use self::tables::Tables;
use super::{Changes, check_prefix, no_partition, resolve};
use crate::{CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value};

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
    flusher: Flusher,
    /// The tables, and the lock of commits: held for writing by a commit from its conditions to its
    /// cache update, for reading by a cache miss; so a miss never puts an old value back over a newer
    /// one. Hits take no lock, scans hold it for a moment only. Empty while a database that failed
    /// cannot be opened again.
    tables: RwLock<Option<Arc<Tables>>>,
    cache: Cache,
    counters: Counters,
    space: Space,
    path: PathBuf,
    journal_cut_bytes: u64,
    reopen_pause: Pause,
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
        let (tables, journal_cut_bytes) = open::open(path)?;
        let flusher = Flusher::start(path, tables.database(), options.flush_interval)?;
        Ok(Self {
            flusher,
            tables: RwLock::new(Some(Arc::new(tables))),
            cache: Cache::new(options.cache_bytes),
            counters: Counters::default(),
            space: Space::watch(path)?,
            path: path.to_owned(),
            journal_cut_bytes,
            reopen_pause: Pause::default(),
        })
    }

    /// How much of the journal was cut at opening because a crash had left its last batch unfinished, or
    /// a loss of power had left a hole in it. What was cut is kept beside the journal.
    #[must_use]
    pub const fn journal_cut_bytes(&self) -> u64 {
        self.journal_cut_bytes
    }

    /// The value, from the cache or the tables. The caller holds off commits.
    fn read_locked(&self, tables: &Tables, key: &[u8]) -> Result<Option<Value>> {
        if let Some(known) = self.cache.get(key) {
            return Ok(known);
        }
        let value = tables.get(key)?;
        self.cache.remember(key, value.as_ref());
        Ok(value)
    }

    fn read(&self, key: &[u8]) -> Result<Option<Value>> {
        self.counters.gets.fetch_add(1, Relaxed);
        if let Some(known) = self.cache.get(key) {
            self.counters.cache_hits.fetch_add(1, Relaxed);
            return Ok(known);
        }
        let tables = self.tables.read();
        let tables = tables.as_ref().ok_or_else(closed)?;
        let value = tables.get(key)?;
        self.cache.remember(key, value.as_ref());
        Ok(value)
    }

    fn holds(&self, tables: &Tables, condition: &Condition) -> Result<bool> {
        let read = |key| self.read_locked(tables, key);
        Ok(match condition {
            Condition::Absent(key) => read(key)?.is_none(),
            Condition::Present(key) => read(key)?.is_some(),
            Condition::Equals(key, value) => read(key)?.as_ref() == Some(value),
            Condition::PrefixEmpty(prefix) => tables.scan(prefix, None, 1)?.is_empty(),
        })
    }

    fn first_failure(&self, tables: &Tables, conditions: &[Condition]) -> Result<Option<usize>> {
        for (index, condition) in conditions.iter().enumerate() {
            if !self.holds(tables, condition)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn remember_commit(&self, changes: Changes) {
        for (key, value) in changes {
            self.cache.update(key, value);
        }
        self.flusher.note_commit();
        self.counters.commits.fetch_add(1, Relaxed);
    }

    fn check_partition(&self, partition: PartitionId) -> Result<()> {
        if partition.0 != 0 {
            return Err(no_partition(partition, self.partitions()));
        }
        Ok(())
    }
}

fn read_pair(
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

fn closed() -> Error {
    Error::Engine("the database failed and could not be opened again yet".into())
}

/// Turns a failure of the store into ours. A full disk keeps its own kind.
pub(crate) fn failed(what: &'static str) -> impl Fn(fjall::Error) -> Error {
    move |error| match error {
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            Error::io(format!("metadata {what}"), source)
        }
        fjall::Error::Locked => Error::Busy("another process has the metadata open".into()),
        fjall::Error::Poisoned => Error::Engine(format!("{what}: an earlier write had failed")),
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
        match read_pair(key, follow, |key| self.read(key))? {
            // Perhaps a commit came between the two reads; look again with commits held off.
            Some((_, None)) => {
                let tables = self.tables.read();
                let tables = tables.as_ref().ok_or_else(closed)?;
                read_pair(key, follow, |key| self.read_locked(tables, key))
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
        let tables = self.tables.read().clone().ok_or_else(closed)?;
        tables.scan(prefix, after, limit)
    }

    fn commit(
        &self,
        partition: PartitionId,
        _op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        self.check_partition(partition)?;
        self.space.admit(conditions, &mutations)?;
        let mut slot = self.tables.write();
        let tables = self.usable(&mut slot)?;
        if let Some(index) = self.first_failure(&tables, conditions)? {
            self.counters.conflicts.fetch_add(1, Relaxed);
            return Ok(CommitOutcome::Conflict { index });
        }
        let changes = resolve(mutations, |key| self.read_locked(&tables, key))?;
        let tables = match tables.write(&changes) {
            Err(fjall::Error::Poisoned) => {
                drop(tables);
                let tables = self.usable(&mut slot)?;
                tables.write(&changes).map(|()| tables)
            }
            done => done.map(|()| tables),
        }
        .map_err(failed("commit"))?;
        self.remember_commit(changes);
        drop(slot);
        if let Err(error) = tables.seal_full() {
            // The commit is made; the next one meets whatever is wrong.
            tracing::error!(%error, "cannot seal a table in memory");
        }
        if let Some(pause) = tables.pressure() {
            drop(tables);
            std::thread::sleep(pause);
        }
        Ok(CommitOutcome::Applied)
    }

    fn sync(&self) -> Result<()> {
        self.flusher.sync()
    }

    fn stats(&self) -> EngineStats {
        let tables = self.tables.read().as_ref().map_or(0, |tables| tables.memory_bytes());
        EngineStats {
            memory_bytes: tables + self.cache.weight(),
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
