//! Requests to other hosts, and how long each waits.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use intarsia_meta::{Inode, Invalidated, Invalidation, Owner, allowance};
use intarsia_sync::may_ask_others;
use intarsia_transport::{Answer, Buffer, CallError, Patience, PeerFailure, Pending};
use intarsia_types::{Error, InodeId, NodeId, Result};
use intarsia_wire::{RecallKind, Request, Response};

use super::{Cluster, NO_HEIR, Recalled};

impl Cluster {
    /// How long another host may take to answer: the deployment's setting, or what is left of the caller's deadline.
    fn patience(&self) -> Duration {
        allowance::of(self.identity.key.config().patience)
    }

    /// Asks `home` and waits for its answer, no longer than the caller's deadline allows.
    ///
    /// # Errors
    /// The error that `home` answers; EIO if it is lost, ETIMEDOUT or EHOSTUNREACH if it does not answer.
    pub(crate) fn call(
        &self,
        home: &NodeId,
        request: &Request,
        payload: Option<&[u8]>,
    ) -> Result<Response> {
        let answer = self.ask(home, || {
            let payload = payload.map(|bytes| self.peers.copy(bytes));
            self.peers.call_within(home, request.clone(), payload, self.patience())
        });
        answer.map(|answer| answer.response)
    }

    /// As [`call`](Self::call), for requests that can take long because the disks of `home` are slow: while its heartbeats arrive
    /// it is waited for beyond the caller's deadline, up to [`MAX_SLOWNESS`](intarsia_transport::MAX_SLOWNESS).
    pub(crate) fn call_slow(
        &self,
        home: &NodeId,
        request: &Request,
        payload: Option<&[u8]>,
    ) -> Result<Answer> {
        let is_slow = || self.membership.hears(home);
        self.ask(home, || {
            let payload = payload.map(|bytes| self.peers.copy(bytes));
            let patience = self.patience();
            let begun =
                self.peers.start_while(home, request.clone(), payload, patience, &is_slow)?;
            begun.wait_while(&is_slow)
        })
    }

    /// As [`call`](Self::call), for an answer with bytes.
    pub(crate) fn ask_for(&self, home: &NodeId, request: &Request) -> Result<Answer> {
        self.ask(home, || self.peers.call_within(home, request.clone(), None, self.patience()))
    }

    /// Sends a request to `home` if that needs no waiting: a connection is up and has room. None otherwise.
    pub(crate) fn start_now(
        &self,
        home: &NodeId,
        request: &Request,
        patience: impl Into<Patience>,
    ) -> Option<Pending> {
        self.peers.start_now(home, request.clone(), patience)
    }

    /// Waits for the answer to a request that was [started](Self::start_now), as long as the patience given there allows.
    pub(crate) fn wait_for(&self, home: &NodeId, begun: Pending) -> Result<Answer> {
        may_ask_others();
        let is_slow = || self.membership.hears(home);
        begun.wait_while(&is_slow).map_err(|error| explain(home, error))
    }

    /// Whether a host accepts a connection `within` this time.
    pub(crate) fn takes_connection(
        &self,
        node: &NodeId,
        address: SocketAddr,
        within: Duration,
    ) -> bool {
        self.peers.takes_connection(node, address, within)
    }

