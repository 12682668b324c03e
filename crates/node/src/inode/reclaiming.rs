//! Backing files that lost their owner: they are recycled, or removed from disk and then from the ledger.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use intarsia_meta::{FreeFile, Namespace};
use intarsia_store::Tier;
use intarsia_sync::Instant;
use intarsia_types::{BackingRef, Error, InodeId, Result, TierId};

use crate::background::queue::Queue;
use crate::cache::remote_cache::RemoteCache;
use crate::directory::directory_lease::DirectoryLeases;
use crate::inode::live::LiveTable;
use crate::inode::removal::Removal;
use crate::inode::rights::Rights;
use crate::members::Members;
use crate::metrics::Metrics;
use crate::replication::arrivals::Receiver;
use crate::space::ledger::Ledger;
use crate::space::tiers::Tiers;

/// The host of a change over several partitions that is not finished after so long is taken for dead.
const ABANDONED: Duration = Duration::from_secs(60);
/// How long an answer about space waits in all for entries that are locked.
const ASKING: Duration = Duration::from_millis(20);

/// Collects backing files without an owner, and keeps count of the space in use.
pub(crate) struct Reclaimer {
    pub(super) members: Members,
    pub(super) namespace: Arc<Namespace>,
    pub(super) live: Arc<LiveTable>,
    pub(super) tiers: Arc<Tiers>,
    pub(super) rights: Arc<Rights>,
    /// The finalizer's.
    pub(super) queue: Arc<Queue>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) removal: Arc<Removal>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) receiver: Arc<Receiver>,
    pub(super) remote_cache: Arc<RemoteCache>,
    pub(super) directory_leases: Arc<DirectoryLeases>,
    /// After so long a change without an answer is made, or never will be.
    pub(super) uncertain: Duration,
}

impl Reclaimer {
    pub(crate) fn give_back(
        &self,
        ino: InodeId,
        backing: BackingRef,
        file: Arc<intarsia_store::BackingFile>,
    ) -> Result<()> {
        let free = FreeFile::of(ino, backing.file);
        if let Err(error) = self.force_records() {
            self.ledger.remove_later(backing.tier, free, &error);
            return Ok(());
        }
        // A read that is under way still holds the descriptor; then the file is removed, not recycled.
        let given_back = match Arc::try_unwrap(file) {
            Ok(file) => self.tiers.give_back(backing, file),
            Err(_) => {
                let tier = self.tiers.get(backing.tier)?;
                tier.remove(backing.file).map(|()| false)
            }
        };
        let recycled = match given_back {
            Ok(recycled) => recycled,
            Err(error) => {
                self.ledger.remove_later(backing.tier, free, &error);
                return Ok(());
            }
        };
        if recycled {
            self.metrics.recycled.fetch_add(1, Ordering::Relaxed);
        }
        if recycled || !self.namespace.records_reserved_files() {
            Ok(())
        } else {
            self.namespace.forget_file(backing.tier, free)
        }
    }

    /// Puts the records on stable storage, before files that they no longer name are removed: else a loss of power could bring
    /// back records that name them. In a store of several hosts the metadata servers keep what they acknowledge.
    fn force_records(&self) -> Result<()> {
        if self.tiers.is_durable() && !self.members.is_shared() {
            self.namespace.sync()
        } else {
            Ok(())
        }
    }

    /// Removes files without an owner from disk, then from the ledger.
    pub(crate) fn reclaim(&self, files: &[(TierId, FreeFile)]) -> Result<()> {
        if let Err(error) = self.force_records() {
            files.iter().for_each(|(tier, free)| self.ledger.remove_later(*tier, *free, &error));
            return Err(error);
        }
        let mut outcome = Ok(());
        for tier in self.tiers.iter() {
            let mut gone = Vec::new();
            for (_, free) in files.iter().filter(|(id, _)| *id == tier.id()) {
                match self.ledger.remove(tier, free.file) {
                    Ok(()) => gone.push(*free),
                    Err(error) => self.ledger.remove_later(tier.id(), *free, &error),
                }
            }
            if !gone.is_empty() {
                outcome = outcome.and(self.namespace.forget_files(tier.id(), &gone));
            }
        }
        outcome
    }

