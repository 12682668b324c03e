//! All connections that one incarnation of a peer has to this node, as one: handles opened on one connection are good
//! on the others.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use intarsia_types::NodeId;
use intarsia_wire::{Hello, Lane};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::workers::Workers;
use crate::{Buffer, BufferPool, Config, Handler};

/// A peer's session: who it is, and what the handler keeps for it.
#[derive(Debug)]
pub struct Session<S> {
    /// The peer.
    pub node: NodeId,
    /// Where its first connection came from.
    pub address: SocketAddr,
    /// Its incarnation.
    pub epoch: u64,
    /// What the handler keeps; gone with the session.
    pub state: S,
    buffers: BufferPool,
}

impl<S: Default> Session<S> {
    pub(crate) fn new(node: NodeId, address: SocketAddr, epoch: u64, buffers: BufferPool) -> Self {
        Self { node, address, epoch, state: S::default(), buffers }
    }
}

impl<S> Session<S> {
    /// A buffer for an answer's payload, with arbitrary old content: truncate it to what was filled.
    #[must_use]
    pub fn buffer(&self, len_bytes: usize) -> Buffer {
        self.buffers.take(len_bytes)
    }
}

/// What tells sessions apart: name, incarnation, and the number the peer chose.
type Key = (NodeId, u64, u64);

/// The sessions that have a connection or a running request.
pub(crate) struct Sessions<H: Handler> {
    open: Mutex<HashMap<Key, Weak<Open<H>>>>,
    /// By name and incarnation.
    rooms: Mutex<HashMap<(NodeId, u64), Weak<Rooms>>>,
    handler: Arc<H>,
    workers: Workers,
    buffers: BufferPool,
    room_units: usize,
    bulk_connections: usize,
}

/// A hold on a session; with the last one the session is over.
pub(crate) struct Open<H: Handler> {
    session: Option<Session<H::State>>,
    key: Key,
    sessions: Arc<Sessions<H>>,
    rooms: Arc<Rooms>,
}

/// What a peer may have in flight on all connections of all its sessions: one that connects anew while its old
/// requests hang in a disk gets no further memory.
struct Rooms {
    small: Arc<Semaphore>,
    bulk: Arc<Semaphore>,
}

impl<H: Handler> Sessions<H> {
    pub(crate) fn new(
        handler: Arc<H>,
        workers: Workers,
        buffers: BufferPool,
        config: &Config,
    ) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            rooms: Mutex::default(),
            handler,
            workers,
            buffers,
            room_units: config.room_units(),
            bulk_connections: config.bulk_connections.max(1),
        })
    }

    pub(crate) fn handler(&self) -> &Arc<H> {
        &self.handler
    }

    /// The session that a new connection belongs to, begun if it is the first.
    pub(crate) fn join(self: &Arc<Self>, hello: &Hello, address: SocketAddr) -> Arc<Open<H>> {
        let key = (hello.node.clone(), hello.epoch, hello.session);
        let mut open = self.open.lock();
        if let Some(session) = open.get(&key).and_then(Weak::upgrade) {
            return session;
        }
        let session = Arc::new(Open {
            session: Some(Session::new(
                hello.node.clone(),
                address,
                hello.epoch,
                self.buffers.clone(),
            )),
            key: key.clone(),
            sessions: Arc::clone(self),
            rooms: self.rooms(&key),
        });
        open.insert(key, Arc::downgrade(&session));
        session
    }

    /// The peer's limits, which outlive a session while requests of it run.
    fn rooms(&self, (node, epoch, _): &Key) -> Arc<Rooms> {
        let mut rooms = self.rooms.lock();
        rooms.retain(|_, rooms| rooms.strong_count() > 0);
        let peer = (node.clone(), *epoch);
        if let Some(known) = rooms.get(&peer).and_then(Weak::upgrade) {
            return known;
        }
        let room = |units| Arc::new(Semaphore::new(units));
        let (small, bulk) = (self.room_units, self.room_units * self.bulk_connections);
        let new = Arc::new(Rooms { small: room(small), bulk: room(bulk) });
        rooms.insert(peer, Arc::downgrade(&new));
        new
    }

    fn close(&self, key: &Key, session: Session<H::State>) {
        {
            let mut open = self.open.lock();
            // A new session of the same peer may have taken the place already.
            if open.get(key).is_some_and(|session| session.strong_count() == 0) {
                open.remove(key);
            }
        }
        let handler = Arc::clone(&self.handler);
        // Closing files takes time; the thread that let go may be a reactor.
        self.workers.run(Box::new(move || handler.on_close(session)));
    }
}

impl<H: Handler> Open<H> {
    pub(crate) fn session(&self) -> Option<&Session<H::State>> {
        self.session.as_ref()
    }

    /// The limit of the peer, beside that of each connection.
    pub(crate) fn room(&self, lane: Lane) -> &Arc<Semaphore> {
        match lane {
            Lane::Small => &self.rooms.small,
            Lane::Bulk => &self.rooms.bulk,
        }
    }
}

impl<H: Handler> Drop for Open<H> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.sessions.close(&self.key, session);
        }
    }
}
