//! One connection, as both sides see it, and who waits for answers on it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use intarsia_sync::Instant;
use intarsia_types::{Error, NodeId};
use intarsia_wire::{Fault, Request, Response};
use parking_lot::Mutex;

use super::Endpoint;
use super::endpoint::Served;
use crate::client::{Answer, Peer};
use crate::config::Patience;
use crate::waiting::{Deadline, Slot};
use crate::{Buffer, CallError, PeerFailure, Reply};

/// A connection between two machines.
pub(crate) struct Connection {
    pub(super) from: NodeId,
    pub(super) peer: Arc<Peer>,
    pub(super) endpoint: Arc<Endpoint>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lost: Option<String>,
    next_id: u64,
    slots: HashMap<u64, Arc<Slot<Reply>>>,
    session: Option<Arc<dyn Served>>,
}

impl Connection {
    pub(super) fn new(from: NodeId, peer: Arc<Peer>, endpoint: Arc<Endpoint>) -> Arc<Self> {
        Arc::new(Self { from, peer, endpoint, state: Mutex::default() })
    }

    pub(super) fn is_up(&self) -> bool {
        self.state.lock().lost.is_none()
    }

    pub(super) fn is_of(&self, node: &NodeId) -> bool {
        self.from == *node || self.peer.node == *node
    }

    pub(super) fn leads_to(&self, endpoint: &Arc<Endpoint>) -> bool {
        Arc::ptr_eq(&self.endpoint, endpoint)
    }

    /// The serving side has let the peer in.
    pub(super) fn begin(&self, session: Arc<dyn Served>) {
        self.state.lock().session = Some(session);
    }

    pub(super) fn session(&self) -> Option<Arc<dyn Served>> {
        self.state.lock().session.clone()
    }

    /// A place for an answer.
    pub(super) fn take_off(&self) -> Result<(u64, Arc<Slot<Reply>>), PeerFailure> {
        let mut state = self.state.lock();
        if let Some(why) = &state.lost {
            return Err(PeerFailure::Unreachable(why.clone()));
        }
        state.next_id += 1;
        let (id, slot) = (state.next_id, Arc::<Slot<Reply>>::default());
        state.slots.insert(id, Arc::clone(&slot));
        Ok((id, slot))
    }

    /// An answer is there; who asked may have given it up.
    pub(super) fn land(self: &Arc<Self>, id: u64, outcome: Result<Reply, PeerFailure>) {
        let slot = self.state.lock().slots.remove(&id);
        let unwanted = match slot {
            Some(slot) => slot.fill(outcome),
            None => outcome.ok(),
        };
        if let Some(reply) = unwanted {
            self.decline(&reply);
        }
    }

    /// As the client of a socket does.
    fn decline(self: &Arc<Self>, reply: &Reply) {
        if let Some(handle) = reply.response.opened() {
            self.tell(Request::Close { handle });
        }
    }

    /// Sends a message that has no answer, and so no deadline.
    pub(super) fn tell(self: &Arc<Self>, request: Request) {
        let deadline = Instant::now() + Duration::from_millis(u32::MAX.into());
        self.endpoint.ask(self, None, deadline, (request, Buffer::default()));
    }

    /// What is on its way is lost, and the session ends.
    pub(super) fn lose(&self, why: &str) {
        let (slots, session) = {
            let mut state = self.state.lock();
            state.lost.get_or_insert_with(|| why.to_owned());
            (std::mem::take(&mut state.slots), state.session.take())
        };
        // Who waits is woken in an order that is the same for every run.
        let mut slots: Vec<_> = slots.into_iter().collect();
        slots.sort_by_key(|(id, _)| *id);
        for (_, slot) in slots {
            slot.fill(Err(PeerFailure::Lost(why.to_owned())));
        }
        if let Some(session) = session {
            self.endpoint.end(session);
        }
    }

    /// Waits as long as `patience` says, and longer while the peer is merely slow.
    pub(super) fn pending(
        self: &Arc<Self>,
        (id, slot): (u64, Arc<Slot<Reply>>),
        patience: Patience,
        doing: &'static str,
    ) -> Pending {
        let (connection, begun) = (Arc::clone(self), Instant::now());
        Pending { connection, id, slot, begun, deadline: patience.deadline(), doing }
    }
}

/// A request in flight on a simulated connection.
pub(crate) struct Pending {
    connection: Arc<Connection>,
    id: u64,
    slot: Arc<Slot<Reply>>,
    begun: Instant,
    deadline: Deadline,
    doing: &'static str,
}

impl Pending {
    /// See [`crate::Pending`].
    pub(crate) fn is_ready(&self) -> bool {
        self.slot.is_filled()
    }

    /// See [`crate::Pending`].
    pub(crate) fn wait_while(self, is_slow: &dyn Fn() -> bool) -> Result<Answer, CallError> {
        let Reply { response, payload } = self
            .slot
            .wait(self.begun, self.deadline, is_slow)
            .map_err(|failure| self.connection.peer.error(self.doing, failure))?;
        match response {
            Response::Failed(fault) => Err(CallError::Remote(Error::from(fault))),
            response => Ok(Answer { response, payload: payload.unwrap_or_default() }),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.connection.state.lock().slots.remove(&self.id);
        if let Some(reply) = self.slot.give_up() {
            self.connection.decline(&reply);
        }
    }
}

/// What a handler said, as it goes over the wire.
pub(super) fn reply_of(outcome: Result<Reply, Error>) -> Reply {
    outcome.unwrap_or_else(|error| Reply::from(Response::Failed(Fault::from(&error))))
}
