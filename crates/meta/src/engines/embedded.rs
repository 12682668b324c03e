//! The default engine of a store of one host: maps in memory with a log, in front of an LSM store in this process.
//!
//! ```text
//! commit   conditions → log (one write) → front, cache          the drain: front → tables → log file gone
//! get      cache → front → tables                               scan: front laid over tables
//! ```
//! Invariants: a commit is in the page cache of the operating system before it returns, so it survives the death of the
//! process. A cached value is always the newest committed one. What the tables do not have is in the front, in memory, and in
//! the log, on disk.

mod cache;
mod drain;
mod flusher;
mod front;
mod journal;
mod log;
mod open;
mod reopen;
mod space;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use intarsia_sync::RwLock;
use intarsia_types::{Error, PartitionId, Result};

use self::cache::Cache;
use self::drain::Drain;
use self::flusher::Flusher;
use self::front::{Front, ScanBounds};
use self::journal::Cut;
use self::log::Log;
use self::reopen::Pause;
use self::space::Space;
use self::tables::Tables;
use super::{check_prefix, is_unheld, no_partition, resolve};
use crate::{CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value};

/// How much memory an embedded engine uses, and when it writes to the disk.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Most bytes of the cache of inodes, dentries, extended attributes and superblock values.
    pub cache_bytes: u64,
    /// How long after a commit it is forced to stable storage at the latest; `None` leaves that to `sync`.
    pub flush_interval: Option<Duration>,
    /// How many bytes are gathered in memory, or in the log, before they are written out to the tables: so many that most
    /// short-lived records are gone by then, and so few that the log is replayed in a moment at the next start.
    pub layer_bytes: u64,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 128 << 20,
            flush_interval: Some(Duration::from_secs(1)),
            layer_bytes: 16 << 20,
        }
    }
}

/// Keeps metadata in memory, in a log and in an embedded LSM store (`fjall`), in one partition.
pub struct EmbeddedEngine {
    // Dropped first, so that its thread has ended when the rest is closed.
    drain: Drain,
    flusher: Flusher,
    core: Arc<Core>,
    journal_cut_bytes: u64,
}

/// What the engine shares with the thread that writes out to the tables.
struct Core {
    /// The commit lock. A commit holds it for writing, from its conditions to its update of the cache. A read that misses the
    /// cache holds it for reading, so it never puts an old value into the cache over a newer one. Hits take no lock.
    state: RwLock<State>,
    cache: Cache,
    counters: Counters,
    space: Space,
    path: PathBuf,
    layer_bytes: u64,
    reopen_pause: Pause,
}

struct State {
    front: Front,
    log: Log,
    /// `None` while a database that failed could not be opened again.
    tables: Option<Arc<Tables>>,
}

impl State {
    /// The newest value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        match self.front.get(key) {
            Some(held) => held.value(),
            None => self.tables.as_ref().ok_or_else(closed)?.get(key),
        }
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>> {
        let Some(bounds) = ScanBounds::new(prefix, after) else { return Ok(Vec::new()) };
        let tables = self.tables.as_ref().ok_or_else(closed)?;
        self.front.scan_over(&bounds, tables.scan(prefix, &bounds), limit)
    }
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
    /// # Errors
    /// `Busy` when another process has the database open; `Engine`, with what is wrong, for a directory with other files and
    /// for a damaged database; those of the system.
    pub fn open(path: &Path, options: &EmbeddedOptions) -> Result<Self> {
        let (tables, journal_cut_bytes) = open::open(path, Cut::Kept)?;
        let (log, active, log_cut_bytes) = Log::open(path)?;
        let files = log.files();
        let flusher = Flusher::start(files.clone(), options.flush_interval)?;
        let front = Front { active, sealed: None };
        let core = Arc::new(Core {
            state: RwLock::new(State { front, log, tables: Some(Arc::new(tables)) }),
            cache: Cache::new(options.cache_bytes),
            counters: Counters::default(),
            space: Space::watch(path, files)?,
            path: path.to_owned(),
            layer_bytes: options.layer_bytes,
            reopen_pause: Pause::default(),
        });
        let drain = Drain::start(Arc::clone(&core))?;
        let journal_cut_bytes = journal_cut_bytes + log_cut_bytes;
        Ok(Self { drain, flusher, core, journal_cut_bytes })
    }

    /// How many bytes were cut off the end of the journal and the log at opening, because a loss of power had left them with a
    /// hole. They are kept in files beside, if there is room.
    #[must_use]
    pub const fn journal_cut_bytes(&self) -> u64 {
        self.journal_cut_bytes
    }

    fn check_partition(&self, partition: PartitionId) -> Result<()> {
        if partition.0 != 0 {
            return Err(no_partition(partition, self.partitions()));
        }
        Ok(())
    }
}

