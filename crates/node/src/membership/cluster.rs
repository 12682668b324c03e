//! The other hosts of a store: which of them live, which tiers are theirs, and how they are reached.

mod calls;
mod known;
pub(crate) mod memory;
mod presence;

pub(crate) use calls::unexpected;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use intarsia_meta::{
    Inode, MemberRecord, MemberState, MemberTier, MetaEngine, Namespace, Owner, RootSpec,
};
use intarsia_policy::{HostState, Link, TierState};
use intarsia_sync::Mutex;
use intarsia_transport::{
    Buffer, DeploymentKey, Handler, Identity, Network, Peers, Runtime, Server,
};
use intarsia_types::{BackingRef, Error, InodeId, NodeId, Result, TierId, Timestamp};
use intarsia_wire::Request;

use self::known::Known;
use self::memory::PieceMemory;
use crate::clock::now;
use crate::membership::fence::Fence;
use crate::membership::heartbeat::Heartbeat;
use crate::membership::homes::TierHomes;
use crate::membership::{Membership, Pace, Pulse, Seen};

const EIO: i32 = 5;
/// The epoch in a recall of the right to write that says that no host is to get the right.
pub(crate) const NO_HEIR: u64 = 0;
/// Threads that move bytes between hosts.
const REACTORS: usize = 1;

/// What a node needs to be one of several in a store.
#[derive(Clone)]
pub struct ClusterOptions {
    /// The metadata that all hosts share.
    pub engine: Arc<dyn MetaEngine>,
    /// The store's name, the same on every host: 32 hexadecimal digits.
    pub store: String,
    /// The address at which the other hosts reach this one. Port 0 takes any that is free.
    pub listen: SocketAddr,
    /// The deployment's key.
    pub key: DeploymentKey,
    /// What carries messages instead of sockets, in a simulation.
    pub network: Option<Network>,
}

/// What is recorded of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPresence {
    /// Its name.
    pub name: NodeId,
    /// The address at which its node serves others, while it does.
    pub address: Option<SocketAddr>,
    /// Whether its recorded state says that it lives.
    pub is_alive: bool,
    /// Whether it was told to leave.
    pub is_leaving: bool,
}

impl std::fmt::Debug for ClusterOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterOptions").field("store", &self.store).finish_non_exhaustive()
    }
}

/// What became of a request to give back the right to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recalled {
    /// The right is free, and what was written is published.
    Released,
    /// The file is open there, so other hosts have to write through that host.
    InUse,
    /// Ask again after this time.
    Later(Duration),
}

/// The other hosts of a store, and this host among them.
pub(crate) struct Cluster {
    me: NodeId,
    identity: Identity,
    listen: SocketAddr,
    runtime: Runtime,
    /// The metadata, for members and tiers.
    directory: Namespace,
    peers: Peers,
    /// The host of each tier. It changes only when a host comes back with empty disks, whose former tiers go to a new member
    /// that is lost, and when these are found again, and that member ends.
    homes: TierHomes,
    /// The members when their records were read last.
    known: Known,
    piece_memory: Arc<PieceMemory>,
    /// How many bytes of files were asked of other hosts so far.
    asked_bytes: AtomicU64,
    server: Mutex<Option<Server>>,
    membership: Membership,
    /// Refuses calls while the other hosts have given this one up.
    pub(super) fence: Fence,
    heartbeat: Mutex<Option<Heartbeat>>,
    /// Whether the last heartbeat failed. Logged when that changes.
    is_faint: AtomicBool,
    /// This host stays a member even if it was told to leave.
    stays: AtomicBool,
}

impl Cluster {
    /// Begins this host's life in the metadata: the other hosts see from now on that it is starting. `root` is needed to open the
    /// namespace, but not used, since the store has its root already.
    pub(crate) fn new(
        options: &ClusterOptions,
        me: &NodeId,
        root: RootSpec,
        pace: Pace,
    ) -> Result<Self> {
        let directory = Namespace::open(Arc::clone(&options.engine), root, now())?;
        let membership = Membership::begin(&directory, me, pace)?;
        let runtime = match &options.network {
            Some(network) => Runtime::simulated(network),
            None => Runtime::start(REACTORS)?,
        };
        let identity = Identity {
            node: me.clone(),
            store: options.store.parse().map_err(|e| Error::Invalid(format!("{e}")))?,
            epoch: membership.owner().epoch,
            key: options.key.clone(),
        };
        let peers = Peers::new(runtime.clone(), identity.clone(), identity.key.config())?;
        Ok(Self {
            me: me.clone(),
            identity,
            listen: options.listen,
            runtime,
            directory,
            peers,
            homes: TierHomes::default(),
            known: Known::default(),
            piece_memory: PieceMemory::new(),
            asked_bytes: AtomicU64::new(0),
            server: Mutex::default(),
            membership,
            fence: Fence::default(),
            heartbeat: Mutex::default(),
            is_faint: AtomicBool::new(false),
            stays: AtomicBool::new(false),
        })
    }