    /// Counts bytes of a file that are asked of another host.
    pub(crate) fn note_asked(&self, bytes: u64) {
        self.asked_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of files asked of other hosts so far.
    pub(crate) fn asked_bytes(&self) -> u64 {
        self.asked_bytes.load(Ordering::Relaxed)
    }

    /// As [`call`](Self::call), waiting no longer than `patience`.
    pub(crate) fn call_within(
        &self,
        home: &NodeId,
        request: &Request,
        patience: Duration,
    ) -> Result<Response> {
        let patience = allowance::of(patience);
        let ask = || self.peers.call_within(home, request.clone(), None, patience);
        self.ask(home, ask).map(|answer| answer.response)
    }

    /// Sends `home` a message that has no answer. If it is lost, neither side learns of that.
    pub(crate) fn tell(&self, home: &NodeId, request: &Request) -> Result<()> {
        self.ask(home, || self.peers.tell(home, request.clone()).map_err(CallError::from))
    }

    /// Sends a request to `home`; [`finish`](Self::finish) waits for the answer. While the heartbeats of `home` arrive it is waited
    /// for as in [`call_slow`](Self::call_slow).
    pub(crate) fn start(
        &self,
        home: &NodeId,
        request: Request,
        payload: Option<Buffer>,
    ) -> Result<Pending> {
        let is_slow = || self.membership.hears(home);
        Ok(self.peers.start_while(home, request, payload, self.patience(), &is_slow)?)
    }

    /// Waits for the answer to what was [started](Self::start).
    pub(crate) fn finish(&self, home: &NodeId, pending: Pending) -> Result<Response> {
        self.wait_for(home, pending).map(|answer| answer.response)
    }

    /// Runs `question`, which asks `home`. A lost host is not asked. If the address of `home` is not known, reads the records of
    /// the members and asks once more. Logs a host that does not answer.
    fn ask<T>(
        &self,
        home: &NodeId,
        mut question: impl FnMut() -> std::result::Result<T, CallError>,
    ) -> Result<T> {
        may_ask_others();
        self.require_not_lost(home).inspect_err(|error| tracing::warn!(%error, "a lost host"))?;
        let mut outcome = question();
        if let Err(CallError::Peer(error)) = &outcome
            && error.failure == PeerFailure::Unknown
        {
            self.meet()?;
            outcome = question();
        }
        outcome.map_err(|error| explain(home, error))
    }

    /// Asks `holder` to give back the right to write a file. If `heir` is given, which is this host in its present life, the right
    /// passes to it.
    pub(crate) fn recall(
        &self,
        holder: &NodeId,
        ino: InodeId,
        heir: Option<&Owner>,
        patience: Duration,
    ) -> Result<Recalled> {
        let epoch = heir.map_or(NO_HEIR, |heir| heir.epoch);
        let request = Request::Recall { ino, kind: RecallKind::Write, epoch };
        recalled(holder, &self.call_within(holder, &request, patience)?)
    }

    /// Asks `holder` to pass the right to write on to this host in its life `epoch`, with the file's bytes if they are at most
    /// `len_bytes`. Returns the record and the bytes that came with the right, if the holder had it.
    pub(crate) fn hand_over(
        &self,
        holder: &NodeId,
        ino: InodeId,
        epoch: u64,
        len_bytes: u32,
        patience: Duration,
    ) -> Result<(Recalled, Option<(Inode, Buffer)>)> {
        let request = Request::HandOver { ino, epoch, len_bytes };
        let patience = allowance::of(patience);
        let ask = || self.peers.call_within(holder, request.clone(), None, patience);
        let Answer { response, payload } = self.ask(holder, ask)?;
        match response {
            Response::HandedOver { record } => {
                self.note_asked(payload.len() as u64);
                Ok((Recalled::Released, Some((Inode::decode(ino, &record)?, payload))))
            }
            other => recalled(holder, &other).map(|recalled| (recalled, None)),
        }
    }

    /// Begins to tell a host that this one changes records which its lease covers; see [`Self::finish_change`].
    pub(crate) fn start_change(&self, holder: &Owner, told: &Invalidation) -> Result<Pending> {
        may_ask_others();
        self.require_not_lost(&holder.node)?;
        self.start(&holder.node, change_records(told), None)
    }

    /// What a host makes of a change that it was told of.
    pub(crate) fn finish_change(&self, holder: &NodeId, begun: Pending) -> Result<Invalidated> {
        made_of_change(holder, &self.finish(holder, begun)?)
    }

    /// Tells a host that a change of this one is over.
    pub(crate) fn tell_change_over(&self, holder: &NodeId, number: u64) -> Result<()> {
        self.tell(holder, &Request::ChangesOver { numbers: vec![number] })
    }

    /// Asks `holder` to give back its lease on a directory.
    pub(crate) fn recall_directory(&self, holder: &NodeId, dir: InodeId) -> Result<()> {
        let request = Request::Recall { ino: dir, kind: RecallKind::Directory, epoch: 0 };
        match self.call(holder, &request, None)? {
            Response::Released => Ok(()),
            other => Err(unexpected(holder, &other)),
        }
    }
}

fn change_records(told: &Invalidation) -> Request {
    let Invalidation { dir, number, ref keys } = *told;
    Request::ChangeRecords { dir, number, keys: keys.iter().map(|key| key.to_vec()).collect() }
}

fn made_of_change(holder: &NodeId, response: &Response) -> Result<Invalidated> {
    match response {
        Response::Done => Ok(Invalidated::Kept),
        Response::Released => Ok(Invalidated::Released),
        other => Err(unexpected(holder, other)),
    }
}

fn recalled(holder: &NodeId, response: &Response) -> Result<Recalled> {
    match *response {
        Response::Released => Ok(Recalled::Released),
        Response::Busy { retry_ms: 0 } => Ok(Recalled::InUse),
        Response::Busy { retry_ms } => {
            Ok(Recalled::Later(Duration::from_millis(u64::from(retry_ms))))
        }
        ref other => Err(unexpected(holder, other)),
    }
}

/// Logs a host that does not answer; returns the error for the caller.
fn explain(home: &NodeId, error: CallError) -> Error {
    if let CallError::Peer(error) = &error {
        tracing::warn!(%home, %error, "another host does not answer");
    }
    error.into()
}

/// The error for an answer that does not fit the question.
pub(crate) fn unexpected(home: &NodeId, response: &Response) -> Error {
    Error::Engine(format!("{home} gave an answer that does not fit: {response:?}"))
}
