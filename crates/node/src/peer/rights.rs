//! Rights that other hosts ask this one for: to write a file, to keep its pages or a directory's names, to have it, to lock it.

use intarsia_meta::{Invalidated, Invalidation, Owner};
use intarsia_transport::{Reply, Session};
use intarsia_types::{InodeId, Result};
use intarsia_wire::{RecallKind, Request, Response};

use crate::membership::cluster::{NO_HEIR, Recalled};
use crate::peer::guest::Guest;
use crate::peer::{Call, PeerService, retry_ms};
use crate::rebalance::fetch::Fetched;

impl PeerService {
    /// Answers a request for something that this host has the right to; none for any other request.
    pub(super) fn answer_claim(&self, call: Call<'_>) -> Result<Option<Reply>> {
        let Call { session, request, .. } = call;
        let peer = self.peer()?;
        let response = match *request {
            Request::Recall { ino, kind: RecallKind::Write, epoch } => {
                let heir = (epoch != NO_HEIR).then(|| Owner::new(session.node.0.clone(), epoch));
                recalled(peer.leases.give_up(ino, heir)?)
            }
            Request::HandOver { ino, epoch, len_bytes } => {
                return self.hand_over(session, ino, epoch, len_bytes).map(Some);
            }
            Request::Recall { ino, kind: RecallKind::Read, epoch } => {
                peer.paging.withdraw(&session.node, ino, epoch);
                Response::Released
            }
            Request::Recall { ino, kind: RecallKind::Directory, .. } => {
                peer.directory_leases.give_up_directory(ino)?;
                Response::Released
            }
            Request::ChangeRecords { dir, number, ref keys } => {
                let by = Owner::new(session.node.0.clone(), session.epoch);
                let keys = keys.iter().map(|key| key.as_slice().into()).collect();
                let told = Invalidation { dir, number, keys };
                match peer.directory_leases.begin_change(&by, &told)? {
                    Invalidated::Kept => Response::Done,
                    Invalidated::Released | Invalidated::Lost => Response::Released,
                }
            }
            Request::ChangesOver { ref numbers } => {
                let by = Owner::new(session.node.0.clone(), session.epoch);
                peer.directory_leases.end_changes(&by, numbers);
                Response::Done
            }
            Request::Fetch { ino } => match peer.fetches.fetch(ino)? {
                Fetched::Here => Response::Released,
                Fetched::InUse => Response::Busy { retry_ms: 0 },
                Fetched::Later(pause) => Response::Busy { retry_ms: retry_ms(pause) },
            },
            Request::Lock { place, ref question } => {
                peer.answer_lock(&session.node, place, None, question.clone())?
            }
            Request::LockInTurn { place, number, ref question } => {
                peer.answer_lock(&session.node, place, Some(number), question.clone())?
            }
            _ => return Ok(None),
        };
        Ok(Some(Reply::from(response)))
    }

    /// Gives the right to write a file to the host that asks, with the file's record and bytes where that is possible.
    fn hand_over(
        &self,
        session: &Session<Guest>,
        ino: InodeId,
        epoch: u64,
        len_bytes: u32,
    ) -> Result<Reply> {
        let heir = Owner::new(session.node.0.clone(), epoch);
        match self.peer()?.leases.hand_over(ino, heir, len_bytes)? {
            (Recalled::Released, Some((inode, content))) => {
                let handed = Response::HandedOver { record: inode.encode()?.to_vec() };
                let content = content.unwrap_or_else(|| session.buffer(0));
                Ok(Reply::with(handed, content))
            }
            (outcome, _) => Ok(Reply::from(recalled(outcome))),
        }
    }
}

fn recalled(outcome: Recalled) -> Response {
    match outcome {
        Recalled::Released => Response::Released,
        Recalled::InUse => Response::Busy { retry_ms: 0 },
        Recalled::Later(pause) => Response::Busy { retry_ms: retry_ms(pause) },
    }
}