    /// The name of this host.
    pub(crate) const fn me(&self) -> &NodeId {
        &self.me
    }

    /// The host that a tier belongs to.
    pub(crate) fn home_of(&self, tier: TierId) -> Result<NodeId> {
        let ask = || {
            let tiers = self.directory.tiers()?.into_iter();
            Ok(tiers.map(|(id, known)| (id, NodeId(known.host))).collect())
        };
        self.homes
            .of(tier, ask)?
            .ok_or_else(|| Error::Engine(format!("tier {tier} belongs to no host of this store")))
    }

    /// Reads the records of the members, and takes over their addresses.
    pub(crate) fn meet(&self) -> Result<()> {
        self.membership.refresh(&self.directory)?;
        self.connect();
        Ok(())
    }

    /// Makes the members that live and have an address known as peers, by the records as they were read last.
    fn connect(&self) {
        let all = self.membership.all();
        // A new member may be the one that the lost tiers of a host have gone to; and a host takes such tiers back when it starts.
        let life = |(node, member): &(NodeId, MemberRecord)| Owner {
            node: node.clone(),
            epoch: member.epoch,
        };
        if self.known.renew(all.iter().map(life)) {
            self.homes.forget();
        }
        let others = all.into_iter().filter(|(node, _)| *node != self.me);
        let serving = others.filter(|(_, member)| member.state.is_alive());
        self.peers.set_members(serving.filter_map(|(node, m)| Some((node, m.address?))));
    }

    /// One heartbeat: renews the record of this host.
    pub(crate) fn beat(&self, tiers: &[MemberTier]) -> Result<Pulse> {
        self.membership.beat(&self.directory, tiers)
    }

    /// Runs the failure detector over the other hosts.
    pub(crate) fn look(&self) -> Result<Seen> {
        let seen = self.membership.look(&self.directory)?;
        self.connect();
        Ok(seen)
    }

    /// See [`Membership::next_epoch`].
    pub(crate) fn next_epoch(&self) -> Result<std::result::Result<u64, Pulse>> {
        self.membership.next_epoch(&self.directory)
    }

    /// See [`Membership::revive`].
    pub(crate) fn revive(&self, epoch: u64) -> Result<Pulse> {
        self.membership.revive(&self.directory, epoch)
    }

    /// Whether this host was told to leave, as far as it knows.
    pub(crate) fn is_leaving(&self) -> bool {
        self.membership.is_leaving()
    }

    /// Tells a host to leave, or that it may stay after all.
    ///
    /// # Errors
    /// [`Error::Busy`] for a host that is not up, else as [`Membership::order`].
    pub(crate) fn order(&self, node: &NodeId, is_leaving: bool) -> Result<()> {
        let state = self.membership.order(&self.directory, node, is_leaving)?;
        match state {
            MemberState::Serving | MemberState::Leaving => Ok(()),
            other => Err(Error::Busy(format!("{node} is {}", other.name()))),
        }
    }

    /// See [`Membership::forget`].
    pub(crate) fn forget(&self, node: &NodeId) -> Result<()> {
        self.membership.forget(&self.directory, node)
    }

    /// Logs, once each, that heartbeats fail and that they succeed again.
    pub(crate) fn note_pulse(&self, outcome: Result<()>) {
        let was_faint = self.is_faint.swap(outcome.is_err(), Ordering::Relaxed);
        match outcome {
            Err(error) if !was_faint => {
                tracing::warn!(%error, "the metadata cannot be told that this host lives");
            }
            Ok(()) if was_faint => tracing::info!("the metadata hears of this host again"),
            _ => {}
        }
    }

    /// Holds this host's heartbeats back, or lets them go on.
    pub(crate) fn hold_beats(&self, is_held: bool) {
        if let Some(heartbeat) = &*self.heartbeat.lock() {
            heartbeat.pause(is_held);
        }
    }

