//! The side that answers: connections in, requests to the handler, answers out in the order in which they are ready.

use std::any::Any;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use intarsia_types::{Error, Result};
use intarsia_wire::{Body, Fault, Hello, Lane, MAX_PAYLOAD_BYTES, Protection, Request, Response};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::config::{MESSAGE_BYTES, ROOM_UNIT_BYTES};
use crate::frame::{Frame, Received, Room, payload_sum};
use crate::link::{self, FrameReader, Link};
use crate::outbox::Outbox;
use crate::session::{Open, Sessions};
use crate::workers::Workers;
use crate::{Buffer, Config, Identity, Runtime, Session, StartError};

/// How long a stopping server waits for requests that run.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Answers requests. Called on the server's own threads, several at a time also for one session, so that requests
/// sent one after the other without waiting may run in any order.
pub trait Handler: Send + Sync + 'static {
    /// What is kept for a peer's session, such as its open files.
    type State: Default + Send + Sync + 'static;

    /// Decides whether a peer that holds the key may connect, by its node and incarnation.
    ///
    /// # Errors
    /// The peer is told the error and gets no connection.
    fn admit(&self, hello: &Hello) -> Result<()> {
        let _ = hello;
        Ok(())
    }

    /// Answers a request without payload at once, if that takes microseconds and waits for no disk, no lock that is
    /// held for long, and no peer; none otherwise, and then [`Self::handle`] is called on another thread. This runs
    /// where the request was received, which saves two changes of thread, and whatever is slow here stalls other
    /// connections. A read that is in the page cache is such a case (`preadv2` with `RWF_NOWAIT`).
    fn handle_now(
        &self,
        session: &Session<Self::State>,
        request: &Request,
    ) -> Option<Result<Reply>> {
        let _ = (session, request);
        None
    }

    /// Answers a request. The payload was compared with its checksum. A handler that asks a peer keeps its thread
    /// while it waits: nodes whose handlers ask each other can run out of threads, until the deadlines end that.
    ///
    /// # Errors
    /// The peer gets the same kind of error with the same errno.
    fn handle(
        &self,
        session: &Session<Self::State>,
        request: Request,
        payload: Buffer,
    ) -> Result<Reply>;

    /// The peer has no connection any more and none of its requests runs.
    fn on_close(&self, session: Session<Self::State>) {
        drop(session);
    }
}

/// An answer on its way.
#[derive(Debug)]
pub struct Reply {
    /// The answer.
    pub response: Response,
    /// Its payload, if it has one.
    pub payload: Option<Buffer>,
}

impl From<Response> for Reply {
    fn from(response: Response) -> Self {
        Self { response, payload: None }
    }
}

impl Reply {
    /// An answer with a payload.
    #[must_use]
    pub const fn with(response: Response, payload: Buffer) -> Self {
        Self { response, payload: Some(payload) }
    }
}

/// A server at work; dropping it stops it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    gone: Mutex<Receiver<Infallible>>,
}

/// What all connections of a server share.
struct Shared<H: Handler> {
    identity: Identity,
    config: Config,
    sessions: Arc<Sessions<H>>,
    small: Workers,
    bulk: Workers,
    runtime: Runtime,
    stopping: watch::Receiver<bool>,
    /// Never used to send: its end says that the listener and all connections are gone.
    _alive: Sender<Infallible>,
}

impl Server {
    /// Listens on `address`, which names one interface, and answers from now on.
    ///
    /// # Errors
    /// The address means every interface, or cannot be listened on.
    pub fn start<H: Handler>(
        runtime: &Runtime,
        address: SocketAddr,
        identity: Identity,
        config: Config,
        handler: Arc<H>,
    ) -> std::result::Result<Self, StartError> {
        if address.ip().is_unspecified() {
            let why = "it means every interface; give the address of the one that the hosts share";
            return Err(StartError::Address { address, why });
        }
        let cannot = |e| StartError::io(format!("listening on {address}"), e);
        let listener = std::net::TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let small = Workers::start("peer-small", config.workers)?;
        let bulk = Workers::start("peer-bulk", config.workers)?;
        let (stop, stopping) = watch::channel(false);
        let (alive, gone) = channel();
        let buffers = runtime.buffers().clone();
        let shared = Shared {
            sessions: Sessions::new(handler, small.clone(), buffers, &config),
            identity,
            config,
            small,
            bulk,
            runtime: runtime.clone(),
            stopping,
            _alive: alive,
        };
        let reactor = runtime.reactor().ok_or_else(|| cannot(io::ErrorKind::Other.into()))?;
        let _inside = reactor.enter();
        let listener = TcpListener::from_std(listener).map_err(cannot)?;
        reactor.spawn(Arc::new(shared).listen(listener));
        Ok(Self { address, stop, gone: Mutex::new(gone) })
    }

