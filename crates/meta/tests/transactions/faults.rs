//! An engine that fails one node at a chosen commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use intarsia_meta::{
    CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value,
};
use intarsia_types::{Error, PartitionId, Result};

/// What befalls the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It dies after this many commits.
    DiesAfter(u64),
    /// This commit (from 0) is applied, and its answer lost.
    LosesAnswer(u64),
    /// This commit (from 0) is neither applied nor answered.
    LosesRequest(u64),
}

/// The engine as the node sees it.
pub(crate) struct Faulty {
    engine: Arc<dyn MetaEngine>,
    fault: Fault,
    commits: AtomicU64,
    was_met: AtomicBool,
}

impl Faulty {
    pub(crate) fn new(engine: Arc<dyn MetaEngine>, fault: Fault) -> Arc<Self> {
        let (commits, was_met) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Self { engine, fault, commits, was_met })
    }

    /// Whether the fault happened.
    pub(crate) fn was_met(&self) -> bool {
        self.was_met.load(SeqCst)
    }

    fn lost(&self) -> Error {
        self.was_met.store(true, SeqCst);
        Error::Engine("no answer".into())
    }

    fn check(&self) -> Result<()> {
        match self.fault {
            Fault::DiesAfter(n) if self.commits.load(SeqCst) >= n && self.was_met() => {
                Err(self.lost())
            }
            _ => Ok(()),
        }
    }
}

impl MetaEngine for Faulty {
    fn partitions(&self) -> u16 {
        self.engine.partitions()
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.check()?;
        self.engine.get(partition, key)
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.check()?;
        self.engine.get_follow(partition, key, follow)
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        self.check()?;
        self.engine.scan(partition, prefix, after, limit)
    }

    fn commit(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        let number = self.commits.fetch_add(1, SeqCst);
        match self.fault {
            Fault::DiesAfter(n) if number >= n => return Err(self.lost()),
            Fault::LosesRequest(n) if number == n => return Err(self.lost()),
            _ => {}
        }
        let outcome = self.engine.commit(partition, op, conditions, mutations);
        match self.fault {
            Fault::LosesAnswer(n) if number == n => Err(self.lost()),
            _ => outcome,
        }
    }

    fn sync(&self) -> Result<()> {
        self.check()
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}
