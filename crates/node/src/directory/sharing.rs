//! Changes of other hosts in directories on which this one has leases, and keeps them.

use intarsia_meta::{Invalidated, Invalidation, Key, Owner, keys};
use intarsia_sync::Instant;
use intarsia_types::{InodeId, Result};

use crate::directory::directory_lease::DirectoryLeases;

impl DirectoryLeases {
    /// The host `by` changes records that a lease of this host covers: returns when neither this host nor its kernel keeps anything
    /// of them. Gives the lease back if it is not worth being told.
    ///
    /// # Errors
    /// Those of giving the lease back.
    pub(crate) fn begin_change(
        &self,
        by: &Owner,
        invalidation: &Invalidation,
    ) -> Result<Invalidated> {
        let dir = invalidation.dir;
        let is_worth_it = self.with(dir, |seen| seen.outlasts_change(Instant::now()));
        let is_kept =
            is_worth_it == Some(true) && !self.namespace.changed_for_long().contains(&dir);
        if !is_kept || !self.namespace.invalidate(by, invalidation) {
            self.give_up_directory(dir)?;
            return Ok(Invalidated::Released);
        }
        // From here on the kernel is sent nothing that it may cache (see `Telling`). Answers that are on their way come first.
        drop(self.telling.write());
        self.told.take_attributes_of(&inodes_of(&invalidation.keys));
        self.with(dir, |seen| seen.begin_anew(Instant::now()));
        self.outlast_kernel(dir);
        Ok(Invalidated::Kept)
    }

    /// Changes of the host `by` are over.
    pub(crate) fn end_changes(&self, by: &Owner, numbers: &[u64]) {
        // The kernel is sent nothing meanwhile, so that it keeps nothing that was read before.
        let _turn = self.telling.write();
        for dir in self.namespace.end_changes(by, numbers) {
            self.with(dir, |seen| seen.begin_anew(Instant::now()));
        }
    }
}

/// The inodes whose records have these keys.
fn inodes_of(keys: &[Key]) -> Vec<InodeId> {
    let inodes = keys.iter().filter(|key| key.first() == Some(&keys::INODE));
    inodes.filter_map(|key| keys::inode_of(key)).collect()
}
