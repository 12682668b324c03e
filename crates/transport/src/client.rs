//! The asking side of one connection: what is in flight on it, and who waits for what.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Error, NodeId};
use intarsia_wire::{Body, Protection, Request, Response};

use crate::bond::Bond;
use crate::frame::{Frame, Received, payload_sum};
use crate::link::{FrameReader, Link};
use crate::outbox::Outbox;
use crate::waiting::{Deadline, Slot, millis};
use crate::{Buffer, CallError, PeerError, PeerFailure, config};

/// What a peer answered.
#[derive(Debug)]
pub struct Answer {
    /// The answer; never [`Response::Failed`], which becomes an error.
    pub response: Response,
    /// Its payload, compared with its checksum; empty without one.
    pub payload: Buffer,
}

/// How long a caller waits.
#[derive(Clone, Copy)]
pub(crate) struct Until {
    /// For room among what is in flight.
    pub(crate) room: Deadline,
    /// For the answer.
    pub(crate) answer: Deadline,
}

/// A peer as messages name it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) address: SocketAddr,
}

impl Peer {
    pub(crate) fn error(&self, doing: &'static str, failure: PeerFailure) -> PeerError {
        PeerError { node: self.node.clone(), address: Some(self.address), doing, failure }
    }
}

/// One connection to a peer.
pub(crate) struct Client {
    peer: Arc<Peer>,
    protection: Protection,
    outbox: Arc<Outbox>,
    room_bytes: usize,
    flights: Mutex<Flights>,
    landed: Condvar,
    /// What it belongs to, and the session that it joined.
    bond: Arc<Bond>,
    session: u64,
}

/// Requests without an answer yet.
#[derive(Default)]
struct Flights {
    next_id: u64,
    slots: HashMap<u64, Flight>,
    in_flight_bytes: usize,
    /// Why the connection is gone.
    lost: Option<String>,
}

struct Flight {
    slot: Arc<Slot<Landed>>,
    cost_bytes: usize,
}

struct Landed {
    response: Response,
    payload: Buffer,
    payload_sum: u64,
}

impl Client {
    /// Takes a new connection into use. Runs inside the reactor that the connection belongs to.
    pub(crate) fn start(
        peer: Arc<Peer>,
        link: Link,
        room_bytes: usize,
        bond: Arc<Bond>,
        session: u64,
    ) -> Arc<Self> {
        let Link { protection, writer, reader } = link;
        let outbox = Arc::new(Outbox::new(writer));
        tokio::spawn(Arc::clone(&outbox).run());
        let client = Arc::new(Self {
            peer,
            protection,
            outbox,
            room_bytes,
            flights: Mutex::default(),
            landed: Condvar::new(),
            bond,
            session,
        });
        tokio::spawn(Guard(Arc::clone(&client)).receive(reader));
        client
    }

    /// Whether requests can still be sent.
    pub(crate) fn is_up(&self) -> bool {
        self.flights.lock().lost.is_none()
    }

    /// Payload bytes in flight.
    pub(crate) fn in_flight_bytes(&self) -> usize {
        self.flights.lock().in_flight_bytes
    }

    /// Sends a request. Waits for room among what is in flight.
    pub(crate) fn ask(
        self: Arc<Self>,
        request: Request,
        payload: Option<Buffer>,
        until: Until,
        is_slow: &dyn Fn() -> bool,
    ) -> Result<Pending, PeerError> {
        let Until { room, answer: deadline } = until;
        let doing = request.name();
        let begun = Instant::now();
        let sent_bytes = payload.as_deref().map_or(0, <[u8]>::len);
        let cost_bytes = sent_bytes + request.answer_bytes() + config::MESSAGE_BYTES;
        let (id, slot) = self
            .take_off(cost_bytes, begun, room, is_slow)
            .map_err(|failure| self.peer.error(doing, failure))?;
        let pending = Pending { client: self, id, slot, begun, deadline, doing };
        let patience_ms = millis(deadline.last.saturating_duration_since(begun));
        let body = Body::Request {
            id,
            patience_ms: u32::try_from(patience_ms).unwrap_or(u32::MAX),
            request,
        };
        let client = &pending.client;
        let frame = Frame::new(body, payload, client.protection)
            .map_err(|e| client.peer.error(doing, PeerFailure::Unsendable(e.to_string())))?;
        if !client.outbox.send(frame) {
            return Err(client.peer.error(doing, client.unreachable()));
        }
        Ok(pending)
    }

    /// Sends a message that has no answer.
    pub(crate) fn tell(&self, request: Request) -> Result<(), PeerError> {
        let doing = request.name();
        let frame = Frame::new(Body::OneWay { request }, None, self.protection)
            .map_err(|e| self.peer.error(doing, PeerFailure::Unsendable(e.to_string())))?;
        if self.outbox.send(frame) {
            Ok(())
        } else {
            Err(self.peer.error(doing, self.unreachable()))
        }
    }

