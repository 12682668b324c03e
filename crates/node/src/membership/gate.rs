//! Stands in front of the metadata engine of a store of several hosts, and bounds how long a node that closes waits for it.
//!
//! The time of each question to the engine is bounded, but a node that closes asks thousands of them. So while it closes, the
//! time of all questions that fail is added up, and when that is too much, all further questions are refused at once. Before a
//! node closes the gate passes all questions on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use intarsia_meta::{
    CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value, allowance,
};
use intarsia_sync::{Instant, Mutex, may_ask_others};
use intarsia_types::{Error, PartitionId, Result};

/// The least time that counts for a question that failed, so that an engine that refuses everything at once is not asked for ever.
const LEAST: Duration = Duration::from_millis(50);

/// The time of questions that failed while the node closes.
#[derive(Debug, Default)]
struct Silence {
    /// How much more time may be spent so.
    left: Duration,
    /// How much was spent so far.
    spent: Duration,
    /// Until when time is counted already: questions that fail at the same time count once.
    counted_until: Option<Instant>,
    /// How many questions are under way, and since when none of them was answered.
    asking: u32,
    asking_since: Option<Instant>,
}

/// A metadata engine behind a gate.
pub(crate) struct Gate {
    engine: Arc<dyn MetaEngine>,
    is_closing: AtomicBool,
    silence: Mutex<Silence>,
}

impl Gate {
    pub(crate) fn new(engine: Arc<dyn MetaEngine>) -> Arc<Self> {
        Arc::new(Self { engine, is_closing: AtomicBool::new(false), silence: Mutex::default() })
    }

    /// The node begins to close: from now on questions that fail may take `patience` in all.
    pub(crate) fn begin_closing(&self, patience: Duration) {
        self.silence.lock().left = patience;
        self.is_closing.store(true, Ordering::Release);
    }

    /// Whether all further questions are refused.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_closing.load(Ordering::Acquire) && self.silence.lock().left.is_zero()
    }

    /// How long answers have been waited for in vain since the node began to close, the questions that are under way now included.
    pub(crate) fn silence(&self) -> Duration {
        let silence = self.silence.lock();
        silence.spent + silence.asking_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    #[track_caller]
    fn ask<T>(&self, question: impl FnOnce(&dyn MetaEngine) -> Result<T>) -> Result<T> {
        may_ask_others();
        if !self.is_closing.load(Ordering::Acquire) {
            return question(&*self.engine);
        }
        let begun = Instant::now();
        let left = self.silence.lock().begin(begun);
        if left.is_zero() {
            self.silence.lock().end();
            return Err(Error::Engine("it did not answer while the node was closing".into()));
        }
        let _limit = allowance::limit(begun + left);
        let answer = question(&*self.engine);
        let mut silence = self.silence.lock();
        silence.end();
        if answer.is_err() {
            silence.count(begun);
        }
        answer
    }
}

impl Silence {
    fn begin(&mut self, now: Instant) -> Duration {
        self.asking += 1;
        self.asking_since.get_or_insert(now);
        self.left
    }

    fn end(&mut self) {
        self.asking = self.asking.saturating_sub(1);
        self.asking_since = (self.asking > 0).then(Instant::now);
    }

    fn count(&mut self, begun: Instant) {
        let now = Instant::now();
        let from = self.counted_until.map_or(begun, |until| until.max(begun));
        let cost = now.saturating_duration_since(from).max(LEAST);
        self.counted_until = Some(now);
        self.spent += cost;
        self.left = self.left.saturating_sub(cost);
    }
}

impl MetaEngine for Gate {
    fn partitions(&self) -> u16 {
        self.engine.partitions()
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.ask(|engine| engine.get(partition, key))
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.ask(|engine| engine.get_follow(partition, key, follow))
    }

    fn get_many(&self, partition: PartitionId, keys: &[Key]) -> Result<Vec<Option<Value>>> {
        self.ask(|engine| engine.get_many(partition, keys))
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        self.ask(|engine| engine.scan(partition, prefix, after, limit))
    }

    fn commit(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        self.ask(|engine| engine.commit(partition, op, conditions, mutations))
    }

    fn sync(&self) -> Result<()> {
        self.ask(|engine| engine.sync())
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}
