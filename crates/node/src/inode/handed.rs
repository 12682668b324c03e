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
use crate::inode::lease::{Attempt, Content, HOLDER_PATIENCE, Leases, Retry};
use crate::inode::live::LiveState;
use crate::inode::settling::{Release, Settled};
use crate::membership::cluster::{Cluster, Recalled};
use crate::replication::repair::WriteRights;

/// Bytes of at most so long a file are sent with the right to it.
const SENT_BYTES: u32 = 128 << 10;
/// A file that was changed so recently is likely to be still the right of the host that did.
const RECENT: Duration = Duration::from_secs(1);
/// A second attempt after so long, while somebody is busy with the entry here.
pub(super) const SOON: Duration = Duration::from_millis(20);

/// What came with the right to write.
pub(crate) struct Handed {
    /// The record, as the commit made it that passed the right on.
    pub(crate) inode: Inode,
    /// All that the file holds, if it is that; else it is at the host that passed the right on, as the record says.
    content: Buffer,
    pub(crate) from: NodeId,
}

impl Handed {
    /// The whole content, if it was sent.
    pub(super) fn content(&self) -> Option<&[u8]> {
        Some(&*self.content).filter(|bytes| bytes.len() as u64 == self.inode.size_bytes)
    }
}

/// What goes with the right to write: the record as it is by now, and all bytes if they are few.
pub(crate) type PassedOn = (Inode, Option<Buffer>);

/// What came of asking for the right to write.
pub(super) enum Asked {
    /// This host has it, and what came with it if it was passed on.
    Held(Box<Inode>, Option<Box<Handed>>),
    /// Nobody needs it.
    Unneeded(Box<Inode>),
    /// Somebody else has it.
    HeldBy(Owner),
    /// It is open at the host that may write, or may soon: it is to be written through that one.
    InUse(NodeId),
    /// To be asked again.
    Again(Retry),
}

impl Leases {
    /// Asks for the right to write: first the host that has it, where that is likely to be known and this one has only
    /// just looked the file up, then the metadata.
    pub(super) fn ask_for_right(
        &self,
        cluster: &Arc<Cluster>,
        ino: InodeId,
        state: &LiveState,
    ) -> Result<Asked> {
        if let Some(holder) = self.likely_holder(cluster, state) {
            self.passed.forget(ino);
            match self.ask_holder(cluster, &holder, ino) {
                // It has not; somebody else may.
                Ok(None) => {}
                Ok(Some(asked)) => return Ok(asked),
                // It may have passed the right on all the same, which the metadata know.
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
                // Either it answers again soon, or it is declared lost, and then its lease is.
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

    /// Asks a host to pass the right on; none if it is nobody's, as far as that host knows.
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
            // Whoever only reads it needs no lease, and may go on for as long as it likes.
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
    /// Another host wants to write, or to take the bytes to itself. A right that this host has then is nobody's, or nothing
    /// is known of the file here.
    pub(crate) fn give_up(&self, ino: InodeId, heir: Option<Owner>) -> Result<Recalled> {
        let release = heir.map_or(Release::Recalled, Release::PassedTo);
        self.let_go_of(ino, &release, 0).map(|(recalled, _)| recalled)
    }

    /// Another host wants to write: a right that this host has passes to it, with the bytes if they are at most
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
            if state.striped().is_some() {
                // There is no lease any more.
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
                // Without an answer it may be this host's still, or of this life by now.
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
            // What was published has its copies, until this has some; whoever wants to write does so here.
            return Ok((Recalled::InUse, None));
        }
        let local = state.local().map(|local| (local.backing, Arc::clone(&local.ro)));
        let settled = self.settler.settle_and_tell(ino, state, release)?;
        if let Settled::NotYet = settled {
            // Somebody has it mapped still, or what it holds is withheld.
            return Ok((Recalled::InUse, None));
        }
        if !matches!(release, Release::PassedTo(_)) {
            return Ok((Recalled::Released, None));
        }
        self.passed.note(ino);
        let Settled::As(record) = settled else { return Ok((Recalled::Released, None)) };
        let file = local.filter(|(backing, _)| record.layout.backing() == Some(*backing));
        // Nobody can write to it any more, so these are the bytes of the record.
        let content = file.and_then(|(_, file)| self.content_to_send(&file, &record, wanted_bytes));
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
        // What cannot be read here is asked for by the way that tells of it.
        read.is_ok_and(|n| n == bytes.len()).then_some(bytes)
    }
}
