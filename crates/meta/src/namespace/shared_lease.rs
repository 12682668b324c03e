//! Leases on a directory that several hosts keep while one of them changes it.
//!
//! A host that changes something of a directory on which few others have the lease does not recall it. It tells them which records
//! change: each of them forgets these, and keeps nothing of them until it hears that the change is over. Then the change is
//! committed on condition that the record of the lease is still the one that names the hosts which were told. So a host that comes
//! to the lease, or leaves it and comes back, in between makes the commit fail; and a commit that is late, or whose answer is lost,
//! changes nothing that anybody keeps.
//!
//! A host that is told more often than it uses the directory gives its lease back instead of keeping it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use intarsia_sync::Mutex;
use intarsia_types::{InodeId, PartitionId, Result};

use super::directory_lease::{Leases, is_earlier_life, lease_key};
use super::transaction::Part;
use super::{Namespace, Owner};
use crate::leased::{concerns_names, kept_keys};
use crate::{Bytes, CommitOutcome, Condition, Key, Mutation, Value, keys};

/// More hosts than this are not told of each change, but asked for their leases.
const OTHERS_MAX: usize = 8;
/// Most records that other hosts are told of at once.
const RECORDS_MAX: usize = 32;
/// Most directories of which it is remembered who has the lease.
const REMEMBERED_MAX: usize = 1024;

/// What a host is told of a change that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// The directory whose lease it has.
    pub dir: InodeId,
    /// The number of the change among those of the host that makes it.
    pub number: u64,
    /// The records that change.
    pub keys: Vec<Key>,
}

/// What telling a host of a change led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidated {
    /// It keeps its lease, and nothing of the records that change.
    Kept,
    /// It has given its lease back.
    Released,
    /// That life of it is over: whatever the host keeps later is under another name.
    Lost,
}

/// Who else has the lease on a directory.
#[derive(Clone)]
struct Shared {
    /// The record of the lease.
    record: Value,
    others: Vec<Owner>,
}

/// The directories that this host changes while others have the lease.
#[derive(Default)]
pub(super) struct SharedLeases {
    dirs: Mutex<HashMap<InodeId, Shared>>,
    /// How many changes other hosts were told of.
    changes: AtomicU64,
}

impl SharedLeases {
    /// From now on changes of `dir` are told to `others`, which the record of its lease names. `false` if they are too many.
    pub(super) fn begin(&self, dir: InodeId, record: Option<Value>, others: &[&Bytes]) -> bool {
        let Some(record) = record.filter(|_| (1..=OTHERS_MAX).contains(&others.len())) else {
            return false;
        };
        let others = others.iter().map(|holder| Owner::decode(holder)).collect();
        let mut dirs = self.dirs.lock();
        if dirs.len() >= REMEMBERED_MAX {
            dirs.clear();
        }
        dirs.insert(dir, Shared { record, others });
        true
    }

    fn end(&self, dir: InodeId) {
        self.dirs.lock().remove(&dir);
    }

    /// Of the conditions those that are about shared leases, by their positions.
    fn among(&self, conditions: &[Condition]) -> Vec<(usize, InodeId, Shared)> {
        let dirs = self.dirs.lock();
        if dirs.is_empty() {
            return Vec::new();
        }
        let shared = |(at, condition): (usize, &Condition)| {
            let Condition::AbsentOr(lease, _) = condition else { return None };
            let dir = keys::inode_of(lease)?;
            dirs.get(&dir).map(|shared| (at, dir, shared.clone()))
        };
        conditions.iter().enumerate().filter_map(shared).collect()
    }
}

/// A commit under leases: what was assumed, and what changes besides.
#[derive(Clone, Copy)]
pub(super) struct Change<'c> {
    pub(super) partition: PartitionId,
    pub(super) conditions: &'c [Condition],
    pub(super) assumed: &'c [Mutation],
    pub(super) mutations: &'c [Mutation],
}

impl Change<'_> {
    fn keys(&self) -> Vec<Key> {
        kept_keys(self.assumed.iter().chain(self.mutations))
    }

    /// Whether other hosts can be told of what changes.
    pub(super) fn can_be_told(&self) -> bool {
        self.keys().len() <= RECORDS_MAX
    }
}

impl Namespace {
    /// Commits a part that is all of its transaction. Returns also whether other hosts can be told of what it changes, if it has
    /// to be committed again.
    pub(super) fn commit_alone(&self, part: &mut Part) -> Result<(CommitOutcome, bool)> {
        let Part { partition, conditions, mutations, .. } = part;
        let (partition, mutations) = (*partition, std::mem::take(mutations));
        let Some(leases) = &self.leases else {
            let outcome = self.engine.commit(partition, self.next_op(), conditions, mutations)?;
            return Ok((outcome, false));
        };
        let change = Change { partition, conditions, assumed: &[], mutations: &mutations };
        let outcome = self.commit_leased(leases, change)?;
        let can_share = outcome != CommitOutcome::Applied && change.can_be_told();
        Ok((outcome, can_share))
    }

