//! Records that are left of committed transactions over several partitions, and that nobody needs any more. They are removed
//! later, many in one commit, so that the operation need not wait for that. A sweep removes those of a node that died.

use std::collections::{BTreeMap, BTreeSet};

use intarsia_sync::Mutex;
use intarsia_types::{PartitionId, Result};

use super::Namespace;
use super::transaction::Part;
use crate::intent::Intent;
use crate::pending::{Fate, Pending};
use crate::{Condition, Mutation, OpId, Value, keys};

/// When this many transactions have left records, these are removed at once.
const REMAINS_MAX: usize = 128;

/// The records that one transaction has left.
struct Remains {
    transaction: OpId,
    /// The partition with the decision, which is removed last.
    coordinator: PartitionId,
    /// The partitions of the unknown parts, whose records are all that there is left to do.
    participants: Vec<PartitionId>,
}

/// The records that transactions of this node have left.
#[derive(Default)]
pub(super) struct Leftovers {
    waiting: Mutex<Vec<Remains>>,
    /// Tells whoever is to remove them later; without it they are removed at once.
    wake: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Namespace {
    /// Leaves records of committed transactions until [`remove_remains`](Self::remove_remains) is called. `wake` is called each
    /// time that there are some more.
    #[must_use]
    pub fn with_remains(mut self, wake: impl Fn() + Send + Sync + 'static) -> Self {
        self.leftovers.wake = Some(Box::new(wake));
        self
    }

    /// Whether there are records for [`remove_remains`](Self::remove_remains).
    #[must_use]
    pub fn has_remains(&self) -> bool {
        !self.leftovers.waiting.lock().is_empty()
    }

    /// Removes the records that committed transactions of this node have left. Those in partitions that do not answer are left
    /// to a sweep.
    pub fn remove_remains(&self) {
        let remains = std::mem::take(&mut *self.leftovers.waiting.lock());
        self.remove_all_remains(&remains);
    }

    /// Carries out a transaction that this node has just committed. The records that are left then keep nobody waiting, and are
    /// removed later.
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

    /// Carries a committed transaction out at all participants, and removes the record of the decision.
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
        // A conflict means that another node has removed it.
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

    /// Removes the records of participants before the decisions: a node that finds a participant's record without the decision
    /// takes the transaction for undecided.
    fn remove_all_remains(&self, remains: &[Remains]) {
        let at_participants =
            remains.iter().flat_map(|one| one.participants.iter().map(|at| (*at, one.transaction)));
        let unreached = self.remove_records(at_participants);
        let is_done = |one: &&Remains| !one.participants.iter().any(|at| unreached.contains(at));
        let decisions = remains.iter().filter(is_done);
        self.remove_records(decisions.map(|one| (one.coordinator, one.transaction)));
    }

    /// Removes records, in one commit a partition. Returns the partitions in which they may still be.
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
