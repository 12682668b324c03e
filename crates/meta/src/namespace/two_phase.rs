//! Transactions over several partitions: two-phase commit whose state is in the engine alone, so that any
//! node can finish what another began. `docs/internals/transactions.md` describes it with its invariants.

use std::time::Duration;

use intarsia_types::{Error, PartitionId, Result};

use super::Namespace;
use super::patience::Patience;
use super::preparation::{preparation, restoring};
use super::transaction::{Part, Transaction, merged_keys};
use crate::intent::Intent;
use crate::pending::{Fate, Pending, Prepared};
use crate::{CommitOutcome, Condition, Key, Mutation, OpId, Value, keys};

/// How long a transaction of a suspected session (see `Suspects`) is waited for: enough for a node that lives and was slow
/// once. If it were not waited for at all, nodes that keep looking at what it changes would abort it again and again.
const SUSPECTED_PATIENCE: Duration = Duration::from_millis(20);
/// Records that are read at once to see whether there is one that is no intent.
const PAGE: usize = 64;

impl Namespace {
    /// Commits a transaction; `false` when what the operation read has changed, so that it has to be tried again.
    pub(super) fn commit(&self, transaction: Transaction) -> Result<bool> {
        let Transaction { mut first, others, .. } = self.guarded(transaction);
        if !others.is_empty() {
            others.iter().chain([&first]).for_each(|part| self.keep_promises_before(part));
            return self.commit_parts(first, others);
        }
        if self.is_partitioned() {
            first.guard_merges();
        }
        if self.commit_with_promises(&first)? {
            return Ok(true);
        }
        let (outcome, can_share) = self.commit_alone(&mut first)?;
        match outcome {
            CommitOutcome::Applied => Ok(true),
            CommitOutcome::Conflict { index } => match self.refusal(&first, index, &[])? {
                Some(error) => Err(error),
                None => self.await_holder(&first, index, can_share).map(|()| false),
            },
        }
    }

    /// Prepares all parts but the last, in the order of their partitions, which keeps transactions from waiting for each other
    /// in a circle. The last part is committed together with the decision. Unknown parts come first: no other transaction can
    /// be in their way.
    fn commit_parts(&self, first: Part, mut parts: Vec<Part>) -> Result<bool> {
        parts.push(first);
        parts.sort_by_key(|part| (!part.is_unknown, part.partition));
        parts.iter_mut().for_each(Part::guard_merges);
        let Some(last) = parts.pop() else { return Ok(true) };
        let intent = Intent { transaction: self.next_op(), coordinator: last.partition };
        let mut records = Vec::with_capacity(parts.len());
        for (at, part) in parts.iter().enumerate() {
            let (record, mutations) = preparation(intent, part)?;
            records.push(record);
            match self.prepare(intent, part, mutations) {
                Ok(CommitOutcome::Applied) => {}
                Ok(CommitOutcome::Conflict { index }) => {
                    let mut unseen: Vec<&Part> = parts[at + 1..].iter().collect();
                    unseen.push(&last);
                    let prepared = &parts[..at];
                    return self.give_up(intent, prepared, part, index, &unseen);
                }
                Err(error) => {
                    // The preparation may have been applied all the same.
                    self.undo(intent.transaction, &parts[..=at]);
                    return Err(error);
                }
            }
        }
        self.decide(intent, &parts, &records, &last)
    }

    fn prepare(
        &self,
        intent: Intent,
        part: &Part,
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        let mut conditions = part.conditions.clone();
        conditions.push(Condition::Absent(keys::transaction(intent.transaction)));
        self.engine.commit(part.partition, self.next_op(), &conditions, mutations)
    }

