//! An engine that asks before each commit.

use std::sync::Arc;

use intarsia_meta::{
    CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value,
};
use intarsia_types::{PartitionId, Result};

/// What is asked: it may wait, or refuse the commit.
type Hook = dyn Fn(PartitionId) -> Result<()> + Send + Sync;

pub(crate) struct Hooked {
    engine: Arc<dyn MetaEngine>,
    before_commit: Box<Hook>,
}

impl Hooked {
    pub(crate) fn new(
        engine: Arc<dyn MetaEngine>,
        before_commit: impl Fn(PartitionId) -> Result<()> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { engine, before_commit: Box::new(before_commit) })
    }
}

impl MetaEngine for Hooked {
    fn partitions(&self) -> u16 {
        self.engine.partitions()
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.engine.get(partition, key)
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.engine.get_follow(partition, key, follow)
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        self.engine.scan(partition, prefix, after, limit)
    }

    fn commit(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        (self.before_commit)(partition)?;
        self.engine.commit(partition, op, conditions, mutations)
    }

    fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}
