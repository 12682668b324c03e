//! Live files whose content has replicas: what is to be published of them, and what is known after that.

use std::sync::Arc;

use intarsia_meta::{Extra, Inode, Namespace};
use intarsia_types::{BackingRef, CloseMode, Error, InodeId, Integrity, Result};

use crate::body::Body;
use crate::body::integrity::checksum_extras;
use crate::body::own::OwnFile;
use crate::inode::early_fold::unfold_record;
use crate::inode::live::{LiveState, LiveTable};
use crate::kernel::Kernel;
use crate::replication::further::{Further, take_over_copies};
use crate::replication::replicate::{Copied, LiveFiles, Publication};
use crate::space::placing::Placing;
use crate::space::tiers::Tiers;

/// When content is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A program closes the file.
    Close,
    /// A program calls `fsync`, which waits for copies wherever a close does.
    Sync,
}

impl LiveState {
    /// Whether publishing what was written here waits for copies at that moment.
    pub(crate) fn awaits_copies(&self, placing: &Placing, moment: Moment) -> bool {
        self.promises_copies(placing, moment) && self.holds_lease() && self.own_backing().is_some()
    }

    /// Whether publishing what programs here wrote waits for other hosts at that moment: for copies, made by this host or by
    /// the home through which the file is written, or for the parts of a striped file.
    pub(crate) fn waits_for_hosts(&self, placing: &Placing, moment: Moment) -> bool {
        let promised = self.promises_copies(placing, moment);
        let waits = |body: &Body| body.publication_waits(promised, self.holds_lease());
        self.body.as_ref().is_some_and(waits)
    }

    /// Whether the file has to have its copies when the call returns.
    fn promises_copies(&self, placing: &Placing, moment: Moment) -> bool {
        let is_promised = match self.hints.close_asked() {
            Some(mode) => mode == CloseMode::Safe,
            None => moment == Moment::Sync,
        };
        is_promised && placing.copies_wanted(&self.hints) > 1
    }

    /// Whether the copies that this host made on others hold what the home's file holds now.
    pub(crate) fn is_copied(&self, ino: InodeId) -> Result<bool> {
        let (Some(copied), Some(file)) = (self.copied, self.own_file()) else { return Ok(false) };
        copied.is_content_of(ino, &file)
    }

    /// The changes that store the sums of a file, if its reads are verified; else none.
    fn strict_sums(&self) -> Vec<Extra> {
        match self.sums.get() {
            Some(sums) if self.hints.integrity() == Integrity::Strict => checksum_extras(sums),
            _ => Vec::new(),
        }
    }

    /// Notes that the record is `inode` now, which names the copies of `publication`. `is_unchanged` says that nothing was
    /// written here since that publication began.
    fn note_published(
        &mut self,
        inode: Inode,
        publication: &Publication,
        copied: Copied,
        is_unchanged: bool,
    ) {
        self.naming.name();
        self.copied = Some(copied);
        self.record = Some(inode);
        self.publishing.publish();
        // A write within the same step of the clock does not show in the times.
        if is_unchanged && !self.overlay.is_newer {
            if !publication.strict_sums.is_empty() {
                self.sums.note_stored(true);
            }
            self.overlay.is_dirty = false;
            self.overlay.mtime = None;
            self.overlay.ctime = None;
            self.seen_ctime = publication.stat.ctime;
            self.found_mtime = None;
        }
    }
}

/// The live files, for whoever makes copies of them.
pub(crate) struct CopiedFiles {
    pub(crate) live: Arc<LiveTable>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) placing: Arc<Placing>,
    pub(crate) kernel: Arc<Kernel>,
}

impl LiveFiles for CopiedFiles {
    fn begin_publication(&self, ino: InodeId) -> Result<Option<Publication>> {
        let begun = self.live.with_existing(ino, |state| self.begin(ino, state));
        begun.transpose().map(Option::flatten)
    }

