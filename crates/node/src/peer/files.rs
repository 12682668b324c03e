//! Files that other hosts open, read and write here.

use intarsia_transport::{Reply, Session};
use intarsia_types::{InodeId, NodeId, Result};
use intarsia_wire::{Handle, PublishedFor, Request, Response, Target};

use crate::body::striped::allocate_bits;
use crate::cache::vouch::PeerOpening;
use crate::peer::guest::{Guest, OpenFile, OpenFiles, changed, opened};
use crate::peer::serving::{Peer, PeerFiles};
use crate::peer::{Call, PeerService, retry_ms};

impl PeerService {
    /// Answers a request to open, close, read or publish a file; none for any other request.
    pub(super) fn answer_file(&self, call: Call<'_>) -> Result<Option<Reply>> {
        let Call { session, request, payload } = call;
        let files = &session.state.files;
        let response = match *request {
            Request::Open { ino, may_write } => self.open(files, ino, may_write)?,
            Request::OpenRead { ino, len_bytes } => {
                return self.open_to_read(session, ino, len_bytes).map(Some);
            }
            Request::OpenVouched { ino, len_bytes } => {
                return self.open_vouched(session, ino, len_bytes).map(Some);
            }
            Request::Close { handle } => self.close(&session.state, &session.node, handle)?,
            Request::Read { handle, offset_bytes, len_bytes, .. } => {
                return self.read(session, handle, offset_bytes, len_bytes).map(Some);
            }
            Request::Flush { handle } => self.publish(files, handle, 0, PublishedFor::Close)?,
            Request::Publish { handle, call, published_for } => {
                self.publish(files, handle, call, published_for)?
            }
            Request::TakeIn { ino } => self.take_in(session, ino, payload)?,
            _ => return Ok(None),
        };
        Ok(Some(Reply::from(response)))
    }

    /// Answers a request to change the bytes of a file; none for any other request.
    pub(super) fn answer_change(&self, call: Call<'_>) -> Result<Option<Reply>> {
        let Call { session, request, payload } = call;
        let guest = &session.state;
        let response = match *request {
            Request::Write { target, offset_bytes } => {
                self.change(guest, target, |files, ino| files.write(ino, offset_bytes, payload))?
            }
            Request::Truncate { target, size_bytes } => {
                self.change(guest, target, |files, ino| files.cut(ino, size_bytes))?
            }
            Request::Allocate { target, offset_bytes, len_bytes, mode } => {
                let bits = allocate_bits(mode);
                self.change(guest, target, |files, ino| {
                    files.allocate(ino, offset_bytes, len_bytes, bits)
                })?
            }
            _ => return Ok(None),
        };
        Ok(Some(Reply::from(response)))
    }

    fn change(
        &self,
        guest: &Guest,
        target: Target,
        work: impl FnOnce(&dyn PeerFiles, InodeId) -> Result<()>,
    ) -> Result<Response> {
        let ino = changed(&guest.files, target)?;
        let (peer, files) = (self.peer()?, self.files()?);
        let _outdating = peer.paging.outdating(ino);
        work(&*files, ino)?;
        Ok(Response::Written { size_bytes: files.length(ino)? })
    }

    fn take_in(&self, session: &Session<Guest>, ino: InodeId, payload: &[u8]) -> Result<Response> {
        let peer = self.peer()?;
        let _outdating = peer.paging.outdating(ino);
        let size_bytes = peer.elsewhere.take_in(&session.node, ino, payload)?;
        let open = OpenFile::unfollowed(ino, true);
        let handle = keep_open(&peer, &session.state.files, open);
        Ok(Response::Opened { handle, size_bytes })
    }

    fn open(&self, files: &OpenFiles, ino: InodeId, may_write: bool) -> Result<Response> {
        let peer = self.peer()?;
        let size_bytes = peer.leases.open_for_peer(ino, may_write, None)?.size_bytes;
        let handle = keep_open(&peer, files, OpenFile::unfollowed(ino, may_write));
        Ok(Response::Opened { handle, size_bytes })
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

    fn close(&self, guest: &Guest, reader: &NodeId, handle: Handle) -> Result<Response> {
        let open = guest.files.lock().remove(&handle);
        match open {
            Some(open) => end(&*self.peer()?, &*self.files()?, reader, &open),
            None => guest.arrivals.abandon(handle)?,
        }
        Ok(Response::Done)
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
}

fn keep_open(peer: &Peer, files: &OpenFiles, open: OpenFile) -> Handle {
    let handle = peer.handles.next();
    files.lock().insert(handle, open);
    handle
}

/// Closes a file that another host had open.
pub(super) fn end(peer: &Peer, files: &dyn PeerFiles, host: &NodeId, open: &OpenFile) {
    if open.pinned.is_some() {
        peer.followers.end_following(open.ino, host, open.stamp);
    }
    files.close(open.ino, open.may_write);
}
