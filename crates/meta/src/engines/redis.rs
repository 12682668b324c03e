//! An engine over Redis or Valkey: one server, or a Cluster whose servers share the partitions.
//!
//! A record is a string; an index of sorted sets keeps the order of keys (see `redis/library.lua`). A commit is one call of a
//! function at the server that holds the partition. It is acknowledged once all replicas in sync have it (`WAIT`). Until then
//! it is sent again under the same number, to the server that holds the partition by then. The function recognises a commit
//! that it has seen before by that number. Every command checks the partition's marker, so that a server that lost its data is
//! an error, and is never taken for an empty store.

mod command;
mod failure;
mod keys;
mod library;
mod options;
mod outage;
mod server;
mod session;
mod superblock;
mod topology;
mod writer;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use intarsia_sync::{Instant, Mutex, thread};
use intarsia_types::{Error, PartitionId, Result};
use redis::{Value as Answer, cmd};
use tracing::{error, info, trace, warn};

use self::failure::Failure;
use self::keys::PartitionKeys;
use self::library::LIBRARY;
pub use self::options::{RedisOptions, RedisTls};
use self::outage::{Need, Outages};
use self::server::{Connector, Server};
use self::session::{KEEP, Session};
use self::superblock::Superblock;
use self::topology::Topology;
use super::{check_prefix, no_partition};
use crate::{
    CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value, allowance,
};

/// Partitions of a new store on a Cluster, and most partitions of any store.
const CLUSTER_PARTITIONS: u16 = 64;
const PARTITIONS_MAX: u16 = 4096;
/// First and longest pause between attempts.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// Redirections that are followed without a pause.
const REDIRECTIONS: u32 = 5;
/// An operation that had to be repeated and took this long gets a line in the log.
const SLOW: Duration = Duration::from_secs(1);
/// How old figures of the servers may be before they are asked again.
const FIGURES_AGE: Duration = Duration::from_secs(5);
const FIGURES_TIMEOUT: Duration = Duration::from_secs(1);

/// Metadata in Redis or Valkey. Any number of these, in any processes, may share one store.
pub struct RedisEngine {
    topology: Topology,
    outages: Outages,
    session: Session,
    store_id: String,
    partitions: Vec<PartitionKeys>,
    require_replica: bool,
    timeout: Duration,
    counters: Counters,
    /// Memory and disk use of the servers in bytes, and when they were asked.
    figures: Mutex<(u64, u64, Option<Instant>)>,
}

#[derive(Default)]
struct Counters {
    commits: AtomicU64,
    conflicts: AtomicU64,
    gets: AtomicU64,
    scans: AtomicU64,
    syncs: AtomicU64,
}

impl RedisEngine {
    /// Connects to the servers and opens the store, which is created when there is none.
    ///
    /// # Errors
    /// `Invalid` for options that make no sense; `Engine` when the servers cannot be reached, have lost
    /// data of the store, or hold it with another number of partitions.
    pub fn open(options: &RedisOptions) -> Result<Self> {
        let mut engine = Self::connect(options)?;
        engine.open_store(options)?;
        Ok(engine)
    }

    /// Gives up what the partitions held whose slots are `lost`: makes them empty partitions of the store again. The store must
    /// not be in use.
    ///
    /// # Errors
    /// As [`open`](Self::open); `Engine` when nothing is left that tells which store it is.
    pub fn give_up(options: &RedisOptions, lost: &[RangeInclusive<u16>]) -> Result<()> {
        let engine = Self::connect(options)?;
        engine.read_slot(0, "connecting", &cmd("PING").get_packed_command())?;
        superblock::refound(&engine, &options.store, lost)
    }

    fn connect(options: &RedisOptions) -> Result<Self> {
        keys::check_store_name(&options.store)?;
        if options.partitions.is_some_and(|count| !(1..=PARTITIONS_MAX).contains(&count)) {
            return Err(Error::Invalid(format!("partitions: use 1 to {PARTITIONS_MAX}")));
        }
        let (connector, seeds) = Connector::new(&options.urls, options.tls.as_ref())
            .map_err(|e| Error::Invalid(format!("metadata servers: {e}")))?;
        Ok(Self {
            topology: Topology::new(connector, seeds),
            outages: Outages::default(),
            session: Session::new(0),
            store_id: String::new(),
            partitions: Vec::new(),
            require_replica: options.require_replica,
            timeout: options.timeout,
            counters: Counters::default(),
            figures: Mutex::default(),
        })
    }

