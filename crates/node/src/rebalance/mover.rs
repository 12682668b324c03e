//! Moving files from host to host: away from one that is to leave, or from full hosts to empty ones.
//!
//! Whoever is asked to do it looks for the files and tells each new home to fetch its file; that host takes the
//! lease and the bytes as if it were about to write, so a file that somebody has open stays where it is.
//! Nothing is recorded but where the files are: what is interrupted is simply begun again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use intarsia_meta::{Inode, MemberRecord, MemberState};
use intarsia_policy::{HostRoom, Transfer, choose_host, plan_balance};
use intarsia_types::{Error, InodeId, Layout, NodeId, Result};
use intarsia_wire::{Request, Response};
use parking_lot::Mutex;
use serde::Serialize;

use crate::body::remote::unexpected;
use crate::inode::lease::{Attempt, Content};
use crate::membership::cluster::Cluster;
use crate::node::Node;

/// Files on their way at the same time.
const AT_ONCE: usize = 4;
/// A longer file is copied beside the answer to whoever asked for it, which would come too late.
const LONG_BYTES: u64 = 8 << 20;
/// Long files on their way to one host at the same time.
const LONG_AT_ONCE: usize = 2;
/// When to ask again for a long file.
const LONG_PAUSE: Duration = Duration::from_millis(50);
/// Files named that could not be moved; all are counted.
const NAMED_MAX: usize = 1000;
/// Deviation from the even share that balancing leaves alone, in percent of a host's capacity.
const TOLERANCE_PERCENT: u8 = 5;
/// How long further copies may take until the next of them is made, and how often that is looked at.
const COPY_PATIENCE: Duration = Duration::from_secs(10);
const COPY_PAUSE: Duration = Duration::from_millis(500);
const STRIPED: &str = "a part of the striped file is there, and parts do not move; copy it to a new file, and remove it";
const TOO_FEW_HOSTS: &str = "a copy of it is there, and could not be made elsewhere";
/// Between two words about the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// What became of a request to fetch a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// It is here.
    Here,
    /// Somebody has it open.
    InUse,
    /// It is on its way; ask again after this time.
    Later(Duration),
}

enum Fetch {
    Running,
    Over(Result<Fetched>),
}

/// Long files that this host fetches.
#[derive(Default)]
pub(crate) struct Fetches(Mutex<HashMap<InodeId, Fetch>>);

/// How files are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveOptions {
    /// Bytes to move in a second at most, on average; none for no bound.
    pub bytes_per_s: Option<u64>,
}

/// How far a move is.
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

/// What a move came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MoveReport {
    /// Files that have moved.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that could not.
    pub stuck: u64,
    /// The first of those by name.
    pub stuck_files: Vec<StuckFile>,
}

/// A file that is to move, and where to.
struct Errand {
    ino: InodeId,
    bytes: u64,
    to: NodeId,
}

/// Keeps an average rate.
struct Pacer {
    bytes_per_s: Option<u64>,
    free_from: Mutex<Instant>,
}

impl Pacer {
    fn new(options: MoveOptions) -> Self {
        Self { bytes_per_s: options.bytes_per_s, free_from: Mutex::new(Instant::now()) }
    }

