//! The servers of metadata: they take time, fail over, and are cut off from hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{
    CommitOutcome, Condition, EngineStats, Inode, Key, MetaEngine, Mutation, Namespace, OpId,
    RootSpec, TierRecord, Value, allowance,
};
use intarsia_sync::{Instant, simulation, thread};
use intarsia_types::{Error, InodeId, NodeId, PartitionId, Result, TierId, Timestamp};
use parking_lot::Mutex;

/// How long an answer is waited for; as the engine over Redis does by default.
const PATIENCE: Duration = Duration::from_secs(8);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// All servers of metadata together.
pub(crate) struct Metadata {
    engine: MemoryEngine,
    // Of the system: whoever holds it gives no turn away, also when its machine dies.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By partition: no answers before.
    down_until: Vec<Option<Instant>>,
    /// Hosts that reach no server.
    cut: BTreeSet<NodeId>,
    /// Hosts that reach one server no more, until then.
    severed: BTreeMap<(NodeId, u16), Instant>,
    /// Hosts that reach the server of a commit no more once it was made, so many commits from now, for how long.
    lost_after: BTreeMap<NodeId, (u64, Duration)>,
}

impl Metadata {
    pub(crate) fn new(partitions: u16) -> Arc<Self> {
        let down_until = vec![None; usize::from(partitions)];
        let state = Mutex::new(State { down_until, ..State::default() });
        Arc::new(Self { engine: MemoryEngine::new(partitions), state })
    }

    pub(crate) fn partitions(&self) -> u16 {
        self.engine.partitions()
    }

    /// A server goes, and its replica answers after so long.
    pub(crate) fn fail_over(&self, partition: u16, after: Duration) {
        let until = Instant::now() + after;
        if let Some(down) = self.state.lock().down_until.get_mut(usize::from(partition)) {
            *down = Some(until);
        }
    }

    pub(crate) fn cut(&self, host: &NodeId, is_cut: bool) {
        let mut state = self.state.lock();
        if is_cut {
            state.cut.insert(host.clone());
        } else {
            state.cut.remove(host);
        }
    }

    /// After so many more commits of a host the server of the last one is cut off from it: its answer is lost.
    pub(crate) fn lose_answer(&self, host: &NodeId, after_commits: u64, duration: Duration) {
        self.state.lock().lost_after.insert(host.clone(), (after_commits, duration));
    }

    fn note_commit(&self, host: &NodeId, partition: PartitionId) {
        let mut state = self.state.lock();
        match state.lost_after.get_mut(host) {
            None => {}
            Some((0, duration)) => {
                let until = Instant::now() + *duration;
                state.lost_after.remove(host);
                state.severed.insert((host.clone(), partition.0), until);
            }
            Some((left, _)) => *left -= 1,
        }
    }

    pub(crate) fn mend(&self) {
        let mut state = self.state.lock();
        state.cut.clear();
        state.severed.clear();
        state.lost_after.clear();
        state.down_until.fill(None);
    }

    /// Files of which fewer copies than so many are known, with their records. Empty ones, as a call leaves whose answer was
    /// lost, may lack them until all files are looked through: nothing of them can be lost. Copies on disks that are lost do
    /// not count, and of what has no others nobody can make any.
    pub(crate) fn lacking(
        self: &Arc<Self>,
        replicas: u16,
    ) -> std::result::Result<BTreeMap<InodeId, Inode>, String> {
        let mut lacking = BTreeMap::new();
        let namespace = self.namespace()?;
        let tiers = namespace.tiers().map_err(|e| e.to_string())?;
        let is_gone = |tier: &TierRecord| tier.host.contains(".former");
        let gone: BTreeSet<TierId> =
            tiers.into_iter().filter(|(_, tier)| is_gone(tier)).map(|(id, _)| id).collect();
        let looked = namespace.each_inode(|inode| {
            let copies = inode.layout.copies().iter();
            let there = copies.filter(|copy| !gone.contains(&copy.tier)).count();
            if there > 0 && inode.size_bytes > 0 && there < usize::from(replicas) {
                lacking.insert(inode.ino, inode);
            }
        });
        looked.map_err(|e| e.to_string())?;
        Ok(lacking)
    }

