//! A file passes from the host that writes it to the next one with a single request.
//!
//! The holder of the right to write settles the file, passes the right on in the commit that records that, and answers with
//! the record and, if they are few, with the bytes. From that commit on only the receiver changes content and place, so it
//! need not ask the metadata who may write, nor the home whether somebody writes there. Everything that the receiver commits
//! is conditional on the right and on the record, so an answer that comes late or never does no harm.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use intarsia_meta::{Inode, Owner, WriteLease};
use intarsia_store::BackingFile;
use intarsia_transport::Buffer;
use intarsia_types::{Error, InodeId, NodeId, Result};

use crate::background::queue::Summing;
use crate::inode::attempt::{Attempt, Retry};
use crate::inode::lease::{Content, HOLDER_PATIENCE, Leases};
use crate::inode::live::LiveState;
use crate::inode::settling::{Release, Settled};
use crate::membership::cluster::{Cluster, Recalled};
use crate::replication::repair::WriteRights;

/// The longest file whose bytes are sent along with the right to write it.
const SENT_BYTES: u32 = 128 << 10;
/// For this long after a change the host that made it is likely to have the right to write still.
const RECENT: Duration = Duration::from_secs(1);
/// The pause before another attempt while somebody here is busy with the entry.
pub(super) const SOON: Duration = Duration::from_millis(20);

/// What came with the right to write.
pub(crate) struct Handed {
    /// The record as of the commit that passed the right on.
    pub(crate) inode: Inode,
    /// The whole content, or nothing: then the bytes are at the host that passed the right on, as the record says.
    content: Buffer,
    pub(crate) from: NodeId,
}

impl Handed {
    /// The whole content, if it was sent.
    pub(super) fn content(&self) -> Option<&[u8]> {
        Some(&*self.content).filter(|bytes| bytes.len() as u64 == self.inode.size_bytes)
    }
}

/// What is sent along with the right to write: the present record, and all bytes if they are few.
pub(crate) type PassedOn = (Inode, Option<Buffer>);

/// What came of asking for the right to write.
pub(super) enum Asked {
    /// This host has the right; with it what came along, if another host passed it on.
    Held(Box<Inode>, Option<Box<Handed>>),
    /// Nobody needs a right to write this file.
    Unneeded(Box<Inode>),
    /// Another host has it.
    HeldBy(Owner),
    /// The file is open at the host that has the right, or may be opened there at any moment: it is written through that host.
    InUse(NodeId),
    /// The question has to be asked again.
    Again(Retry),
}

impl Leases {
    /// Asks for the right to write. If the file was looked up just now and its record tells which host is likely to have the
    /// right, that host is asked first, then the metadata.
    pub(super) fn ask_for_right(
        &self,
        cluster: &Arc<Cluster>,
        ino: InodeId,
        state: &LiveState,
    ) -> Result<Asked> {
        if let Some(wanted) = self.moving.wanted_by_another(ino, state) {
            return Ok(Asked::Again(Retry::Fetched(wanted)));
        }
        if let Some(holder) = self.likely_holder(cluster, state) {
            self.passed.forget(ino);
            match self.ask_holder(cluster, &holder, ino) {
                // That host does not have it; another one may.
                Ok(None) => {}
                Ok(Some(asked)) => return Ok(asked),
                // It may have passed the right on although no answer came; the metadata know.
                Err(error) => {
                    tracing::debug!(%ino, %holder, %error, "the likely writer");
                    self.passed.doubt_right(ino, &self.queue);
                }
            }
        }
        Ok(match self.passed.acquire_write(&self.namespace, ino)? {
            WriteLease::Held(inode) => Asked::Held(inode, None),
            WriteLease::Unneeded(inode) => Asked::Unneeded(inode),
            WriteLease::HeldBy(holder) if cluster.is_over(&holder) => Asked::HeldBy(holder),
            WriteLease::HeldBy(holder) => match self.ask_holder(cluster, &holder.node, ino) {
                Ok(Some(asked)) => asked,
                Ok(None) => Asked::Again(Retry::contended(Duration::ZERO)),
                // Either the holder answers again soon, or it is declared lost, and its lease with it.
                Err(error) => {
                    self.passed.doubt_right(ino, &self.queue);
                    Asked::Again(Retry::silent(error))
                }
            },
        })
    }

    /// The host that is likely to have the right to write, if the record that was just looked up tells.
    fn likely_holder(&self, cluster: &Cluster, state: &LiveState) -> Option<NodeId> {
        let record = state.looked_up.as_ref()?;
        let backing = record.layout.backing().filter(|backing| !self.tiers.has(backing.tier))?;
        let is_recent = SystemTime::from(record.mtime).elapsed().is_ok_and(|age| age < RECENT);
        cluster.home_of(backing.tier).ok().filter(|_| is_recent)
    }