    /// Returns when `bytes` more may have moved.
    fn spend(&self, bytes: u64) {
        let Some(bytes_per_s) = self.bytes_per_s else { return };
        let micros = u128::from(bytes) * 1_000_000 / u128::from(bytes_per_s.max(1));
        let cost = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        let mut free_from = self.free_from.lock();
        *free_from = (*free_from).max(Instant::now()) + cost;
        let until = *free_from;
        drop(free_from);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

impl Node {
    /// Moves all files of `host` to the other hosts, and has it leave the store when it is taken down after
    /// that. What could not move is in the report; asking again goes on. A host that is lost is forgotten at
    /// once, if there is no file that only it had.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when the others have no room, [`Error::Busy`] for a host that is down, or lost with
    /// files; the engine's own.
    pub fn empty_host(
        self: &Arc<Self>,
        host: &NodeId,
        options: MoveOptions,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        let cluster = self.others()?;
        cluster.meet()?;
        let members = cluster.members();
        let Some((_, member)) = members.iter().find(|(node, _)| node == host) else {
            return Err(Error::Invalid(format!("no host of this store has the name {host}")));
        };
        match member.state {
            MemberState::Lost => return self.forget_host(cluster, host, progress),
            MemberState::Stopped | MemberState::Joining => {
                return Err(Error::Busy(format!(
                    "{host} is {}; only a host that is up can hand over its files",
                    member.state.name()
                )));
            }
            MemberState::Serving | MemberState::Leaving => {}
        }
        require_room(&members, host)?;
        cluster.order(host, true)?;
        self.drain(cluster, host, options, progress)
    }

    /// Takes back that a host is to leave.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown host, else the engine's own.
    pub fn keep_host(&self, host: &NodeId) -> Result<()> {
        self.others()?.order(host, false).map(|_| ())
    }

    fn others(&self) -> Result<&Arc<Cluster>> {
        self.cluster.as_ref().ok_or(Error::NotSupported("a store of one host has no other hosts"))
    }

    fn forget_host(
        &self,
        cluster: &Arc<Cluster>,
        host: &NodeId,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        self.make_up_for(cluster, host, progress)?;
        let mut files = 0_u64;
        self.each_file_at(cluster, host, |_| files += 1)?;
        self.each_striped_at(cluster, host, |_| files += 1)?;
        if files > 0 {
            return Err(Error::Busy(format!(
                "{host} is lost and {files} files were there; if it will not come back, 'intarsia lost --forget' removes those that no other host has"
            )));
        }
        for ino in self.namespace.orphans_of(host)? {
            self.reap(ino, crate::inode::live::Forgotten::default());
        }
        cluster.forget(host)?;
        Ok(MoveReport::default())
    }

    /// Has the copies that a lost host had made anew, where another host has one, and waits until that is done or does
    /// not go on.
    fn make_up_for(
        &self,
        cluster: &Arc<Cluster>,
        host: &NodeId,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<()> {
        let (mut most, mut changed) = (0, (usize::MAX, Instant::now()));
        loop {
            let mut by_host: BTreeMap<NodeId, Vec<(InodeId, u64)>> = BTreeMap::new();
            let mut outcome = Ok(());
            self.namespace.each_inode(|inode| match self.second_copy(cluster, &inode, host) {
                Ok(Some(other)) => {
                    by_host.entry(other).or_default().push((inode.ino, bytes_of(&inode)));
                }
                Ok(None) => {}
                Err(error) => outcome = Err(error),
            })?;
            outcome?;
            let left: usize = by_host.values().map(Vec::len).sum();
            if left < changed.0 {
                changed = (left, Instant::now());
            }
            if left == 0 || changed.1.elapsed() > COPY_PATIENCE {
                return Ok(());
            }
            most = most.max(left);
            let bytes_left = by_host.values().flatten().map(|(_, bytes)| bytes).sum();
            progress(MoveProgress {
                files_done: (most - left) as u64,
                files_left: left as u64,
                bytes_left,
                ..MoveProgress::default()
            });
            for (other, files) in by_host {
                self.tell_lacking(cluster, &other, files);
            }
            std::thread::sleep(COPY_PAUSE);
        }
    }

    /// A host that lives and has a file of which a copy is at the lost host `host`.
    fn second_copy(
        &self,
        cluster: &Cluster,
        inode: &Inode,
        host: &NodeId,
    ) -> Result<Option<NodeId>> {
        let copies = inode.layout.copies();
        if copies.len() < 2 {
            return Ok(None);
        }
        let homes = copies.iter().map(|copy| cluster.home_of(copy.tier));
        let homes: Vec<NodeId> = homes.collect::<Result<_>>()?;
        let other = homes.iter().find(|home| !cluster.has_given_up(home));
        Ok(other.filter(|_| homes.contains(host)).cloned())
    }

    /// Moves files until none is left, or none moves any more.
    fn drain(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        host: &NodeId,
        options: MoveOptions,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        let mut total = MoveReport::default();
        loop {
            let mut files = Vec::new();
            self.each_file_at(cluster, host, |inode| files.push((inode.ino, bytes_of(inode))))?;
            let (errands, homeless) = assign(files, rooms(&cluster.members(), Some(host)));
            let pass = self.run_errands(cluster, errands, options, &total, progress);
            let moved = pass.files;
            let stuck: Vec<_> = pass.stuck.into_iter().chain(homeless).collect();
            total.files += pass.files;
            total.bytes += pass.bytes;
            // Another look after some have moved: more may have come, and what was open may be closed.
            if moved == 0 {
                let copies = self.replace_copies(cluster, host)?;
                let short = copies.into_iter().map(|ino| (ino, TOO_FEW_HOSTS.to_owned()));
                let mut stuck: Vec<_> = stuck.into_iter().chain(short).collect();
                self.each_striped_at(cluster, host, |inode| {
                    stuck.push((inode.ino, STRIPED.to_owned()));
                })?;
                total.stuck = stuck.len() as u64;
                total.stuck_files = self.name_stuck(stuck)?;
                return Ok(total);
            }
        }
    }

    /// Has the further copies at `host` made elsewhere; returns the files for which that did not come about.
    fn replace_copies(&self, cluster: &Arc<Cluster>, host: &NodeId) -> Result<Vec<InodeId>> {
        let mut changed = (usize::MAX, Instant::now());
        loop {
            let mut by_home: BTreeMap<NodeId, Vec<(InodeId, u64)>> = BTreeMap::new();
            self.each_copy_at(cluster, host, |inode, home| {
                by_home.entry(home).or_default().push((inode.ino, bytes_of(inode)));
            })?;
            let left: usize = by_home.values().map(Vec::len).sum();
            if left < changed.0 {
                changed = (left, Instant::now());
            }
            if left == 0 || changed.1.elapsed() > COPY_PATIENCE {
                return Ok(by_home.into_values().flatten().map(|(ino, _)| ino).collect());
            }
            for (home, files) in by_home {
                self.tell_lacking(cluster, &home, files);
            }
            std::thread::sleep(COPY_PAUSE);
        }
    }

    /// Calls `each` with every file that has a further copy at `host`, and its home.
    fn each_copy_at(
        &self,
        cluster: &Cluster,
        host: &NodeId,
        mut each: impl FnMut(&Inode, NodeId),
    ) -> Result<()> {
        let mut outcome = Ok(());
        self.namespace.each_inode(|inode| {
            let copies = inode.layout.copies();
            if copies.len() < 2 {
                return;
            }
            let homes: Result<Vec<_>> =
                copies.iter().map(|copy| cluster.home_of(copy.tier)).collect();
            match homes.as_deref() {
                Ok([first, others @ ..]) if first != host && others.contains(host) => {
                    each(&inode, first.clone());
                }
                Ok(_) => {}
                Err(_) => outcome = homes.map(|_| ()),
            }
        })?;
        outcome
    }

    /// Calls `each` with every file whose home is `host`.
    fn each_file_at(
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

    /// Calls `each` with every striped file that has a part at `host`.
    fn each_striped_at(
        &self,
        cluster: &Cluster,
        host: &NodeId,
        mut each: impl FnMut(&Inode),
    ) -> Result<()> {
        let mut outcome = Ok(());
        self.namespace.each_inode(|inode| {
            let Layout::Striped { parts, .. } = &inode.layout else { return };
            let homes: Result<Vec<_>> =
                parts.iter().map(|part| cluster.home_of(part.tier)).collect();
            match homes {
                Ok(homes) if homes.contains(host) => each(&inode),
                Ok(_) => {}
                Err(error) => outcome = Err(error),
            }
        })?;
        outcome
    }

    /// What would have to move so that all hosts are used to the same part.
    ///
    /// # Errors
    /// [`Error::NotSupported`] in a store of one host.
    pub fn plan_balance(&self) -> Result<Vec<Transfer>> {
        let cluster = self.others()?;
        cluster.meet()?;
        Ok(plan_balance(&rooms(&cluster.members(), None), TOLERANCE_PERCENT))
    }

    /// Moves files from hosts that are used more to hosts that are used less.
    ///
    /// # Errors
    /// The engine's own; what could not move is in the report.
    pub fn balance(
        self: &Arc<Self>,
        options: MoveOptions,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        let plan = self.plan_balance()?;
        let cluster = self.others()?;
        let mut files: BTreeMap<NodeId, Vec<(InodeId, u64)>> = BTreeMap::new();
        for from in plan.iter().map(|transfer| &transfer.from) {
            if !files.contains_key(from) {
                let mut here = Vec::new();
                self.each_file_at(cluster, from, |inode| here.push((inode.ino, bytes_of(inode))))?;
                // Few large ones move faster than many small ones.
                here.sort_by_key(|(ino, bytes)| (std::cmp::Reverse(*bytes), *ino));
                files.insert(from.clone(), here);
            }
        }
        let mut errands = Vec::new();
        for transfer in &plan {
            let mut left = transfer.bytes;
            let here = files.get_mut(&transfer.from).map(std::mem::take).unwrap_or_default();
            let (go, stay): (Vec<_>, Vec<_>) = here.into_iter().partition(|(_, bytes)| {
                let goes = *bytes > 0 && *bytes <= left;
                left -= if goes { *bytes } else { 0 };
                goes
            });
            files.insert(transfer.from.clone(), stay);
            let to = &transfer.to;
            errands.extend(go.into_iter().map(|(ino, bytes)| Errand {
                ino,
                bytes,
                to: to.clone(),
            }));
        }
        let pass = self.run_errands(cluster, errands, options, &MoveReport::default(), progress);
        Ok(MoveReport {
            files: pass.files,
            bytes: pass.bytes,
            stuck: pass.stuck.len() as u64,
            stuck_files: self.name_stuck(pass.stuck)?,
        })
    }

    fn run_errands(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
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
        std::thread::scope(|scope| {
            let work = || {
                while let Some(errand) = { queue.lock().pop_front() } {
                    let outcome = self.run_errand(cluster, &errand);
                    let has_moved = pass.lock().note(&errand, outcome);
                    pacer.spend(if has_moved { errand.bytes } else { 0 });
                }
            };
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                progress(pass.lock().progress(before));
                std::thread::park_timeout(PROGRESS_INTERVAL);
            }
        });
        let pass = pass.into_inner();
        progress(pass.progress(before));
        pass
    }

    /// Has one file fetched by its new home, and waits for that.
    fn run_errand(self: &Arc<Self>, cluster: &Arc<Cluster>, errand: &Errand) -> Result<Fetched> {
        loop {
            let fetched = if errand.to == self.options.name {
                self.fetch(errand.ino)?
            } else {
                match cluster.call(&errand.to, &Request::Fetch { ino: errand.ino }, None)? {
                    Response::Released => Fetched::Here,
                    Response::Busy { retry_ms: 0 } => Fetched::InUse,
                    Response::Busy { retry_ms } => {
                        Fetched::Later(Duration::from_millis(u64::from(retry_ms)))
                    }
                    other => return Err(unexpected(&errand.to, &other)),
                }
            };
            match fetched {
                Fetched::Later(pause) => std::thread::sleep(pause),
                settled => return Ok(settled),
            }
        }
    }

    fn name_stuck(&self, stuck: Vec<(InodeId, String)>) -> Result<Vec<StuckFile>> {
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
            match self.path_of(&naming) {
                Ok(path) => files.push(StuckFile { path, why }),
                Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }
}

/// What became of a round of errands.
#[derive(Default)]
struct Pass {
    files: u64,
    bytes: u64,
    files_left: u64,
    bytes_left: u64,
    stuck: Vec<(InodeId, String)>,
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
                return true;
            }
            // Removed meanwhile.
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

impl Node {
    /// Becomes the home of a file; of a long one in the background.
    pub(crate) fn fetch(self: &Arc<Self>, ino: InodeId) -> Result<Fetched> {
        let cluster = self.others()?;
        let mut fetches = cluster.fetches.0.lock();
        match fetches.remove(&ino) {
            Some(Fetch::Over(outcome)) => return outcome,
            Some(running) => {
                fetches.insert(ino, running);
                return Ok(Fetched::Later(LONG_PAUSE));
            }
            None => {}
        }
        let inode = self.namespace.get(ino)?;
        if inode.size_bytes <= LONG_BYTES {
            drop(fetches);
            return self.bring_here(ino);
        }
        let running = fetches.values().filter(|fetch| matches!(fetch, Fetch::Running)).count();
        if running < LONG_AT_ONCE {
            let node = Arc::clone(self);
            let fetch = move || {
                let outcome = node.bring_here(ino);
                if let Some(cluster) = &node.cluster {
                    cluster.fetches.0.lock().insert(ino, Fetch::Over(outcome));
                }
            };
            std::thread::Builder::new()
                .name("fetch".into())
                .spawn(fetch)
                .map_err(|e| Error::io("start a thread that fetches a file", e))?;
            fetches.insert(ino, Fetch::Running);
        }
        Ok(Fetched::Later(LONG_PAUSE))
    }

    /// Takes the lease and the bytes of a file that nobody has open.
    fn bring_here(&self, ino: InodeId) -> Result<Fetched> {
        self.await_membership()?;
        let inode = self.namespace.get(ino)?;
        if self.own_copy(&inode).is_none() && !self.tiers.have_room() {
            return Err(Error::NoSpace(format!("the tiers of {} are full", self.options.name)));
        }
        self.with_live(ino, |state| {
            if state.is_open() {
                return Ok(Attempt::Done(Fetched::InUse));
            }
            match self.prepare(ino, state, Some(Content::Kept))? {
                Attempt::Again(retry) => return Ok(Attempt::Again(retry)),
                Attempt::Done(_) => {}
            }
            if state.writes_remotely() {
                // It is open at its home.
                state.body = None;
                return Ok(Attempt::Done(Fetched::InUse));
            }
            self.enqueue_settle(ino, state);
            Ok(Attempt::Done(Fetched::Here))
        })
    }

    /// Whether some file has its bytes in a tier of this host.
    pub(crate) fn holds_files(&self) -> Result<bool> {
        let mut holds = false;
        self.namespace.each_inode(|inode| {
            holds |= inode.layout.files().iter().any(|copy| self.tiers.has(copy.tier));
        })?;
        Ok(holds)
    }
}

/// What a file takes, as far as its record knows.
fn bytes_of(inode: &Inode) -> u64 {
    inode.size_bytes
}

/// The hosts that take files, without `except`.
fn rooms(members: &[(NodeId, MemberRecord)], except: Option<&NodeId>) -> Vec<HostRoom> {
    members
        .iter()
        .filter(|(node, member)| member.state == MemberState::Serving && Some(node) != except)
        .map(|(node, member)| room(node, member))
        .collect()
}

fn room(node: &NodeId, member: &MemberRecord) -> HostRoom {
    let open = member.tiers.iter().filter(|tier| !tier.is_low);
    HostRoom {
        node: node.clone(),
        capacity_bytes: member.tiers.iter().map(|tier| tier.capacity_bytes).sum(),
        free_bytes: open.map(|tier| tier.free_bytes).sum(),
    }
}

fn require_room(members: &[(NodeId, MemberRecord)], host: &NodeId) -> Result<()> {
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

/// Gives each file a new home; those that fit nowhere are returned with the reason.
fn assign(
    files: Vec<(InodeId, u64)>,
    mut rooms: Vec<HostRoom>,
) -> (Vec<Errand>, Vec<(InodeId, String)>) {
    let mut errands = Vec::new();
    let mut homeless = Vec::new();
    for (ino, bytes) in files {
        let Some(to) = choose_host(&rooms, bytes).cloned() else {
            homeless.push((ino, "no other host has room for it".into()));
            continue;
        };
        if let Some(room) = rooms.iter_mut().find(|room| room.node == to) {
            room.free_bytes -= bytes;
        }
        errands.push(Errand { ino, bytes, to });
    }
    (errands, homeless)
}
