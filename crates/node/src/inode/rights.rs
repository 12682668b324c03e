//! This host's rights to write: which it has, and how it gives back what nobody here needs.

use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::{Extra, Inode, Namespace};
use intarsia_types::{Error, InodeId, Result};

use crate::background::queue::Queue;
use crate::directory::directory_lease::DirectoryLeases;
use crate::inode::creations::Creations;
use crate::inode::handed::SOON;
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::passed::{Passed, Unsure};
use crate::inode::removal::Removal;
use crate::inode::unawaited::{limit_unawaited, limit_what_is_left};
use crate::members::Members;
use crate::replication::replicator::CopyQueue;

/// Marks read at once.
const PAGE: usize = 4096;

/// This host's rights to write files, as far as it knows (see [`crate::inode::reconciling`] for what it does not know).
pub(crate) struct Rights {
    pub(super) members: Members,
    pub(super) namespace: Arc<Namespace>,
    pub(super) live: Arc<LiveTable>,
    pub(super) passed: Arc<Passed>,
    pub(super) creations: Arc<Creations>,
    pub(super) directory_leases: Arc<DirectoryLeases>,
    pub(super) removal: Arc<Removal>,
    /// The finalizer's.
    pub(super) queue: Arc<Queue>,
    /// Files that lack copies on other hosts.
    pub(super) copy_queue: Arc<CopyQueue>,
}

impl Rights {
    /// The record of a file from memory, if its length and place are certain: no other host changes these while this one holds
    /// the right to write.
    pub(crate) fn known_record(&self, state: &LiveState) -> Option<Inode> {
        let is_certain = state.holds_lease()
            && state.body.is_some()
            && !state.backing.is_doubtful()
            && !state.right.is_taken_over()
            && !state.mark.is_foreign()
            && self.members.is_sure();
        state.record.clone().filter(|_| is_certain)
    }

    /// The record of a file that is about to settle. If there is none, the entry forgets the bytes of the file.
    pub(crate) fn recorded(&self, ino: InodeId, state: &mut LiveState) -> Result<Inode> {
        let inode = self.namespace.get(ino);
        if matches!(inode, Err(Error::NotFound)) {
            // Another host removed the file, and the mark went with the record; or the file was never recorded.
            self.removal.forget(ino, state);
        }
        inode
    }

    /// Gives the right to write back, which was acquired for something that then failed.
    pub(crate) fn give_lease_back(&self, ino: InodeId, state: &mut LiveState) {
        if !state.right.release() {
            return;
        }
        if let Err(error) = self.clear(ino) {
            tracing::debug!(%ino, %error, "a lease to write is given back later");
            // Whatever the error was, the metadata may still say that this host has the right.
            self.passed.doubt_right(ino, &self.queue);
        }
        if state.publishing.take_lacking() {
            self.copy_queue.add(ino, 0);
        }
    }

    /// Called after something failed: if nobody has the file open, the right to write goes back, at once if no bytes are here,
    /// else when the file settles.
    pub(crate) fn leave_right(&self, ino: InodeId, state: &mut LiveState) {
        if state.is_open() || !state.holds_lease() {
            return;
        }
        let is_untouched = state.body.is_none() && state.is_recorded();
        if is_untouched && !state.right.is_taken_over() {
            let _limit = limit_what_is_left();
            self.give_lease_back(ino, state);
        } else {
            state.enqueue_settle(&self.queue, ino);
        }
    }

    /// Gives back rights to write that this host may have by the metadata while no live file here has them, because the answer
    /// to a change that asked for the right, or gave it back, was lost at least `age` ago.
    pub(crate) fn return_unknown_rights(&self, age: Duration) {
        for file in self.passed.take_unsure(age) {
            self.return_unknown(file);
        }
    }

    /// Once, `age` after the start: gives back rights that earlier lives of this host got after this one had recovered. A node
    /// may be killed after it has asked another host, or the metadata, for a right that is given later.
    pub(crate) fn return_late_rights(&self, age: Duration) -> Result<()> {
        if !self.members.is_shared() || !self.passed.awaits_late_rights(age) {
            return Ok(());
        }
        let me = self.namespace.owner();
        let mut after = None;
        loop {
            let page = self.namespace.writable_inodes(&me.node, after, PAGE)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (ino, owner) in page {
                if owner.epoch < me.epoch {
                    self.return_unknown(Unsure::File(ino));
                }
            }
        }
        self.passed.has_found_late_rights();
        Ok(())
    }

    /// Gives back a right that this host may have by the metadata, unless a live file here has it. If that fails it is tried
    /// again later.
    fn return_unknown(&self, file: Unsure) {
        let ino = match &file {
            Unsure::File(ino) => Ok(*ino),
            Unsure::New(parent, name) => self.namespace.lookup(*parent, name).map(|i| i.ino),
        };
        let returned = ino.and_then(|ino| {
            if !self.creations.is_stranger(ino) {
                return Err(Error::Busy("a file is being created".into()));
            }
            let release = |state: &mut LiveState| {
                let is_known = state.is_open() || state.holds_lease() || state.mark.is_unsettled();
                if is_known { Ok(()) } else { self.release_unknown(ino) }
            };
            let _limit = limit_unawaited();
            let locked = self.live.try_with(ino, SOON, release);
            locked.unwrap_or_else(|| Err(Error::Busy("somebody is at work on it".into())))
        });
        match returned {
            Ok(()) | Err(Error::NotFound) => {}
            Err(error) => {
                tracing::debug!(?file, %error, "a right to write is given back later");
                self.passed.doubt_again(file);
            }
        }
    }

    /// Gives back the right to write to a file if the metadata say that this host has it; its entry, which the caller has
    /// locked, does not, because the answer to a question for the right was lost.
    pub(crate) fn release_unknown(&self, ino: InodeId) -> Result<()> {
        if self.passed.contains(ino) {
            return Ok(());
        }
        let me = self.namespace.owner();
        let Some(holder) = self.namespace.writer(ino)?.filter(|holder| holder.node == me.node)
        else {
            return Ok(());
        };
        // An earlier life of this host may have got it, before the others gave that life up.
        if holder != me && !self.namespace.hand_over_write(ino, &holder, &me)? {
            return Ok(());
        }
        tracing::warn!(%ino, "gave back a right to write that nothing here knew of");
        self.clear(ino)
    }

    /// Takes the mark of this host's right to write out of the metadata, if it has the right.
    pub(super) fn clear(&self, ino: InodeId) -> Result<()> {
        let extras = [Extra::HoldWritable, Extra::ClearWritable];
        self.namespace.update_with(ino, &extras, |_| Ok(())).map(drop)
    }
}