    /// Decides: one commit carries out the last part and puts the record *committed*. Then carries out the other parts.
    fn decide(
        &self,
        intent: Intent,
        prepared: &[Part],
        records: &[Value],
        last: &Part,
    ) -> Result<bool> {
        let Intent { transaction, coordinator } = intent;
        let id = keys::transaction(transaction);
        let participants: Vec<_> = prepared.iter().map(|part| part.partition).collect();
        let committed = Pending::Committed { participants }.encode()?;
        let mut conditions = vec![Condition::Absent(id.clone())];
        conditions.extend_from_slice(&last.conditions);
        let mut mutations = last.mutations.clone();
        mutations.push(Mutation::Put(id, committed));
        let outcome = self.engine.commit(coordinator, self.next_op(), &conditions, mutations);
        let fate = match outcome {
            Ok(CommitOutcome::Applied) => Fate::Committed,
            // The coordinator has a record already: another node took this one for dead, and aborted the transaction.
            Ok(CommitOutcome::Conflict { index: 0 }) => self.fate(intent)?.unwrap_or(Fate::Aborted),
            Ok(CommitOutcome::Conflict { index }) => {
                return self.give_up(intent, prepared, last, index - 1, &[]);
            }
            // The engine refused the commit for sure, since what was to get or lose a name is no directory.
            Err(Error::NotDirectory) => {
                self.undo(transaction, prepared);
                return Err(Error::NotDirectory);
            }
            // The answer was lost; the commit may have been made.
            Err(error) => match self.abort(intent) {
                Ok(Fate::Committed) => Fate::Committed,
                Ok(Fate::Aborted) => {
                    self.undo(transaction, prepared);
                    return Err(error);
                }
                // A node that meets an intent of the transaction finds out later.
                Err(_) => return Err(error),
            },
        };
        let finished = match fate {
            Fate::Committed => self.complete_own(intent, prepared, records),
            Fate::Aborted => {
                self.undo(transaction, prepared);
                // The decision was refused and cannot take effect later, so the abort mark is not needed any more.
                self.forget(transaction, coordinator, &Pending::Aborted)
            }
        };
        if let Err(error) = finished {
            tracing::debug!(%error, "a decided change is left for others to carry out");
        }
        Ok(fate == Fate::Committed)
    }

    /// Undoes the parts of a transaction that was not committed. Parts that cannot be reached now are undone by a node that
    /// meets their intents, or by the sweep.
    fn undo(&self, transaction: OpId, prepared: &[Part]) {
        for part in prepared {
            if let Err(error) = self.carry_out(part.partition, transaction, Fate::Aborted) {
                tracing::debug!(%error, "an abandoned change is left for others to undo");
            }
        }
    }

    /// Does at a participant what was decided, unless that has been done.
    pub(super) fn carry_out(
        &self,
        partition: PartitionId,
        transaction: OpId,
        fate: Fate,
    ) -> Result<()> {
        self.carry_out_as(partition, transaction, fate, None)
    }

    /// As [`carry_out`](Self::carry_out); `known` is the participant's record, if it is known already.
    pub(super) fn carry_out_as(
        &self,
        partition: PartitionId,
        transaction: OpId,
        fate: Fate,
        mut known: Option<Value>,
    ) -> Result<()> {
        let id = keys::transaction(transaction);
        let mut is_first = true;
        self.retry(|| {
            let record = match known.take() {
                None => self.engine.get(partition, &id)?,
                known => known,
            };
            let Some(record) = record else {
                // It has been done. As the caller may remove the decision next, that has to be sure.
                let is_done = self.stays(partition, Condition::Absent(id.clone()))?;
                return Ok(is_done.then_some(()));
            };
            let Pending::Prepared(prepared) = Pending::decode(&record)? else {
                return Ok(Some(()));
            };
            let mut mutations = prepared.into_mutations(fate);
            let mut conditions = vec![Condition::Equals(id.clone(), record)];
            if !std::mem::take(&mut is_first) {
                self.hand_over_merges(partition, &mut mutations, &mut conditions)?;
            }
            let merged: Vec<Key> = merged_keys(&mutations).cloned().collect();
            conditions.extend(merged.iter().cloned().map(Condition::Unheld));
            conditions
                .extend(merged.iter().filter_map(|key| self.lease_condition(keys::inode_of(key)?)));
            mutations.push(Mutation::Delete(id.clone()));
            let op = self.next_op();
            match self.engine.commit(partition, op, &conditions, mutations)? {
                CommitOutcome::Applied => Ok(Some(())),
                CommitOutcome::Conflict { index } => {
                    self.recall_for(partition, conditions.get(index), false)?;
                    Ok(None)
                }
            }
        })
    }

