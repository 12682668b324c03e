//! Finishing what dead coordinators left.

use std::collections::HashMap;
use std::time::Duration;

use intarsia_sync::{Instant, Mutex};
use intarsia_types::{PartitionId, Result};

use super::Namespace;
use crate::intent::Intent;
use crate::pending::{Fate, Pending};
use crate::{Key, OpId, keys};

const PAGE: usize = 256;
/// How long abort marks stay at least: far beyond the time that a commit can be on its way, for they
/// refuse decisions that come late.
const MARKS_STAY: Duration = Duration::from_secs(60);

/// What a sweep of the transaction tables did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Committed transactions that were carried out to the end.
    pub completed: u64,
    /// Parts of abandoned transactions that were undone.
    pub undone: u64,
    /// Records that are too young to be judged.
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

/// One sweep: what is old enough, and what has been met so far.
struct Sweep {
    older_than: Duration,
    marks_older_than: Duration,
    now: Instant,
    seen: HashMap<(PartitionId, OpId), Instant>,
    done: Recovered,
}

impl Namespace {
    /// Finishes transactions over several partitions whose node died: at once if they were committed,
    /// and by undoing them if they were undecided for `older_than` since this node first saw them. Marks
    /// of aborted transactions go after the same time, and not within 60 s. Costs a scan of one small
    /// table a partition.
    ///
    /// With `older_than` zero nothing waits: that is for a store that nobody else uses.
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

    /// Deals with one record; returns since when it has been seen if it is too young.
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
                            // It came to its end between the two looks.
                            return Ok(None);
                        }
                        self.abort(intent)?
                    }
                };
                self.carry_out(partition, transaction, fate)?;
                if fate == Fate::Aborted {
                    sweep.done.undone += 1;
                    if sweep.marks_older_than.is_zero() {
                        // Its partition may have been swept before this one.
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
    /// Since when a record has been seen, if that is not long enough; counts it then.
    fn first_seen(&mut self, place: Place, older_than: Duration) -> Option<Instant> {
        let first = *self.seen.get(&(place.partition, place.transaction)).unwrap_or(&self.now);
        let is_young = self.now.duration_since(first) < older_than;
        self.done.waiting += u64::from(is_young);
        is_young.then_some(first)
    }
}