    /// Asks a host to pass the right on; none if that host does not have it.
    fn ask_holder(
        &self,
        cluster: &Arc<Cluster>,
        holder: &NodeId,
        ino: InodeId,
    ) -> Result<Option<Asked>> {
        let heir = self.namespace.owner();
        let (recalled, handed) =
            cluster.hand_over(holder, ino, heir.epoch, SENT_BYTES, HOLDER_PATIENCE)?;
        Ok(match (recalled, handed) {
            (Recalled::Released, Some((inode, content))) => {
                let handed = Handed { inode, content, from: holder.clone() };
                Some(Asked::Held(Box::new(handed.inode.clone()), Some(Box::new(handed))))
            }
            (Recalled::Released, None) => None,
            (Recalled::Later(pause), _) => Some(Asked::Again(Retry::contended(pause))),
            (Recalled::InUse, _) => Some(Asked::InUse(holder.clone())),
        })
    }
}

impl WriteRights for Leases {
    fn inherit(&self, ino: InodeId) -> Result<()> {
        let inherited = self.with_live(ino, |state| {
            let attempt = self.prepare(ino, state, Some(Content::Kept))?;
            // Programs that only read need no lease, and may keep the file open for as long as they like.
            if matches!(attempt, Attempt::Done(_)) && state.writers == 0 && state.is_recorded() {
                self.rights.give_lease_back(ino, state);
                if !state.is_open() {
                    self.removal.forget_bytes(ino, state);
                }
                self.queue.sum_later(ino, Summing::Soon);
            } else {
                self.rights.leave_right(ino, state);
            }
            Ok(attempt)
        });
        inherited.map(|_| ())
    }

    fn let_go(&self, ino: InodeId) -> Result<()> {
        self.give_up(ino, None).map(|_| ())
    }
}

/// The holder's side.
impl Leases {
    /// Another host wants to write, or to take the bytes to itself: this host gives up its right to write, if it has it. Then
    /// nobody has the right, or the `heir`.
    pub(crate) fn give_up(&self, ino: InodeId, heir: Option<Owner>) -> Result<Recalled> {
        let release = heir.map_or(Release::Recalled, Release::PassedTo);
        self.let_go_of(ino, &release, 0).map(|(recalled, _)| recalled)
    }

    /// Another host wants to write: this host passes its right on to it, if it has it, with the bytes if they are at most
    /// `wanted_bytes`.
    pub(crate) fn hand_over(
        &self,
        ino: InodeId,
        heir: Owner,
        wanted_bytes: u32,
    ) -> Result<(Recalled, Option<PassedOn>)> {
        self.let_go_of(ino, &Release::PassedTo(heir), wanted_bytes)
    }

    fn let_go_of(
        &self,
        ino: InodeId,
        release: &Release,
        wanted_bytes: u32,
    ) -> Result<(Recalled, Option<PassedOn>)> {
        let outcome = self.live.try_with(ino, SOON, |state| {
            if !state.needs_right() {
                // A striped file is written without a lease.
                return Ok((Recalled::Released, None));
            }
            if state.is_open() {
                return Ok((Recalled::InUse, None));
            }
            if !state.holds_lease() && !state.mark.is_unsettled() {
                if !self.creations.is_stranger(ino) {
                    return Ok((Recalled::Later(SOON), None));
                }
                let released = self.rights.release_unknown(ino);
                // Without an answer this host may still have the right.
                released.inspect_err(|_| self.passed.doubt_right(ino, &self.queue))?;
                return Ok((Recalled::Released, None));
            }
            self.settle_for(ino, state, release, wanted_bytes)
        });
        match outcome {
            None => Ok((Recalled::Later(SOON), None)),
            Some(Err(Error::NotFound)) => Ok((Recalled::Released, None)),
            Some(outcome) => outcome,
        }
    }

    fn settle_for(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        release: &Release,
        wanted_bytes: u32,
    ) -> Result<(Recalled, Option<PassedOn>)> {
        if state.publishing.is_withheld() {
            // The published content stays in its copies until the new one has copies; the other host writes through this one.
            return Ok((Recalled::InUse, None));
        }
        let (backing, file) = (state.own_backing(), state.own_file());
        let settled = self.settler.settle_and_tell(ino, state, release)?;
        if let Settled::NotYet = settled {
            // A program has the file mapped, or its content is withheld.
            return Ok((Recalled::InUse, None));
        }
        if !matches!(release, Release::PassedTo(_)) {
            return Ok((Recalled::Released, None));
        }
        self.passed.note(ino);
        let Settled::As(record) = settled else { return Ok((Recalled::Released, None)) };
        let file = file.filter(|_| record.layout.backing() == backing);
        // Nobody can write to the file any more, so it holds what the record says.
        let content = file.and_then(|file| self.content_to_send(&file, &record, wanted_bytes));
        Ok((Recalled::Released, Some((*record, content))))
    }

    fn content_to_send(
        &self,
        file: &BackingFile,
        record: &Inode,
        wanted_bytes: u32,
    ) -> Option<Buffer> {
        let len = u32::try_from(record.size_bytes).ok().filter(|len| *len <= wanted_bytes)?;
        let mut bytes = self.cluster.as_ref()?.buffer(usize::try_from(len).ok()?);
        let read = file.read_at(&mut bytes, 0);
        // If reading fails nothing is sent: the other host then reads the file from here, and hears the error.
        read.is_ok_and(|n| n == bytes.len()).then_some(bytes)
    }
}
