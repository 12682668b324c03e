//! All other nodes, by name: the side that asks.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use intarsia_types::NodeId;
use intarsia_wire::{Lane as Kind, Request};
use parking_lot::RwLock;

use crate::bond::Bond;
use crate::client::{Answer, Client, Deadline, Peer, Pending, Until, never};
use crate::lane::{Context, Lane};
use crate::{
    Buffer, CallError, Config, Identity, Patience, PeerError, PeerFailure, Runtime, StartError,
};

/// The other nodes of the deployment. Calls come from plain threads, never from a reactor or a handler that was
/// declared quick.
pub struct Peers {
    runtime: Runtime,
    context: Arc<Context>,
    /// The number of the next session with a peer.
    sessions: Arc<AtomicU64>,
    members: RwLock<HashMap<NodeId, Arc<Member>>>,
}

/// One peer with its connections.
struct Member {
    peer: Arc<Peer>,
    small: Arc<Lane>,
    bulk: Vec<Arc<Lane>>,
}

/// What is known of a peer, for `status`.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// The peer.
    pub node: NodeId,
    /// Where it is reached.
    pub address: SocketAddr,
    /// Connections that are up.
    pub connections: usize,
    /// Payload bytes in flight to and from it.
    pub in_flight_bytes: usize,
    /// The incarnation that answered, while a connection is up.
    pub epoch: Option<u64>,
    /// Why it cannot be reached, when the last attempt failed.
    pub failure: Option<PeerFailure>,
}

impl Peers {
    /// No members yet, no connections: each is made when it is first needed.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new(runtime: Runtime, identity: Identity, config: Config) -> Result<Self, StartError> {
        let sessions = Arc::new(AtomicU64::new(identity.key.random()?));
        let context = Context { identity, config, buffers: runtime.buffers().clone() };
        Ok(Self { runtime, context: Arc::new(context), sessions, members: RwLock::default() })
    }

    /// Sets who the members are and where. Connections to those that left or moved are closed; the others stay.
    pub fn set_members(&self, members: impl IntoIterator<Item = (NodeId, SocketAddr)>) {
        let mut known = self.members.write();
        let mut before = std::mem::take(&mut *known);
        for (node, address) in members {
            let member = match before.remove(&node) {
                Some(member) if member.peer.address == address => member,
                other => {
                    before.extend(other.map(|member| (node.clone(), member)));
                    Arc::new(self.member(node.clone(), address))
                }
            };
            known.insert(node, member);
        }
        drop(known);
        for member in before.into_values() {
            member.close("the peer left or moved to another address");
        }
    }

    /// Asks and waits for the answer, as long as the configuration says.
    ///
    /// # Errors
    /// The peer could not be asked, did not answer in time, or answered with an error.
    pub fn call(
        &self,
        node: &NodeId,
        request: Request,
        payload: Option<Buffer>,
    ) -> Result<Answer, CallError> {
        self.start(node, request, payload)?.wait()
    }

    /// Asks and waits at most `patience` (and never longer than [`crate::MAX_PATIENCE`]).
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn call_within(
        &self,
        node: &NodeId,
        request: Request,
        payload: Option<Buffer>,
        patience: Duration,
    ) -> Result<Answer, CallError> {
        self.start_within(node, request, payload, patience)?.wait()
    }

    /// Asks and puts the answer's payload into `into`; returns the answer and the payload's length. One copy more than [`Self::call`], whose buffer can be used as it is.
    ///
    /// # Errors
    /// As [`Self::call`], and an answer longer than `into`.
    pub fn call_into(
        &self,
        node: &NodeId,
        request: Request,
        payload: Option<Buffer>,
        into: &mut [u8],
    ) -> Result<(intarsia_wire::Response, usize), CallError> {
        let doing = request.name();
        let answer = self.call(node, request, payload)?;
        let len_bytes = answer.payload.len();
        let Some(into) = into.get_mut(..len_bytes) else {
            let failure = PeerFailure::Nonsense(format!("{len_bytes} bytes, more than asked for"));
            return Err(self.error(node, doing, failure).into());
        };
        into.copy_from_slice(&answer.payload);
        Ok((answer.response, len_bytes))
    }

    /// Asks and returns at once (or as soon as there is a connection and room among what is in flight).
    ///
    /// # Errors
    /// Nothing was sent: no such member, no connection, no room in time.
    pub fn start(
        &self,
        node: &NodeId,
        request: Request,
        payload: Option<Buffer>,
    ) -> Result<Pending, PeerError> {
        self.start_within(node, request, payload, self.context.config.patience)
    }

    /// As [`Self::start`], with the time in which the answer must be here.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_within(
        &self,
        node: &NodeId,
        request: Request,
        payload: Option<Buffer>,
        patience: Duration,
    ) -> Result<Pending, PeerError> {
        self.start_until(node, request, payload, Patience::from(patience).deadline(), &never)
    }

    /// As [`Self::start_within`], for a peer that may be slow: while `is_slow` holds, the caller waits beyond
    /// `patience`, at most [`crate::MAX_SLOWNESS`] in all, for room among what is in flight and then with
    /// [`Pending::wait_while`] for the answer.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_while(
        &self,
        node: &NodeId,
        request: Request,
        payload: Option<Buffer>,
        patience: Duration,
        is_slow: &dyn Fn() -> bool,
    ) -> Result<Pending, PeerError> {
        self.start_until(node, request, payload, Patience::slow(patience).deadline(), is_slow)
    }

    fn start_until(
        &self,
        node: &NodeId,
        request: Request,
        payload: Option<Buffer>,
        deadline: Deadline,
        is_slow: &dyn Fn() -> bool,
    ) -> Result<Pending, PeerError> {
        let sent_bytes = payload.as_deref().map_or(0, <[u8]>::len);
        let weight = sent_bytes.max(request.answer_bytes());
        let doing = request.name();
        let member = self.find(node, doing)?;
        let is_bulk = weight > self.context.config.bulk_from_bytes;
        let client = member
            .lane(is_bulk)
            .client(self.runtime.reactor(), deadline.usual)
            .or_else(|failure| member.up_bulk().filter(|_| is_bulk).ok_or(failure))
            .map_err(|failure| member.peer.error(doing, failure))?;
        client.ask(request, payload, Until { room: deadline, answer: deadline }, is_slow)
    }

    /// Asks only if that needs no waiting: a connection is up and has room among what is in flight. For what is good
    /// to have and can be asked for later as well.
    #[must_use]
    pub fn start_now(
        &self,
        node: &NodeId,
        request: Request,
        patience: impl Into<Patience>,
    ) -> Option<Pending> {
        let member = self.members.read().get(node).cloned()?;
        let is_bulk = request.answer_bytes() > self.context.config.bulk_from_bytes;
        let up = member.lane(is_bulk).existing().map(|(client, _)| client);
        let client = up.or_else(|| member.up_bulk().filter(|_| is_bulk))?;
        let (room, answer) = (Deadline::at(Instant::now()), patience.into().deadline());
        client.ask(request, None, Until { room, answer }, &never).ok()
    }

    /// Sends a message that has no answer, and of which nobody learns whether it arrived. Never waits: without any
    /// connection it leaves once there is one.
    ///
    /// # Errors
    /// Nothing was sent, nor will be.
    pub fn tell(&self, node: &NodeId, request: Request) -> Result<(), PeerError> {
        let doing = request.name();
        let member = self.find(node, doing)?;
        let small = member.small.existing().map(|(client, _)| client);
        if let Some(client) = small.or_else(|| member.up_bulk()) {
            return client.tell(request);
        }
        let told = member.small.tell(self.runtime.reactor(), request);
        told.map_err(|failure| member.peer.error(doing, failure))
    }

    /// A buffer for a payload to send; see [`crate::BufferPool::take`].
    #[must_use]
    pub fn buffer(&self, len_bytes: usize) -> Buffer {
        self.context.buffers.take(len_bytes)
    }

    /// A payload with a copy of `bytes`.
    #[must_use]
    pub fn copy(&self, bytes: &[u8]) -> Buffer {
        self.context.buffers.copy(bytes)
    }

    /// What is known of all members, sorted by name. Asks nobody.
    #[must_use]
    pub fn status(&self) -> Vec<PeerStatus> {
        let mut all: Vec<_> = self.members.read().values().map(|m| m.status()).collect();
        all.sort_by(|a, b| a.node.cmp(&b.node));
        all
    }

    fn find(&self, node: &NodeId, doing: &'static str) -> Result<Arc<Member>, PeerError> {
        let member = self.members.read().get(node).cloned();
        member.ok_or_else(|| self.error(node, doing, PeerFailure::Unknown))
    }

    fn error(&self, node: &NodeId, doing: &'static str, failure: PeerFailure) -> PeerError {
        let address = self.members.read().get(node).map(|member| member.peer.address);
        PeerError { node: node.clone(), address, doing, failure }
    }

    fn member(&self, node: NodeId, address: SocketAddr) -> Member {
        let peer = Arc::new(Peer { node, address });
        let bond = Arc::new(Bond::new(Arc::clone(&self.sessions)));
        let lane = |kind| {
            let (bond, context) = (Arc::clone(&bond), Arc::clone(&self.context));
            Arc::new(Lane::new(Arc::clone(&peer), kind, bond, context))
        };
        let bulk = (0..self.context.config.bulk_connections).map(|_| lane(Kind::Bulk)).collect();
        Member { small: lane(Kind::Small), bulk, peer }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        for member in self.members.get_mut().values() {
            member.close("this node is stopping");
        }
    }
}

