//! Records that other hosts are changing now: of these nothing is kept, though this host has the lease on their directory.

use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use intarsia_sync::Instant;
use intarsia_types::InodeId;

use super::LeasedEngine;
use super::changes::Changes;
use super::table::Table;
use crate::namespace::Owner;
use crate::{Key, keys};

/// A change of another host takes less. What is older was never said to be over, because the host died, had no answer, or its
/// word was lost.
const LONG: Duration = Duration::from_secs(1);

/// What another host is changing.
struct Change {
    by: Owner,
    number: u64,
    keys: Vec<Key>,
    since: Instant,
    /// What [`Changes::begin`] returned.
    leases: u64,
}

/// The changes that this host was told of and that are not over, by leased directory.
#[derive(Default)]
pub(super) struct ChangesElsewhere(HashMap<InodeId, Vec<Change>>);

/// Changes that were taken out, to be put back.
pub(super) struct Taken(Vec<Change>);

impl ChangesElsewhere {
    /// Whether another host changes something of a directory now.
    pub(super) fn is_changed(&self, dir: InodeId) -> bool {
        self.0.contains_key(&dir)
    }

    /// The lease on a directory has ended. A change that is not over fails if that was recorded before it.
    pub(super) fn end_lease(&mut self, dir: InodeId, changes: &mut Changes) {
        for change in self.0.remove(&dir).unwrap_or_default() {
            for key in &change.keys {
                changes.end(key, change.leases);
            }
        }
    }

    pub(super) fn take(&mut self, dir: InodeId) -> Taken {
        Taken(self.0.remove(&dir).unwrap_or_default())
    }

    pub(super) fn put_back(&mut self, dir: InodeId, Taken(changes): Taken) {
        if !changes.is_empty() {
            self.0.insert(dir, changes);
        }
    }

    /// Takes out the changes with these numbers of another host, with their directories.
    fn take_over(&mut self, by: &Owner, numbers: &[u64]) -> Vec<(InodeId, Change)> {
        let mut over = Vec::new();
        for (dir, changes) in &mut self.0 {
            let is_over =
                |change: &mut Change| change.by == *by && numbers.contains(&change.number);
            over.extend(changes.extract_if(.., is_over).map(|change| (*dir, change)));
        }
        self.0.retain(|_, changes| !changes.is_empty());
        over
    }
}

impl Table {
    /// Another host changes these keys from now on, which the lease on `dir` covers: forgets them, and keeps nothing of them until
    /// that is over. `false`, and nothing is done, unless this host has the lease.
    pub(super) fn invalidate(
        &mut self,
        dir: InodeId,
        by: &Owner,
        number: u64,
        keys: &[Key],
    ) -> bool {
        if !self.is_held(dir) {
            return false;
        }
        let leases = self.changes.begin(keys);
        keys.iter().for_each(|key| self.forget(key));
        let (by, keys, since) = (by.clone(), keys.to_vec(), Instant::now());
        self.elsewhere.0.entry(dir).or_default().push(Change { by, number, keys, since, leases });
        true
    }

    /// Changes of another host are over: what is read from now on of the records may be kept. Returns their directories.
    pub(super) fn end_changes(&mut self, by: &Owner, numbers: &[u64]) -> Vec<InodeId> {
        let mut dirs = Vec::new();
        for (dir, change) in self.elsewhere.take_over(by, numbers) {
            for key in &change.keys {
                self.changes.end(key, change.leases);
                // A listing that is being read now may lack a new name.
                self.forget(key);
            }
            dirs.push(dir);
        }
        dirs
    }

    /// The leased directories of which another host has been changing something for long.
    pub(super) fn changed_for_long(&self) -> Vec<InodeId> {
        let now = Instant::now();
        let is_old = |change: &Change| now.duration_since(change.since) > LONG;
        let changed = self.elsewhere.0.iter().filter(|(_, all)| all.iter().any(is_old));
        changed.map(|(dir, _)| *dir).collect()
    }
}

impl LeasedEngine {
    /// See [`Table::invalidate`].
    pub(crate) fn invalidate(&self, dir: InodeId, by: &Owner, number: u64, keys: &[Key]) -> bool {
        let is_kept = self.table.lock().invalidate(dir, by, number, keys);
        // This counts like a commit that began and ended.
        self.commits.fetch_add(2, SeqCst);
        is_kept
    }

    /// See [`Table::end_changes`].
    pub(crate) fn end_changes(&self, by: &Owner, numbers: &[u64]) -> Vec<InodeId> {
        self.table.lock().end_changes(by, numbers)
    }

    /// Whether another host changes something of a leased directory now.
    pub(crate) fn is_changed_elsewhere(&self, dir: InodeId) -> bool {
        self.table.lock().elsewhere.is_changed(dir)
    }

    /// See [`Table::changed_for_long`].
    pub(crate) fn changed_for_long(&self) -> Vec<InodeId> {
        self.table.lock().changed_for_long()
    }
}

/// Whether a change of these keys may read or replace what is deferred in `dir`.
pub(crate) fn concerns_names(dir: InodeId, keys: &[Key]) -> bool {
    keys.iter().any(|key| {
        keys::inode_of(key) == Some(dir)
            && matches!(key.first(), Some(&(keys::DENTRY | keys::INODE)))
    })
}
