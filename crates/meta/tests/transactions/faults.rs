//! An engine that fails one node at a chosen commit, and one that loses what its replicas do not have.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use intarsia_meta::engines::{MemoryEngine, Undo};
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

/// Servers whose replicas have all that was answered, but not the last commit of a node that died before it was.
pub(crate) struct Primaries {
    engine: Arc<MemoryEngine>,
    doubtful: Mutex<Option<(PartitionId, Undo)>>,
    /// The node that dies is still at work.
    is_first: AtomicBool,
}

impl Primaries {
    pub(crate) fn new(engine: Arc<MemoryEngine>) -> Arc<Self> {
        Arc::new(Self { engine, doubtful: Mutex::default(), is_first: AtomicBool::new(true) })
    }

    /// The first node is dead.
    pub(crate) fn bury(&self) {
        self.is_first.store(false, SeqCst);
    }

    /// The replicas take over; whether they lack something.
    pub(crate) fn fail_over(&self) -> bool {
        let Some((partition, undo)) = self.doubtful.lock().unwrap().take() else { return false };
        self.engine.take_back(partition, || vec![undo]).unwrap();
        true
    }
}

impl MetaEngine for Primaries {
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

    /// Who is answered knows that the replicas have all that was committed there before.
    fn commit(
        &self,
        partition: PartitionId,
        _: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        let (outcome, undo) = self.engine.commit_with_undo(partition, conditions, mutations)?;
        let mut doubtful = self.doubtful.lock().unwrap();
        if outcome == CommitOutcome::Applied {
            if self.is_first.load(SeqCst) {
                *doubtful = Some((partition, undo));
            } else {
                doubtful.take_if(|(at, _)| *at == partition);
            }
        }
        drop(doubtful);
        Ok(outcome)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}
