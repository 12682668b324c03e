//! The answering side of one connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use intarsia_wire::{Body, Lane, MAX_PAYLOAD_BYTES, Protection, Request, Response};
use tokio::sync::Semaphore;

use crate::Handler;
use crate::config::{MESSAGE_BYTES, ROOM_UNIT_BYTES};
use crate::frame::{Received, Room};
use crate::job::Job;
use crate::link::FrameReader;
use crate::outbox::Outbox;
use crate::session::Open;
use crate::workers::Workers;

/// One connection's part in serving a request.
pub(crate) struct Connection<H: Handler> {
    pub(crate) workers: Workers,
    pub(crate) handler: Arc<H>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) _closer: Closer,
    pub(crate) session: Arc<Open<H>>,
    pub(crate) lane: Lane,
    pub(crate) room: Arc<Semaphore>,
    pub(crate) protection: Protection,
}

/// Closes the connection however its task ends.
pub(crate) struct Closer(pub(crate) Arc<Outbox>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<H: Handler> Connection<H> {
    /// Serves until the peer closes the connection or breaks the protocol.
    pub(crate) async fn receive(&self, reader: &mut FrameReader) {
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
