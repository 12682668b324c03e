//! The servers of metadata: they take time, fail over, lose what nobody was told yet, and are cut off from hosts.

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

use crate::drawing::Draws;
use crate::server::{Fate, Server};

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
    /// By partition.
    servers: Vec<Server>,
    /// Hosts that reach no server.
    cut: BTreeSet<NodeId>,
    /// Hosts that reach one server no more, until then.
    severed: BTreeMap<(NodeId, u16), Instant>,
    /// Hosts that reach the server of a commit no more once it was made, so many commits from now, for how long.
    lost_after: BTreeMap<NodeId, (u64, Duration)>,
    losses: Losses,
}

/// What fail-overs took back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) commits: u64,
    /// When somebody had been shown what one of these changed.
    pub(crate) dirty_reads: Vec<Instant>,
}

impl Metadata {
    pub(crate) fn new(partitions: u16) -> Arc<Self> {
        let servers = (0..partitions).map(|_| Server::default()).collect();
        let state = Mutex::new(State { servers, ..State::default() });
        Arc::new(Self { engine: MemoryEngine::new(partitions), state })
    }

    pub(crate) fn partitions(&self) -> u16 {
        self.engine.partitions()
    }

    /// A server loses its replica for so long, then goes; the replica answers after so long. It may lack what nobody was told yet.
    pub(crate) fn fail_over(
        &self,
        partition: u16,
        (apart, after): (Duration, Duration),
        draws: &mut Draws,
    ) -> Result<()> {
        let partition = PartitionId(partition);
        self.with_server(partition, |server| server.part(Instant::now()));
        thread::sleep(apart);
        self.engine.take_back(partition, || {
            let now = Instant::now();
            let keep =
                |doubtful: usize| usize::try_from(draws.below(doubtful as u64 + 1)).unwrap_or(0);
            let lost = self.with_server(partition, |s| s.fail_over(now, now + after, keep));
            let lost = lost.unwrap_or_default();
            let (commits, dirty_reads) = (lost.undos.len() as u64, lost.shown.len());
            tracing::info!(
                partition = partition.0,
                commits,
                dirty_reads,
                "a replica takes over; so much it never heard of"
            );
            let losses = &mut self.state.lock().losses;
            losses.commits += commits;
            losses.dirty_reads.extend(lost.shown);
            lost.undos
        })
    }

    /// What fail-overs took back.
    pub(crate) fn losses(&self) -> Losses {
        self.state.lock().losses.clone()
    }

    /// Makes a commit at the primary, where all see it; its number, if it was applied.
    fn make(
        &self,
        partition: PartitionId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<(CommitOutcome, Option<u64>)> {
        let (outcome, undo) = self.engine.commit_with_undo(partition, conditions, mutations)?;
        if let CommitOutcome::Conflict { index } = outcome {
            let of = conditions.get(index);
            self.show(partition, |key| of.is_some_and(|condition| speaks_of(condition, key)));
            return Ok((outcome, None));
        }
        // Nobody has had a turn since.
        let note = |server: &mut Server| server.note(Instant::now(), undo);
        Ok((outcome, self.with_server(partition, note)))
    }

    /// Somebody is shown keys of which `is` holds.
    fn show(&self, partition: PartitionId, is: impl Fn(&[u8]) -> bool) {
        self.with_server(partition, |server| server.show(Instant::now(), is));
    }

    fn with_server<T>(
        &self,
        partition: PartitionId,
        work: impl FnOnce(&mut Server) -> T,
    ) -> Option<T> {
        self.state.lock().servers.get_mut(usize::from(partition.0)).map(work)
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
        state.servers.iter_mut().for_each(Server::mend);
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
        let server = state.servers.get(usize::from(partition.0));
        let is_severed = |host: &NodeId| {
            let until = state.severed.get(&(host.clone(), partition.0));
            until.is_some_and(|until| Instant::now() < *until)
        };
        host.is_none_or(|host| !state.cut.contains(host) && !is_severed(host))
            && server.is_none_or(|server| server.answers(Instant::now()))
    }
}

fn speaks_of(condition: &Condition, key: &[u8]) -> bool {
    match condition {
        Condition::Absent(of)
        | Condition::Present(of)
        | Condition::Unheld(of)
        | Condition::Equals(of, _)
        | Condition::AbsentOr(of, _) => **of == *key,
        Condition::PrefixEmpty(prefix) => key.starts_with(prefix),
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

    /// Waits until the replica has a commit; `false` if it was taken back.
    fn await_replica(
        &self,
        partition: PartitionId,
        number: u64,
        deadline: Instant,
    ) -> Result<bool> {
        Self::travel();
        loop {
            let fate =
                self.metadata.with_server(partition, |server| server.fate(Instant::now(), number));
            match fate {
                Some(Fate::TakenBack) => return Ok(false),
                Some(Fate::Open) if Instant::now() + PAUSE < deadline => thread::sleep(PAUSE),
                Some(Fate::Open) => {
                    let what = format!(
                        "partition {}: given up: its replica does not acknowledge",
                        partition.0
                    );
                    return Err(Error::Engine(what));
                }
                Some(Fate::Replicated) | None => return Ok(true),
            }
        }
    }

    /// Asks, and waits for the answer on its way back, which shows keys of which `shows` holds.
    fn ask<T>(
        &self,
        partition: PartitionId,
        question: impl Fn(&MemoryEngine) -> Result<T>,
        shows: impl Fn(&T, &[u8]) -> bool,
    ) -> Result<T> {
        let deadline = Self::deadline();
        loop {
            self.reach(partition, deadline)?;
            let answer = question(&self.metadata.engine);
            if let Ok(answer) = &answer {
                self.metadata.show(partition, |key| shows(answer, key));
            }
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
        self.ask(partition, |engine| engine.get(partition, key), |_, shown| shown == key)
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        let shows = |answer: &Option<(Value, _)>, shown: &[u8]| {
            let named = answer.as_ref().and_then(|(first, _)| follow(first));
            shown == key || named.is_some_and(|named| *shown == *named)
        };
        self.ask(partition, |engine| engine.get_follow(partition, key, follow), shows)
    }

    fn get_many(&self, partition: PartitionId, keys: &[Key]) -> Result<Vec<Option<Value>>> {
        let shows = |_: &_, shown: &[u8]| keys.iter().any(|key| *shown == **key);
        self.ask(partition, |engine| engine.get_many(partition, keys), shows)
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        let shows = |_: &_, shown: &[u8]| shown.starts_with(prefix);
        self.ask(partition, |engine| engine.scan(partition, prefix, after, limit), shows)
    }

    /// When the answer is lost the commit may have been applied or not. One that a fail-over took back is made again.
    fn commit(
        &self,
        partition: PartitionId,
        _op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        let deadline = Self::deadline();
        loop {
            self.reach(partition, deadline)?;
            let (outcome, number) = self.metadata.make(partition, conditions, mutations.clone())?;
            if let Some(host) = &self.host {
                self.metadata.note_commit(host, partition);
            }
            let stays = match number {
                Some(number) => self.await_replica(partition, number, deadline)?,
                // Nobody waits for what a refusal is due to.
                None => true,
            };
            if stays {
                Self::travel();
                self.reach(partition, deadline)?;
                return Ok(outcome);
            }
        }
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> EngineStats {
        self.metadata.engine.stats()
    }
}
