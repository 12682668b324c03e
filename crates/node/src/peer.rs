//! What this node does for other hosts: it serves the files whose home it is, and gives leases back.
//!
//! Owns what other hosts have open here, and which life of each is the newest.
//! Asks `inode` for live files and leases, `replication` for replicas on their way here, `rebalance` for moves, `locks`
//! for the locks that it is master of, and through [`PeerFiles`] what is done as for a program: read, write, cut,
//! allocate, publish, close.
//! Promises that a host that was given up, or an earlier life of one, changes nothing, and that work on a request for a
//! live file ends at a deadline after which the host that sent it waits no more.

mod awaited;
mod guest;
pub(crate) mod handles;
mod lives;
pub(crate) mod serving;

use std::sync::{Arc, Weak};
use std::time::Duration;

use intarsia_meta::Owner;
use intarsia_sync::{Instant, Relapse};
use intarsia_transport::{Buffer, Handler, Reply, Session};
use intarsia_types::{BackingRef, Durability, Error, InodeId, NodeId, Result};
use intarsia_wire::{Handle, Hello, PublishedFor, RecallKind, Request, Response, Target};

use crate::body::striped::{allocate_bits, status};
use crate::cache::far_pages::Stamp;
use crate::cache::vouch::PeerOpening;
use crate::membership::cluster::{NO_HEIR, Recalled};
use crate::peer::awaited::limit_to_wait;
use crate::peer::guest::{Guest, OpenFile, OpenFiles, OpenPart, changed, opened};
use crate::peer::lives::Lives;
use crate::peer::serving::{Peer, PeerFiles};
use crate::rebalance::fetch::Fetched;

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

    fn open(&self, files: &OpenFiles, ino: InodeId, may_write: bool) -> Result<Response> {
        let peer = self.peer()?;
        let size_bytes = peer.leases.open_for_peer(ino, may_write, None)?.size_bytes;
        let handle = keep_open(&peer, files, OpenFile::unfollowed(ino, may_write));
        Ok(Response::Opened { handle, size_bytes })
    }

    fn open_part(
        &self,
        guest: &Guest,
        ino: InodeId,
        backing: BackingRef,
        may_write: bool,
    ) -> Result<Reply> {
        let peer = self.peer()?;
        let file = peer.parts.open_named(ino, backing)?;
        let size_bytes = file.stat()?.size_bytes;
        let handle = peer.handles.next();
        guest.parts.lock().insert(handle, OpenPart { file, may_write });
        Ok(Reply::from(Response::Opened { handle, size_bytes }))
    }

    /// Answers a request that concerns a part of a striped file; none for any other request.
    fn answer_part(
        &self,
        session: &Session<Guest>,
        request: &Request,
        payload: &[u8],
    ) -> Result<Option<Reply>> {
        let guest = &session.state;
        let handle = match *request {
            Request::OpenPart { ino, backing, may_write } => {
                return self.open_part(guest, ino, backing, may_write).map(Some);
            }
            Request::Close { handle } => {
                let closed = guest.parts.lock().remove(&handle);
                return Ok(closed.map(|_| Reply::from(Response::Done)));
            }
            Request::Write { target: Target::Handle(handle), .. }
            | Request::Truncate { target: Target::Handle(handle), .. }
            | Request::Allocate { target: Target::Handle(handle), .. }
            | Request::Read { handle, .. }
            | Request::Flush { handle }
            | Request::StatPart { handle } => handle,
            _ => return Ok(None),
        };
        let open = guest.parts.lock().get(&handle).cloned();
        let Some(OpenPart { file, may_write }) = open else { return Ok(None) };
        if is_change(request) && !may_write {
            return Err(Error::BadHandle);
        }
        match *request {
            Request::Read { offset_bytes, len_bytes, .. } => {
                let mut bytes = session.buffer(usize::try_from(len_bytes).unwrap_or(usize::MAX));
                let n = file.read_at(&mut bytes, offset_bytes)?;
                bytes.truncate(n);
                let size_bytes = file.stat()?.size_bytes;
                return Ok(Some(Reply::with(Response::Data { size_bytes }, bytes)));
            }
            Request::Write { offset_bytes, .. } => file.write_all_at(payload, offset_bytes)?,
            Request::Truncate { size_bytes, .. } => file.set_len(size_bytes)?,
            Request::Allocate { offset_bytes, len_bytes, mode, .. } => {
                file.allocate(allocate_bits(mode), offset_bytes, len_bytes)?;
            }
            Request::Flush { .. } => {
                if self.peer()?.durability == Durability::Sync {
                    file.sync(true)?;
                }
                return Ok(Some(Reply::from(Response::Done)));
            }
            _ => {}
        }
        let stat = file.stat()?;
        Ok(Some(Reply::from(match request {
            Request::StatPart { .. } => status(stat),
            _ => Response::Written { size_bytes: stat.size_bytes },
        })))
    }

    fn close(&self, guest: &Guest, reader: &NodeId, handle: Handle) -> Result<Response> {
        let open = guest.files.lock().remove(&handle);
        match open {
            Some(open) => end(&*self.peer()?, &*self.files()?, reader, &open),
            None => guest.arrivals.abandon(handle)?,
        }
        Ok(Response::Done)
    }

    fn open_to_read(&self, session: &Session<Guest>, ino: InodeId, len: u32) -> Result<Reply> {
        let opened = self.open(&session.state.files, ino, false)?;
        let Response::Opened { handle, .. } = opened else { return Ok(Reply::from(opened)) };
        self.with_first_bytes(session, (ino, handle), len, opened)
    }

    /// As [`open_to_read`](Self::open_to_read), for a host that keeps what it reads while this host vouches for it.
    fn open_vouched(&self, session: &Session<Guest>, ino: InodeId, len: u32) -> Result<Reply> {
        let peer = self.peer()?;
        let PeerOpening { size_bytes, stamp, pinned } =
            peer.leases.open_for_peer(ino, false, Some(&session.node))?;
        let open = OpenFile::followed(ino, stamp, pinned);
        let handle = keep_open(&peer, &session.state.files, open);
        let opened = Response::Vouched { handle, size_bytes, stamp };
        if len == 0 {
            return Ok(Reply::from(opened));
        }
        self.with_first_bytes(session, (ino, handle), len, opened)
    }

    fn with_first_bytes(
        &self,
        session: &Session<Guest>,
        (ino, handle): (InodeId, Handle),
        len: u32,
        opened: Response,
    ) -> Result<Reply> {
        let mut bytes = session.buffer(usize::try_from(len).unwrap_or(usize::MAX));
        match self.files()?.read(ino, 0, &mut bytes) {
            Ok(n) => {
                bytes.truncate(n);
                Ok(Reply::with(opened, bytes))
            }
            Err(error) => {
                self.close(&session.state, &session.node, handle)?;
                Err(error)
            }
        }
    }

    /// Answers a request that concerns a copy which another host makes here; none for any other request.
    fn answer_push(
        &self,
        guest: &Guest,
        request: &Request,
        payload: &[u8],
    ) -> Result<Option<Response>> {
        Ok(Some(match *request {
            Request::PushBegin { ino, class, total_bytes, .. } => {
                let peer = self.peer()?;
                let arrival = peer.receiver.begin(ino, class, total_bytes)?;
                let handle = peer.handles.next();
                guest.arrivals.add(handle, arrival);
                Response::Opened { handle, size_bytes: 0 }
            }
            Request::PushChunk { handle, offset_bytes } => {
                guest.arrivals.write(handle, offset_bytes, payload)?;
                Response::Done
            }
            Request::PushEnd { handle, sum } => {
                let arrival = guest.arrivals.take(handle)?;
                Response::Pushed { backing: self.peer()?.receiver.end(arrival, sum)? }
            }
            Request::PushWhole { ino, class, sum } => {
                let peer = self.peer()?;
                let arrival = peer.receiver.begin(ino, class, payload.len() as u64)?;
                if !payload.is_empty() {
                    arrival.write(0, payload)?;
                }
                Response::Pushed { backing: peer.receiver.end(arrival, sum)? }
            }
            Request::Drop { ino, backing, .. } => {
                self.peer()?.receiver.refuse(ino, backing)?;
                Response::Done
            }
            _ => return Ok(None),
        }))
    }

    fn read(&self, session: &Session<Guest>, handle: Handle, at: u64, len: u32) -> Result<Reply> {
        let open = opened(&session.state.files, handle)?;
        let (peer, files) = (self.peer()?, self.files()?);
        let mut bytes = session.buffer(usize::try_from(len).unwrap_or(usize::MAX));
        let spared = open.pinned.filter(|pinned| peer.followers.has_left(open.ino, pinned));
        let (n, size_bytes) = match spared {
            Some(file) => (file.read_at(&mut bytes, at)?, file.stat()?.size_bytes),
            None => {
                let n = files.read(open.ino, at, &mut bytes)?;
                (n, files.length(open.ino).unwrap_or(at + n as u64))
            }
        };
        bytes.truncate(n);
        Ok(Reply::with(Response::Data { size_bytes }, bytes))
    }

    fn written(&self, ino: InodeId) -> Result<Response> {
        Ok(Response::Written { size_bytes: self.files()?.length(ino)? })
    }

    fn publish(
        &self,
        files: &OpenFiles,
        handle: Handle,
        call: u64,
        published_for: PublishedFor,
    ) -> Result<Response> {
        let open = opened(files, handle)?;
        let mut asked = open.asked_for(call);
        let published = self.files()?.publish(open.ino, published_for, &mut asked);
        if let Some(open) = files.lock().get_mut(&handle) {
            open.note_asked(call, asked);
        }
        Ok(match published? {
            None => Response::Done,
            Some(pause) => Response::Busy { retry_ms: retry_ms(pause) },
        })
    }

    fn answer(&self, session: &Session<Guest>, request: Request, payload: &[u8]) -> Result<Reply> {
        // A host sends a close once and does not repeat it, so closes are taken also while this host is just coming back.
        if !matches!(request, Request::Close { .. }) {
            self.require_member()?;
        }
        if is_change(&request) {
            self.require_lives(session)?;
        }
        if let Some(reply) = self.answer_part(session, &request, payload)? {
            return Ok(reply);
        }
        let files = &session.state.files;
        let response = match request {
            Request::Open { ino, may_write } => self.open(files, ino, may_write)?,
            Request::OpenRead { ino, len_bytes } => {
                return self.open_to_read(session, ino, len_bytes);
            }
            Request::OpenVouched { ino, len_bytes } => {
                return self.open_vouched(session, ino, len_bytes);
            }
            Request::Close { handle } => self.close(&session.state, &session.node, handle)?,
            Request::Read { handle, offset_bytes, len_bytes, .. } => {
                return self.read(session, handle, offset_bytes, len_bytes);
            }
            Request::Write { target, offset_bytes } => {
                let ino = changed(files, target)?;
                let peer = self.peer()?;
                let _outdating = peer.paging.outdating(ino);
                self.files()?.write(ino, offset_bytes, payload)?;
                self.written(ino)?
            }
            Request::Truncate { target, size_bytes } => {
                let ino = changed(files, target)?;
                let peer = self.peer()?;
                let _outdating = peer.paging.outdating(ino);
                self.files()?.cut(ino, size_bytes)?;
                self.written(ino)?
            }
            Request::Allocate { target, offset_bytes, len_bytes, mode } => {
                let ino = changed(files, target)?;
                let peer = self.peer()?;
                let _outdating = peer.paging.outdating(ino);
                self.files()?.allocate(ino, offset_bytes, len_bytes, allocate_bits(mode))?;
                self.written(ino)?
            }
            Request::TakeIn { ino } => {
                let peer = self.peer()?;
                let _outdating = peer.paging.outdating(ino);
                let size_bytes = peer.elsewhere.take_in(&session.node, ino, payload)?;
                let handle = keep_open(&peer, files, OpenFile::unfollowed(ino, true));
                Response::Opened { handle, size_bytes }
            }
            Request::Flush { handle } => self.publish(files, handle, 0, PublishedFor::Close)?,
            Request::Publish { handle, call, published_for } => {
                self.publish(files, handle, call, published_for)?
            }
            Request::Recall { ino, kind: RecallKind::Write, epoch } => {
                let heir = (epoch != NO_HEIR).then(|| Owner::new(session.node.0.clone(), epoch));
                recalled(self.peer()?.leases.give_up(ino, heir)?)
            }
            Request::HandOver { ino, epoch, len_bytes } => {
                let heir = Owner::new(session.node.0.clone(), epoch);
                match self.peer()?.leases.hand_over(ino, heir, len_bytes)? {
                    (Recalled::Released, Some((inode, content))) => {
                        let handed = Response::HandedOver { record: inode.encode()?.to_vec() };
                        let content = content.unwrap_or_else(|| session.buffer(0));
                        return Ok(Reply::with(handed, content));
                    }
                    (outcome, _) => recalled(outcome),
                }
            }
            Request::Recall { ino, kind: RecallKind::Read, epoch } => {
                self.peer()?.paging.withdraw(&session.node, ino, epoch);
                Response::Released
            }
            Request::Recall { ino, kind: RecallKind::Directory, .. } => {
                self.peer()?.directory_leases.give_up_directory(ino)?;
                Response::Released
            }
            Request::Fetch { ino } => match self.peer()?.fetches.fetch(ino)? {
                Fetched::Here => Response::Released,
                Fetched::InUse => Response::Busy { retry_ms: 0 },
                Fetched::Later(pause) => Response::Busy { retry_ms: retry_ms(pause) },
            },
            Request::FollowTier { ino } => {
                self.peer()?.tier_changes.follow_tier(ino);
                Response::Done
            }
            Request::Reclaim { tier, files } => {
                // The message is only a hint that files can be collected. Which ones can, the ledger says.
                tracing::debug!(%tier, files = files.len(), "another host let go of files here");
                let peer = self.peer()?;
                for file in files {
                    peer.receiver.let_go(BackingRef { tier, file });
                }
                Response::Done
            }
            Request::Replicate { inos } => {
                let (peer, files) = (self.peer()?, self.files()?);
                for ino in inos {
                    let size_bytes = files.length(ino).unwrap_or(0);
                    peer.copy_queue.add(ino, size_bytes);
                }
                Response::Done
            }
            Request::Spread { ino, stamp, is_leaving: true, .. } => {
                self.peer()?.spreads.reader_leaves(&session.node, ino, stamp);
                Response::Done
            }
            Request::Spread { ino, stamp, ref landed, ref failed, from, until, .. } => {
                let peer = self.peer()?;
                if !peer.vouches.is_current(ino, stamp) {
                    return Err(Error::Busy("the file has changed, or is about to".into()));
                }
                let (file, size_bytes) = ((ino, stamp), self.files()?.length(ino)?);
                let came = (landed.as_slice(), failed.as_slice());
                peer.spreads.answer(&session.node, file, size_bytes, came, &(from..until))
            }
            Request::ReadSpread { ino, home, stamp, offset_bytes, len_bytes } => {
                let mut bytes = session.buffer(usize::try_from(len_bytes).unwrap_or(usize::MAX));
                let stamp = Stamp::new(home, stamp);
                let size_bytes =
                    self.peer()?.spreads.read(ino, &stamp, offset_bytes, &mut bytes)?;
                return Ok(Reply::with(Response::Data { size_bytes }, bytes));
            }
            Request::Lock { place, question } => {
                self.peer()?.answer_lock(&session.node, place, None, question)?
            }
            Request::LockInTurn { place, number, question } => {
                self.peer()?.answer_lock(&session.node, place, Some(number), question)?
            }
            other => {
                if let Some(response) = self.answer_push(&session.state, &other, payload)? {
                    return Ok(Reply::from(response));
                }
                let what = format!("'{}' is not served by this version", other.name());
                return Err(Error::Invalid(what));
            }
        };
        Ok(Reply::from(response))
    }
}

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
        let answer = self.answer(session, request, &payload);
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

fn keep_open(peer: &Peer, files: &OpenFiles, open: OpenFile) -> Handle {
    let handle = peer.handles.next();
    files.lock().insert(handle, open);
    handle
}

fn stopping() -> Error {
    Error::Busy("the node is stopping".into())
}

/// Closes a file that another host had open.
fn end(peer: &Peer, files: &dyn PeerFiles, host: &NodeId, open: &OpenFile) {
    if open.pinned.is_some() {
        peer.followers.end_following(open.ino, host, open.stamp);
    }
    files.close(open.ino, open.may_write);
}

fn recalled(outcome: Recalled) -> Response {
    match outcome {
        Recalled::Released => Response::Released,
        Recalled::InUse => Response::Busy { retry_ms: 0 },
        Recalled::Later(pause) => Response::Busy { retry_ms: retry_ms(pause) },
    }
}

/// A pause for the answer, at least 1 ms: 0 means that the file is in use (see [`recalled`]).
fn retry_ms(pause: Duration) -> u32 {
    u32::try_from(pause.as_millis()).unwrap_or(u32::MAX).max(1)
}

const fn is_change(request: &Request) -> bool {
    matches!(request, Request::Write { .. } | Request::Truncate { .. } | Request::Allocate { .. })
}
