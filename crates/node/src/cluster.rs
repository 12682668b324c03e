//! The other hosts of a store: which tiers are theirs, and how to reach them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use intarsia_meta::{MetaEngine, Namespace, RootSpec};
use intarsia_policy::HostState;
use intarsia_transport::{
    Answer, Buffer, CallError, DeploymentKey, Identity, PeerFailure, Peers, Pending, Runtime,
    Server,
};
use intarsia_types::{BackingRef, Error, InodeId, NodeId, Result, TierId};
use intarsia_wire::{RecallKind, Request, Response};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};

use crate::clock::now;
use crate::node::Node;
use crate::peer::PeerService;
use crate::pieces::PieceMemory;
use crate::remote::unexpected;

/// Threads that move bytes between hosts.
const REACTORS: usize = 1;

/// What makes a node one of several.
#[derive(Clone)]
pub struct ClusterOptions {
    /// The metadata that all hosts share.
    pub engine: Arc<dyn MetaEngine>,
    /// The store's name, the same on every host: 32 hexadecimal digits.
    pub store: String,
    /// Where the other hosts reach this one. Port 0 takes any that is free.
    pub listen: SocketAddr,
    /// The deployment's key.
    pub key: DeploymentKey,
}

impl std::fmt::Debug for ClusterOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterOptions").field("store", &self.store).finish_non_exhaustive()
    }
}

/// What became of a request to give back the right to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recalled {
    /// It is free, and what was written is published.
    Released,
    /// The file is open there; whoever wants to write does so through that host.
    InUse,
    /// Ask again after this time.
    Later(Duration),
}

/// The other hosts.
pub(crate) struct Cluster {
    me: NodeId,
    identity: Identity,
    listen: SocketAddr,
    runtime: Runtime,
    /// For looking up members and tiers.
    directory: Namespace,
    peers: Peers,
    /// Whose each tier is. Never changes for a tier, so that only unknown ones are asked for.
    homes: RwLock<HashMap<TierId, NodeId>>,
    piece_memory: Arc<PieceMemory>,
    /// Bytes of files asked of other hosts.
    asked_bytes: AtomicU64,
    server: Mutex<Option<Server>>,
}

