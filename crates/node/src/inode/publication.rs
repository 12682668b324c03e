//! Publication: length, times and place of what was written go into the record, which other hosts read.

use std::sync::Arc;

use intarsia_meta::{Extra, Inode, Namespace};
use intarsia_policy::IoMode;
use intarsia_types::{Error, InodeId, Integrity, Result};

use crate::body::integrity::checksum_extras;
use crate::body::seam::FarBody;
use crate::body::{Bodies, Body};
use crate::clock::TICK;
use crate::inode::copied_files::Moment;
use crate::inode::early_fold::{EarlyFold, put_beside};
use crate::inode::inline_total::InlineTotal;
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::new_content::NewContent;
use crate::inode::rights::Rights;
use crate::kernel::Kernel;
use crate::members::Members;
use crate::replication::Replicas;
use crate::space::placing::Placing;
use crate::space::tiers::Tiers;

/// Publishes what was written here to files whose right to write this host has.
pub(crate) struct Publisher {
    pub(super) members: Members,
    pub(super) namespace: Arc<Namespace>,
    pub(super) live: Arc<LiveTable>,
    pub(super) bodies: Arc<Bodies>,
    pub(super) kernel: Arc<Kernel>,
    pub(super) placing: Arc<Placing>,
    pub(super) tiers: Arc<Tiers>,
    pub(super) replicas: Arc<Replicas>,
    pub(super) rights: Arc<Rights>,
    pub(super) inline_total: Arc<InlineTotal>,
}

impl Publisher {
    /// Publishes what was written to an inode, if it is live.
    pub(crate) fn publish_now(&self, ino: InodeId) -> Result<()> {
        let published = self.live.with_existing(ino, |state| self.publish_here(ino, state));
        match published.transpose()?.flatten() {
            Some(far) => far.flush(&self.bodies.stripes, ino, false),
            None => Ok(()),
        }
    }

    /// Makes what was written here known to other hosts. If other hosts have the bytes, returns them: the caller has to publish
    /// there with nothing locked, since that may take as long as making copies does.
    pub(crate) fn publish_here(
        &self,
        ino: InodeId,
        state: &mut LiveState,
    ) -> Result<Option<FarBody>> {
        state.require_ours()?;
        match state.far() {
            Some(far) => Ok(Some(far)),
            None => self.record(ino, state).map(|()| None),
        }
    }

    /// Records what was written here.
    fn record(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        if self.members.is_shared() && state.writers > 0 && state.has_changed_unseen()? {
            state.overlay.is_dirty = true;
        }
        let mut persisted = self.persist(ino, state);
        if let Err(error) = &persisted
            && self.members.is_shared()
            && !matches!(error, Error::NotFound)
            && self.rights.regain(ino, state).unwrap_or(false)
        {
            // The right was got in an earlier life of this host, just before the others gave that life up.
            persisted = self.persist(ino, state);
        }
        match persisted {
            // Another host removed the file, which is still open here.
            Err(Error::NotFound) if self.members.is_shared() => {
                state.names.lose();
                state.overlay.is_dirty = false;
                Ok(())
            }
            other => other,
        }
    }

    /// Whether publishing the file's content now waits for copies that this host makes.
    pub(crate) fn publishes_copies(&self, ino: InodeId, moment: Moment) -> bool {
        let awaits = |state: &mut LiveState| state.awaits_copies(&self.placing, moment);
        self.members.is_shared() && self.live.with_existing(ino, awaits).unwrap_or(false)
    }

    /// Whether publishing the file's content now waits for other hosts to get copies or parts of it.
    pub(crate) fn waits_for_hosts(&self, ino: InodeId, moment: Moment) -> bool {
        let waits = |state: &mut LiveState| state.waits_for_hosts(&self.placing, moment);
        self.members.is_shared() && self.live.with_existing(ino, waits).unwrap_or(false)
    }

    /// Publishes what was written, with as many copies as the file is to have (see [`Replicas::publish`]).
    ///
    /// [`Replicas::publish`]: crate::replication::Replicas::publish
    pub(crate) fn publish_copies(&self, ino: InodeId) -> Result<()> {
        let outcome = self.rights.with_right(ino, || self.replicas.publish(ino));
        if outcome.is_err() {
            self.withhold(ino);
        }
        outcome
    }

    /// Keeps the old content, which has its copies, visible to other hosts until the new content has copies too.
    pub(crate) fn withhold(&self, ino: InodeId) {
        self.live.with_existing(ino, |state| match state.holds_lease() {
            true => state.publishing.withhold(),
            false => state.publishing.publish(),
        });
    }