    /// Whether the host is lost, by its record as it was read last: what it alone held cannot be read.
    pub(crate) fn is_lost(&self, node: &NodeId) -> bool {
        self.membership.lost_since(node).is_some()
    }

    /// Whether any host counts as lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.membership.has_lost()
    }

    /// The hosts that live, this one among them, in the order of their names, by their records as they were read last.
    pub(crate) fn alive(&self) -> Vec<NodeId> {
        let all = self.membership.all().into_iter();
        all.filter(|(_, member)| member.state.is_alive()).map(|(node, _)| node).collect()
    }

    /// All members with their records as they were read last, in the order of their names.
    pub(crate) fn members(&self) -> Vec<(NodeId, MemberRecord)> {
        self.membership.all()
    }

    /// Whether this host is a member, and no other host can have given it up.
    pub(crate) fn is_sure_member(&self) -> bool {
        !self.fence.is_up() && self.is_current()
    }

    /// Whether that life of a host is over, so that its leases can be taken over.
    pub(crate) fn is_over(&self, owner: &Owner) -> bool {
        // A host without a record may have joined since the records were read, or have left for good.
        if !self.membership.knows(&owner.node)
            && let Err(error) = self.meet()
        {
            tracing::debug!(%error, "whether a host has joined cannot be found out");
            return false;
        }
        self.membership.is_over(owner)
    }

    /// Whether that life of a host is over and the host will not claim its leases any more: it is lost, or is back and has claimed
    /// those that it knows of. A host that is just starting may still claim them.
    pub(crate) fn has_let_go(&self, owner: &Owner) -> bool {
        let state = self.members().into_iter().find(|(node, _)| *node == owner.node);
        let is_starting = state.is_some_and(|(_, member)| member.state == MemberState::Joining);
        self.is_over(owner) && !is_starting
    }

    /// This host in its present life.
    pub(crate) fn owner(&self) -> Owner {
        self.membership.owner()
    }

    /// Whether no other host can have given this one up.
    pub(crate) fn is_current(&self) -> bool {
        self.membership.is_current()
    }

    /// Fails with EIO while the other hosts may have given this one up.
    pub(crate) fn require_current(&self) -> Result<()> {
        if !self.is_sure_member() {
            let gone = std::io::Error::from_raw_os_error(EIO);
            return Err(Error::io("the other hosts may have given this one up", gone));
        }
        Ok(())
    }

    /// Refuses a request of `node` with EIO if that host was given up; it does not know so yet.
    pub(crate) fn require_member(&self, node: &NodeId) -> Result<()> {
        if self.is_lost_on_second_look(node) {
            let gone = std::io::Error::from_raw_os_error(EIO);
            return Err(Error::io(format!("host {node} was given up by the others"), gone));
        }
        Ok(())
    }

    /// Whether a host is lost. The records are read anew before that is said, because the host may be back.
    fn is_lost_on_second_look(&self, node: &NodeId) -> bool {
        if !self.is_lost(node) {
            return false;
        }
        if let Err(error) = self.meet() {
            tracing::debug!(%error, "whether a lost host is back cannot be found out");
        }
        self.is_lost(node)
    }

    /// Fails with EIO if the host `home` is lost, for what only that host has.
    pub(crate) fn require_not_lost(&self, home: &NodeId) -> Result<()> {
        if !self.is_lost_on_second_look(home) {
            return Ok(());
        }
        let Some(since) = self.membership.lost_since(home) else { return Ok(()) };
        let what = format!(
            "host {home} is lost since {}; what it alone held cannot be used until it is back ('intarsia lost' lists it)",
            in_words(since)
        );
        Err(Error::io(what, std::io::Error::from_raw_os_error(EIO)))
    }

    /// The memory for bytes that are fetched ahead.
    pub(crate) const fn piece_memory(&self) -> &Arc<PieceMemory> {
        &self.piece_memory
    }

    /// A buffer for a payload of `len_bytes`, to be filled; its content is arbitrary.
    pub(crate) fn buffer(&self, len_bytes: usize) -> Buffer {
        self.peers.buffer(len_bytes)
    }

    /// A payload with a copy of `bytes`, to be sent.
    pub(crate) fn payload(&self, bytes: &[u8]) -> Buffer {
        self.peers.copy(bytes)
    }

    /// As [`alive`](Self::alive), after the records were read anew.
    pub(crate) fn living(&self) -> Result<Vec<NodeId>> {
        self.meet()?;
        Ok(self.alive())
    }

    /// Whether copies at a host do not count, because it is lost, down, about to leave, or a member no more.
    pub(crate) fn has_given_up(&self, host: &NodeId) -> bool {
        !self.membership.keeps_copies(host)
    }

    /// Whether a host is up, even if it is just starting or about to leave.
    pub(crate) fn is_up(&self, host: &NodeId) -> bool {
        self.alive().contains(host)
    }

    /// The hosts that take files, with the room that they have for copies.
    pub(crate) fn roomy_hosts(&self) -> Vec<HostState> {
        let all = self.members().into_iter();
        let serving = all.filter(|(_, member)| member.state == MemberState::Serving);
        serving.map(|(node, member)| host_state(node, member)).collect()
    }

    /// As [`roomy_hosts`](Self::roomy_hosts), with the bytes that are on their way between each host and this one.
    pub(crate) fn hosts_for_copies(&self) -> Vec<HostState> {
        let mut hosts = self.roomy_hosts();
        let peers: HashMap<_, _> =
            self.peers.status().into_iter().map(|peer| (peer.node.clone(), peer)).collect();
        for host in &mut hosts {
            let Some(peer) = peers.get(&host.node) else { continue };
            host.load_bytes = peer.in_flight_bytes as u64;
            let is_failing = peer.connections == 0 && peer.failure.is_some();
            host.link = if is_failing { Link::Failing } else { Link::Up };
        }
        hosts
    }

    /// Tells the host of a backing file that the file has no owner any more. Without the message the host finds that out later.
    pub(crate) fn note_garbage(&self, backing: BackingRef) {
        let request = Request::Reclaim { tier: backing.tier, files: vec![backing.file] };
        let told = self.home_of(backing.tier).and_then(|home| {
            // A lost host looks for such files when it is back.
            if self.is_lost(&home) { Ok(()) } else { self.tell(&home, &request) }
        });
        if let Err(error) = told {
            tracing::debug!(%error, "a host learns later that it holds garbage");
        }
    }

    /// Tells the hosts of `copies` that `record` does not name that these were made in vain. Without the message a host finds that
    /// out later.
    pub(crate) fn refuse_copies(&self, ino: InodeId, record: &Inode, copies: &[BackingRef]) {
        let known = record.layout.copies();
        for backing in copies.iter().filter(|backing| !known.contains(backing)) {
            let drop = Request::Drop { ino, backing: *backing, version: record.version };
            let told = self.home_of(backing.tier).and_then(|node| self.tell(&node, &drop));
            if let Err(error) = told {
                tracing::debug!(%ino, %error, "a copy that is not needed is collected later");
            }
        }
    }

    fn serve<H: Handler>(&self, handler: Arc<H>) -> Result<SocketAddr> {
        let identity = self.identity.clone();
        let config = identity.key.config();
        let server = Server::start(&self.runtime, self.listen, identity, config, handler)?;
        let address = server.address();
        *self.server.lock() = Some(server);
        Ok(address)
    }
}

