//! One request on its way through the handler.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use intarsia_types::{Error, Result};
use intarsia_wire::{Body, Fault, MAX_PAYLOAD_BYTES, Protection, Request, Response};

use crate::frame::{Frame, Room, payload_sum};
use crate::outbox::Outbox;
use crate::session::Open;
use crate::{Buffer, Handler, Reply};

/// A request on its way through a thread.
pub(crate) struct Job<H: Handler> {
    pub(crate) handler: Arc<H>,
    pub(crate) session: Arc<Open<H>>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) protection: Protection,
    pub(crate) id: Option<u64>,
    pub(crate) deadline: Instant,
    pub(crate) room: Room,
}

impl<H: Handler> Job<H> {
    pub(crate) fn run(self, request: Request, payload: Buffer, sum: u64) {
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

    pub(crate) fn reply_now(&self, request: &Request, payload: &Buffer) -> Option<Result<Reply>> {
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
    pub(crate) fn answer(self, reply: Result<Reply>) {
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