impl Cluster {
    /// `root` is what the root of a new store is to be; there is one already.
    pub(crate) fn new(options: &ClusterOptions, me: &NodeId, root: RootSpec) -> Result<Self> {
        let directory = Namespace::open(Arc::clone(&options.engine), root, now())?;
        let runtime = Runtime::start(REACTORS)?;
        let identity = Identity {
            node: me.clone(),
            store: options.store.parse().map_err(|e| Error::Invalid(format!("{e}")))?,
            epoch: u64::try_from(
                std::time::SystemTime::now()
                    .duration_since(std::time::UNIX_EPOCH)
                    .unwrap_or_default()
                    .as_millis(),
            )
            .unwrap_or(0),
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
            homes: RwLock::default(),
            piece_memory: PieceMemory::new(),
            asked_bytes: AtomicU64::new(0),
            server: Mutex::default(),
        })
    }

    pub(crate) const fn me(&self) -> &NodeId {
        &self.me
    }

    pub(crate) const fn epoch(&self) -> u64 {
        self.identity.epoch
    }

    pub(crate) fn member_names(&self) -> Result<std::collections::BTreeSet<NodeId>> {
        let all = self.directory.members()?.into_iter().map(|(name, _)| NodeId(name));
        Ok(all.filter(|node| *node != self.me).collect())
    }

    /// The host that a tier belongs to.
    pub(crate) fn home_of(&self, tier: TierId) -> Result<NodeId> {
        if let Some(home) = self.homes.read().get(&tier) {
            return Ok(home.clone());
        }
        let mut homes = self.homes.write();
        for (id, known) in self.directory.tiers()? {
            homes.insert(id, NodeId(known.host));
        }
        homes
            .get(&tier)
            .cloned()
            .ok_or_else(|| Error::Engine(format!("tier {tier} belongs to no host of this store")))
    }

    /// Learns where the members are.
    pub(crate) fn meet(&self) -> Result<()> {
        let mut members = Vec::new();
        for (name, value) in self.directory.members()? {
            match serde_json::from_slice::<Member>(&value) {
                Ok(member) if name != self.me.0 => members.push((NodeId(name), member.address)),
                Ok(_) => {}
                Err(error) => tracing::warn!(name, %error, "a member's record is not understood"),
            }
        }
        self.peers.set_members(members);
        Ok(())
    }

    /// Asks `home` and waits for its answer, for a bounded time.
    pub(crate) fn call(
        &self,
        home: &NodeId,
        request: &Request,
        payload: Option<&[u8]>,
    ) -> Result<Response> {
        let answer = self.ask(home, || {
            let payload = payload.map(|bytes| self.peers.copy(bytes));
            self.peers.call(home, request.clone(), payload)
        });
        answer.map(|answer| answer.response)
    }

    /// Asks `home` for bytes and waits for them, for a bounded time.
    pub(crate) fn ask_for(&self, home: &NodeId, request: &Request) -> Result<Answer> {
        self.ask(home, || self.peers.call(home, request.clone(), None))
    }

    /// Asks `home` only if that needs no waiting.
    pub(crate) fn start_now(
        &self,
        home: &NodeId,
        request: &Request,
        patience: Duration,
    ) -> Option<Pending> {
        self.peers.start_now(home, request.clone(), patience)
    }

    /// Waits for the answer to what was [started](Self::start_now).
    pub(crate) fn wait_for(&self, home: &NodeId, begun: Pending) -> Result<Answer> {
        begun.wait().map_err(|error| explain(home, error))
    }

    /// Counts bytes of a file that are asked of another host.
    pub(crate) fn note_asked(&self, bytes: u64) {
        self.asked_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of files asked of other hosts so far.
    pub(crate) fn asked_bytes(&self) -> u64 {
        self.asked_bytes.load(Ordering::Relaxed)
    }

    /// The memory for what is fetched ahead.
    pub(crate) const fn piece_memory(&self) -> &Arc<PieceMemory> {
        &self.piece_memory
    }

    /// As [`call`](Self::call), waiting no longer than `patience`.
    pub(crate) fn call_within(
        &self,
        home: &NodeId,
        request: &Request,
        patience: Duration,
    ) -> Result<Response> {
        let ask = || self.peers.call_within(home, request.clone(), None, patience);
        self.ask(home, ask).map(|answer| answer.response)
    }

    /// Tells `home` something that needs no answer.
    pub(crate) fn tell(&self, home: &NodeId, request: &Request) -> Result<()> {
        self.ask(home, || self.peers.tell(home, request.clone()).map_err(CallError::from))
    }

    /// Asks `home` without waiting for the answer, which [`finish`](Self::finish) brings.
    pub(crate) fn start(
        &self,
        home: &NodeId,
        request: Request,
        payload: Option<Buffer>,
    ) -> Result<Pending> {
        Ok(self.peers.start(home, request, payload)?)
    }

    /// Waits for the answer to what was started.
    pub(crate) fn finish(&self, home: &NodeId, pending: Pending) -> Result<Response> {
        self.wait_for(home, pending).map(|answer| answer.response)
    }

    /// A payload to send.
    pub(crate) fn payload(&self, bytes: &[u8]) -> Buffer {
        self.peers.copy(bytes)
    }

    /// The hosts that live, this one among them, in the order of their names.
    pub(crate) fn living(&self) -> Vec<NodeId> {
        let members = self.directory.members().unwrap_or_default();
        members.into_iter().map(|(name, _)| NodeId(name)).collect()
    }

    /// Whether a host is lost, or is a member no more: what it alone held cannot be read.
    pub(crate) fn has_given_up(&self, host: &NodeId) -> bool {
        !self.living().contains(host)
    }

    /// The hosts that live, with the room that they have for copies.
    pub(crate) fn roomy_hosts(&self) -> Vec<HostState> {
        let living = self.living().into_iter();
        living.map(|node| HostState { node, free_bytes: u64::MAX }).collect()
    }

    /// Looks for a host that is not known yet, and puts one that does not answer into the log.
    fn ask<T>(
        &self,
        home: &NodeId,
        mut question: impl FnMut() -> std::result::Result<T, CallError>,
    ) -> Result<T> {
        let mut outcome = question();
        if let Err(CallError::Peer(error)) = &outcome
            && error.failure == PeerFailure::Unknown
        {
            self.meet()?;
            outcome = question();
        }
        outcome.map_err(|error| explain(home, error))
    }

    /// Asks `holder` to give back the right to write.
    pub(crate) fn recall(&self, holder: &NodeId, ino: InodeId) -> Result<Recalled> {
        let request = Request::Recall { ino, kind: RecallKind::Write, epoch: 0 };
        match self.call(holder, &request, None)? {
            Response::Released => Ok(Recalled::Released),
            Response::Busy { retry_ms: 0 } => Ok(Recalled::InUse),
            Response::Busy { retry_ms } => {
                Ok(Recalled::Later(Duration::from_millis(u64::from(retry_ms))))
            }
            other => Err(unexpected(holder, &other)),
        }
    }

    /// Tells the home of a file that nobody needs it any more. It finds out by itself too, later.
    pub(crate) fn note_garbage(&self, backing: BackingRef) {
        let request = Request::Reclaim { tier: backing.tier, files: vec![backing.file] };
        let told = self.home_of(backing.tier).and_then(|home| self.tell(&home, &request));
        if let Err(error) = told {
            tracing::debug!(%error, "a host learns later that it holds garbage");
        }
    }

    fn serve(&self, node: &Arc<Node>) -> Result<SocketAddr> {
        let handler = Arc::new(PeerService::new(Arc::downgrade(node)));
        let identity = self.identity.clone();
        let config = identity.key.config();
        let server = Server::start(&self.runtime, self.listen, identity, config, handler)?;
        let address = server.address();
        *self.server.lock() = Some(server);
        Ok(address)
    }
}