    /// Commits a change, of which the hosts are told first that share leases on what it changes.
    ///
    /// # Errors
    /// Those of the engine, and that of a host which does not answer and is not known to be dead.
    pub(super) fn commit_leased(
        &self,
        leases: &Leases,
        change: Change<'_>,
    ) -> Result<CommitOutcome> {
        let Change { partition, conditions, assumed, mutations } = change;
        let shared = leases.shared.among(conditions);
        let commit = |conditions: &[Condition]| {
            leases.engine.commit_assumed(partition, self.next_op(), conditions, assumed, mutations)
        };
        if shared.is_empty() {
            return commit(conditions);
        }
        let keys = change.keys();
        if keys.len() > RECORDS_MAX {
            shared.iter().for_each(|(_, dir, _)| leases.shared.end(*dir));
            return commit(conditions);
        }
        let number = leases.shared.changes.fetch_add(1, Ordering::Relaxed);
        let over = || {
            shared.iter().for_each(|(.., told)| leases.recall.tell_over(&told.others, number));
        };
        let mut now: Vec<Condition> = conditions.to_vec();
        for (at, dir, Shared { record, others }) in &shared {
            let invalidation = Invalidation { dir: *dir, number, keys: keys.clone() };
            match self.all_keep(leases, others, &invalidation) {
                Ok(true) => now[*at] = Condition::Equals(lease_key(*dir), record.clone()),
                is_left => {
                    leases.shared.end(*dir);
                    over();
                    if let Err(error) = is_left {
                        // A host that has left its lease need not answer: who has it still is read anew.
                        tracing::debug!(%dir, %error, "a host may not know of a change: its lease is recalled");
                        self.recall_for(partition, conditions.get(*at), false)?;
                    }
                    return Ok(CommitOutcome::Conflict { index: *at });
                }
            }
        }
        // Without an answer the change may still come to take effect: then nobody is told that it is over.
        let outcome = commit(&now)?;
        if let CommitOutcome::Conflict { index } = outcome {
            let failed = shared.iter().find(|(at, ..)| *at == index);
            failed.into_iter().for_each(|(_, dir, _)| leases.shared.end(*dir));
        }
        over();
        Ok(outcome)
    }

    /// Tells other hosts of a change. Returns whether all of them keep their leases; those that are dead are removed from the record.
    fn all_keep(
        &self,
        leases: &Leases,
        others: &[Owner],
        invalidation: &Invalidation,
    ) -> Result<bool> {
        let me = self.owner();
        let (mine, others): (Vec<_>, Vec<_>) =
            others.iter().cloned().partition(|holder| is_earlier_life(holder, &me));
        let mut lost = mine;
        let mut all_keep = true;
        let told = leases.recall.invalidate(&others, invalidation);
        for (holder, outcome) in others.into_iter().zip(told) {
            match outcome? {
                Invalidated::Kept => {}
                Invalidated::Released => all_keep = false,
                Invalidated::Lost => lost.push(holder),
            }
        }
        for holder in &lost {
            self.remove_holder(invalidation.dir, &holder.encode())?;
        }
        Ok(all_keep && lost.is_empty())
    }

    /// The host `by` changes records of a leased directory from now on: of these nothing is kept until that is over. `false` if this
    /// host does not have the lease, and has to leave its record.
    pub fn invalidate(&self, by: &Owner, invalidation: &Invalidation) -> bool {
        let Invalidation { dir, number, ref keys } = *invalidation;
        let Some(leases) = &self.leases else { return false };
        let is_kept = leases.engine.invalidate(dir, by, number, keys);
        if is_kept && concerns_names(dir, keys) {
            // What is deferred comes first, as this host knows that its names are free.
            self.keep_promises_in(dir);
        }
        is_kept
    }

    /// Changes of the host `by` are over. Returns the directories that they were of.
    pub fn end_changes(&self, by: &Owner, numbers: &[u64]) -> Vec<InodeId> {
        self.leases.as_ref().map_or_else(Vec::new, |leases| leases.engine.end_changes(by, numbers))
    }

    /// Whether another host is changing something of a leased directory.
    #[must_use]
    pub fn is_changed_elsewhere(&self, dir: InodeId) -> bool {
        self.leases.as_ref().is_some_and(|leases| leases.engine.is_changed_elsewhere(dir))
    }

    /// The leased directories of which another host has been changing something for so long that its word that this is over must be
    /// lost. Of what it changes nothing is kept before their leases are asked for anew.
    #[must_use]
    pub fn changed_for_long(&self) -> Vec<InodeId> {
        self.leases.as_ref().map_or_else(Vec::new, |leases| leases.engine.changed_for_long())
    }
}
