//! The side that answers: messages come when their time has come, and run through the handler on a few threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use intarsia_sync::{Condvar, Instant, Mutex, thread};
use intarsia_types::{Error, NodeId};
use intarsia_wire::{Hello, Request};

use super::Network;
use super::connection::{Connection, reply_of};
use crate::workers::Workers;
use crate::{
    Buffer, BufferPool, Config, Handler, Identity, PeerFailure, Reply, Session, StartError,
};

/// Between two looks whether a link that is cut carries again.
const AGAIN: Duration = Duration::from_millis(50);
/// How long a stopping server waits for requests that run.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// One who listens.
pub(crate) struct Endpoint {
    identity: Identity,
    config: Config,
    network: Network,
    service: Box<dyn Service>,
    post: Mutex<Post>,
    arrived: Condvar,
    small: Workers,
    bulk: Workers,
    running: AtomicUsize,
    is_stopping: AtomicBool,
}

#[derive(Default)]
struct Post {
    /// By the time at which they arrive; of the same, by their order.
    letters: BTreeMap<(Instant, u64), Letter>,
    next: u64,
    is_closed: bool,
}

/// A message on its way.
struct Letter {
    sent: Instant,
    connection: Arc<Connection>,
    content: Content,
}

enum Content {
    Hello { id: u64, hello: Hello },
    Request { id: Option<u64>, deadline: Instant, request: Request, payload: Buffer },
    Answer { id: u64, outcome: Result<Reply, PeerFailure> },
}

/// Lets peers in.
trait Service: Send + Sync {
    fn join(&self, hello: &Hello, buffers: &BufferPool) -> Result<Arc<dyn Served>, Error>;
}

/// A peer's session, whatever the handler keeps for it.
pub(super) trait Served: Send + Sync {
    fn serve(&self, request: Request, payload: Buffer) -> Result<Reply, Error>;
}

struct Handled<H: Handler>(Arc<H>);

struct Open<H: Handler> {
    handler: Arc<H>,
    session: Option<Session<H::State>>,
}

impl<H: Handler> Service for Handled<H> {
    fn join(&self, hello: &Hello, buffers: &BufferPool) -> Result<Arc<dyn Served>, Error> {
        self.0.admit(hello)?;
        let address = ([0, 0, 0, 0], 0).into();
        let session = Session::new(hello.node.clone(), address, hello.epoch, buffers.clone());
        Ok(Arc::new(Open { handler: Arc::clone(&self.0), session: Some(session) }))
    }
}

impl<H: Handler> Served for Open<H> {
    fn serve(&self, request: Request, payload: Buffer) -> Result<Reply, Error> {
        let Some(session) = &self.session else { return Err(Error::BadHandle) };
        let now =
            if payload.is_empty() { self.handler.handle_now(session, &request) } else { None };
        now.unwrap_or_else(|| self.handler.handle(session, request, payload))
    }
}

impl<H: Handler> Drop for Open<H> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.handler.on_close(session);
        }
    }
}

impl Endpoint {
    pub(crate) fn start<H: Handler>(
        network: &Network,
        identity: Identity,
        config: Config,
        buffers: &BufferPool,
        handler: Arc<H>,
    ) -> Result<Arc<Self>, StartError> {
        let endpoint = Arc::new(Self {
            network: network.clone(),
            service: Box::new(Handled(handler)),
            post: Mutex::default(),
            arrived: Condvar::new(),
            small: Workers::start("peer-small", config.workers)?,
            bulk: Workers::start("peer-bulk", config.workers)?,
            running: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
            identity,
            config,
        });
        let (courier, buffers) = (Arc::clone(&endpoint), buffers.clone());
        thread::Builder::new()
            .name("courier".into())
            .spawn(move || courier.deliver_all(&buffers))
            .map_err(|e| StartError::io("starting a simulated courier", e))?;
        Ok(endpoint)
    }

    pub(super) fn node(&self) -> &NodeId {
        &self.identity.node
    }

    /// Asks to be let in.
    pub(super) fn knock(&self, connection: &Arc<Connection>, id: u64, hello: Hello) {
        self.send(connection, Content::Hello { id, hello });
    }

    /// Sends a request there; without `id` it is not answered.
    pub(super) fn ask(
        &self,
        connection: &Arc<Connection>,
        id: Option<u64>,
        deadline: Instant,
        (request, payload): (Request, Buffer),
    ) {
        self.send(connection, Content::Request { id, deadline, request, payload });
    }

    fn send(&self, connection: &Arc<Connection>, content: Content) {
        let (from, to) = (&connection.from, &connection.peer.node);
        let arrival = match content {
            Content::Answer { .. } => self.network.arrival(to, from),
            Content::Hello { .. } | Content::Request { .. } => self.network.arrival(from, to),
        };
        let connection = Arc::clone(connection);
        self.put(arrival, Letter { sent: Instant::now(), connection, content });
    }

