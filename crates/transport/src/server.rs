//! The side that answers: connections in, requests to the handler, answers out in the order in which they are ready.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use intarsia_wire::{Hello, Lane};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::connection::{Closer, Connection};
use crate::link::{self, Link, LinkError};
use crate::lobby::{Lobby, Place};
use crate::outbox::Outbox;
use crate::runtime::Way;
use crate::session::{Open, Sessions};
use crate::simulated::Endpoint;
use crate::workers::Workers;
use crate::{Config, Handler, Identity, Runtime, StartError};

/// How long a stopping server waits for requests that run.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// A server at work; dropping it stops it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    listening: Listening,
}

/// How a server is reached.
#[derive(Debug)]
enum Listening {
    OnSocket { stop: watch::Sender<bool>, gone: Mutex<Receiver<Infallible>> },
    OnNetwork(Arc<Endpoint>),
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
    ) -> Result<Self, StartError> {
        if address.ip().is_unspecified() {
            let why = "it means every interface; give the address of the one that the hosts share";
            return Err(StartError::Address { address, why });
        }
        if let Way::Network(network) = runtime.way() {
            let endpoint = Endpoint::start(network, identity, config, runtime.buffers(), handler)?;
            network.listen(address, Arc::clone(&endpoint));
            return Ok(Self { address, listening: Listening::OnNetwork(endpoint) });
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
        let listening = Listening::OnSocket { stop, gone: Mutex::new(gone) };
        Ok(Self { address, listening })
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
        match &self.listening {
            Listening::OnNetwork(endpoint) => endpoint.stop(self.address),
            Listening::OnSocket { stop, gone } => {
                // Fails when no connection and no listener is left already.
                let _ = stop.send(true);
                matches!(
                    gone.lock().recv_timeout(STOP_PATIENCE + Duration::from_secs(1)),
                    Err(RecvTimeoutError::Disconnected)
                )
            }
        }
    }
}

impl<H: Handler> Shared<H> {
    async fn listen(self: Arc<Self>, listener: TcpListener) {
        let mut stopping = self.stopping.clone();
        // Strangers can hold so many sockets and no more, and keep nobody waiting.
        let lobby = Lobby::new(self.config.handshakes, self.config.handshakes_per_address);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopping.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((socket, address)) => {
                    let place = lobby.enter(address.ip());
                    self.welcome(socket, address, place);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection");
                    // Out of files or memory: trying again at once would only spin.
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Moves the new socket to the next reactor and begins the handshake there.
    fn welcome(self: &Arc<Self>, socket: TcpStream, address: SocketAddr, mut place: Place) {
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
                () = place.is_taken() => Err(LinkError::Refused(
                    "it did not prove the key before too many others came".to_owned(),
                )),
                _ = stopping.wait_for(|stop| *stop) => return,
            };
            drop(place);
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
