//! What was written to a file, as its record is to say it.

use intarsia_meta::{Extra, Inode};
use intarsia_types::{BackingRef, Layout, Result};

use crate::inode::early_fold::{EarlyFold, fold_record, unfold_record};
use crate::inode::live::{LiveState, Overlay};
use crate::replication::further::{Further, take_over_copies};

/// The content of a live file at the moment of its publication.
pub(super) struct NewContent {
    pub(super) extras: Vec<Extra>,
    pub(super) size_bytes: u64,
    pub(super) blocks_512: u64,
    /// The layout that the record gets, if the bytes stand beside the inode.
    pub(super) layout: Option<Layout>,
    /// The backing file here that has the bytes.
    pub(super) home: Option<BackingRef>,
    /// The bytes of a backing file that are put beside the inode as well.
    pub(super) folded: Option<Vec<u8>>,
    /// Whether the record has earlier bytes beside the inode, and does not name the backing file.
    pub(super) was_folded: bool,
    /// Whether the copies on other hosts have this content.
    pub(super) keeps_copies: bool,
    /// What is published beside the inode.
    pub(super) beside: Option<EarlyFold>,
    pub(super) has_no_sums: bool,
    pub(super) overlay: Overlay,
}

impl NewContent {
    /// Puts it into a record. Returns the copies that the record named before and does not any more.
    pub(super) fn put(&self, inode: &mut Inode, more: &mut Vec<Extra>) -> Result<Vec<BackingRef>> {
        more.extend_from_slice(&self.extras);
        inode.size_bytes = self.size_bytes;
        inode.blocks_512 = self.blocks_512;
        inode.checksummed &= !self.has_no_sums;
        let dropped = self.move_bytes(inode, more)?;
        inode.mtime = self.overlay.mtime.unwrap_or(inode.mtime);
        // An attribute may have been changed after the write.
        inode.ctime = self.overlay.ctime.map_or(inode.ctime, |ctime| inode.ctime.max(ctime));
        if let Some(layout) = &self.layout {
            inode.layout = layout.clone();
        }
        Ok(dropped)
    }

    /// Has the record name where the bytes are, if they are in a backing file here.
    fn move_bytes(&self, inode: &mut Inode, more: &mut Vec<Extra>) -> Result<Vec<BackingRef>> {
        let Some(home) = self.home else { return Ok(Vec::new()) };
        if let Some(content) = &self.folded {
            let mut dropped = inode.layout.copies().to_vec();
            dropped.retain(|copy| *copy != home);
            more.extend(dropped.iter().map(|copy| Extra::PutFree(*copy)));
            fold_record(inode, content, more);
            return Ok(dropped);
        }
        if self.was_folded {
            unfold_record(inode, home, more);
        }
        if self.keeps_copies {
            return Ok(Vec::new());
        }
        // The copies on other hosts hold what was published before.
        take_over_copies(&mut inode.layout, home, Further::Made(&[]), more)
    }
}

impl LiveState {
    /// Notes that the record is `inode` now, which says `content`.
    pub(super) fn note_recorded(&mut self, content: &NewContent, inode: Inode) {
        self.attempted = None;
        match content.beside.filter(|_| content.folded.is_some()) {
            Some(published) => self.naming.fold(published),
            None => self.naming.name(),
        }
        self.copied = self.copied.filter(|_| content.keeps_copies);
        self.publishing.publish();
        self.overlay.is_dirty = false;
        self.overlay.mtime = None;
        self.overlay.ctime = None;
        self.record = Some(inode);
        self.mark_seen();
    }
}
