//! Bytes that move from beside the inode, or from the lower file system, to a backing file here, because they are about to be
//! written.

use intarsia_codec::BlockSums;
use intarsia_meta::Extra;
use intarsia_types::{InodeId, Integrity, Layout, Result, TierId};

use crate::body::changing::MovesFrom;
use crate::body::integrity::{is_summable, sum_file};
use crate::body::{Bodies, Body, LocalBody};
use crate::inode::early_fold::EarlyFold;
use crate::inode::live::LiveState;

impl LiveState {
    /// The condition that this host still has the right to write, for a change of content in a store of several hosts.
    pub(crate) fn lease_extras(&self, is_shared: bool) -> Vec<Extra> {
        if is_shared && self.right.binds_changes() { vec![Extra::HoldWritable] } else { Vec::new() }
    }

    /// Moves bytes from beside the inode, or from the lower file system, to a backing file on this host, whatever room it has.
    pub(crate) fn unfold_here(&mut self, bodies: &Bodies, ino: InodeId) -> Result<()> {
        match self.moves_from() {
            Some(MovesFrom::Memory(_)) => {
                let tier = bodies.tier_here(&self.hints)?;
                self.unfold_into(bodies, ino, tier)
            }
            Some(MovesFrom::Below(_)) | None => self.copy_up(bodies, ino),
        }
    }

    /// Moves an inline body into a backing file of `tier`.
    ///
    /// The bytes are in the file before the record names it; a crash in between leaves a free file. If the content was
    /// published to other hosts, the record keeps it beside the inode, where it outlives this host, and does not name the file
    /// until new content is published.
    pub(crate) fn unfold_into(
        &mut self,
        bodies: &Bodies,
        ino: InodeId,
        tier: TierId,
    ) -> Result<()> {
        let Some(MovesFrom::Memory(bytes)) = self.moves_from() else { return Ok(()) };
        let size_bytes = bytes.len() as u64;
        // Summed before they are written, so that an error of the disk shows.
        let sums = self.is_strict().then(|| BlockSums::of(bytes));
        let is_shared = bodies.is_shared();
        let published = self.keeps_published(is_shared).then(|| EarlyFold::of(bytes));
        // The file gets the recorded time, so that a later write shows as a newer one.
        let is_as_recorded = published.is_some() && !self.overlay.is_dirty;
        let mtime = self.record.as_ref().filter(|_| is_as_recorded).map(|record| record.mtime);
        let mut new = bodies.write_out(ino, bytes, tier, mtime)?;
        if let Some(published) = published {
            self.naming.fold(published);
        } else {
            new = bodies.name(ino, new, size_bytes, self.lease_extras(is_shared))?;
        }
        self.hold_new(new, size_bytes);
        if let Some(sums) = sums {
            self.sums.keep_up(sums);
        }
        self.mark_seen();
        Ok(())
    }

    fn is_strict(&self) -> bool {
        self.hints.integrity() == Integrity::Strict
    }

    /// Whether the record of a small file keeps the published bytes while the file is rewritten here. The file has its mark as
    /// unsettled already.
    fn keeps_published(&self, is_shared: bool) -> bool {
        is_shared
            && self.holds_lease()
            && !self.right.is_taken_over()
            && !self.sums.is_stored()
            && self.record.as_ref().is_some_and(|record| record.layout == Layout::Inline)
    }

    /// Copies a lower file to a tier, where it can be written (see [`Bodies::copy_up`]).
    pub(crate) fn copy_up(&mut self, bodies: &Bodies, ino: InodeId) -> Result<()> {
        let Some(MovesFrom::Below(lower)) = self.body.as_ref().and_then(Body::moves_from) else {
            return Ok(());
        };
        let copied = self.ahead.take_of_lower(ino, lower);
        let extras = self.lease_extras(bodies.is_shared());
        let (new, inode) = bodies.copy_up(ino, lower, &self.hints, copied, extras)?;
        let size_bytes = inode.size_bytes;
        self.record = Some(inode);
        let file = std::sync::Arc::clone(&new.ro);
        self.hold_new(new, size_bytes);
        self.account(bodies.tiers())?;
        self.mark_seen();
        if self.is_strict() && is_summable(size_bytes) {
            self.sums.keep_up(sum_file(&file)?);
        }
        Ok(())
    }

    fn hold_new(&mut self, new: LocalBody, size_bytes: u64) {
        self.body = Some(Body::local(new));
        self.overlay.size_bytes = size_bytes;
        self.mark.set();
        self.sums.note_stored(false);
        self.accounted_512 = 0;
    }

    /// Records durably that the backing file may change from now on.
    pub(crate) fn mark_unsettled(&mut self, bodies: &Bodies, ino: InodeId) -> Result<()> {
        if self.mark.is_unsettled() || self.own_backing().is_none() {
            return Ok(());
        }
        if self.sums.is_stored() && self.is_strict() {
            self.load_sums(bodies, ino)?;
        } else {
            self.sums.unload();
        }
        bodies.mark_unsettled(ino, self.lease_extras(bodies.is_shared()))?;
        self.mark.set();
        self.sums.note_stored(false);
        Ok(())
    }
}
