//! What is left of changes over several partitions that have taken place: records that nobody needs any more. Who made
//! the change need not wait until they are gone, and many go in one commit. A sweep removes those of a node that died.

use std::collections::{BTreeMap, BTreeSet};

use intarsia_sync::Mutex;
use intarsia_types::{PartitionId, Result};

use super::Namespace;
use super::transaction::Part;
use crate::intent::Intent;
use crate::pending::{Fate, Pending};
use crate::{Condition, Mutation, OpId, Value, keys};

/// Changes of which something is left at a time, at most.
const REMAINS_MAX: usize = 128;

/// The records of one change.
struct Remains {
    transaction: OpId,
    /// Where the decision is recorded; that goes last.
    coordinator: PartitionId,
    /// Where there is nothing else to do.
    participants: Vec<PartitionId>,
}

/// Those of this node.
#[derive(Default)]
pub(super) struct Leftovers {
    waiting: Mutex<Vec<Remains>>,
    /// Tells whoever removes them later; without, they are removed at once.
    wake: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Namespace {
    /// Lets records that nobody needs any more be, until [`remove_remains`](Self::remove_remains): `wake` is called when
    /// there are some.
    #[must_use]
    pub fn with_remains(mut self, wake: impl Fn() + Send + Sync + 'static) -> Self {
        self.leftovers.wake = Some(Box::new(wake));
        self
    }

    /// Whether there are records of changes which have taken place that nobody needs.
    #[must_use]
    pub fn has_remains(&self) -> bool {
        !self.leftovers.waiting.lock().is_empty()
    }

    /// Removes the records of changes which have taken place. Those that cannot be reached are left to a sweep.
    pub fn remove_remains(&self) {
        let remains = std::mem::take(&mut *self.leftovers.waiting.lock());
        self.remove_all_remains(&remains);
    }

    /// Carries out what this node has just decided; what then is left is in nobody's way.
    pub(super) fn complete_own(
        &self,
        intent: Intent,
        prepared: &[Part],
        records: &[Value],
    ) -> Result<()> {
        let Intent { transaction, coordinator } = intent;
        let mut participants = Vec::new();
        for (part, record) in prepared.iter().zip(records) {
            match part.is_unknown {
                true => participants.push(part.partition),
                false => {
                    let record = Some(record.clone());
                    self.carry_out_as(part.partition, transaction, Fate::Committed, record)?;
                }
            }
        }
        self.leave(Remains { transaction, coordinator, participants });
        Ok(())
    }

    /// Carries a committed transaction out everywhere and forgets it.
    pub(super) fn complete(
        &self,
        transaction: OpId,
        coordinator: PartitionId,
        participants: &[PartitionId],
    ) -> Result<()> {
        for participant in participants {
            self.carry_out(*participant, transaction, Fate::Committed)?;
        }
        let committed = Pending::Committed { participants: participants.to_vec() };
        self.forget(transaction, coordinator, &committed)
    }

    /// Removes the record of a decision that everybody has carried out.
    pub(super) fn forget(
        &self,
        transaction: OpId,
        coordinator: PartitionId,
        decision: &Pending,
    ) -> Result<()> {
        let id = keys::transaction(transaction);
        let conditions = [Condition::Equals(id.clone(), decision.encode()?)];
        let mutations = vec![Mutation::Delete(id)];
        // A conflict means that somebody else was faster.
        self.engine.commit(coordinator, self.next_op(), &conditions, mutations).map(|_| ())
    }

    fn leave(&self, remains: Remains) {
        let Some(wake) = &self.leftovers.wake else { return self.remove_all_remains(&[remains]) };
        let mut waiting = self.leftovers.waiting.lock();
        waiting.push(remains);
        let is_full = waiting.len() >= REMAINS_MAX;
        drop(waiting);
        if is_full {
            self.remove_remains();
        } else {
            wake();
        }
    }

    /// What a decision is about goes before the decision: who finds it without takes it for undecided.
    fn remove_all_remains(&self, remains: &[Remains]) {
        let at_participants =
            remains.iter().flat_map(|one| one.participants.iter().map(|at| (*at, one.transaction)));
        let unreached = self.remove_records(at_participants);
        let is_done = |one: &&Remains| !one.participants.iter().any(|at| unreached.contains(at));
        let decisions = remains.iter().filter(is_done);
        self.remove_records(decisions.map(|one| (one.coordinator, one.transaction)));
    }

    /// Removes records in one commit a partition; returns the partitions where they may still be there.
    fn remove_records(
        &self,
        records: impl Iterator<Item = (PartitionId, OpId)>,
    ) -> BTreeSet<PartitionId> {
        let mut removals: BTreeMap<PartitionId, Vec<Mutation>> = BTreeMap::new();
        for (partition, transaction) in records {
            let removal = Mutation::Delete(keys::transaction(transaction));
            removals.entry(partition).or_default().push(removal);
        }
        let mut unreached = BTreeSet::new();
        for (partition, removals) in removals {
            if let Err(error) = self.engine.commit(partition, self.next_op(), &[], removals) {
                tracing::debug!(%error, "what is left of changes is left to a sweep");
                unreached.insert(partition);
            }
        }
        unreached
    }
}