    fn open_store(&mut self, options: &RedisOptions) -> Result<()> {
        let store = &options.store;
        let slot = keys::slot_of(store.as_bytes());
        self.read_slot(slot, "connecting", &cmd("PING").get_packed_command())?;
        let usual = if self.topology.is_cluster() { CLUSTER_PARTITIONS } else { 1 };
        let mut superblock = superblock::open(self, store, options.partitions.unwrap_or(usual))?;
        let Superblock { partitions, id, .. } = superblock.clone();
        if options.partitions.is_some_and(|wanted| wanted != partitions) {
            return Err(Error::Engine(format!(
                "store '{store}' was made with {partitions} partitions; ask for that number or none"
            )));
        }
        let keys = keys::partitions(store, partitions.min(PARTITIONS_MAX));
        superblock::mark(self, store, &mut superblock, &keys)?;
        self.session = Session::new(partitions);
        self.partitions = keys;
        self.store_id = id;
        info!(store, partitions, "opened a store on metadata servers");
        Ok(())
    }

    fn keys(&self, partition: PartitionId) -> Result<&PartitionKeys> {
        self.partitions
            .get(usize::from(partition.0))
            .ok_or_else(|| no_partition(partition, self.partitions()))
    }

    /// Repeats `attempt` on the server that holds a slot, as it is known each time, until it succeeds, fails for good, or the
    /// time is up. Fails with [`Error::NoSpace`] when the server's memory is full, else with [`Error::Engine`].
    fn on_slot<T>(
        &self,
        slot: u16,
        need: Need,
        what: &str,
        mut attempt: impl FnMut(&Server, Instant) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let start = Instant::now();
        let first = self.topology.primary(slot).0;
        let first = first.as_ref().map(|server| &server.address);
        let usual = self.outages.deadline(first, start, self.timeout);
        let deadline = allowance::at_least(usual.min(start + allowance::of(self.timeout)));
        let mut trouble = Trouble::default();
        loop {
            let (server, generation) = self.topology.primary(slot);
            let failure = match &server {
                Some(server) => match attempt(server, deadline) {
                    Ok(value) => {
                        self.outages.note_success(&server.address, need);
                        trouble.note_end(what, server, start);
                        return Ok(value);
                    }
                    Err(failure) => failure,
                },
                None => Failure::Transient(format!("no known server holds slot {slot}")),
            };
            let name = server.as_ref().map_or_else(String::new, |s| format!(" on {}", s.address));
            match self.redirect(slot, server.as_deref(), failure, deadline) {
                Ok(why) if trouble.redirections < REDIRECTIONS => {
                    trouble.redirections += 1;
                    trouble.last = why;
                    continue;
                }
                Ok(why) => trouble.last = why,
                Err(Failure::Transient(why)) => {
                    let address = server.as_ref().map(|server| &server.address);
                    self.outages.note_failure(address, need, start, Instant::now());
                    trouble.last = format!("{why}{name}");
                }
                Err(Failure::Full(why)) => {
                    return Err(Error::NoSpace(format!("{what}{name}: {why}")));
                }
                Err(other) => {
                    return Err(Error::Engine(format!("{what}{name}: {}", other.message())));
                }
            }
            let pause = trouble.pause();
            if Instant::now() + pause >= deadline {
                return Err(trouble.give_up(what, start));
            }
            thread::sleep(pause);
            match self.topology.refresh(generation, deadline) {
                Ok(()) => {}
                Err(Failure::Refused(why)) => return Err(Error::Engine(format!("{what}: {why}"))),
                // A map that cannot be had now is asked for again after the next attempt.
                Err(other) => trouble.last = format!("{}; {}", trouble.last, other.message()),
            }
        }
    }

    /// If a failure tells what to do before the next attempt, does that and returns why; else returns the failure.
    fn redirect(
        &self,
        slot: u16,
        server: Option<&Server>,
        failure: Failure,
        deadline: Instant,
    ) -> std::result::Result<String, Failure> {
        let why = failure.message();
        match (failure, server) {
            (Failure::Moved(mut to), Some(server)) => {
                if to.host.is_empty() {
                    to.host.clone_from(&server.address.host);
                }
                self.topology.note_moved(slot, to)?;
            }
            (Failure::NoFunction, Some(server)) => load_library(server, deadline)?,
            (failure, _) => return Err(failure),
        }
        Ok(why)
    }

    fn read_slot(&self, slot: u16, what: &str, command: &[u8]) -> Result<Answer> {
        self.on_slot(slot, Need::Read, what, |one, by| self.topology.read(slot, one, command, by))
    }

    fn write_slot(&self, slot: u16, what: &str, command: &[u8]) -> Result<Answer> {
        self.on_slot(slot, Need::Write, what, |server, deadline| {
            server.writer.send(server, command.to_vec(), self.require_replica, deadline)
        })
    }

