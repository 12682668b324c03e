//! An engine that notes what it is asked, and by which thread.

use std::sync::Arc;
use std::thread::ThreadId;

use intarsia_meta::{
    CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value,
};
use intarsia_types::{PartitionId, Result};
use parking_lot::Mutex;

/// Each request is a word and the tables that it is about: `get I`, `commit DI`.
pub(crate) struct Counted {
    engine: Arc<dyn MetaEngine>,
    asked: Mutex<Vec<(ThreadId, String)>>,
}

impl Counted {
    pub(crate) fn new(engine: Arc<dyn MetaEngine>) -> Arc<Self> {
        Arc::new(Self { engine, asked: Mutex::default() })
    }

    fn note<'k>(&self, what: &str, keys: impl IntoIterator<Item = &'k [u8]>) {
        let tables = keys.into_iter().filter_map(|key| key.first()).map(|table| char::from(*table));
        let request = format!("{what} {}", tables.collect::<String>());
        self.asked.lock().push((std::thread::current().id(), request));
    }

    /// All requests so far.
    pub(crate) fn all(&self) -> Vec<String> {
        self.asked.lock().iter().map(|(_, request)| request.clone()).collect()
    }

    /// What this thread asks for while `work` is done.
    pub(crate) fn requests<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<String>) {
        let me = std::thread::current().id();
        let before = self.asked.lock().len();
        let done = work();
        let asked = self.asked.lock();
        let mine = asked[before..].iter().filter(|(thread, _)| *thread == me);
        (done, mine.map(|(_, request)| request.clone()).collect())
    }
}

impl MetaEngine for Counted {
    fn partitions(&self) -> u16 {
        self.engine.partitions()
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.note("get", [key]);
        self.engine.get(partition, key)
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.note("follow", [key]);
        self.engine.get_follow(partition, key, follow)
    }

    fn get_many(&self, partition: PartitionId, keys: &[Key]) -> Result<Vec<Option<Value>>> {
        self.note("get", keys.iter().map(|key| &key[..]));
        self.engine.get_many(partition, keys)
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        self.note("scan", [prefix]);
        self.engine.scan(partition, prefix, after, limit)
    }

    fn commit(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        self.note("commit", mutations.iter().map(|mutation| &mutation.key()[..]));
        self.engine.commit(partition, op, conditions, mutations)
    }

    fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}
