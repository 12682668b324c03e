//! The sweep: finishing transactions whose nodes died.

use std::collections::HashMap;
use std::time::Duration;

use intarsia_sync::{Instant, Mutex};
use intarsia_types::{PartitionId, Result};

use super::Namespace;
use crate::intent::Intent;
use crate::pending::{Fate, Pending};
use crate::{Key, OpId, keys};

const PAGE: usize = 256;
/// How long the marks of aborted transactions stay at least. They refuse decisions that come late, so this is far longer than
/// a commit can be on its way.
const MARKS_STAY: Duration = Duration::from_secs(60);

/// What a sweep of the transaction tables did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Committed transactions that were carried out to the end.
    pub completed: u64,
    /// Parts of abandoned transactions that were undone.
    pub undone: u64,
    /// Records that were left because this node has not seen them for long enough.
    pub waiting: u64,
}

/// When records of the transaction tables were first seen here. Clocks of hosts are never compared.
#[derive(Default)]
pub(super) struct Sightings(Mutex<HashMap<(PartitionId, OpId), Instant>>);

/// One record of a transaction table.
#[derive(Clone, Copy)]
struct Place {
    partition: PartitionId,
    transaction: OpId,
}

/// One sweep: the ages from which records are dealt with, and what was done so far.
struct Sweep {
    older_than: Duration,
    marks_older_than: Duration,
    now: Instant,
    seen: HashMap<(PartitionId, OpId), Instant>,
    done: Recovered,
}

impl Namespace {
    /// Finishes transactions over several partitions whose node died. Committed ones are carried out at once. Undecided ones
    /// are undone if this node first saw them `older_than` ago or earlier. Marks of aborted transactions are removed after the
    /// same time, but not within 60 s. Costs a scan of one small table in each partition.
    ///
    /// With `older_than` zero nothing is left: that is for a store that nobody else uses.
    pub fn recover_transactions(&self, older_than: Duration) -> Result<Recovered> {
        let seen = self.sightings.0.lock().clone();
        let marks_older_than =
            if older_than.is_zero() { Duration::ZERO } else { older_than.max(MARKS_STAY) };
        let (now, done) = (Instant::now(), Recovered::default());
        let mut sweep = Sweep { older_than, marks_older_than, now, seen, done };
        let mut left = HashMap::new();
        for partition in self.partitions() {
            let mut after: Option<Key> = None;
            loop {
                let table = [keys::TRANSACTION];
                let page = self.engine.scan(partition, &table, after.as_deref(), PAGE)?;
                let Some((last, _)) = page.last() else { break };
                after = Some(last.clone());
                for (key, record) in &page {
                    let Some(transaction) = keys::split_transaction(key) else { continue };
                    let place = Place { partition, transaction };
                    if let Some(first) = self.recover_one(&mut sweep, place, record)? {
                        left.insert((partition, transaction), first);
                    }
                }
            }
        }
        *self.sightings.0.lock() = left;
        Ok(sweep.done)
    }

    /// Deals with one record. If it is too young for that, returns when it was first seen here.
    fn recover_one(
        &self,
        sweep: &mut Sweep,
        place: Place,
        record: &[u8],
    ) -> Result<Option<Instant>> {
        let Place { partition, transaction } = place;
        match Pending::decode(record)? {
            Pending::Committed { participants } => {
                let intent = Intent { transaction, coordinator: partition };
                if self.fate(intent)? == Some(Fate::Committed) {
                    self.complete(transaction, partition, &participants)?;
                    sweep.done.completed += 1;
                }
            }
            Pending::Aborted => {
                if let Some(first) = sweep.first_seen(place, sweep.marks_older_than) {
                    return Ok(Some(first));
                }
                self.forget(transaction, partition, &Pending::Aborted)?;
            }
            Pending::Prepared(prepared) => {
                let intent = Intent { transaction, coordinator: prepared.coordinator };
                let fate = match self.fate(intent)? {
                    Some(fate) => fate,
                    None => {
                        if let Some(first) = sweep.first_seen(place, sweep.older_than) {
                            return Ok(Some(first));
                        }
                        if !self.is_prepared(place)? {
                            // The transaction ended after the record was read: it was decided, and the decision removed.
                            return Ok(None);
                        }
                        self.abort(intent)?
                    }
                };
                self.carry_out(partition, transaction, fate)?;
                if fate == Fate::Aborted {
                    sweep.done.undone += 1;
                    if sweep.marks_older_than.is_zero() {
                        // The coordinator's partition may have been swept before this one, so nobody else removes the mark.
                        self.forget(transaction, intent.coordinator, &Pending::Aborted)?;
                    }
                }
            }
        }
        Ok(None)
    }

    fn is_prepared(&self, place: Place) -> Result<bool> {
        let key = keys::transaction(place.transaction);
        Ok(self.engine.get(place.partition, &key)?.is_some())
    }
}

impl Sweep {
    /// When a record was first seen here, if that is less than `older_than` ago: then it is counted as waiting.
    fn first_seen(&mut self, place: Place, older_than: Duration) -> Option<Instant> {
        let first = *self.seen.get(&(place.partition, place.transaction)).unwrap_or(&self.now);
        let is_young = self.now.duration_since(first) < older_than;
        self.done.waiting += u64::from(is_young);
        is_young.then_some(first)
    }
}