    fn lost(&self, partition: PartitionId) -> Error {
        let why = "the servers have lost its data: its marker is gone";
        Error::Engine(format!("partition {}: {why}", partition.0))
    }

    /// Reads keys of one partition, and its marker with them.
    fn read<'k>(
        &self,
        partition: PartitionId,
        wanted: impl Iterator<Item = &'k [u8]>,
    ) -> Result<Vec<Option<Value>>> {
        let keys = self.keys(partition)?;
        let command = command::get(keys, wanted);
        let answer = self.read_slot(keys.slot, &reading(partition), &command)?;
        let mut values = command::values(answer)?.into_iter();
        match values.next() {
            Some(Some(marker)) if *marker == *self.store_id.as_bytes() => Ok(values.collect()),
            _ => Err(self.lost(partition)),
        }
    }

    fn ask_figures(&self) -> (u64, u64) {
        let mut figures = self.figures.lock();
        if figures.2.is_none_or(|at| at.elapsed() >= FIGURES_AGE) {
            let (mut memory, mut disk) = (0, 0);
            let deadline = Instant::now() + FIGURES_TIMEOUT;
            for server in self.topology.primaries() {
                // The figures of a server that does not answer count as 0.
                let ask =
                    |section| server.ask(&cmd("INFO").arg(section).get_packed_command(), deadline);
                memory += command::figure(ask("memory"), "used_memory:");
                disk += command::figure(ask("persistence"), "aof_current_size:");
            }
            *figures = (memory, disk, Some(Instant::now()));
        }
        (figures.0, figures.1)
    }
}

fn load_library(server: &Server, deadline: Instant) -> std::result::Result<(), Failure> {
    let command = cmd("FUNCTION").arg("LOAD").arg(&LIBRARY.code).get_packed_command();
    match server.ask(&command, deadline) {
        Ok(_) => {
            info!(server = %server.address, "loaded the functions");
            Ok(())
        }
        // Another thread or node has just loaded them.
        Err(Failure::Refused(why)) if why.contains("already exists") => Ok(()),
        Err(failure) => Err(failure),
    }
}

fn reading(partition: PartitionId) -> String {
    format!("reading from metadata partition {}", partition.0)
}

/// The failures of one operation so far.
#[derive(Default)]
struct Trouble {
    redirections: u32,
    pauses: u32,
    last: String,
}

impl Trouble {
    fn pause(&mut self) -> Duration {
        let pause = PAUSE.saturating_mul(1 << self.pauses.min(10)).min(PAUSE_MAX);
        self.pauses += 1;
        self.redirections = 0;
        pause
    }

    fn note_end(&self, what: &str, server: &Server, start: Instant) {
        if self.pauses > 0 && start.elapsed() >= SLOW {
            let (server, after_ms) = (&server.address, start.elapsed().as_millis());
            warn!(%server, after_ms, trouble = self.last, "{what}: done at last");
        }
    }

    fn give_up(self, what: &str, start: Instant) -> Error {
        let seconds = start.elapsed().as_secs_f64();
        error!(trouble = self.last, "{what}: given up after {seconds:.1} s");
        Error::Engine(format!("{what}: given up after {seconds:.1} s: {}", self.last))
    }
}

impl MetaEngine for RedisEngine {
    fn partitions(&self) -> u16 {
        u16::try_from(self.partitions.len()).unwrap_or(u16::MAX)
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.counters.gets.fetch_add(1, Relaxed);
        trace!(partition = partition.0, key = %key.escape_ascii(), "get");
        Ok(self.read(partition, std::iter::once(key))?.pop().flatten())
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.counters.gets.fetch_add(2, Relaxed);
        trace!(partition = partition.0, key = %key.escape_ascii(), "get and follow");
        let keys = self.keys(partition)?;
        let command = command::follow(keys, &self.store_id, key);
        let answer = self.read_slot(keys.slot, &reading(partition), &command)?;
        let Some(mut answer) = command::records(answer)? else {
            return Err(self.lost(partition));
        };
        answer.resize(3, None);
        let Some([first, named, second]) = <[_; 3]>::try_from(answer).ok() else {
            return Err(Error::Engine("an unexpected answer to 'follow'".into()));
        };
        let Some(mut first) = first else { return Ok(None) };
        // The server finds the second key as the namespace does in a dentry. If `follow` finds another one, both records are
        // read again, until the first is unchanged when the second is read.
        while let Some(wanted) = follow(&first) {
            if named.as_ref() == Some(&wanted) {
                return Ok(Some((first, second)));
            }
            let both = self.read(partition, [key, &wanted].into_iter())?;
            let Some([again, second]) = <[_; 2]>::try_from(both).ok() else { break };
            match again {
                None => return Ok(None),
                Some(again) if again == first => return Ok(Some((first, second))),
                Some(changed) => first = changed,
            }
        }
        Ok(Some((first, None)))
    }

