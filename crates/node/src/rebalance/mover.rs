//! Moving files: away from a host that is to leave, from full hosts to empty ones, or between the tiers of this host.
//!
//! The host that was asked for the move chooses the files and asks each new home to fetch its file. The new home takes the lease
//! and the bytes as if it were about to write, so a file that a program has open stays where it is. The only thing recorded is
//! where each file is, so an interrupted move is simply started again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::{Inode, MemberRecord, MemberState, Namespace, Naming};
use intarsia_policy::{
    FileMove, HostRoom, HostState, Speeds, Transfer, check_speeds, choose_files, plan_balance,
};
use intarsia_sync::{Instant, Mutex};
use intarsia_types::{Error, InodeId, NodeId, Result, TierId};
use intarsia_wire::{Request, Response};
use serde::{Deserialize, Serialize};

use crate::inode::removal::Removal;
use crate::inode::{InodeParts, Inodes};
use crate::membership::cluster::{Cluster, unexpected};
use crate::replication::Replicas;
use crate::replication::copies::Copies;
use crate::space::placing::Placing;
use crate::space::tiers::Tiers;

use super::fetch::{Fetched, Fetches};
use super::tiers::TierChanges;

/// Files on their way at the same time.
const AT_ONCE: usize = 4;
/// How many of the files that could not be moved are named in a report; all are counted.
const NAMED_MAX: usize = 1000;
/// Deviation from the even share that balancing leaves alone, in percent of a place's capacity.
pub(super) const TOLERANCE_PERCENT: u8 = 5;
/// The time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// How files are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveOptions {
    /// How many bytes may be moved in a second, on average; none for no bound.
    pub bytes_per_s: Option<u64>,
}

/// How far a move has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MoveProgress {
    /// Files that have moved.
    pub files_done: u64,
    /// Their bytes.
    pub bytes_done: u64,
    /// Files that are still to move.
    pub files_left: u64,
    /// Their bytes.
    pub bytes_left: u64,
}

/// A file that stayed where it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StuckFile {
    /// Its path within the store.
    pub path: String,
    /// Why.
    pub why: String,
}

/// Where a file's bytes are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// At this host.
    Host(NodeId),
    /// In this tier of the host that moved it.
    Tier(TierId),
}

/// A file that has moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The file.
    pub ino: InodeId,
    /// The place that it was in.
    pub from: Place,
    /// The place that it is in now.
    pub to: Place,
}

/// The result of a move.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MoveReport {
    /// Files that have moved.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many files could not move.
    pub stuck: u64,
    /// Those files by their paths; not all of them if they are very many.
    pub stuck_files: Vec<StuckFile>,
    /// Each file that has moved, so that it can be moved back.
    pub moved: Vec<Moved>,
}

/// A file that is to move, with the place that it leaves and the one that it goes to.
pub(super) struct Errand {
    pub(super) ino: InodeId,
    pub(super) bytes: u64,
    pub(super) from: Place,
    pub(super) to: Place,
}

/// Keeps the average rate of a move within its bound.
struct Pacer {
    bytes_per_s: Option<u64>,
    /// From when on the rate allows further bytes.
    free_from: Mutex<Instant>,
}

impl Pacer {
    pub(super) fn new(options: MoveOptions) -> Self {
        Self { bytes_per_s: options.bytes_per_s, free_from: Mutex::new(Instant::now()) }
    }

    /// Counts `bytes` that have moved, and waits until the rate allows more.
    fn spend(&self, bytes: u64) {
        let Some(bytes_per_s) = self.bytes_per_s else { return };
        let micros = u128::from(bytes) * 1_000_000 / u128::from(bytes_per_s.max(1));
        let cost = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        let mut free_from = self.free_from.lock();
        *free_from = (*free_from).max(Instant::now()) + cost;
        let until = *free_from;
        drop(free_from);
        intarsia_sync::thread::sleep_until(until);
    }
}

pub(super) const NO_OTHERS: Error = Error::NotSupported("a store of one host has no other hosts");

/// Moves files.
pub(crate) struct Mover {
    /// The name of this host.
    me: NodeId,
    /// The other hosts, in a store of several.
    cluster: Option<Arc<Cluster>>,
    pub(super) namespace: Arc<Namespace>,
    pub(super) tiers: Arc<Tiers>,
    pub(super) copies: Arc<Copies>,
    pub(super) replicas: Arc<Replicas>,
    pub(super) removal: Arc<Removal>,
    /// Files that come here because another host asks this one to become their home.
    pub(crate) fetches: Arc<Fetches>,
    pub(crate) tier_changes: Arc<TierChanges>,
}