    /// Removes files of this host that belong to no inode any more, as the ledger says. Now and then it also finishes changes
    /// whose host has died; not each time, because that asks every partition, and files may lose their owners every second.
    pub(crate) fn collect(&self) -> Result<()> {
        self.queue.collect_later();
        self.directory_leases.return_idle_directories();
        self.remove_free_files()?;
        self.ledger.resolve_doubts(self.uncertain)?;
        self.removal.resolve_doubts(self.uncertain)?;
        self.rights.return_unknown_rights(self.uncertain);
        self.rights.return_late_rights(self.uncertain)?;
        self.recount_at_rest()?;
        if self.queue.take_sweep() {
            let recovered = self.namespace.recover_transactions(ABANDONED)?;
            tracing::debug!(?recovered, "looked for changes that nobody finished");
        }
        Ok(())
    }

    /// Removes cached copies where files that are written here need the room.
    pub(crate) fn make_room(&self) {
        if !self.remote_cache.is_idle() {
            self.account_writers();
            self.remote_cache.make_room();
            self.queue.watch_room();
        }
    }

    /// Removes the free files of all tiers; goes on with the others if one fails.
    pub(crate) fn remove_free_files(&self) -> Result<()> {
        let remove = |tier: &Tier| match self.members.is_shared() {
            true => self.remove_garbage(tier),
            false => self.remove_listed(tier),
        };
        self.tiers.iter().map(remove).fold(Ok(()), Result::and)
    }

    fn remove_garbage(&self, tier: &Tier) -> Result<()> {
        let spare = |files: &mut Vec<FreeFile>| self.spare_passed(tier.id(), files);
        for free in self.receiver.take_garbage(tier, spare)? {
            if let Err(error) = self.ledger.remove(tier, free.file) {
                self.ledger.remove_later(tier.id(), free, &error);
            }
        }
        Ok(())
    }

    /// In a store of one host: removes the files in the ledger, and takes those that are gone out of it.
    fn remove_listed(&self, tier: &Tier) -> Result<()> {
        let (mut gone, mut outcome) = (Vec::new(), Ok(()));
        for free in self.namespace.free_files(tier.id())? {
            match self.ledger.remove(tier, free.file) {
                Ok(()) => gone.push(free),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        if gone.is_empty() {
            return outcome;
        }
        match self.namespace.forget_files(tier.id(), &gone) {
            // The ledger may name files that are gone; the next start tries again.
            Err(Error::NoSpace(why)) => {
                tracing::warn!(%why, "the ledger of free files stays long");
                outcome
            }
            forgotten => outcome.and(forgotten),
        }
    }

    /// Counts the space of tiers that were not stopped cleanly. Runs beside requests.
    pub(crate) fn recount_tiers(&self) -> Result<()> {
        self.tiers.iter().filter(|t| !t.is_counted()).try_for_each(|t| t.recount().map(|_| ()))
    }

    /// Counts the space in use anew, if nobody writes.
    pub(crate) fn recount_at_rest(&self) -> Result<()> {
        let is_written = |live: &crate::inode::live::Live| {
            let state = live.lock();
            state.mark.is_unsettled() || state.entry.is_queued() || state.writers > 0
        };
        for tier in self.tiers.iter() {
            let is_idle = || !self.live.entries().iter().any(|live| is_written(live));
            if tier.recount_at_rest(is_idle)? {
                tracing::debug!(tier = %tier.id(), "counted the space in use anew");
            }
        }
        Ok(())
    }

    /// The process does not see how far passthrough writers grow their files, so the files are looked at before an answer about
    /// space. One whose entry is locked counts as at the last look: the thread that has it may be waiting for another host.
    pub(crate) fn account_writers(&self) {
        let deadline = Instant::now() + ASKING;
        for live in self.live.entries() {
            let Some(mut state) = live.try_lock_until(deadline) else { continue };
            if state.entry.is_gone() || state.writers == 0 {
                continue;
            }
            if let Err(error) = state.account(&self.tiers) {
                tracing::debug!(ino = %live.ino, %error, "space not brought up to date");
            }
        }
    }

    /// Takes out of `garbage` the files that the kernel reads by passthrough: they are spared until they are closed, and used
    /// by whoever opens the inode until then.
    pub(crate) fn spare_passed(&self, tier: TierId, garbage: &mut Vec<FreeFile>) {
        if garbage.is_empty() {
            return;
        }
        for live in self.live.entries() {
            let mut state = live.lock();
            let Some(backing) = state.own_backing() else { continue };
            if backing.tier == tier && state.is_passed() {
                let all = garbage.len();
                garbage.retain(|free| free.file != backing.file);
                if garbage.len() < all {
                    state.backing.spare();
                }
            }
        }
    }
}
