//! Copies that other hosts make here, and pieces of files that spread over their readers.

use intarsia_transport::Reply;
use intarsia_types::{BackingRef, Error, Result};
use intarsia_wire::{Request, Response};

use crate::cache::far_pages::Stamp;
use crate::peer::{Call, PeerService};

impl PeerService {
    /// Answers a request that concerns a copy which another host makes here; none for any other request.
    pub(super) fn answer_push(&self, call: Call<'_>) -> Result<Option<Reply>> {
        let Call { session, request, payload } = call;
        let guest = &session.state;
        Ok(Some(Reply::from(match *request {
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
            _ => return Ok(None),
        })))
    }

    /// Answers what another host says of files whose copies it or this host has; none for any other request.
    pub(super) fn answer_notice(&self, call: Call<'_>) -> Result<Option<Reply>> {
        let peer = self.peer()?;
        match call.request {
            Request::Drop { ino, backing, .. } => peer.receiver.refuse(*ino, *backing)?,
            Request::Reclaim { tier, files } => {
                // The message is only a hint that files can be collected. Which ones can, the ledger says.
                tracing::debug!(%tier, files = files.len(), "another host let go of files here");
                for file in files {
                    peer.receiver.let_go(BackingRef { tier: *tier, file: *file });
                }
            }
            Request::Replicate { inos } => {
                let files = self.files()?;
                for ino in inos {
                    let size_bytes = files.length(*ino).unwrap_or(0);
                    peer.copy_queue.add(*ino, size_bytes);
                }
            }
            Request::FollowTier { ino } => peer.tier_changes.follow_tier(*ino),
            _ => return Ok(None),
        }
        Ok(Some(Reply::from(Response::Done)))
    }

    /// Answers a request that concerns a file which spreads over its readers; none for any other request.
    pub(super) fn answer_spread(&self, call: Call<'_>) -> Result<Option<Reply>> {
        let Call { session, request, .. } = call;
        let peer = self.peer()?;
        let response = match *request {
            Request::Spread { ino, stamp, is_leaving: true, .. } => {
                peer.spreads.reader_leaves(&session.node, ino, stamp);
                Response::Done
            }
            Request::Spread { ino, stamp, ref landed, ref failed, from, until, .. } => {
                if !peer.vouches.is_current(ino, stamp) {
                    return Err(Error::Busy("the file has changed, or is about to".into()));
                }
                let (file, size_bytes) = ((ino, stamp), self.files()?.length(ino)?);
                let came = (landed.as_slice(), failed.as_slice());
                peer.spreads.answer(&session.node, file, size_bytes, came, &(from..until))
            }
            Request::ReadSpread { ino, ref home, stamp, offset_bytes, len_bytes } => {
                let mut bytes = session.buffer(usize::try_from(len_bytes).unwrap_or(usize::MAX));
                let stamp = Stamp::new(home.clone(), stamp);
                let size_bytes = peer.spreads.read(ino, &stamp, offset_bytes, &mut bytes)?;
                return Ok(Some(Reply::with(Response::Data { size_bytes }, bytes)));
            }
            _ => return Ok(None),
        };
        Ok(Some(Reply::from(response)))
    }
}