    /// If another transaction holds a directory into which `mutations` merge, hands the merge over to it: its record gets the
    /// merge, to be done whether it is committed or aborted. So carrying out a decision never waits for another transaction.
    fn hand_over_merges(
        &self,
        partition: PartitionId,
        mutations: &mut Vec<Mutation>,
        conditions: &mut Vec<Condition>,
    ) -> Result<()> {
        let merged: Vec<Key> = merged_keys(mutations).cloned().collect();
        let mut holders: Vec<(Key, Prepared)> = Vec::new();
        for key in merged {
            let Some(value) = self.engine.get(partition, &key)? else {
                tracing::warn!(?key, "the counts of a directory that is gone are dropped");
                mutations.retain(|m| !is_merge_of(m, &key));
                continue;
            };
            let Some(intent) = Intent::of(&key, &value) else { continue };
            let id = keys::transaction(intent.transaction);
            if !holders.iter().any(|(known, _)| *known == id) {
                let Some(record) = self.engine.get(partition, &id)? else { continue };
                let Pending::Prepared(prepared) = Pending::decode(&record)? else { continue };
                conditions.push(Condition::Equals(id.clone(), record));
                holders.push((id.clone(), prepared));
            }
            let Some((_, holder)) = holders.iter_mut().find(|(known, _)| *known == id) else {
                continue;
            };
            let (given, kept): (Vec<_>, Vec<_>) =
                std::mem::take(mutations).into_iter().partition(|m| is_merge_of(m, &key));
            *mutations = kept;
            holder.on_commit.extend_from_slice(&given);
            holder.on_abort.extend(given);
        }
        for (id, holder) in holders {
            mutations.push(Mutation::Put(id, Pending::Prepared(holder).encode()?));
        }
        Ok(())
    }

    /// Ends the transaction of an intent that was met, in this partition: waits until it is decided, or aborts it once
    /// `patience` is exhausted, and then carries the decision out here.
    pub(super) fn conclude(
        &self,
        partition: PartitionId,
        intent: Intent,
        patience: &mut Patience,
    ) -> Result<()> {
        let id = keys::transaction(intent.transaction);
        let session = intent.transaction.session;
        let mut briefly = Patience::new(SUSPECTED_PATIENCE.min(self.patience));
        let patience = if self.suspects.contains(session) { &mut briefly } else { patience };
        let mut was_undecided = false;
        while self.engine.get(partition, &id)?.is_some() {
            let fate = match self.fate(intent)? {
                Some(fate) => fate,
                // The coordinator's record is removed last. So the transaction is undecided only if the participant's record is
                // still there after the coordinator had none: that is read once more.
                None if !was_undecided || patience.pause() => {
                    was_undecided = true;
                    continue;
                }
                None => {
                    tracing::info!(?intent, "a change whose coordinator is gone is undone");
                    if session != self.session {
                        self.suspects.add(session);
                    }
                    self.abort(intent)?
                }
            };
            return self.carry_out(partition, intent.transaction, fate);
        }
        Ok(())
    }

    /// What was decided for good, if something was.
    pub(super) fn fate(&self, intent: Intent) -> Result<Option<Fate>> {
        let Intent { transaction, coordinator } = intent;
        let id = keys::transaction(transaction);
        self.retry(|| {
            let Some(record) = self.engine.get(coordinator, &id)? else { return Ok(Some(None)) };
            let fate = match Pending::decode(&record)? {
                Pending::Committed { .. } => Fate::Committed,
                Pending::Aborted => Fate::Aborted,
                Pending::Prepared(_) => {
                    let what = format!("{intent:?} names a participant as its coordinator");
                    return Err(Error::Engine(what));
                }
            };
            let stays = self.stays(coordinator, Condition::Equals(id.clone(), record))?;
            Ok(stays.then_some(Some(fate)))
        })
    }

