//! A place for one connection to a peer: made when it is first needed, made anew when it broke.

use std::sync::Arc;
use std::time::Duration;

use intarsia_sync::{Condvar, Instant, Mutex, Relapse};
use intarsia_wire::{Lane as Kind, Request, Welcome};
use tokio::runtime::Handle;

use crate::bond::Bond;
use crate::client::{Client, Peer};
use crate::link::{self, Introduction, Link, LinkError};
use crate::{BufferPool, Config, Identity, PeerFailure};

/// What every lane of a node needs to connect.
pub(crate) struct Context {
    pub(crate) identity: Identity,
    pub(crate) config: Config,
    pub(crate) buffers: BufferPool,
}

/// How long a caller waits for an attempt that follows a failed one. A host that is back answers in less.
const DOUBT: Duration = Duration::from_millis(200);
/// Messages that may wait for a connection.
const WAITING_MAX: usize = 1024;

pub(crate) struct Lane {
    peer: Arc<Peer>,
    kind: Kind,
    bond: Arc<Bond>,
    context: Arc<Context>,
    state: Mutex<State>,
    changed: Condvar,
}

enum State {
    /// Nobody has needed it yet, or it broke after having been up.
    Idle,
    /// An attempt runs; what the one before it came to, if that failed.
    Connecting {
        before: Option<PeerFailure>,
        /// Messages without an answer that leave once it is up.
        waiting: Vec<Request>,
    },
    Up(Arc<Client>, Welcome),
    /// The last attempt failed; the next one waits for its time.
    Down {
        failure: PeerFailure,
        until: Instant,
        pause: Duration,
    },
    /// The peer is no member any more, or this node stops.
    Closed(String),
}

impl Lane {
    pub(crate) fn new(peer: Arc<Peer>, kind: Kind, bond: Arc<Bond>, context: Arc<Context>) -> Self {
        Self { peer, kind, bond, context, state: Mutex::new(State::Idle), changed: Condvar::new() }
    }

    /// The connection, made on `reactor` if there is none; waits for that at most until `deadline`.
    ///
    /// After a failed attempt callers get its reason at once until the pause is over, and soon while the next attempt
    /// runs: whoever can go elsewhere should not wait for a host that is probably gone.
    pub(crate) fn client(
        self: &Arc<Self>,
        reactor: Option<&Handle>,
        deadline: Instant,
    ) -> Result<Arc<Client>, PeerFailure> {
        let begun = Instant::now();
        let mut state = self.state.lock();
        loop {
            let before = match &*state {
                State::Up(client, _) if client.is_up() => return Ok(Arc::clone(client)),
                State::Closed(why) => return Err(PeerFailure::Unreachable(why.clone())),
                State::Down { failure, until, .. } if Instant::now() < *until => {
                    return Err(failure.clone());
                }
                State::Connecting { before, .. } => {
                    let before = before.clone();
                    let limit = match before {
                        Some(_) => deadline.min(begun + DOUBT),
                        None => deadline,
                    };
                    if self.changed.wait_until(&mut state, limit).timed_out() {
                        let unknown = || PeerFailure::Unreachable("still connecting".to_owned());
                        return Err(before.unwrap_or_else(unknown));
                    }
                    continue;
                }
                State::Down { pause, failure, .. } => Some((*pause, failure.clone())),
                State::Idle | State::Up(..) => None,
            };
            *state = self.connect(reactor, before, Vec::new())?;
        }
    }

    /// Sends a message without an answer. Never waits: without a connection it leaves once there is one.
    ///
    /// # Errors
    /// The last attempt to connect failed just now, or too much waits already.
    pub(crate) fn tell(
        self: &Arc<Self>,
        reactor: Option<&Handle>,
        request: Request,
    ) -> Result<(), PeerFailure> {
        let mut state = self.state.lock();
        let before = match &mut *state {
            State::Up(client, _) if client.is_up() => {
                let client = Arc::clone(client);
                drop(state);
                return client.tell(request).map_err(|error| error.failure);
            }
            State::Closed(why) => return Err(PeerFailure::Unreachable(why.clone())),
            State::Down { failure, until, .. } if Instant::now() < *until => {
                return Err(failure.clone());
            }
            State::Connecting { waiting, .. } => {
                if waiting.len() >= WAITING_MAX {
                    return Err(PeerFailure::Unreachable("still connecting".to_owned()));
                }
                waiting.push(request);
                return Ok(());
            }
            State::Down { pause, failure, .. } => Some((*pause, failure.clone())),
            State::Idle | State::Up(..) => None,
        };
        *state = self.connect(reactor, before, vec![request])?;
        Ok(())
    }