impl Mover {
    /// Built with the parts that live inodes are made of, and with what changes these.
    pub(crate) fn new(of: &InodeParts, inode: &Inodes) -> Self {
        Self {
            me: of.me.clone(),
            cluster: of.cluster.clone(),
            namespace: Arc::clone(&of.namespace),
            tiers: Arc::clone(&of.tiers),
            copies: Arc::clone(&of.copies),
            replicas: Arc::clone(&of.replicas),
            removal: Arc::clone(&of.removal),
            fetches: Arc::new(Fetches::new(of, inode)),
            tier_changes: Arc::new(TierChanges::new(of, inode)),
        }
    }

    pub(super) fn others(&self) -> Result<&Arc<Cluster>> {
        self.cluster.as_ref().ok_or(NO_OTHERS)
    }

    /// Calls `each` with every file whose home is `host`; striped files have none.
    pub(super) fn each_file_at(
        &self,
        cluster: &Cluster,
        host: &NodeId,
        mut each: impl FnMut(&Inode),
    ) -> Result<()> {
        let mut outcome = Ok(());
        self.namespace.each_inode(|inode| {
            let Some(backing) = inode.layout.backing() else { return };
            match cluster.home_of(backing.tier) {
                Ok(home) if home == *host => each(&inode),
                Ok(_) => {}
                Err(error) => outcome = Err(error),
            }
        })?;
        outcome
    }

    /// What would have to move so that all hosts are used to the same part of their capacity or, with `speeds`, in proportion to
    /// these.
    ///
    /// # Errors
    /// [`Error::NotSupported`] in a store of one host, [`Error::Invalid`] for speeds that are not those of its hosts.
    pub(crate) fn plan_balance(&self, speeds: &Speeds) -> Result<Vec<Transfer>> {
        let cluster = self.others()?;
        cluster.meet()?;
        let rooms = rooms(&cluster.members(), None);
        check_speeds(&rooms, speeds, "host")
            .map_err(|problem| Error::Invalid(problem.to_string()))?;
        Ok(plan_balance(&rooms, speeds, TOLERANCE_PERCENT))
    }

    /// Moves files from hosts that have more than their share to hosts that have less; see [`Self::plan_balance`].
    ///
    /// # Errors
    /// Those of the plan and the engine's own. Files that could not move are in the report and are no error.
    pub(crate) fn balance(
        &self,
        speeds: &Speeds,
        options: MoveOptions,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        let plan = self.plan_balance(speeds)?;
        let cluster = self.others()?;
        let mut files: BTreeMap<NodeId, Vec<(InodeId, u64)>> = BTreeMap::new();
        for from in plan.iter().map(|transfer| &transfer.from) {
            if !files.contains_key(from) {
                let mut here = Vec::new();
                self.each_file_at(cluster, from, |inode| here.push((inode.ino, bytes_of(inode))))?;
                files.insert(from.clone(), here);
            }
        }
        let errands = errands_of(&plan, files, |host| Place::Host(host.clone()));
        self.move_all(errands, options, progress)
    }

    /// Moves files back that have moved, if they are still in the place that they went to.
    ///
    /// # Errors
    /// The engine's own; what could not move is in the report.
    pub(crate) fn move_back(
        &self,
        moved: &[Moved],
        options: MoveOptions,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        let (mut errands, mut elsewhere) = (Vec::new(), Vec::new());
        for one in moved {
            let inode = match self.namespace.get(one.ino) {
                Err(Error::NotFound) => continue,
                found => found?,
            };
            if self.is_at(&inode, &one.to)? {
                let (from, to) = (one.to.clone(), one.from.clone());
                errands.push(Errand { ino: one.ino, bytes: bytes_of(&inode), from, to });
            } else if !self.is_at(&inode, &one.from)? {
                elsewhere.push((one.ino, "it has moved on since".to_owned()));
            }
        }
        let mut report = self.move_all(errands, options, progress)?;
        report.stuck += elsewhere.len() as u64;
        report.stuck_files.extend(self.name_stuck(elsewhere)?);
        Ok(report)
    }

