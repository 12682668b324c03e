//! What a start finds after a crash, and brings into order before anything is served.

use std::collections::HashSet;

use intarsia_store::Tier;
use intarsia_types::{BackingFileId, BackingRef, Error, InodeId, Result};

use crate::inode::live::Forgotten;
use crate::node::Node;

/// Marks read at once.
const PAGE: usize = 4096;

impl Node {
    /// Removes files without an owner and unlinked inodes, and takes note of inodes that may have been,
    /// or may still be, written past the process.
    pub(crate) fn recover(&self) -> Result<()> {
        self.remove_free_files()?;
        if self.is_shared() {
            self.remove_unknown_files()?;
            self.give_up_doubtful_copies()?;
        }
        let orphans = self.reap_orphans()?;
        let unsettled = self.note_unsettled()?;
        if orphans + unsettled > 0 {
            tracing::info!(orphans, unsettled, "recovered from an unclean stop");
        }
        Ok(())
    }

    pub(crate) fn remove_free_files(&self) -> Result<()> {
        for tier in self.tiers.iter() {
            if self.is_shared() {
                for free in self.take_garbage(tier)? {
                    self.remove_free_file(tier, free.file)?;
                }
                continue;
            }
            let files = self.namespace.free_files(tier.id())?;
            for free in &files {
                self.remove_free_file(tier, free.file)?;
            }
            if files.is_empty() {
                continue;
            }
            match self.namespace.forget_files(tier.id(), &files) {
                // The ledger may name files that are gone; the next start tries again.
                Err(Error::NoSpace(why)) => {
                    tracing::warn!(%why, "the ledger of free files stays long");
                }
                other => other?,
            }
        }
        Ok(())
    }

    pub(crate) fn remove_free_file(&self, tier: &Tier, file: BackingFileId) -> Result<()> {
        if self.is_shared() {
            // Its owner may have gone at another host, which knows nothing of the space here.
            let is_counted = self.parts.note_gone(BackingRef { tier: tier.id(), file });
            match tier.open_file(file, false).and_then(|file| file.stat()) {
                Ok(_) if is_counted => {}
                Ok(stat) => tier.account(stat.blocks_512, 0),
                Err(error) => tracing::debug!(%file, %error, "a free file is gone already"),
            }
        }
        tier.remove(file)
    }

    /// With several hosts ready files do not stand in the ledger, so that a create touches one partition
    /// only. After a crash the files on disk are held against all records instead.
    fn remove_unknown_files(&self) -> Result<()> {
        let crashed: Vec<_> = self.tiers.iter().filter(|tier| !tier.is_counted()).collect();
        if crashed.is_empty() {
            return Ok(());
        }
        let mut known = HashSet::new();
        self.namespace.each_known_file(|backing| {
            if self.tiers.has(backing.tier) {
                known.insert(backing);
            }
        })?;
        for tier in crashed {
            let mut unknown = Vec::new();
            tier.scan(|file, _| {
                if !known.contains(&BackingRef { tier: tier.id(), file }) {
                    unknown.push(file);
                }
            })?;
            unknown.iter().try_for_each(|file| tier.remove(*file))?;
            tracing::info!(tier = %tier.id(), files = unknown.len(), "removed files that no record names");
        }
        Ok(())
    }

    /// A process that outlived the node may still write to an unlinked file; it keeps what it has open.
    fn reap_orphans(&self) -> Result<usize> {
        let mut count = 0;
        while let page @ [_, ..] = self.namespace.orphans(None, PAGE)?.as_slice() {
            for ino in page {
                self.reap(*ino, Forgotten::default());
            }
            count += page.len();
            if self.namespace.orphans(None, 1)?.first() == page.first() {
                tracing::warn!("unlinked files stay until the next start; see above");
                return Ok(count);
            }
        }
        Ok(count)
    }

    fn note_unsettled(&self) -> Result<usize> {
        let me = self.namespace.owner();
        let mut count = 0;
        let mut after: Option<InodeId> = None;
        loop {
            let page = self.namespace.writable_inodes(&me.node, after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(count) };
            after = Some(*last);
            for (ino, owner) in page {
                // The marks of an earlier life, unless another host has taken over meanwhile.
                if owner != me && !self.namespace.hand_over_write(ino, &owner, &me)? {
                    continue;
                }
                count += 1;
                self.live.with(ino, |state| {
                    state.is_unsettled = true;
                    state.holds_lease = self.is_shared();
                    state.is_foreign = true;
                    self.enqueue_settle(ino, state);
                });
            }
        }
    }

    /// Counts the space of tiers that were not stopped cleanly. Runs beside requests.
    pub(crate) fn recount_tiers(&self) -> Result<()> {
        self.tiers.iter().filter(|t| !t.is_counted()).try_for_each(|t| t.recount().map(|_| ()))
    }

    /// Puts the counted space right while nobody writes.
    pub(crate) fn recount_at_rest(&self) -> Result<()> {
        let is_written = |live: &crate::inode::live::Live| {
            let state = live.lock();
            state.is_unsettled || state.is_queued || state.writers > 0
        };
        for tier in self.tiers.iter() {
            let is_idle = || !self.live.entries().iter().any(|live| is_written(live));
            if tier.recount_at_rest(is_idle)? {
                tracing::debug!(tier = %tier.id(), "counted the space in use anew");
            }
        }
        Ok(())
    }
}
