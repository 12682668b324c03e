//! Parts of striped files that other hosts read and write here.

use intarsia_transport::Reply;
use intarsia_types::{BackingRef, Durability, Error, InodeId, Result};
use intarsia_wire::{Request, Response, Target};

use crate::body::striped::{allocate_bits, status};
use crate::peer::guest::{Guest, OpenPart};
use crate::peer::{Call, PeerService, is_change};

impl PeerService {
    /// Answers a request that concerns a part of a striped file; none for any other request.
    pub(super) fn answer_part(&self, call: Call<'_>) -> Result<Option<Reply>> {
        let (guest, request) = (&call.session.state, call.request);
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
        let Some(part) = open else { return Ok(None) };
        if is_change(request) && !part.may_write {
            return Err(Error::BadHandle);
        }
        self.use_part(&part, call).map(Some)
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

    fn use_part(&self, OpenPart { file, .. }: &OpenPart, call: Call<'_>) -> Result<Reply> {
        let Call { session, request, payload } = call;
        match *request {
            Request::Read { offset_bytes, len_bytes, .. } => {
                let mut bytes = session.buffer(usize::try_from(len_bytes).unwrap_or(usize::MAX));
                let n = file.read_at(&mut bytes, offset_bytes)?;
                bytes.truncate(n);
                let size_bytes = file.stat()?.size_bytes;
                return Ok(Reply::with(Response::Data { size_bytes }, bytes));
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
                return Ok(Reply::from(Response::Done));
            }
            _ => {}
        }
        let stat = file.stat()?;
        Ok(Reply::from(match request {
            Request::StatPart { .. } => status(stat),
            _ => Response::Written { size_bytes: stat.size_bytes },
        }))
    }
}