    fn name_copies(
        &self,
        ino: InodeId,
        publication: &Publication,
        further: Further<'_>,
        copied: Copied,
    ) -> Result<Vec<BackingRef>> {
        self.live.with(ino, |state| {
            let is_same = state.own_backing() == Some(publication.backing);
            if !is_same || !state.holds_lease() {
                return Err(Error::Busy("the file was taken from this host meanwhile".into()));
            }
            state.account(&self.tiers)?;
            let blocks_512 = state.accounted_512;
            let stat = publication.stat;
            // A write within the same step of the clock shows in the sums alone.
            let is_unchanged = state.strict_sums() == publication.strict_sums
                && state.own_stat().is_ok_and(|now| now == Some(stat));
            // What was written meanwhile is in the sums or in the copies or in both.
            let sums = publication.strict_sums.as_slice();
            let sums = if is_unchanged { sums } else { &[] };
            let is_unnamed = state.unnamed().is_some();
            let is_time_due = state.overlay.mtime.is_some();
            let mut dropped = Vec::new();
            let changed = self.namespace.change(ino, |inode, extras| {
                extras.push(Extra::HoldWritable);
                extras.extend_from_slice(sums);
                if is_unnamed {
                    unfold_record(inode, publication.backing, extras);
                }
                dropped =
                    take_over_copies(&mut inode.layout, publication.backing, further, extras)?;
                inode.size_bytes = stat.size_bytes;
                inode.blocks_512 = blocks_512;
                // The sums that are stored are those of an earlier content.
                inode.checksummed = false;
                // Not if a program has set another time while the copies were made.
                let mtime = publication.mtime.filter(|_| is_time_due);
                inode.mtime = mtime.unwrap_or(inode.mtime);
                inode.ctime = inode.ctime.max(publication.ctime.unwrap_or(inode.ctime));
                Ok(())
            });
            let inode = state.note_change(changed)?;
            state.note_published(inode, publication, copied, is_unchanged);
            Ok(dropped)
        })
    }

    fn note_lacking(&self, ino: InodeId) -> bool {
        let note = |state: &mut LiveState| {
            if state.holds_lease() {
                state.publishing.note_lacking();
            }
            state.holds_lease()
        };
        self.live.with_existing(ino, note).unwrap_or(false)
    }
}

impl CopiedFiles {
    fn begin(&self, ino: InodeId, state: &mut LiveState) -> Result<Option<Publication>> {
        if !state.awaits_copies(&self.placing, Moment::Sync) {
            // Another host has the right by now, the file is gone, or its hints ask for no copies any more.
            state.publishing.publish();
            return Ok(None);
        }
        let wanted = self.placing.copies_wanted(&state.hints);
        let record = match self.namespace.get(ino) {
            Err(Error::NotFound) => {
                // Nobody will see the file any more; nothing may keep it from settling.
                state.names.lose();
                state.publishing.publish();
                state.overlay.is_dirty = false;
                return Ok(None);
            }
            other => other?,
        };
        let is_changed = state.publishing.is_withheld()
            || state.overlay.is_dirty
            || state.has_changed_unseen()?;
        // Content beside the inode is replicated by the metadata servers.
        let has_copies = record.layout.copies().len() >= wanted || state.unnamed().is_some();
        if !is_changed && has_copies {
            return Ok(None);
        }
        state.notice_writes(&self.kernel)?;
        state.overlay.is_newer = false;
        self.publication(state, record, wanted)
    }

    fn publication(
        &self,
        state: &LiveState,
        record: Inode,
        wanted: usize,
    ) -> Result<Option<Publication>> {
        let Some(OwnFile { backing, file, stat }) = state.own_now()? else { return Ok(None) };
        let home_class = self.tiers.get(backing.tier)?.class();
        Ok(Some(Publication {
            stat,
            file,
            backing,
            class: state.hints.tier().unwrap_or(home_class),
            mtime: state.overlay.mtime,
            ctime: state.overlay.ctime,
            strict_sums: state.strict_sums(),
            record,
            copied: state.copied,
            wanted,
        }))
    }
}