impl Member {
    /// The lane for a message: small ones never share with large ones; of the large ones' lanes, one that is up
    /// and has least in flight, so that a single reader stays on one connection.
    fn lane(&self, is_bulk: bool) -> &Arc<Lane> {
        if !is_bulk {
            return &self.small;
        }
        let load =
            |lane: &&Arc<Lane>| lane.existing().map_or(0, |(client, _)| client.in_flight_bytes());
        self.bulk.iter().min_by_key(load).unwrap_or(&self.small)
    }

    /// A bulk connection that is up, for when another is not.
    fn up_bulk(&self) -> Option<Arc<Client>> {
        self.bulk.iter().find_map(|lane| lane.existing()).map(|(client, _)| client)
    }

    fn lanes(&self) -> impl Iterator<Item = &Arc<Lane>> {
        std::iter::once(&self.small).chain(&self.bulk)
    }

    fn close(&self, why: &str) {
        self.lanes().for_each(|lane| lane.close(why));
    }

    fn status(&self) -> PeerStatus {
        let up: Vec<_> = self.lanes().filter_map(|lane| lane.existing()).collect();
        PeerStatus {
            node: self.peer.node.clone(),
            address: self.peer.address,
            connections: up.len(),
            in_flight_bytes: up.iter().map(|(client, _)| client.in_flight_bytes()).sum(),
            epoch: up.iter().map(|(_, welcome)| welcome.epoch).max(),
            failure: self.lanes().find_map(|lane| lane.failure()),
        }
    }
}
