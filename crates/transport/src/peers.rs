//! All other nodes, by name: the side that asks.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use intarsia_types::NodeId;
use intarsia_wire::{Request, Response};

use crate::pending::Pending;
use crate::runtime::Way;
use crate::simulated::Links;
use crate::sockets::Sockets;
use crate::waiting::never;
use crate::{
    Answer, Buffer, BufferPool, CallError, Config, Identity, Patience, PeerError, PeerFailure,
    Runtime, StartError,
};

/// The other nodes of the deployment. Calls come from plain threads, never from a reactor or a handler that was
/// declared quick.
pub struct Peers {
    way: To,
    buffers: BufferPool,
    patience: Duration,
}

/// How the others are reached.
enum To {
    Sockets(Sockets),
    Links(Links),
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
        let (buffers, patience) = (runtime.buffers().clone(), config.patience);
        let way = match runtime.way() {
            Way::Network(network) => To::Links(Links::new(network.clone(), identity, config)),
            Way::Reactors(_) => To::Sockets(Sockets::new(runtime, identity, config)?),
        };
        Ok(Self { way, buffers, patience })
    }

    /// Sets who the members are and where. Connections to those that left or moved are closed; the others stay.
    pub fn set_members(&self, members: impl IntoIterator<Item = (NodeId, SocketAddr)>) {
        match &self.way {
            To::Sockets(sockets) => sockets.set_members(members),
            To::Links(links) => links.set_members(members),
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
    ) -> Result<(Response, usize), CallError> {
        let doing = request.name();
        let answer = self.call(node, request, payload)?;
        let len_bytes = answer.payload.len();
        let Some(into) = into.get_mut(..len_bytes) else {
            let failure = PeerFailure::Nonsense(format!("{len_bytes} bytes, more than asked for"));
            let address = self.status().into_iter().find(|s| s.node == *node).map(|s| s.address);
            return Err(PeerError { node: node.clone(), address, doing, failure }.into());
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
        self.start_within(node, request, payload, self.patience)
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
        self.start_until(node, request, payload, Patience::from(patience), &never)
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
        self.start_until(node, request, payload, Patience::slow(patience), is_slow)
    }

    fn start_until(
        &self,
        node: &NodeId,
        request: Request,
        payload: Option<Buffer>,
        patience: Patience,
        is_slow: &dyn Fn() -> bool,
    ) -> Result<Pending, PeerError> {
        match &self.way {
            To::Sockets(sockets) => sockets
                .start_until(node, request, payload, patience.deadline(), is_slow)
                .map(Pending::from),
            To::Links(links) => links.start(node, request, payload, patience).map(Pending::from),
        }
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
        let patience = patience.into();
        match &self.way {
            To::Sockets(sockets) => sockets.start_now(node, request, patience).map(Pending::from),
            To::Links(links) => links.start_now(node, request, patience).map(Pending::from),
        }
    }

    /// Sends a message that has no answer, and of which nobody learns whether it arrived. Never waits: without any
    /// connection it leaves once there is one.
    ///
    /// # Errors
    /// Nothing was sent, nor will be.
    pub fn tell(&self, node: &NodeId, request: Request) -> Result<(), PeerError> {
        match &self.way {
            To::Sockets(sockets) => sockets.tell(node, request),
            To::Links(links) => links.tell(node, request),
        }
    }

    /// Whether a connection is taken at a peer's address `within` so long. Nothing is asked there.
    #[must_use]
    pub fn takes_connection(&self, node: &NodeId, address: SocketAddr, within: Duration) -> bool {
        match &self.way {
            To::Sockets(_) => TcpStream::connect_timeout(&address, within).is_ok(),
            To::Links(links) => links.takes_connection(node, address, within),
        }
    }

    /// A buffer for a payload to send; see [`crate::BufferPool::take`].
    #[must_use]
    pub fn buffer(&self, len_bytes: usize) -> Buffer {
        self.buffers.take(len_bytes)
    }

    /// A payload with a copy of `bytes`.
    #[must_use]
    pub fn copy(&self, bytes: &[u8]) -> Buffer {
        self.buffers.copy(bytes)
    }

    /// What is known of all members, sorted by name. Asks nobody.
    #[must_use]
    pub fn status(&self) -> Vec<PeerStatus> {
        match &self.way {
            To::Sockets(sockets) => sockets.status(),
            To::Links(links) => links.status(),
        }
    }
}
