//! Clients that commit and read without pause, and remember what they were told.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    dead_code,
    reason = "test code, not all used everywhere"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use intarsia_meta::engines::{RedisEngine, RedisOptions};
use intarsia_meta::{Bytes, CommitOutcome, Condition, MetaEngine, Mutation, OpId};
use intarsia_types::{PartitionId, Result};
use parking_lot::Mutex;

use crate::servers::wait_for;

const WRITERS: u64 = 8;
/// Between two commits of one writer, so that all can be verified in bounded time.
const PAUSE: Duration = Duration::from_millis(1);
const COUNTER: &[u8] = b"Scommits";
const PAGE: usize = 500;

/// A record that a client was told to be there; it is its own value.
pub(crate) type Record = (u16, Bytes);

/// What the clients have seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) acknowledged: Mutex<Vec<Record>>,
    /// Commits whose outcome nobody was told, by partition.
    unknown: Mutex<Vec<u16>>,
    pub(crate) write_errors: AtomicU64,
    pub(crate) read_errors: AtomicU64,
    pub(crate) reads: AtomicU64,
    /// Acknowledged records that a read did not find.
    pub(crate) absent: AtomicU64,
    /// New records that were said to be there already: a commit sent twice was not recognised.
    pub(crate) repeated: AtomicU64,
    longest_write_ms: AtomicU64,
    longest_read_ms: AtomicU64,
    is_over: AtomicBool,
}

pub(crate) struct Load {
    pub(crate) seen: Arc<Seen>,
    engine: Arc<RedisEngine>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts writers, and a reader that is another client of the same store.
    pub(crate) fn start(options: &RedisOptions) -> Self {
        // Servers that were just made write down what they know of each other, and answer nothing while a slow disk syncs that.
        let open = || {
            let mut engine = None;
            wait_for("a store that opens", || {
                engine = RedisEngine::open(options).ok();
                engine.is_some()
            });
            Arc::new(engine.unwrap())
        };
        let (engine, other) = (open(), open());
        let seen = Arc::new(Seen::default());
        let mut threads = Vec::new();
        for writer in 0..WRITERS {
            let (engine, seen) = (Arc::clone(&engine), Arc::clone(&seen));
            threads.push(thread::spawn(move || seen.write(&engine, writer)));
        }
        let watched = Arc::clone(&seen);
        threads.push(thread::spawn(move || watched.read(&other)));
        Self { seen, engine, threads }
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.seen.acknowledged.lock().len()
    }

    /// The acknowledged records from the `from`th that are missing now.
    pub(crate) fn lost(&self, from: usize) -> Vec<Record> {
        self.seen.lost(&self.engine, from)
    }

    /// Ends the clients and returns the store as they leave it.
    pub(crate) fn stop(self) -> (Arc<RedisEngine>, Arc<Seen>) {
        self.seen.is_over.store(true, SeqCst);
        for thread in self.threads {
            thread.join().unwrap();
        }
        (self.engine, self.seen)
    }
}

impl Seen {
    fn write(&self, engine: &RedisEngine, writer: u64) {
        for number in 0.. {
            if self.is_over.load(SeqCst) {
                return;
            }
            let partition = ((number * WRITERS + writer) % u64::from(engine.partitions())) as u16;
            let key = Bytes::from(format!("I{writer}-{number:08}").into_bytes());
            let conditions = [Condition::Absent(key.clone())];
            let add = Mutation::Add { key: COUNTER.into(), delta: 1 };
            let mutations = vec![Mutation::Put(key.clone(), key.clone()), add];
            let op = OpId { session: writer, number };
            let start = Instant::now();
            match engine.commit(PartitionId(partition), op, &conditions, mutations) {
                Ok(CommitOutcome::Applied) => self.acknowledged.lock().push((partition, key)),
                Ok(CommitOutcome::Conflict { .. }) => {
                    self.repeated.fetch_add(1, SeqCst);
                }
                Err(_) => {
                    self.write_errors.fetch_add(1, SeqCst);
                    self.unknown.lock().push(partition);
                }
            }
            self.longest_write_ms.fetch_max(millis(start), SeqCst);
            thread::sleep(PAUSE);
        }
    }

