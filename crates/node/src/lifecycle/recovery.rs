//! What a start finds after a crash, and brings into order before anything is served.

use std::collections::HashSet;
use std::sync::Arc;

use intarsia_meta::Namespace;
use intarsia_store::Tier;
use intarsia_types::{BackingRef, InodeId, Result};

use crate::background::queue::Queue;
use crate::inode::live::{Forgotten, LiveTable};
use crate::inode::reclaiming::Reclaimer;
use crate::inode::removal::Removal;
use crate::lifecycle::power_loss::PowerLoss;
use crate::members::Members;
use crate::replication::Replicas;
use crate::space::tiers::Tiers;

/// Marks read at once.
const PAGE: usize = 4096;

/// Brings what an earlier life of this host left into order.
pub(crate) struct Recovery {
    pub(crate) members: Members,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) removal: Arc<Removal>,
    pub(crate) reclaimer: Arc<Reclaimer>,
    /// The finalizer's.
    pub(crate) queue: Arc<Queue>,
    pub(crate) power_loss: PowerLoss,
}

impl Recovery {
    /// Removes files without an owner and unlinked inodes, and takes note of inodes that may have been,
    /// or may still be, written past the process.
    pub(crate) fn recover(&self) -> Result<()> {
        self.reclaimer.remove_free_files()?;
        if self.members.is_shared() {
            self.remove_unknown_files()?;
            self.power_loss.give_up_doubtful_copies()?;
            self.replicas.note_earlier_life(!self.tiers.iter().all(Tier::is_counted));
        }
        let orphans = self.reap_orphans()?;
        let unsettled = self.note_unsettled()?;
        if orphans + unsettled > 0 {
            tracing::info!(orphans, unsettled, "recovered from an unclean stop");
        }
        Ok(())
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
                self.removal.reap(*ino, Forgotten::default());
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
                    state.mark.set();
                    if self.members.is_shared() {
                        state.right.acquire();
                    }
                    state.mark.find();
                    state.enqueue_settle(&self.queue, ino);
                });
            }
        }
    }
}
