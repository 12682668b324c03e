//! Backing files of which it is not known whether a record names them.
//!
//! A commit of which no answer came may have been made, or be made a little later. The file that it was to give an
//! owner, or to take from the ledger, must neither serve another file nor be removed until that is known. It is known
//! once no such commit can be under way any more: then the file is taken out of the ledger, so that nobody can claim
//! it, and all records are looked at for it, once for all such files.

use std::collections::HashSet;
use std::time::Duration;

use intarsia_meta::FreeFile;
use intarsia_store::BackingFile;
use intarsia_sync::{Instant, Mutex};
use intarsia_types::{BackingRef, Error, InodeId, Result, TierId};

use crate::inode::live::{Forgotten, LiveState};
use crate::node::Node;

#[derive(Clone, Copy, Debug)]
struct Doubt {
    backing: BackingRef,
    /// As which it may stand in the ledger.
    free: FreeFile,
    since: Instant,
}

/// The doubtful files of this host.
#[derive(Debug, Default)]
pub(crate) struct Doubts(Mutex<Vec<Doubt>>);

/// Inodes that may have lost their last name to this host, which nobody waits for.
#[derive(Debug, Default)]
pub(crate) struct DoubtfulOrphans(Mutex<Vec<(InodeId, Instant)>>);

impl Doubts {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    fn add(&self, tier: TierId, files: &[FreeFile]) {
        let since = Instant::now();
        let backing = |free: &FreeFile| BackingRef { tier, file: free.file };
        let doubts = files.iter().map(|free| Doubt { backing: backing(free), free: *free, since });
        self.0.lock().extend(doubts);
    }

    fn take_older_than(&self, age: Duration) -> Vec<Doubt> {
        self.0.lock().extract_if(.., |doubt| doubt.since.elapsed() >= age).collect()
    }
}

/// Whether a commit that failed with this may have been made nevertheless.
pub(crate) const fn is_uncertain(error: &Error) -> bool {
    matches!(error, Error::Engine(_))
}

impl Node {
    /// Nobody has the file open any more. If it was promised and could not be recorded, nobody else knows of its bytes.
    pub(crate) fn note_broken_promise(&self, ino: InodeId, state: &mut LiveState) {
        state.is_doubtful |= self.namespace.forget_promise(ino) && state.local().is_some();
    }

    /// Nobody knows whether a record names the file; `accounted_512` is what the tier's accounting has for it. Of a store
    /// of this host alone the ledger tells at the next start.
    pub(crate) fn doubt(&self, backing: BackingRef, free: FreeFile, accounted_512: u64) {
        if !self.is_shared() {
            return;
        }
        let measured = self.tiers.get(backing.tier).and_then(|tier| {
            let blocks_512 = tier.open_file(backing.file, false)?.stat()?.blocks_512;
            tier.account(accounted_512, blocks_512);
            Ok(())
        });
        if let Err(error) = measured {
            tracing::debug!(file = %backing.file, %error, "a doubtful file is gone");
            return;
        }
        tracing::warn!(file = %backing.file, tier = %backing.tier, "nobody knows yet whether a file is named by a record");
        self.doubts.add(backing.tier, &[free]);
        self.settler_queue.collect();
    }

    /// Removes a file of this host that was to be the body of an inode, in a change that failed with `error`; unless the
    /// change may have been made.
    pub(crate) fn discard_unrecorded(
        &self,
        ino: InodeId,
        backing: BackingRef,
        error: &Error,
    ) -> Result<()> {
        if is_uncertain(error) {
            self.doubt(backing, FreeFile::of(ino, backing.file), 0);
            return Ok(());
        }
        self.tiers.get(backing.tier)?.remove(backing.file)?;
        self.namespace.forget_file(backing.tier, FreeFile::reserved(backing.file))
    }