/// Returns a function that counts the nodes that live in the store, anew at each call.
///
/// # Errors
/// The engine's own; each call can fail with these too.
pub fn member_counter(engine: &Arc<dyn MetaEngine>) -> Result<impl Fn() -> Result<usize>> {
    let root = RootSpec { perm: 0, uid: 0, gid: 0 };
    let namespace = Namespace::open(Arc::clone(engine), root, now())?;
    Ok(move || Ok(namespace.members()?.iter().filter(|(_, m)| m.state.is_alive()).count()))
}

/// A member as the policy sees it. Which of its tiers is the overflow, and which of them its kernel can read by passthrough,
/// matters only on that host.
fn host_state(node: NodeId, member: MemberRecord) -> HostState {
    let state = |tier: MemberTier| TierState {
        id: tier.id,
        class: tier.class,
        capacity_bytes: tier.capacity_bytes,
        free_bytes: tier.free_bytes,
        is_low: tier.is_low,
        is_overflow: false,
        is_stackable: false,
    };
    HostState::with_tiers(node, member.tiers.into_iter().map(state).collect())
}

/// A time as users read it, such as `2026-01-31T12:00:00Z`.
pub(crate) fn in_words(time: Timestamp) -> String {
    let since_1970 = Duration::from_secs(u64::try_from(time.secs).unwrap_or(0));
    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + since_1970).to_string()
}

#[cfg(test)]
pub(crate) mod lone;