    /// Where it listens, with the port that the system chose when 0 was asked for.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no new requests, lets those that run finish and their answers leave, closes all connections. Waits for
    /// that a few seconds at most; false when a request still ran then.
    #[must_use]
    pub fn stop(self) -> bool {
        // Fails when no connection and no listener is left already.
        let _ = self.stop.send(true);
        matches!(
            self.gone.lock().recv_timeout(STOP_PATIENCE + Duration::from_secs(1)),
            Err(RecvTimeoutError::Disconnected)
        )
    }
}

impl<H: Handler> Shared<H> {
    async fn listen(self: Arc<Self>, listener: TcpListener) {
        let mut stopping = self.stopping.clone();
        // Strangers can hold this many sockets and no more.
        let handshakes = Arc::new(Semaphore::new(self.config.handshakes));
        loop {
            let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopping.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((socket, address)) => self.welcome(socket, address, permit),
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection");
                    // Out of files or memory: trying again at once would only spin.
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Moves the new socket to the next reactor and begins the handshake there.
    fn welcome(
        self: &Arc<Self>,
        socket: TcpStream,
        address: SocketAddr,
        permit: OwnedSemaphorePermit,
    ) {
        let (Some(reactor), Ok(socket)) = (self.runtime.reactor(), socket.into_std()) else {
            return;
        };
        let shared = Arc::clone(self);
        reactor.spawn(async move {
            let Ok(socket) = TcpStream::from_std(socket) else { return };
            let admission = |hello: &Hello| shared.sessions.handler().admit(hello);
            let Shared { identity, config, runtime, .. } = &*shared;
            let mut stopping = shared.stopping.clone();
            let accepted = tokio::select! {
                accepted = link::accept(socket, identity, &admission, config, runtime.buffers()) => accepted,
                _ = stopping.wait_for(|stop| *stop) => return,
            };
            drop(permit);
            match accepted {
                Ok((link, caller)) => {
                    let session = shared.sessions.join(&caller.hello, caller.address);
                    tracing::debug!(node = %caller.hello.node, %address, "a peer connected");
                    shared.serve(link, caller.hello.lane, session).await;
                }
                Err(error) => tracing::warn!(%address, %error, "refused a connection"),
            }
        });
    }

    /// Serves one connection until either side closes it.
    async fn serve(self: Arc<Self>, link: Link, lane: Lane, session: Arc<Open<H>>) {
        let Link { protection, writer, mut reader } = link;
        let outbox = Arc::new(Outbox::new(writer));
        tokio::spawn(Arc::clone(&outbox).run());
        let units = self.config.room_units();
        let room = Arc::new(Semaphore::new(units));
        let connection = Connection {
            workers: match lane {
                Lane::Small => self.small.clone(),
                Lane::Bulk => self.bulk.clone(),
            },
            handler: Arc::clone(self.sessions.handler()),
            outbox: Arc::clone(&outbox),
            _closer: Closer(Arc::clone(&outbox)),
            lane,
            session,
            room: Arc::clone(&room),
            protection,
        };
        let mut stopping = self.stopping.clone();
        tokio::select! {
            () = connection.receive(&mut reader) => {}
            _ = stopping.wait_for(|stop| *stop) => {}
        }
        outbox.flush();
        // Room is given back when an answer has left: all of it back means that nothing runs.
        let all = u32::try_from(units).unwrap_or(u32::MAX);
        if timeout(STOP_PATIENCE, room.acquire_many(all)).await.is_err() {
            tracing::warn!("closed a connection although a request of the peer still runs");
        }
    }
}

/// One connection's part in serving a request.
struct Connection<H: Handler> {
    workers: Workers,
    handler: Arc<H>,
    outbox: Arc<Outbox>,
    _closer: Closer,
    session: Arc<Open<H>>,
    lane: Lane,
    room: Arc<Semaphore>,
    protection: Protection,
}

/// Closes the connection however its task ends.
struct Closer(Arc<Outbox>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<H: Handler> Connection<H> {
    async fn receive(&self, reader: &mut FrameReader) {
        loop {
            match reader.next().await {
                Ok(Some(received)) => {
                    if !self.begin(received).await {
                        return;
                    }
                    // Quick answers wait for those that come next, and leave in one piece.
                    if !reader.has_frame() {
                        self.outbox.flush();
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    if let Some(session) = self.session.session() {
                        let (node, address) = (&session.node, session.address);
                        tracing::warn!(%node, %address, %error, "dropped the connection of a peer");
                    }
                    return;
                }
            }
        }
    }

    /// Room for a request; until there is some nothing more is read.
    async fn room(&self, units: u32) -> Option<Room> {
        let acquire = async |room: &Arc<Semaphore>| {
            if let Ok(permit) = Arc::clone(room).try_acquire_many_owned(units) {
                return Some(permit);
            }
            // What holds the room may be waiting to leave.
            self.outbox.flush();
            Arc::clone(room).acquire_many_owned(units).await.ok()
        };
        Some(Room {
            _connection: acquire(&self.room).await?,
            _session: acquire(self.session.room(self.lane)).await?,
        })
    }

    /// Hands a request to a thread, or answers it at once if it is quick. False when the connection must end.
    async fn begin(&self, received: Received) -> bool {
        let Received { body, payload, payload_sum } = received;
        let (id, patience_ms, request) = match body {
            Body::Request { id, patience_ms, request } => (Some(id), patience_ms, request),
            Body::OneWay { request } => (None, u32::MAX, request),
            Body::Response { .. } => return false,
        };
        let cost_bytes =
            payload.len() + request.answer_bytes().min(MAX_PAYLOAD_BYTES) + MESSAGE_BYTES;
        let units = u32::try_from(cost_bytes.div_ceil(ROOM_UNIT_BYTES)).unwrap_or(u32::MAX);
        let Some(room) = self.room(units).await else { return false };
        let job = Job {
            handler: Arc::clone(&self.handler),
            session: Arc::clone(&self.session),
            outbox: Arc::clone(&self.outbox),
            protection: self.protection,
            id,
            deadline: Instant::now() + Duration::from_millis(patience_ms.into()),
            room,
        };
        if matches!(request, Request::Ping) {
            job.answer(Ok(Response::Done.into()));
        } else if let Some(reply) = job.reply_now(&request, &payload) {
            job.answer(reply);
        } else {
            self.workers.run(Box::new(move || {
                let outbox = Arc::clone(&job.outbox);
                job.run(request, payload, payload_sum);
                outbox.flush();
            }));
        }
        true
    }
}

/// A request on its way through a thread.
struct Job<H: Handler> {
    handler: Arc<H>,
    session: Arc<Open<H>>,
    outbox: Arc<Outbox>,
    protection: Protection,
    id: Option<u64>,
    deadline: Instant,
    room: Room,
}

impl<H: Handler> Job<H> {
    fn run(self, request: Request, payload: Buffer, sum: u64) {
        let reply = self.reply(request, payload, sum);
        self.answer(reply);
    }

    fn reply(&self, request: Request, payload: Buffer, sum: u64) -> Result<Reply> {
        let doing = request.name();
        if Instant::now() > self.deadline {
            return Err(Error::Busy(format!("{doing} waited until nobody wanted it any more")));
        }
        if payload_sum(&payload) != sum {
            let what = format!("payload of a {doing} request");
            let source = io::Error::new(io::ErrorKind::InvalidData, "damaged on its way");
            return Err(Error::Io { what, source });
        }
        if request.answer_bytes() > MAX_PAYLOAD_BYTES {
            return Err(Error::Invalid(format!("{doing} of more than {MAX_PAYLOAD_BYTES} bytes")));
        }
        let Some(session) = self.session.session() else { return Err(Error::BadHandle) };
        guarded(doing, || self.handler.handle(session, request, payload)).and_then(|reply| reply)
    }

    fn reply_now(&self, request: &Request, payload: &Buffer) -> Option<Result<Reply>> {
        if !payload.is_empty() || request.answer_bytes() > MAX_PAYLOAD_BYTES {
            return None;
        }
        let session = self.session.session()?;
        match guarded(request.name(), || self.handler.handle_now(session, request)) {
            Ok(reply) => reply,
            Err(error) => Some(Err(error)),
        }
    }

    /// Queues the answer; who called flushes.
    fn answer(self, reply: Result<Reply>) {
        let Some(id) = self.id else { return };
        let failed = |error: &Error| Reply::from(Response::Failed(Fault::from(error)));
        let Reply { response, payload } = reply.unwrap_or_else(|error| failed(&error));
        let frame = |response, payload| {
            Frame::new(Body::Response { id, response }, payload, self.protection)
        };
        let frame = frame(response, payload).or_else(|error| {
            let error = Error::TooBig(format!("an answer that cannot be sent: {error}"));
            frame(Response::Failed(Fault::from(&error)), None)
        });
        if let Ok(mut frame) = frame {
            frame.room = Some(self.room);
            self.outbox.queue(frame);
        }
    }
}

/// Runs a part of the handler; if it panics, its caller gets an error and the thread goes on.
fn guarded<T>(doing: &'static str, part: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(part)).map_err(|panic| {
        let text = panic_text(&*panic).to_owned();
        tracing::error!(doing, text, "the handler of a request panicked");
        Error::Io { what: doing.to_owned(), source: io::Error::other(text) }
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic")
}