    /// As [`discard_unrecorded`](Self::discard_unrecorded) for an empty file, which goes back to the pool; it may stand
    /// in the ledger as `free`.
    pub(crate) fn untake_unrecorded(
        &self,
        tier: TierId,
        free: FreeFile,
        file: BackingFile,
        error: &Error,
    ) {
        let backing = BackingRef { tier, file: free.file };
        if is_uncertain(error) {
            self.doubt(backing, free, 0);
        } else {
            self.tiers.untake_file(backing, file);
        }
    }

    /// Passes on what became of taking `files` out of the ledger; without an answer they may be out of it.
    pub(crate) fn or_doubt<T>(
        &self,
        tier: TierId,
        files: &[FreeFile],
        taken: Result<T>,
    ) -> Result<T> {
        taken.inspect_err(|error| {
            if is_uncertain(error) {
                self.doubts.add(tier, files);
            }
        })
    }

    /// Passes on what became of taking a name from an inode that was to be kept as an orphan of this host; without an
    /// answer it may be one.
    pub(crate) fn or_doubt_orphan<T>(&self, kept: Option<InodeId>, taken: Result<T>) -> Result<T> {
        taken.inspect_err(|error| {
            if let Some(ino) = kept.filter(|_| is_uncertain(error)) {
                self.doubt_orphan(ino);
            }
        })
    }

    /// The inode may be an orphan that this host is to remove. Of a store of this host alone the next start does.
    pub(crate) fn doubt_orphan(&self, ino: InodeId) {
        if self.is_shared() {
            self.doubtful_orphans.0.lock().push((ino, Instant::now()));
            self.settler_queue.collect();
        }
    }

    /// Removes those that became orphans and are not open here any more.
    pub(crate) fn resolve_orphans(&self) -> Result<()> {
        let age = Duration::from_millis(self.options.uncertain_ms);
        let is_due = |(_, since): &mut (InodeId, Instant)| since.elapsed() >= age;
        let due: Vec<_> = self.doubtful_orphans.0.lock().extract_if(.., is_due).collect();
        for (at, (ino, _)) in due.iter().enumerate() {
            let is_orphan = match self.namespace.get(*ino) {
                Ok(inode) => inode.nlink == 0,
                Err(Error::NotFound) => false,
                Err(error) => {
                    self.doubtful_orphans.0.lock().extend_from_slice(&due[at..]);
                    return Err(error);
                }
            };
            let waits = |state: &mut LiveState| {
                state.is_orphan |= is_orphan;
                state.is_open()
            };
            if is_orphan && self.live.with_existing(*ino, waits) != Some(true) {
                self.reap(*ino, Forgotten::default());
            }
        }
        Ok(())
    }

    /// Removes the doubtful files that no record names, once that is sure.
    pub(crate) fn resolve_doubts(&self) -> Result<()> {
        let due = self.doubts.take_older_than(Duration::from_millis(self.options.uncertain_ms));
        if due.is_empty() {
            return Ok(());
        }
        let outcome = self.unnamed(&due);
        if outcome.is_err() {
            self.doubts.0.lock().extend_from_slice(&due);
        }
        let unnamed = outcome?;
        for doubt in due.iter().filter(|doubt| unnamed.contains(&doubt.backing)) {
            let BackingRef { tier, file } = doubt.backing;
            let removed = self.tiers.get(tier).and_then(|tier| self.remove_free_file(tier, file));
            if let Err(error) = removed {
                tracing::warn!(%file, %error, "a file that no record names is removed later");
                self.doubts.0.lock().push(*doubt);
            }
        }
        tracing::info!(
            files = due.len(),
            removed = unnamed.len(),
            "looked whether records name doubtful files"
        );
        Ok(())
    }

    fn unnamed(&self, doubts: &[Doubt]) -> Result<HashSet<BackingRef>> {
        for doubt in doubts {
            self.namespace.take_free_file(doubt.backing.tier, doubt.free)?;
        }
        let mut left: HashSet<BackingRef> = doubts.iter().map(|doubt| doubt.backing).collect();
        self.namespace.each_known_file(|backing| {
            left.remove(&backing);
        })?;
        Ok(left)
    }
}