    fn get_many(&self, partition: PartitionId, keys: &[Key]) -> Result<Vec<Option<Value>>> {
        self.counters.gets.fetch_add(keys.len() as u64, Relaxed);
        let first = keys.first().map(|key| &**key).unwrap_or_default();
        trace!(partition = partition.0, keys = keys.len(), first = %first.escape_ascii(), "get many");
        self.read(partition, keys.iter().map(|key| &**key))
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        check_prefix(prefix)?;
        self.counters.scans.fetch_add(1, Relaxed);
        trace!(partition = partition.0, prefix = %prefix.escape_ascii(), "scan");
        let keys = self.keys(partition)?;
        let after = match after {
            Some(after) if after.starts_with(prefix) => after,
            Some(after) if after > prefix => return Ok(Vec::new()),
            _ => b"",
        };
        if limit == 0 {
            return Ok(Vec::new());
        }
        let command = command::scan(keys, &self.store_id, prefix, after, limit);
        let answer = self.read_slot(keys.slot, &reading(partition), &command)?;
        let Some(found) = command::records(answer)? else {
            return Err(self.lost(partition));
        };
        let mut found = found.into_iter().flatten();
        Ok(std::iter::from_fn(|| Some((found.next()?, found.next()?))).collect())
    }

    fn commit(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        trace!(partition = partition.0, ?conditions, ?mutations, "commit");
        let keys = self.keys(partition)?;
        let operation = self
            .session
            .begin(partition.0, op)
            .ok_or_else(|| no_partition(partition, self.partitions()))?;
        let commit = command::Commit::new(keys, conditions, &mutations);
        let what = format!("committing to metadata partition {}", partition.0);
        let (mut is_first, refreshes) = (true, operation.is_due());
        let answer = self.on_slot(keys.slot, Need::Write, &what, |server, deadline| {
            let keep = (refreshes || !is_first).then_some(KEEP);
            is_first = false;
            let command = commit.pack(
                &self.store_id,
                self.session.id,
                operation.number,
                operation.lowest(),
                keep,
            );
            server.writer.send(server, command, self.require_replica, deadline)
        });
        match &answer {
            Ok(_) => operation.finish(refreshes),
            Err(_) => operation.leave(),
        }
        let outcome = command::outcome(&answer?, &mutations, || self.lost(partition))?;
        let counter = match outcome {
            CommitOutcome::Applied => &self.counters.commits,
            CommitOutcome::Conflict { .. } => &self.counters.conflicts,
        };
        counter.fetch_add(1, Relaxed);
        Ok(outcome)
    }

    /// Returns when all replicas in sync have everything. Whether that is on stable storage depends on the configuration of the
    /// servers: with `appendfsync always` it is; with `no` only once something else forces the log out.
    fn sync(&self) -> Result<()> {
        for keys in one_of_each_server(&self.topology, &self.partitions) {
            self.write_slot(keys.slot, "waiting for the replicas", b"")?;
        }
        self.counters.syncs.fetch_add(1, Relaxed);
        Ok(())
    }

    fn stats(&self) -> EngineStats {
        let (memory_bytes, disk_bytes) = self.ask_figures();
        EngineStats {
            memory_bytes,
            disk_bytes,
            commits: self.counters.commits.load(Relaxed),
            conflicts: self.counters.conflicts.load(Relaxed),
            gets: self.counters.gets.load(Relaxed),
            cache_hits: 0,
            scans: self.counters.scans.load(Relaxed),
            syncs: self.counters.syncs.load(Relaxed),
        }
    }
}

/// Partitions such that each server that holds any holds one of them.
fn one_of_each_server<'p>(
    topology: &Topology,
    partitions: &'p [PartitionKeys],
) -> Vec<&'p PartitionKeys> {
    let mut seen: Vec<Option<Arc<Server>>> = Vec::new();
    let mut found = Vec::new();
    for keys in partitions {
        let (server, _) = topology.primary(keys.slot);
        let is_new = !seen.iter().any(|known| match (known, &server) {
            (Some(known), Some(server)) => Arc::ptr_eq(known, server),
            _ => false,
        });
        if is_new {
            seen.push(server);
            found.push(keys);
        }
    }
    found
}