    /// Files that a host has the right to write, at most a hundred.
    pub(crate) fn writable_by(
        self: &Arc<Self>,
        host: &NodeId,
    ) -> std::result::Result<Vec<InodeId>, String> {
        let found = self.namespace()?.writable_inodes(host, None, 100);
        Ok(found.map_err(|e| e.to_string())?.into_iter().map(|(ino, _)| ino).collect())
    }

    /// Whether some host has the right to write to a file.
    pub(crate) fn has_writer(self: &Arc<Self>, ino: InodeId) -> std::result::Result<bool, String> {
        let writer = self.namespace()?.writer(ino).map_err(|e| e.to_string())?;
        Ok(writer.is_some())
    }

    /// All of it, as somebody sees it who is never cut off.
    pub(crate) fn namespace(self: &Arc<Self>) -> std::result::Result<Namespace, String> {
        let engine: Arc<dyn MetaEngine> = Seat::new(self, None);
        let root = RootSpec { perm: 0o755, uid: 0, gid: 0 };
        Namespace::open(engine, root, Timestamp { secs: 1, nanos: 0 }).map_err(|e| e.to_string())
    }

    fn answers(&self, host: Option<&NodeId>, partition: PartitionId) -> bool {
        let state = self.state.lock();
        let down = state.down_until.get(usize::from(partition.0)).copied().flatten();
        let is_severed = |host: &NodeId| {
            let until = state.severed.get(&(host.clone(), partition.0));
            until.is_some_and(|until| Instant::now() < *until)
        };
        host.is_none_or(|host| !state.cut.contains(host) && !is_severed(host))
            && down.is_none_or(|until| Instant::now() >= until)
    }
}

/// The metadata as one host reaches it.
pub(crate) struct Seat {
    metadata: Arc<Metadata>,
    /// None for somebody outside who is never cut off.
    host: Option<NodeId>,
}

impl Seat {
    pub(crate) fn new(metadata: &Arc<Metadata>, host: Option<NodeId>) -> Arc<Self> {
        Arc::new(Self { metadata: Arc::clone(metadata), host })
    }

    /// Half of a round trip.
    fn travel() {
        thread::sleep(Duration::from_micros(20 + simulation::below(100)));
    }

    fn deadline() -> Instant {
        let start = Instant::now();
        allowance::at_least(start + allowance::of(PATIENCE))
    }

    /// Waits until the server answers.
    fn reach(&self, partition: PartitionId, deadline: Instant) -> Result<()> {
        Self::travel();
        while !self.metadata.answers(self.host.as_ref(), partition) {
            if Instant::now() + PAUSE >= deadline {
                let what = format!("partition {}: given up: no answer in time", partition.0);
                return Err(Error::Engine(what));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Asks, and waits for the answer on its way back.
    fn ask<T>(
        &self,
        partition: PartitionId,
        question: impl Fn(&MemoryEngine) -> Result<T>,
    ) -> Result<T> {
        let deadline = Self::deadline();
        loop {
            self.reach(partition, deadline)?;
            let answer = question(&self.metadata.engine);
            Self::travel();
            if self.metadata.answers(self.host.as_ref(), partition) {
                return answer;
            }
        }
    }
}

impl MetaEngine for Seat {
    fn partitions(&self) -> u16 {
        self.metadata.engine.partitions()
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.ask(partition, |engine| engine.get(partition, key))
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.ask(partition, |engine| engine.get_follow(partition, key, follow))
    }

    fn get_many(&self, partition: PartitionId, keys: &[Key]) -> Result<Vec<Option<Value>>> {
        self.ask(partition, |engine| engine.get_many(partition, keys))
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        self.ask(partition, |engine| engine.scan(partition, prefix, after, limit))
    }

    /// When the answer is lost the commit may have been applied or not; asked again, it says what came of it.
    fn commit(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        let deadline = Self::deadline();
        self.reach(partition, deadline)?;
        let outcome = self.metadata.engine.commit(partition, op, conditions, mutations)?;
        if let Some(host) = &self.host {
            self.metadata.note_commit(host, partition);
        }
        Self::travel();
        self.reach(partition, deadline)?;
        Ok(outcome)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> EngineStats {
        self.metadata.engine.stats()
    }
}
