//! The other nodes, reached by TCP.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use intarsia_sync::Instant;
use intarsia_types::NodeId;
use intarsia_wire::{Lane as Kind, Request};
use parking_lot::RwLock;

use crate::bond::Bond;
use crate::client::{Client, Peer, Pending, Until};
use crate::lane::{Context, Lane};
use crate::members::{GONE, renew};
use crate::waiting::{Deadline, never};
use crate::{
    Buffer, Config, Identity, Patience, PeerError, PeerFailure, PeerStatus, Runtime, StartError,
};

/// Connections to the other nodes.
pub(crate) struct Sockets {
    runtime: Runtime,
    context: Arc<Context>,
    /// The number of the next session with a peer.
    sessions: Arc<AtomicU64>,
    members: RwLock<BTreeMap<NodeId, Arc<Member>>>,
}

/// One peer with its connections.
struct Member {
    peer: Arc<Peer>,
    small: Arc<Lane>,
    bulk: Vec<Arc<Lane>>,
}

impl Sockets {
    /// No members yet, no connections: each is made when it is first needed.
    ///
    pub(crate) fn new(
        runtime: Runtime,
        identity: Identity,
        config: Config,
    ) -> Result<Self, StartError> {
        let sessions = Arc::new(AtomicU64::new(identity.key.random()?));
        let context = Context { identity, config, buffers: runtime.buffers().clone() };
        Ok(Self { runtime, context: Arc::new(context), sessions, members: RwLock::default() })
    }

    /// Sets who the members are and where. Connections to those that left or moved are closed; the others stay.
    pub(crate) fn set_members(&self, members: impl IntoIterator<Item = (NodeId, SocketAddr)>) {
        let make = |node, address| Arc::new(self.member(node, address));
        let gone = renew(&mut self.members.write(), members, |m| m.peer.address, make);
        for member in gone {
            member.close(GONE);
        }
    }

    /// See [`crate::Peers`]: as its methods do, with all deadlines.
    pub(crate) fn start_until(
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
    pub(crate) fn start_now(
        &self,
        node: &NodeId,
        request: Request,
        patience: Patience,
    ) -> Option<Pending> {
        let member = self.members.read().get(node).cloned()?;
        let is_bulk = request.answer_bytes() > self.context.config.bulk_from_bytes;
        let up = member.lane(is_bulk).existing().map(|(client, _)| client);
        let client = up.or_else(|| member.up_bulk().filter(|_| is_bulk))?;
        let (room, answer) = (Deadline::at(Instant::now()), patience.deadline());
        client.ask(request, None, Until { room, answer }, &never).ok()
    }

    /// Sends a message that has no answer, and of which nobody learns whether it arrived. Never waits: without any
    /// connection it leaves once there is one.
    ///
    /// # Errors
    /// Nothing was sent, nor will be.
    pub(crate) fn tell(&self, node: &NodeId, request: Request) -> Result<(), PeerError> {
        let doing = request.name();
        let member = self.find(node, doing)?;
        let small = member.small.existing().map(|(client, _)| client);
        if let Some(client) = small.or_else(|| member.up_bulk()) {
            return client.tell(request);
        }
        let told = member.small.tell(self.runtime.reactor(), request);
        told.map_err(|failure| member.peer.error(doing, failure))
    }

    /// What is known of all members, sorted by name. Asks nobody.
    #[must_use]
    pub(crate) fn status(&self) -> Vec<PeerStatus> {
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

impl Drop for Sockets {
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