    /// Whether a closed file is not published yet for want of copies.
    pub(crate) fn is_withheld(&self, ino: InodeId) -> bool {
        let withheld = |state: &mut LiveState| state.publishing.is_withheld() && !state.is_open();
        self.live.with_existing(ino, withheld).unwrap_or(false)
    }

    /// Writes what the overlay knows into the record.
    pub(crate) fn persist(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        let stripes = &self.bodies.stripes;
        let publishes = |body: &Body| body.publish(stripes, ino);
        if state.body.as_ref().map_or(Ok(false), publishes)? || !state.overlay.is_dirty {
            return Ok(());
        }
        state.notice_writes(&self.kernel)?;
        let content = self.new_content(ino, state)?;
        let mut dropped = Vec::new();
        let change = |inode: &mut Inode, more: &mut Vec<Extra>| {
            dropped = content.put(inode, more)?;
            Ok(())
        };
        state.attempted = content.beside;
        let changed = match state.record.clone() {
            Some(known) => self.namespace.change_known(&known, change),
            None => self.namespace.change(ino, change),
        };
        let inode = state.note_change(changed)?;
        self.replicas.note_dropped(&dropped);
        state.note_recorded(&content, inode);
        Ok(())
    }

    /// What the record is to say of a file that was written here.
    fn new_content(&self, ino: InodeId, state: &mut LiveState) -> Result<NewContent> {
        let mut extras = state.lease_extras(self.members.is_shared());
        let size_bytes = state.size_bytes()?;
        let layout = state.to_record().map(|bytes| put_beside(bytes, &mut extras));
        let folded = if state.naming.may_fold() { self.foldable(state)? } else { None };
        let was_folded = state.naming.published().is_some();
        let beside = folded.as_deref().or_else(|| state.to_record());
        let beside = beside.filter(|_| self.members.is_shared()).map(EarlyFold::of);
        if let (Some(sums), true) = (state.sums.get(), state.hints.integrity() == Integrity::Strict)
        {
            extras.extend(checksum_extras(sums));
            state.sums.note_stored(true);
        }
        state.account(&self.tiers)?;
        let home = state.own_backing();
        if was_folded
            && folded.is_none()
            && let Some(file) = state.own_file()
        {
            // The content beside the inode goes with the commit, so the backing file has to be on stable storage before.
            self.tiers.force_out(&file)?;
        }
        Ok(NewContent {
            extras,
            size_bytes,
            blocks_512: state.accounted_512,
            layout,
            home,
            folded,
            was_folded,
            keeps_copies: state.is_copied(ino)?,
            beside,
            has_no_sums: home.is_some() && state.sums.are_none(),
            overlay: state.overlay,
        })
    }
}

/// Finds out what was written past the process.
impl LiveState {
    /// Whether the backing file is not what the record says, as far as the file system can tell.
    pub(crate) fn has_changed_unseen(&self) -> Result<bool> {
        let Some(stat) = self.own_stat()? else { return Ok(false) };
        if self.copied.is_some_and(|copied| copied.is_of(&stat)) {
            return Ok(false);
        }
        let is_recorded = self
            .record
            .as_ref()
            .is_some_and(|r| r.size_bytes == stat.size_bytes && r.mtime == stat.mtime);
        // A write past the process in the same step of the clock as the publication does not show in the times.
        if self.unnamed().is_some() {
            return Ok(!is_recorded || !self.is_as_folded()?);
        }
        if self.is_passed() && self.copied.is_some_and(|copied| !copied.is_exact()) {
            return Ok(true);
        }
        let age = intarsia_sync::system_now().duration_since(stat.ctime.into()).unwrap_or_default();
        Ok(!is_recorded || age < TICK || stat.ctime > self.seen_ctime)
    }

    /// Takes over the times of writes that went past the process since it last touched the file.
    pub(crate) fn notice_writes(&mut self, kernel: &Kernel) -> Result<()> {
        let Some(stat) = self.own_stat()? else { return Ok(()) };
        // That time is in the record, or was until somebody set another one there.
        let is_recorded = self.found_mtime == Some(stat.mtime);
        if stat.ctime > self.seen_ctime && self.trusts_backing_times(kernel) && !is_recorded {
            self.overlay.mtime = Some(stat.mtime);
            self.overlay.ctime = self.overlay.ctime.max(Some(stat.ctime));
        }
        Ok(())
    }

    /// Whether the backing file's times change only when a program writes. With a write-back cache they do not: the kernel
    /// keeps the times itself, and writes pages whenever it likes.
    pub(crate) fn trusts_backing_times(&self, kernel: &Kernel) -> bool {
        !(kernel.has_write_back() && self.mode == IoMode::Cached && self.handles > 0)
    }
}