    /// Reads acknowledged records, new ones and old ones in turn.
    fn read(&self, engine: &RedisEngine) {
        let mut turn = 0_usize;
        while !self.is_over.load(SeqCst) {
            turn += 1;
            let wanted = {
                let acknowledged = self.acknowledged.lock();
                let newest = acknowledged.len().saturating_sub(1);
                let oldest_first = (turn * 7919) % acknowledged.len().max(1);
                acknowledged
                    .get(if turn.is_multiple_of(2) { newest } else { oldest_first })
                    .cloned()
            };
            if let Some((partition, key)) = wanted {
                let start = Instant::now();
                match engine.get(PartitionId(partition), &key) {
                    Ok(Some(value)) => assert_eq!(value, key),
                    Ok(None) => {
                        self.absent.fetch_add(1, SeqCst);
                    }
                    Err(_) => {
                        self.read_errors.fetch_add(1, SeqCst);
                    }
                }
                self.reads.fetch_add(1, SeqCst);
                self.longest_read_ms.fetch_max(millis(start), SeqCst);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The acknowledged records from the `from`th that are missing now.
    pub(crate) fn lost(&self, engine: &RedisEngine, from: usize) -> Vec<Record> {
        let mut by_partition = vec![Vec::new(); usize::from(engine.partitions())];
        for (partition, key) in &self.acknowledged.lock()[from..] {
            by_partition[usize::from(*partition)].push(key.clone());
        }
        let mut lost = Vec::new();
        for (partition, keys) in (0..).zip(&by_partition) {
            for keys in keys.chunks(PAGE) {
                let values = patiently(|| engine.get_many(PartitionId(partition), keys));
                let missing =
                    keys.iter().zip(values).filter(|(key, value)| value.as_ref() != Some(*key));
                lost.extend(missing.map(|(key, _)| (partition, key.clone())));
            }
        }
        lost
    }

    /// Checks that every commit was made whole and once: the counter of each partition is the number of
    /// its records, and no less than what was acknowledged.
    pub(crate) fn check_counts(&self, engine: &RedisEngine) {
        for partition in 0..engine.partitions() {
            let is_here = |found: &u16| *found == partition;
            let counter = engine.get(PartitionId(partition), COUNTER).unwrap();
            let counter = counter.map_or(0, |c| u64::from_be_bytes((*c).try_into().unwrap()));
            let (mut records, mut last) = (0, None);
            loop {
                let found =
                    engine.scan(PartitionId(partition), b"I", last.as_deref(), 1000).unwrap();
                let Some((key, _)) = found.last() else { break };
                records += found.len() as u64;
                last = Some(key.clone());
            }
            let told = self.acknowledged.lock().iter().filter(|(p, _)| is_here(p)).count() as u64;
            let unknown = self.unknown.lock().iter().filter(|p| is_here(p)).count() as u64;
            assert_eq!(counter, records, "partition {partition}");
            let possible = told..=told + unknown;
            assert!(possible.contains(&records), "partition {partition}: {records}, {possible:?}");
        }
    }

    pub(crate) fn summary(&self) -> String {
        format!(
            "acknowledged {}, write errors {}, longest commit {} ms, reads {}, read errors {}, longest read {} ms, \
             absent reads {}, repeated commits {}",
            self.acknowledged.lock().len(),
            self.write_errors.load(SeqCst),
            self.longest_write_ms.load(SeqCst),
            self.reads.load(SeqCst),
            self.read_errors.load(SeqCst),
            self.longest_read_ms.load(SeqCst),
            self.absent.load(SeqCst),
            self.repeated.load(SeqCst),
        )
    }
}

fn millis(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Reads again while a server that is up has not been noticed by the engine yet.
fn patiently<T>(mut read: impl FnMut() -> Result<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match read() {
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
            Ok(value) => return value,
        }
        thread::sleep(Duration::from_millis(50));
    }
}