    /// Whether a file has its bytes at a place.
    fn is_at(&self, inode: &Inode, place: &Place) -> Result<bool> {
        let Some(backing) = inode.layout.backing() else { return Ok(false) };
        match (place, &self.cluster) {
            (Place::Tier(tier), _) => Ok(backing.tier == *tier),
            (Place::Host(host), Some(cluster)) => Ok(cluster.home_of(backing.tier)? == *host),
            (Place::Host(_), None) => Ok(false),
        }
    }

    /// Runs errands and reports what came of them.
    pub(super) fn move_all(
        &self,
        errands: Vec<Errand>,
        options: MoveOptions,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        let pass = self.run_errands(errands, options, &MoveReport::default(), progress);
        Ok(MoveReport {
            files: pass.files,
            bytes: pass.bytes,
            stuck: pass.stuck.len() as u64,
            stuck_files: self.name_stuck(pass.stuck)?,
            moved: pass.moved,
        })
    }

    /// Runs errands, several at a time. Progress counts what was done `before`.
    pub(super) fn run_errands(
        &self,
        errands: Vec<Errand>,
        options: MoveOptions,
        before: &MoveReport,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Pass {
        let bytes_left = errands.iter().map(|errand| errand.bytes).sum();
        let pass =
            Mutex::new(Pass { files_left: errands.len() as u64, bytes_left, ..Pass::default() });
        let queue = Mutex::new(VecDeque::from(errands));
        let pacer = Pacer::new(options);
        intarsia_sync::thread::scope(|scope| {
            let work = || {
                while let Some(errand) = { queue.lock().pop_front() } {
                    let outcome = self.run_errand(&errand);
                    let has_moved = pass.lock().note(&errand, outcome);
                    pacer.spend(if has_moved { errand.bytes } else { 0 });
                }
            };
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            while !workers.iter().all(intarsia_sync::thread::ScopedJoinHandle::is_finished) {
                progress(pass.lock().progress(before));
                intarsia_sync::thread::park_timeout(PROGRESS_INTERVAL);
            }
        });
        let pass = pass.into_inner();
        progress(pass.progress(before));
        pass
    }

    /// Has one file fetched by its new home, or puts it into another tier of this host, and waits until that is done.
    fn run_errand(&self, errand: &Errand) -> Result<Fetched> {
        let host = match &errand.to {
            Place::Tier(tier) => return self.tier_changes.change_tier(errand.ino, *tier),
            Place::Host(host) => host,
        };
        loop {
            let fetched = if *host == self.me {
                self.fetches.fetch(errand.ino)?
            } else {
                match self.others()?.call(host, &Request::Fetch { ino: errand.ino }, None)? {
                    Response::Released => Fetched::Here,
                    Response::Busy { retry_ms: 0 } => Fetched::InUse,
                    Response::Busy { retry_ms } => {
                        Fetched::Later(Duration::from_millis(u64::from(retry_ms)))
                    }
                    other => return Err(unexpected(host, &other)),
                }
            };
            match fetched {
                Fetched::Later(pause) => intarsia_sync::thread::sleep(pause),
                settled => return Ok(settled),
            }
        }
    }

    /// Finds the paths of files that could not be moved, each given with the reason.
    pub(super) fn name_stuck(&self, stuck: Vec<(InodeId, String)>) -> Result<Vec<StuckFile>> {
        if stuck.is_empty() {
            return Ok(Vec::new());
        }
        let mut stuck: HashMap<_, _> = stuck.into_iter().collect();
        let mut named = Vec::new();
        self.namespace.each_name(|naming| {
            if named.len() < NAMED_MAX
                && let Some(why) = stuck.remove(&naming.ino)
            {
                named.push((naming, why));
            }
        })?;
        let mut files = Vec::new();
        for (naming, why) in named {
            match path_of(&self.namespace, &naming) {
                Ok(path) => files.push(StuckFile { path, why }),
                Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }
}

/// The path within the store of a name.
pub(crate) fn path_of(namespace: &Namespace, naming: &Naming) -> Result<String> {
    let parent = namespace.path_of(naming.parent)?;
    let parent = String::from_utf8_lossy(&parent).into_owned();
    let name = String::from_utf8_lossy(&naming.name).into_owned();
    Ok(if parent == "/" { format!("/{name}") } else { format!("{parent}/{name}") })
}

/// What has come of a round of errands so far.
#[derive(Default)]
pub(super) struct Pass {
    pub(super) files: u64,
    pub(super) bytes: u64,
    files_left: u64,
    bytes_left: u64,
    pub(super) stuck: Vec<(InodeId, String)>,
    pub(super) moved: Vec<Moved>,
}

impl Pass {
    /// Takes note of a finished errand; returns whether its file has moved.
    fn note(&mut self, errand: &Errand, outcome: Result<Fetched>) -> bool {
        self.files_left = self.files_left.saturating_sub(1);
        self.bytes_left = self.bytes_left.saturating_sub(errand.bytes);
        match outcome {
            Ok(Fetched::Here) => {
                self.files += 1;
                self.bytes += errand.bytes;
                let (from, to) = (errand.from.clone(), errand.to.clone());
                self.moved.push(Moved { ino: errand.ino, from, to });
                return true;
            }
            // The file was removed meanwhile.
            Err(Error::NotFound) => {}
            Ok(_) => self.stuck.push((errand.ino, "it is open".into())),
            Err(error) => self.stuck.push((errand.ino, error.to_string())),
        }
        false
    }

    const fn progress(&self, before: &MoveReport) -> MoveProgress {
        MoveProgress {
            files_done: before.files + self.files,
            bytes_done: before.bytes + self.bytes,
            files_left: self.files_left,
            bytes_left: self.bytes_left,
        }
    }
}

/// How many bytes a file counts for in a plan: its length, as its record says.
pub(super) fn bytes_of(inode: &Inode) -> u64 {
    inode.size_bytes
}

/// The errands of a plan; `files` are those of each place that gives some away.
pub(super) fn errands_of<P: Ord + Clone>(
    plan: &[Transfer<P>],
    files: BTreeMap<P, Vec<(InodeId, u64)>>,
    place: impl Fn(&P) -> Place,
) -> Vec<Errand> {
    let errand = |FileMove { file, bytes, from, to }| Errand {
        ino: file,
        bytes,
        from: place(&from),
        to: place(&to),
    };
    choose_files(plan, files).into_iter().map(errand).collect()
}

/// The room at the hosts that take files, without `except`.
pub(super) fn rooms(members: &[(NodeId, MemberRecord)], except: Option<&NodeId>) -> Vec<HostRoom> {
    members
        .iter()
        .filter(|(node, member)| member.state == MemberState::Serving && Some(node) != except)
        .map(|(node, member)| room(node, member))
        .collect()
}

pub(super) fn room(node: &NodeId, member: &MemberRecord) -> HostRoom {
    let open = member.tiers.iter().filter(|tier| !tier.is_low);
    HostRoom {
        place: node.clone(),
        capacity_bytes: member.tiers.iter().map(|tier| tier.capacity_bytes).sum(),
        free_bytes: open.map(|tier| tier.free_bytes).sum(),
    }
}

/// Fails with [`Error::NoSpace`] if the other hosts have no room for all that `host` holds.
pub(super) fn require_room(members: &[(NodeId, MemberRecord)], host: &NodeId) -> Result<()> {
    let used = members.iter().find(|(node, _)| node == host).map_or(0, |(_, member)| {
        let used = member.tiers.iter().map(|t| t.capacity_bytes.saturating_sub(t.free_bytes));
        used.sum::<u64>()
    });
    let room: u64 = rooms(members, Some(host)).iter().map(|host| host.free_bytes).sum();
    if used >= room {
        return Err(Error::NoSpace(format!(
            "{host} holds {used} bytes, and the hosts that would take them have room for {room}; remove files or add a host"
        )));
    }
    Ok(())
}

/// Chooses a new home for each file among `hosts`. Returns the errands, and the files that fit nowhere with the reason.
pub(super) fn assign(
    from: &NodeId,
    files: Vec<(InodeId, u64)>,
    mut hosts: Vec<HostState>,
) -> (Vec<Errand>, Vec<(InodeId, String)>) {
    let mut errands = Vec::new();
    let mut homeless = Vec::new();
    for (ino, bytes) in files {
        let Some(to) = Placing::home_away_from(from, bytes, &hosts) else {
            homeless.push((ino, "no other host has room for it".into()));
            continue;
        };
        if let Some(host) = hosts.iter_mut().find(|host| host.node == to) {
            host.free_bytes -= bytes;
        }
        let from = Place::Host(from.clone());
        errands.push(Errand { ino, bytes, from, to: Place::Host(to) });
    }
    (errands, homeless)
}