    /// Whether a condition holds, and will still do so when another metadata server takes over. A server shows a change before
    /// its replicas have it, but it answers a commit only once they have that commit and all before it.
    fn stays(&self, partition: PartitionId, condition: Condition) -> Result<bool> {
        let outcome = self.engine.commit(partition, self.next_op(), &[condition], Vec::new())?;
        Ok(outcome == CommitOutcome::Applied)
    }

    /// Has a transaction decided: aborts it, unless it is decided already. Returns the decision.
    pub(super) fn abort(&self, intent: Intent) -> Result<Fate> {
        let id = keys::transaction(intent.transaction);
        self.retry(|| {
            if let Some(fate) = self.fate(intent)? {
                return Ok(Some(fate));
            }
            let conditions = [Condition::Absent(id.clone())];
            let mutations = vec![Mutation::Put(id.clone(), Pending::Aborted.encode()?)];
            let op = self.next_op();
            let outcome = self.engine.commit(intent.coordinator, op, &conditions, mutations)?;
            Ok((outcome == CommitOutcome::Applied).then_some(Fate::Aborted))
        })
    }

    /// Undoes a transaction of which the condition `index` of `part` does not hold. Returns the error that this means, or
    /// `false` if the operation has to be tried again. `unseen` are the parts that have not been prepared.
    fn give_up(
        &self,
        intent: Intent,
        prepared: &[Part],
        part: &Part,
        index: usize,
        unseen: &[&Part],
    ) -> Result<bool> {
        let refusal = self.refusal(part, index, unseen);
        // The conditions of the prepared parts have held all the time only if no other node has aborted the transaction.
        let held = prepared.is_empty() || matches!(self.fate(intent), Ok(None));
        self.undo(intent.transaction, prepared);
        match refusal? {
            Some(error) if held => Err(error),
            _ => self.await_holder(part, index, false).map(|()| false),
        }
    }

    /// The error that the failure of a part's condition means. It is the answer only if at one moment that condition did not
    /// hold, and not because of an intent, while all others held, also those of the `unseen` parts; else `None`.
    pub(super) fn refusal(
        &self,
        part: &Part,
        index: usize,
        unseen: &[&Part],
    ) -> Result<Option<Error>> {
        let Some(meaning) = part.meanings.get(index).copied().flatten() else { return Ok(None) };
        if !self.is_partitioned() {
            return Ok(Some(meaning()));
        }
        let Some(failed) = part.conditions.get(index) else { return Ok(None) };
        let Some(opposite) = self.opposite(part.partition, failed)? else { return Ok(None) };
        let others = (0..).zip(&part.conditions).filter(|(at, _)| *at != index);
        let mut others: Vec<Condition> = others.map(|(_, c)| c.clone()).filter(says_all).collect();
        if !others.is_empty() {
            others.push(opposite);
            let op = self.next_op();
            let outcome = self.engine.commit(part.partition, op, &others, Vec::new())?;
            if outcome != CommitOutcome::Applied {
                return Ok(None);
            }
        }
        Ok(self.all_hold(unseen)?.then(meaning))
    }

