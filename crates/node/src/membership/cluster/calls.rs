//! Requests to other hosts, and how long each waits.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use intarsia_meta::{Inode, Owner, allowance};
use intarsia_sync::may_ask_others;
use intarsia_transport::{Answer, Buffer, CallError, Patience, PeerFailure, Pending};
use intarsia_types::{Error, InodeId, NodeId, Result};
use intarsia_wire::{RecallKind, Request, Response};

use super::{Cluster, NO_HEIR, Recalled};

impl Cluster {
    /// How long another host may take to answer.
    fn patience(&self) -> Duration {
        allowance::of(self.identity.key.config().patience)
    }

    /// Asks `home` and waits for its answer, for a bounded time.
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

    /// As [`call`](Self::call), for what can take `home` long because its disks are slow: while it lives it is waited
    /// for longer.
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

    /// Asks `home` for bytes and waits for them, for a bounded time.
    pub(crate) fn ask_for(&self, home: &NodeId, request: &Request) -> Result<Answer> {
        self.ask(home, || self.peers.call_within(home, request.clone(), None, self.patience()))
    }

    /// Asks `home` only if that needs no waiting.
    pub(crate) fn start_now(
        &self,
        home: &NodeId,
        request: &Request,
        patience: impl Into<Patience>,
    ) -> Option<Pending> {
        self.peers.start_now(home, request.clone(), patience)
    }

    /// Waits for the answer to what was [started](Self::start_now), as long as was said there.
    pub(crate) fn wait_for(&self, home: &NodeId, begun: Pending) -> Result<Answer> {
        may_ask_others();
        let is_slow = || self.membership.hears(home);
        begun.wait_while(&is_slow).map_err(|error| explain(home, error))
    }

    /// Whether a host takes a connection `within` so long.
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

    /// Tells `home` something that needs no answer.
    pub(crate) fn tell(&self, home: &NodeId, request: &Request) -> Result<()> {
        self.ask(home, || self.peers.tell(home, request.clone()).map_err(CallError::from))
    }

    /// Asks `home` without waiting for the answer, which [`finish`](Self::finish) brings. For what can take it long
    /// because its disks are slow: while it lives it is waited for longer.
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

    /// Looks for a host that is not known yet, and puts one that does not answer into the log.
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

    /// Asks `holder` to give back the right to write; to this host, as `heir`, if that is given.
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

    /// Asks `holder` to pass the right to write on to this host in its life `epoch`, with the bytes if they are at most
    /// `len_bytes`. The record and the payload that came with the right, if the holder had it.
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

    /// Asks `holder` to give back its lease on a directory.
    pub(crate) fn recall_directory(&self, holder: &NodeId, dir: InodeId) -> Result<()> {
        let request = Request::Recall { ino: dir, kind: RecallKind::Directory, epoch: 0 };
        match self.call(holder, &request, None)? {
            Response::Released => Ok(()),
            other => Err(unexpected(holder, &other)),
        }
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

/// Puts a host that does not answer into the log.
fn explain(home: &NodeId, error: CallError) -> Error {
    if let CallError::Peer(error) = &error {
        tracing::warn!(%home, %error, "another host does not answer");
    }
    error.into()
}

pub(crate) fn unexpected(home: &NodeId, response: &Response) -> Error {
    Error::Engine(format!("{home} gave an answer that does not fit: {response:?}"))
}
