//! An engine that asks before what it does.

use std::sync::Arc;

use intarsia_meta::{
    CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value,
};
use intarsia_types::{PartitionId, Result};

/// What is asked: it may wait, or refuse.
pub(crate) trait Hook: Send + Sync + 'static {
    /// Before any request: a word for what it is, and the keys that it is about.
    fn before_request(&self, _: &str, _: &mut dyn Iterator<Item = &[u8]>) {}

    /// Before a record is read by its key.
    fn before_get(&self) -> Result<()> {
        Ok(())
    }

    /// Before records are looked for by what their keys begin with.
    fn before_scan(&self) -> Result<()> {
        Ok(())
    }

    /// After records were read, before whoever asked has them.
    fn after_read(&self) {}

    /// Before a commit.
    fn before_commit(&self, partition: PartitionId) -> Result<()>;

    /// After a commit of these changes, before whoever made it hears of that.
    fn after_commit(&self, _: &[Mutation]) {}

    /// Before all that was committed is made to last.
    fn before_sync(&self) {}
}

impl<F: Fn(PartitionId) -> Result<()> + Send + Sync + 'static> Hook for F {
    fn before_commit(&self, partition: PartitionId) -> Result<()> {
        self(partition)
    }
}

pub(crate) struct Hooked<H> {
    engine: Arc<dyn MetaEngine>,
    pub(crate) hook: H,
}

impl<H: Hook> Hooked<H> {
    pub(crate) fn new(engine: Arc<dyn MetaEngine>, hook: H) -> Arc<Self> {
        Arc::new(Self { engine, hook })
    }
}

impl<H: Hook> MetaEngine for Hooked<H> {
    fn partitions(&self) -> u16 {
        self.engine.partitions()
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.hook.before_request("get", &mut [key].into_iter());
        self.hook.before_get()?;
        let read = self.engine.get(partition, key);
        self.hook.after_read();
        read
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.hook.before_request("follow", &mut [key].into_iter());
        self.hook.before_get()?;
        let read = self.engine.get_follow(partition, key, follow);
        self.hook.after_read();
        read
    }

    fn get_many(&self, partition: PartitionId, keys: &[Key]) -> Result<Vec<Option<Value>>> {
        self.hook.before_request("get", &mut keys.iter().map(|key| &key[..]));
        self.hook.before_get()?;
        let read = self.engine.get_many(partition, keys);
        self.hook.after_read();
        read
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        self.hook.before_request("scan", &mut [prefix].into_iter());
        self.hook.before_scan()?;
        let read = self.engine.scan(partition, prefix, after, limit);
        self.hook.after_read();
        read
    }

    fn commit(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        self.hook.before_request("commit", &mut mutations.iter().map(|m| &m.key()[..]));
        self.hook.before_commit(partition)?;
        let outcome = self.engine.commit(partition, op, conditions, mutations.clone());
        self.hook.after_commit(&mutations);
        outcome
    }

    fn sync(&self) -> Result<()> {
        self.hook.before_sync();
        self.engine.sync()
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}