    /// Begins an attempt to connect; what the one before it came to is in `before`.
    fn connect(
        self: &Arc<Self>,
        reactor: Option<&Handle>,
        before: Option<(Duration, PeerFailure)>,
        waiting: Vec<Request>,
    ) -> Result<State, PeerFailure> {
        let Some(reactor) = reactor else {
            return Err(PeerFailure::Unreachable("this node is stopping".to_owned()));
        };
        let (pause, before) = before.unzip();
        reactor.spawn(Attempt { lane: Arc::clone(self), pause, is_over: false }.run());
        Ok(State::Connecting { before, waiting })
    }

    /// The connection if there is one; never connects.
    pub(crate) fn existing(&self) -> Option<(Arc<Client>, Welcome)> {
        match &*self.state.lock() {
            State::Up(client, welcome) if client.is_up() => {
                Some((Arc::clone(client), welcome.clone()))
            }
            _ => None,
        }
    }

    /// Why the last attempt to connect failed, while that is the latest news.
    pub(crate) fn failure(&self) -> Option<PeerFailure> {
        match &*self.state.lock() {
            State::Down { failure, .. } => Some(failure.clone()),
            State::Connecting { before, .. } => before.clone(),
            _ => None,
        }
    }

    /// Ends the connection and refuses all further use.
    pub(crate) fn close(&self, why: &str) {
        let before = std::mem::replace(&mut *self.state.lock(), State::Closed(why.to_owned()));
        if let State::Up(client, _) = before {
            client.close(why);
        }
        self.changed.notify_all();
    }

    /// An attempt to connect for session `number` has ended.
    fn settle(
        &self,
        number: u64,
        outcome: Result<(Link, Welcome), LinkError>,
        pause: Option<Duration>,
    ) {
        let config = &self.context.config;
        let mut state = self.state.lock();
        let State::Connecting { waiting, .. } = &mut *state else { return };
        let waiting = std::mem::take(waiting);
        let mut up = None;
        *state = match outcome {
            Ok((link, welcome)) => {
                let (peer, bond) = (Arc::clone(&self.peer), Arc::clone(&self.bond));
                let client = Client::start(peer, link, config.room_bytes(), bond, number);
                if self.bond.add(number, &client) {
                    up = Some(Arc::clone(&client));
                    State::Up(client, welcome)
                } else {
                    client.close("its session ended while it was being made");
                    State::Idle
                }
            }
            Err(error) => {
                let (node, address) = (&self.peer.node, self.peer.address);
                let next = pause.map_or(config.min_backoff, |pause| pause * 2);
                let pause = next.min(config.max_backoff);
                tracing::warn!(%node, %address, %error, ?pause, "cannot connect to a peer");
                State::Down { failure: error.failure(), until: Instant::now() + pause, pause }
            }
        };
        drop(state);
        self.changed.notify_all();
        let Some(client) = up else { return };
        for request in waiting {
            if let Err(error) = client.tell(request) {
                tracing::debug!(%error, "a message that waited for its connection is lost");
            }
        }
    }
}

/// One attempt to connect. Dropped unfinished, as when the reactor stops, it still tells those who wait.
struct Attempt {
    lane: Arc<Lane>,
    pause: Option<Duration>,
    is_over: bool,
}

impl Attempt {
    async fn run(mut self) {
        let lane = Arc::clone(&self.lane);
        let Context { identity, config, buffers } = &*lane.context;
        let session = lane.bond.session();
        let who = Introduction { identity, to: &lane.peer.node, session, lane: lane.kind };
        if let Some(delay) = Relapse::connection_delay() {
            tokio::time::sleep(delay).await;
        }
        let outcome = link::connect(lane.peer.address, who, config, buffers).await;
        self.is_over = true;
        lane.settle(session, outcome, self.pause);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_over {
            self.lane.close("this node is stopping");
        }
    }
}
