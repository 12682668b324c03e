//! What this node does for other hosts: it serves the files whose home it is, and gives leases back.
//!
//! Owns what other hosts have open here, and which life of each is the newest.
//! Asks `inode` for live files and leases, `replication` for replicas on their way here, `rebalance` for moves, `locks`
//! for the locks that it is master of, and through [`PeerFiles`] what is done as for a program: read, write, cut,
//! allocate, publish, close.
//! Promises that a host that was given up, or an earlier life of one, changes nothing, and that work on a request for a
//! live file ends at a deadline after which the host that sent it waits no more.

mod awaited;
mod copies;
mod files;
mod guest;
pub(crate) mod handles;
mod lives;
mod parts;
mod rights;
pub(crate) mod serving;

use std::sync::{Arc, Weak};
use std::time::Duration;

use intarsia_sync::{Instant, Relapse};
use intarsia_transport::{Buffer, Handler, Reply, Session};
use intarsia_types::{Error, Result};
use intarsia_wire::{Hello, Request};

use crate::peer::awaited::limit_to_wait;
use crate::peer::files::end;
use crate::peer::guest::Guest;
use crate::peer::lives::Lives;
use crate::peer::serving::{Peer, PeerFiles};

/// Answers the requests of other hosts.
pub(crate) struct PeerService {
    peer: Weak<Peer>,
    files: Weak<dyn PeerFiles>,
    lives: Lives,
}

impl PeerService {
    pub(crate) fn new(peer: Weak<Peer>, files: Weak<dyn PeerFiles>) -> Self {
        Self { peer, files, lives: Lives::default() }
    }

    fn peer(&self) -> Result<Arc<Peer>> {
        self.peer.upgrade().ok_or_else(stopping)
    }

    fn files(&self) -> Result<Arc<dyn PeerFiles>> {
        self.files.upgrade().ok_or_else(stopping)
    }

    /// Refuses requests with EHOSTUNREACH while the other hosts have given this one up: what it knows of files does not count.
    fn require_member(&self) -> Result<()> {
        if self.peer()?.members.is_fenced() {
            let gone = rustix::io::Errno::HOSTUNREACH.into();
            return Err(Error::io("the host was declared lost and is not back yet", gone));
        }
        Ok(())
    }

    /// Refuses with EIO a change that was on its way when the host that sent it was given up, or when its process ended:
    /// another host may have taken the file over since.
    fn require_lives(&self, session: &Session<Guest>) -> Result<()> {
        self.lives.require_newest(&session.node, session.epoch)?;
        self.peer()?.members.require_not_given_up(&session.node)
    }

    fn answer(&self, call: Call<'_>) -> Result<Reply> {
        let Call { session, request, .. } = call;
        // A host sends a close once and does not repeat it, so closes are taken also while this host is just coming back.
        if !matches!(request, Request::Close { .. }) {
            self.require_member()?;
        }
        if is_change(request) {
            self.require_lives(session)?;
        }
        for answer in ANSWERS {
            if let Some(reply) = answer(self, call)? {
                return Ok(reply);
            }
        }
        let what = format!("'{}' is not served by this version", request.name());
        Err(Error::Invalid(what))
    }
}

/// What another host asks.
#[derive(Clone, Copy)]
struct Call<'a> {
    session: &'a Session<Guest>,
    request: &'a Request,
    payload: &'a [u8],
}

/// Answers a request, or says that it is not one of its own.
type Answer = fn(&PeerService, Call<'_>) -> Result<Option<Reply>>;

/// In this order: a handle may be of a part, and only if it is not, of a file.
const ANSWERS: [Answer; 7] = [
    PeerService::answer_part,
    PeerService::answer_file,
    PeerService::answer_change,
    PeerService::answer_claim,
    PeerService::answer_spread,
    PeerService::answer_push,
    PeerService::answer_notice,
];

impl Handler for PeerService {
    type State = Guest;

    fn admit(&self, hello: &Hello) -> Result<()> {
        self.lives.note(&hello.node, hello.epoch);
        Ok(())
    }

    fn handle(&self, session: &Session<Guest>, request: Request, payload: Buffer) -> Result<Reply> {
        let (kind, came) = (request.name(), Instant::now());
        let _coarse = Relapse::coarse_lock();
        let _limit = limit_to_wait(&request, came);
        let call = Call { session, request: &request, payload: &payload };
        let answer = self.answer(call);
        if let Some(peer) = self.peer.upgrade() {
            peer.metrics.served(kind, came, answer.is_ok());
        }
        answer
    }

    fn on_close(&self, session: Session<Guest>) {
        let (Ok(peer), Ok(files)) = (self.peer(), self.files()) else { return };
        for open in session.state.files.into_inner().into_values() {
            // The host has not closed the file. It is closed here, as the kernel closes those of a program that was killed.
            end(&peer, &*files, &session.node, &open);
        }
    }
}

fn stopping() -> Error {
    Error::Busy("the node is stopping".into())
}

/// A pause for the answer, at least 1 ms: 0 means that the file is in use.
fn retry_ms(pause: Duration) -> u32 {
    u32::try_from(pause.as_millis()).unwrap_or(u32::MAX).max(1)
}

const fn is_change(request: &Request) -> bool {
    matches!(request, Request::Write { .. } | Request::Truncate { .. } | Request::Allocate { .. })
}
