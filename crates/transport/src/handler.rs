//! What a node does for its peers, as this crate sees it.

use intarsia_types::Result;
use intarsia_wire::{Hello, Request, Response};

use crate::{Buffer, Session};

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