    /// Closes the connection, and its session; what is in flight fails with `why`.
    pub(crate) fn close(&self, why: &str) {
        let slots = {
            let mut flights = self.flights.lock();
            flights.lost.get_or_insert_with(|| why.to_owned());
            flights.in_flight_bytes = 0;
            std::mem::take(&mut flights.slots)
        };
        // Before anybody learns of it: who asks again is to find none of them up.
        self.bond.end(self.session);
        if !slots.is_empty() {
            let (node, address, count) = (&self.peer.node, self.peer.address, slots.len());
            tracing::warn!(%node, %address, count, why, "requests to a peer failed: connection lost");
        }
        for flight in slots.into_values() {
            flight.slot.fill(Err(PeerFailure::Lost(why.to_owned())));
        }
        self.landed.notify_all();
        self.outbox.close();
    }

    fn unreachable(&self) -> PeerFailure {
        let why = self.flights.lock().lost.clone();
        PeerFailure::Unreachable(why.unwrap_or_else(|| "the connection is closing".to_owned()))
    }

    fn take_off(
        &self,
        cost_bytes: usize,
        begun: Instant,
        deadline: Deadline,
        is_slow: &dyn Fn() -> bool,
    ) -> Result<(u64, Arc<Slot<Landed>>), PeerFailure> {
        if cost_bytes > self.room_bytes {
            let limit = self.room_bytes;
            return Err(PeerFailure::Unsendable(format!(
                "{cost_bytes} bytes at once, over {limit}"
            )));
        }
        let mut flights = self.flights.lock();
        loop {
            if let Some(why) = &flights.lost {
                return Err(PeerFailure::Unreachable(why.clone()));
            }
            if flights.in_flight_bytes + cost_bytes <= self.room_bytes {
                break;
            }
            let Some(until) = deadline.next(is_slow) else {
                let waited_ms = millis(begun.elapsed());
                let room = self.room_bytes;
                return Err(PeerFailure::Unreachable(format!(
                    "no room among {room} bytes in flight within {waited_ms} ms"
                )));
            };
            self.landed.wait_until(&mut flights, until);
        }
        let id = flights.next_id;
        flights.next_id += 1;
        flights.in_flight_bytes += cost_bytes;
        let slot = Arc::new(Slot::default());
        flights.slots.insert(id, Flight { slot: Arc::clone(&slot), cost_bytes });
        Ok((id, slot))
    }

    /// Takes a request out of those in flight; none when it was answered, failed or given up before.
    fn land(&self, id: u64) -> Option<Arc<Slot<Landed>>> {
        let mut flights = self.flights.lock();
        let flight = flights.slots.remove(&id)?;
        flights.in_flight_bytes = flights.in_flight_bytes.saturating_sub(flight.cost_bytes);
        drop(flights);
        // All: the room may be too little for the first who waits and enough for the next.
        self.landed.notify_all();
        Some(flight.slot)
    }

    fn deliver(&self, received: Received) -> Result<(), String> {
        let Received { body, payload, payload_sum } = received;
        let Body::Response { id, response } = body else {
            return Err("it asks where it should answer".to_owned());
        };
        let landed = Landed { response, payload, payload_sum };
        let unwanted = match self.land(id) {
            Some(slot) => slot.fill(Ok(landed)),
            None => Some(landed),
        };
        if let Some(Landed { response, .. }) = unwanted {
            self.decline(&response);
        }
        Ok(())
    }

    /// Whoever asked has given up: what the late answer opened would stay open for as long as the session lasts.
    fn decline(&self, response: &Response) {
        if let Some(handle) = response.opened() {
            // Else it ends with the connection.
            let _ = self.tell(Request::Close { handle });
        }
    }
}

/// The receiving task's hold on a connection: however the task ends, all who wait are told.
struct Guard(Arc<Client>);

impl Guard {
    async fn receive(self, mut reader: FrameReader) {
        let why = loop {
            match reader.next().await {
                Ok(Some(received)) => {
                    if let Err(why) = self.0.deliver(received) {
                        break why;
                    }
                }
                Ok(None) => break "the peer closed the connection".to_owned(),
                Err(error) => break error.to_string(),
            }
        };
        self.0.close(&why);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.close("this node is stopping");
    }
}

/// A request in flight on a connection.
pub(crate) struct Pending {
    client: Arc<Client>,
    id: u64,
    slot: Arc<Slot<Landed>>,
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
        let landed = self.slot.wait(self.begun, self.deadline, is_slow).map_err(|failure| {
            let error = self.client.peer.error(self.doing, failure);
            if matches!(error.failure, PeerFailure::Timeout { .. }) {
                tracing::warn!(%error, "no answer from a peer");
            }
            error
        })?;
        // Here and not where it was received: the waiting thread has time, the reactor has not.
        if payload_sum(&landed.payload) != landed.payload_sum {
            self.client.decline(&landed.response);
            let error = self.client.peer.error(self.doing, PeerFailure::Damaged);
            tracing::error!(%error, "refused an answer");
            return Err(error.into());
        }
        match landed.response {
            Response::Failed(fault) => Err(CallError::Remote(Error::from(fault))),
            response => Ok(Answer { response, payload: landed.payload }),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.client.land(self.id);
        // It came, and was not waited for.
        if let Some(landed) = self.slot.give_up() {
            self.client.decline(&landed.response);
        }
    }
}