impl Core {
    /// The value of a key, from the cache or the state. The caller holds the commit lock.
    fn read_locked(&self, state: &State, key: &[u8]) -> Result<Option<Value>> {
        if let Some(known) = self.cache.get(key) {
            return Ok(known);
        }
        let value = state.get(key)?;
        self.cache.remember(key, value.as_ref());
        Ok(value)
    }

    fn read(&self, key: &[u8]) -> Result<Option<Value>> {
        self.counters.gets.fetch_add(1, Relaxed);
        if let Some(known) = self.cache.get(key) {
            self.counters.cache_hits.fetch_add(1, Relaxed);
            return Ok(known);
        }
        let state = self.state.read();
        let value = state.get(key)?;
        self.cache.remember(key, value.as_ref());
        Ok(value)
    }

    fn holds(&self, state: &State, condition: &Condition) -> Result<bool> {
        let read = |key| self.read_locked(state, key);
        Ok(match condition {
            Condition::Absent(key) => read(key)?.is_none(),
            Condition::Present(key) => read(key)?.is_some(),
            Condition::Unheld(key) => read(key)?.is_some_and(|value| is_unheld(&value)),
            Condition::Equals(key, value) => read(key)?.as_ref() == Some(value),
            Condition::AbsentOr(key, value) => read(key)?.is_none_or(|found| found == *value),
            Condition::PrefixEmpty(prefix) => state.scan(prefix, None, 1)?.is_empty(),
        })
    }

    fn first_failure(&self, state: &State, conditions: &[Condition]) -> Result<Option<usize>> {
        for (index, condition) in conditions.iter().enumerate() {
            if !self.holds(state, condition)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
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

/// Turns an error of the LSM store into ours. One of the system, such as a full disk, keeps its kind.
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
        self.core.read(key)
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.check_partition(partition)?;
        match read_pair(key, follow, |key| self.core.read(key))? {
            // A commit may have come between the two reads, so they are repeated while commits wait.
            Some((_, None)) => {
                let state = self.core.state.read();
                read_pair(key, follow, |key| self.core.read_locked(&state, key))
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
        self.core.counters.scans.fetch_add(1, Relaxed);
        self.core.state.read().scan(prefix, after, limit)
    }

    fn commit(
        &self,
        partition: PartitionId,
        _op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        self.check_partition(partition)?;
        let core = &self.core;
        core.space.admit(conditions, &mutations, || self.drain.note_low())?;
        let mut state = core.state.write();
        if let Some(index) = core.first_failure(&state, conditions)? {
            core.counters.conflicts.fetch_add(1, Relaxed);
            return Ok(CommitOutcome::Conflict { index });
        }
        let changes = resolve(mutations, |key| core.read_locked(&state, key))?;
        if changes.is_empty() {
            return Ok(CommitOutcome::Applied);
        }
        let held = state.log.append(&changes)?;
        for ((key, value), held) in changes.into_iter().zip(held) {
            core.cache.update(key.clone(), value);
            state.front.active.set(key, held);
        }
        let fill = drain::fill(&state, core.layer_bytes);
        drop(state);
        core.counters.commits.fetch_add(1, Relaxed);
        self.flusher.note_commit();
        self.drain.note_fill(fill);
        Ok(CommitOutcome::Applied)
    }

    fn sync(&self) -> Result<()> {
        self.flusher.sync()
    }

    fn stats(&self) -> EngineStats {
        let Core { state, cache, counters, path, .. } = &*self.core;
        let memory_bytes = {
            let state = state.read();
            let tables = state.tables.as_ref().map_or(0, |tables| tables.memory_bytes());
            state.front.bytes() + tables
        };
        EngineStats {
            memory_bytes: memory_bytes + cache.weight(),
            disk_bytes: disk_bytes(path),
            commits: counters.commits.load(Relaxed),
            conflicts: counters.conflicts.load(Relaxed),
            gets: counters.gets.load(Relaxed),
            cache_hits: counters.cache_hits.load(Relaxed),
            scans: counters.scans.load(Relaxed),
            syncs: self.flusher.syncs(),
        }
    }
}

/// How many bytes the files of the database take on disk. Lengths do not tell, since the journal is laid out ahead as a hole.
fn disk_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, meta)| if meta.is_dir() { disk_bytes(&path) } else { meta.blocks() * 512 })
        .sum()
}