    /// A condition that holds now, and that says that `condition` does not hold; `None` if that may only be due to an intent.
    fn opposite(&self, partition: PartitionId, condition: &Condition) -> Result<Option<Condition>> {
        let is = |key: &Key, value: Value| match Intent::of(key, &value) {
            None => Some(Condition::Equals(key.clone(), value)),
            Some(_) => None,
        };
        Ok(match condition {
            Condition::Absent(key) => {
                self.engine.get(partition, key)?.and_then(|value| is(key, value))
            }
            Condition::Present(key) | Condition::Unheld(key) => {
                let is_there = self.engine.get(partition, key)?.is_some();
                (!is_there).then(|| Condition::Absent(key.clone()))
            }
            // No error: the lease is recalled, and the operation tried again.
            Condition::AbsentOr(..) => None,
            Condition::PrefixEmpty(prefix) => {
                let page = self.engine.scan(partition, prefix, None, PAGE)?;
                page.into_iter().find_map(|(key, value)| is(&key, value))
            }
            Condition::Equals(key, expected) => match self.engine.get(partition, key)? {
                None => Some(Condition::Absent(key.clone())),
                Some(value) if value == *expected => None,
                Some(value) => is(key, value),
            },
        })
    }

    /// Whether all conditions of `parts` hold that state the whole value of a key.
    fn all_hold(&self, parts: &[&Part]) -> Result<bool> {
        for part in parts {
            for back in part.conditions.iter().filter_map(restoring) {
                let now = self.engine.get(part.partition, back.key())?;
                let expected = match &back {
                    Mutation::Put(_, value) => Some(value),
                    _ => None,
                };
                if now.as_ref() != expected {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Removes what is in the way of a condition that failed: recalls the lease that it speaks of, or has it shared if that can be,
    /// and ends the transactions that hold its keys.
    pub(super) fn await_holder(&self, part: &Part, index: usize, can_share: bool) -> Result<()> {
        self.recall_for(part.partition, part.conditions.get(index), can_share)?;
        let Some(condition) = part.conditions.get(index).filter(|_| self.is_partitioned()) else {
            return Ok(());
        };
        match condition {
            Condition::Absent(key)
            | Condition::Present(key)
            | Condition::Unheld(key)
            | Condition::Equals(key, _) => {
                if let Some(value) = self.engine.get(part.partition, key)? {
                    self.conclude_value(part.partition, key, &value)?;
                }
            }
            Condition::AbsentOr(..) => {}
            Condition::PrefixEmpty(prefix) => {
                let page = self.engine.scan(part.partition, prefix, None, PAGE)?;
                let mut patience = Patience::new(self.patience);
                for intent in page.iter().filter_map(|(key, value)| Intent::of(key, value)) {
                    self.conclude(part.partition, intent, &mut patience)?;
                }
            }
        }
        Ok(())
    }

    /// The value of a key. If a transaction holds the key, ends that transaction first.
    pub(super) fn read(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.retry(|| {
            let value = self.engine.get(partition, key)?;
            let was_held = match &value {
                Some(value) => self.conclude_value(partition, key, value)?,
                None => false,
            };
            Ok((!was_held).then_some(value))
        })
    }

    /// Whether a value that was read is an intent; if so, ends its transaction.
    pub(super) fn conclude_value(
        &self,
        partition: PartitionId,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        let Some(intent) = Intent::of(key, value) else { return Ok(false) };
        self.conclude(partition, intent, &mut Patience::new(self.patience))?;
        Ok(true)
    }

    /// A page of records. If transactions hold some of them, ends these first.
    pub(super) fn scan_concluded(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        self.retry(|| {
            let page = self.engine.scan(partition, prefix, after, limit)?;
            let mut patience = Patience::new(self.patience);
            let mut is_concluded = true;
            for intent in page.iter().filter_map(|(key, value)| Intent::of(key, value)) {
                is_concluded = false;
                self.conclude(partition, intent, &mut patience)?;
            }
            Ok(is_concluded.then_some(page))
        })
    }

    /// Whether a transaction can have several parts.
    pub(super) fn is_partitioned(&self) -> bool {
        self.engine.partitions() > 1
    }
}

/// Whether a condition states the whole value of a key.
const fn says_all(condition: &Condition) -> bool {
    matches!(condition, Condition::Absent(_) | Condition::Equals(..))
}

fn is_merge_of(mutation: &Mutation, merged: &Key) -> bool {
    matches!(mutation, Mutation::Merge { key, .. } if key == merged)
}