    fn put(&self, arrival: Instant, letter: Letter) {
        let mut post = self.post.lock();
        post.next += 1;
        let key = (arrival, post.next);
        post.letters.insert(key, letter);
        drop(post);
        self.arrived.notify_one();
    }

    fn deliver_all(self: Arc<Self>, buffers: &BufferPool) {
        while let Some(letter) = self.next() {
            self.deliver(letter, buffers);
        }
    }

    /// Waits for the next letter.
    fn next(&self) -> Option<Letter> {
        let mut post = self.post.lock();
        loop {
            if post.is_closed {
                return None;
            }
            match post.letters.first_key_value().map(|(key, _)| key.0) {
                None => self.arrived.wait(&mut post),
                Some(arrival) if arrival > Instant::now() => {
                    self.arrived.wait_until(&mut post, arrival);
                }
                Some(_) => return post.letters.pop_first().map(|(_, letter)| letter),
            }
        }
    }

    fn deliver(self: &Arc<Self>, letter: Letter, buffers: &BufferPool) {
        let connection = &letter.connection;
        if !connection.is_up() {
            return;
        }
        let (from, to) = (&connection.from, &connection.peer.node);
        let link = match letter.content {
            Content::Answer { .. } => self.network.link(to, from),
            Content::Hello { .. } | Content::Request { .. } => self.network.link(from, to),
        };
        if link.is_cut {
            if letter.sent.elapsed() > self.config.silence {
                connection.lose("nothing was heard of the peer");
            } else {
                self.put(Instant::now() + AGAIN, letter);
            }
            return;
        }
        match letter.content {
            Content::Answer { id, outcome } => connection.land(id, outcome),
            _ if self.is_stopping.load(Ordering::Relaxed) => {
                connection.lose("the peer is stopping");
            }
            Content::Hello { id, hello } => {
                let (endpoint, buffers) = (Arc::clone(self), buffers.clone());
                let connection = letter.connection;
                self.run(false, move || endpoint.welcome(&connection, id, &hello, &buffers));
            }
            Content::Request { id, deadline, request, payload } => {
                let endpoint = Arc::clone(self);
                let weight = payload.len().max(request.answer_bytes());
                let connection = letter.connection;
                self.run(weight > self.config.bulk_from_bytes, move || {
                    endpoint.answer(&connection, id, deadline, request, payload);
                });
            }
        }
    }

    fn run(self: &Arc<Self>, is_bulk: bool, work: impl FnOnce() + Send + 'static) {
        self.running.fetch_add(1, Ordering::Relaxed);
        let endpoint = Arc::clone(self);
        let workers = if is_bulk { &self.bulk } else { &self.small };
        workers.run(Box::new(move || {
            work();
            endpoint.running.fetch_sub(1, Ordering::Relaxed);
        }));
    }

    fn welcome(&self, connection: &Arc<Connection>, id: u64, hello: &Hello, buffers: &BufferPool) {
        let refused = |why: String| Err(PeerFailure::Refused(why));
        let outcome = if hello.to != self.identity.node || hello.store != self.identity.store {
            refused(format!("it is {} and not {}", self.identity.node, hello.to))
        } else {
            match self.service.join(hello, buffers) {
                Ok(session) => {
                    connection.begin(session);
                    Ok(Reply::from(intarsia_wire::Response::Done))
                }
                Err(error) => refused(error.to_string()),
            }
        };
        self.send(connection, Content::Answer { id, outcome });
    }

    fn answer(
        &self,
        connection: &Arc<Connection>,
        id: Option<u64>,
        deadline: Instant,
        request: Request,
        payload: Buffer,
    ) {
        let Some(session) = connection.session() else { return };
        let doing = request.name();
        let outcome = if Instant::now() > deadline {
            Err(Error::Busy(format!("{doing} waited until nobody wanted it any more")))
        } else {
            session.serve(request, payload)
        };
        drop(session);
        if let Some(id) = id {
            self.send(connection, Content::Answer { id, outcome: Ok(reply_of(outcome)) });
        }
    }

    /// The peer is gone: what is kept for it is given up, on a thread of this machine.
    pub(super) fn end(&self, session: Arc<dyn Served>) {
        self.small.run(Box::new(move || drop(session)));
    }

    /// Takes no new requests and lets those that run finish; false when one still runs after a few seconds.
    pub(crate) fn stop(self: &Arc<Self>, address: std::net::SocketAddr) -> bool {
        self.is_stopping.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + STOP_PATIENCE;
        while self.running.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            thread::sleep(AGAIN);
        }
        self.network.stop_listening(address, self);
        self.post.lock().is_closed = true;
        self.arrived.notify_all();
        self.running.load(Ordering::Relaxed) == 0
    }
}

/// Numbers that tell sessions apart; within one process, so that a run is the same every time.
pub(super) fn next_session() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("node", &self.identity.node).finish_non_exhaustive()
    }
}