/// Puts a host that does not answer into the log.
fn explain(home: &NodeId, error: CallError) -> Error {
    if let CallError::Peer(error) = &error {
        tracing::warn!(%home, %error, "another host does not answer");
    }
    error.into()
}

/// Counts, as often as it is called, the nodes that are members of the store.
///
/// # Errors
/// The engine's own, as for each call of what it returns.
pub fn member_counter(engine: &Arc<dyn MetaEngine>) -> Result<impl Fn() -> Result<usize>> {
    let root = RootSpec { perm: 0, uid: 0, gid: 0 };
    let namespace = Namespace::open(Arc::clone(engine), root, now())?;
    Ok(move || Ok(namespace.members()?.len()))
}

/// What a member tells the others about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Member {
    /// Where it serves them.
    address: SocketAddr,
}

impl Node {
    /// Begins to serve the other hosts, and tells them where.
    pub(crate) fn join_cluster(self: &Arc<Self>) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let address = cluster.serve(self)?;
        let member = serde_json::to_vec(&Member { address })
            .map_err(|e| Error::Engine(format!("cannot encode a member: {e}")))?;
        self.announce(cluster, Some(&member))?;
        self.settler_queue.collect();
        cluster.meet()
    }

    /// Stops serving the other hosts.
    pub(crate) fn leave_cluster(&self) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        drop(cluster.server.lock().take());
        cluster.peers.set_members([]);
        self.announce(cluster, None)
    }

    fn announce(&self, cluster: &Cluster, member: Option<&[u8]>) -> Result<()> {
        let name = &cluster.me.0;
        loop {
            let old = self.namespace.member(name)?;
            let is_done = match (member, &old) {
                (Some(member), _) => self.namespace.put_member(name, old.as_deref(), member)?,
                (None, Some(old)) => self.namespace.remove_member(name, old)?,
                (None, None) => true,
            };
            if is_done {
                return Ok(());
            }
        }
    }
}

impl Node {
    /// Looks up who the other members are and where. Done by itself when one is not known.
    ///
    /// # Errors
    /// The engine's own.
    pub fn meet_members(&self) -> Result<()> {
        self.cluster.as_ref().map_or(Ok(()), |cluster| cluster.meet())
    }

    /// Answers other hosts again after [`stop_serving`](Self::stop_serving), at another address.
    ///
    /// # Errors
    /// As a start.
    pub fn serve_again(self: &Arc<Self>) -> Result<()> {
        self.join_cluster()
    }

    /// Stops answering other hosts without telling them, as a crash would; for tests of such.
    pub fn stop_serving(&self) {
        if let Some(cluster) = &self.cluster {
            drop(cluster.server.lock().take());
        }
    }
}
