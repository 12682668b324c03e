//! Leases on directories: which hosts may keep what they read of one.
//!
//! A record in the directory's partition names them. Every change of the directory, or of an inode that
//! its lease covers, is made on the condition that no other host stands in that record, checked in the
//! same commit. Where one does, it is asked to forget what it kept and to leave the record, and the change
//! is tried again. So a lease costs nothing where one host works, reading is free for many, and a change
//! pays for the hosts that have read.

use std::sync::Arc;
use std::time::Duration;

use intarsia_sync::{Mutex, MutexGuard};
use intarsia_types::{Error, InodeId, PartitionId, Result};

use super::promises::Promises;
use super::{Namespace, Owner, Transaction};
use crate::holders::Holders;
use crate::leased::LeasedEngine;
use crate::ranks::LEASE_TURN;
use crate::{Bytes, Condition, Key, allowance, keys};

/// Names of a directory that are read at once so that all of its names are known, at most.
const FETCH_MAX: usize = 50_000;
/// Bodies read at once, at most.
const BODIES_MAX: usize = 1024;

/// Records that can change at a time, of leases of this host.
const TURNS: u64 = 64;
/// How long a lease waits for another that is asked for or given back: it only saves time.
const TURN_PATIENCE: Duration = Duration::from_millis(50);
/// How long giving a lease back waits for its turn.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(10);

/// What became of asking another host for its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recalled {
    /// It has forgotten what it kept and left the record.
    Released,
    /// It is dead and will never work under this name again.
    Lost,
}

/// How other hosts are asked to give back leases on directories.
pub trait Recall: Send + Sync {
    /// Whether no other host can have given this one up, and taken over the leases that it holds.
    fn is_current(&self) -> bool;

    /// Asks `holder`, in a bounded time.
    ///
    /// # Errors
    /// When it does not answer and is not known to be dead.
    fn recall(&self, holder: &Owner, dir: InodeId) -> Result<Recalled>;
}

/// What a namespace needs for leases.
pub(super) struct Leases {
    pub(super) engine: Arc<LeasedEngine>,
    recall: Arc<dyn Recall>,
    turns: Turns,
    pub(super) promises: Promises,
}

/// Held while a record changes, so that what this host believes to hold is in it. Directories share them.
struct Turns(Vec<Mutex<()>>);

impl Turns {
    fn new() -> Self {
        Self((0..TURNS).map(|_| Mutex::ranked(LEASE_TURN, ())).collect())
    }

    fn of(&self, dir: InodeId) -> &Mutex<()> {
        // Directories are born in all partitions, with the same sequence numbers.
        let index = usize::try_from(keys::hash63(dir.0, b"") % TURNS).unwrap_or(0);
        &self.0[index]
    }

    fn all(&self) -> Vec<MutexGuard<'_, ()>> {
        self.0.iter().map(Mutex::lock).collect()
    }
}

impl Namespace {
    /// Shares directories with other hosts by leases. All hosts of a store must.
    #[must_use]
    pub fn with_leases(mut self, recall: Arc<dyn Recall>) -> Self {
        let asked = Arc::clone(&recall);
        let engine = LeasedEngine::new(Arc::clone(&self.engine), move || asked.is_current());
        let engine = Arc::new(engine);
        self.engine = Arc::<LeasedEngine>::clone(&engine);
        let (turns, promises) = (Turns::new(), Promises::default());
        self.leases = Some(Leases { engine, recall, turns, promises });
        self
    }

    /// Asks for the lease on a directory: until it is given back, what is read of it is kept. `false` when
    /// there is none to be had.
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is gone; the engine's own.
    pub fn lease_directory(&self, dir: InodeId) -> Result<bool> {
        let Some(leases) = &self.leases else { return Ok(false) };
        let Some(_turn) = leases.turns.of(dir).try_lock_for(TURN_PATIENCE) else {
            return Err(Error::Busy("another lease is asked for".into()));
        };
        if leases.engine.is_held(dir) {
            return Ok(true);
        }
        let (key, me) = (lease_key(dir), self.lease_holder());
        let mut is_alone = false;
        let is_granted = self.retry(|| {
            let (record, holders) = self.holders(dir)?;
            is_alone = holders.is_empty();
            if holders.contains(&me) {
                // Of a node that was this one before it died, or the answer to its commit was lost.
                return Ok(Some(true));
            }
            if holders.is_full() {
                return Ok(Some(false));
            }
            let mut transaction = Transaction::at(dir);
            let part = &mut transaction.first;
            part.require(Condition::Unheld(keys::inode(dir)), || Error::NotFound);
            part.expect(Condition::still(key.clone(), record));
            part.put(key.clone(), holders.with(&me).encode());
            Ok(self.commit(transaction)?.then_some(true))
        })?;
        if is_granted {
            leases.engine.begin(dir, is_alone);
        }
        Ok(is_granted)
    }

    /// Forgets what was kept of a directory, and commits what was promised in it. Others still think that it is kept.
    pub fn forget_directory(&self, dir: InodeId) {
        if let Some(leases) = &self.leases {
            leases.engine.drop_lease(dir);
            self.keep_promises_in(dir);
        }
    }

    /// Gives back the lease on a directory, whether it was held or not.
    ///
    /// # Errors
    /// The engine's own; then others may still think that it is held.
    pub fn release_directory(&self, dir: InodeId) -> Result<()> {
        let Some(leases) = &self.leases else { return Ok(()) };
        self.forget_directory(dir);
        // Who has it may be waiting for an answer.
        let turn = leases.turns.of(dir).try_lock_for(allowance::of(GIVEN_BACK_WITHIN));
        let _turn = turn.ok_or_else(|| Error::Busy("another lease is asked for".into()))?;
        leases.engine.drop_lease(dir);
        self.remove_holder(dir, &self.lease_holder())
    }

    /// Whether what is kept under leases may be told now.
    #[must_use]
    pub fn keeps_directories(&self) -> bool {
        self.leases.as_ref().is_some_and(|leases| leases.engine.is_valid())
    }

    /// Forgets all that was kept: the leases are another's now.
    pub(super) fn forget_directories(&self) {
        if let Some(leases) = &self.leases {
            // Whoever is asking for one does it in the old name still.
            let _turns = leases.turns.all();
            leases.engine.drop_all();
            self.break_promises();
        }
    }

    /// How many commits of this host have begun and ended, where directories are shared: while that is the same, this host
    /// has changed nothing of what it read.
    #[must_use]
    pub fn commits_seen(&self) -> Option<u64> {
        self.leases.as_ref().map(|leases| leases.engine.commits_seen())
    }

    /// Whether this host has the lease on a directory.
    #[must_use]
    pub fn holds_directory(&self, dir: InodeId) -> bool {
        self.leases.as_ref().is_some_and(|leases| leases.engine.is_held(dir))
    }

    /// The directories whose leases this host has.
    #[must_use]
    pub fn leased_directories(&self) -> Vec<InodeId> {
        self.leases.as_ref().map_or_else(Vec::new, |leases| leases.engine.all_held())
    }

    /// How often something of a leased directory was wanted and not known, since this was last asked.
    #[must_use]
    pub fn take_directory_misses(&self, dir: InodeId) -> u32 {
        self.leases.as_ref().map_or(0, |leases| leases.engine.take_misses(dir))
    }

    /// Reads all names of a leased directory at once, unless they are too many, and what their lease covers:
    /// inodes and small bodies.
    ///
    /// # Errors
    /// The engine's own.
    pub fn fetch_directory(&self, dir: InodeId) -> Result<()> {
        let Some(leases) = &self.leases else { return Ok(()) };
        leases.engine.fetch(dir, FETCH_MAX)?;
        leases.engine.fetch_bodies(dir, BODIES_MAX)
    }

    /// The directory that has the only name of an inode that is none, as far as a lease may cover it.
    pub(super) fn only_dir(&self, ino: InodeId, dir: InodeId) -> InodeId {
        let is_covered = self.leases.is_some() && ino.partition() == dir.partition();
        if is_covered { dir } else { InodeId(0) }
    }

    /// A transaction that fails while another host has a lease on something that it changes.
    pub(super) fn guarded(&self, mut transaction: Transaction) -> Transaction {
        for dir in std::mem::take(&mut transaction.touched) {
            if let Some(condition) = self.lease_condition(dir) {
                transaction.of(dir).expect(condition);
            }
        }
        transaction
    }

    /// The condition that no other host has a lease on `dir`.
    pub(super) fn lease_condition(&self, dir: InodeId) -> Option<Condition> {
        self.leases.as_ref()?;
        Some(Condition::AbsentOr(lease_key(dir), Holders::alone(&self.lease_holder()).encode()))
    }

    /// Has others give back the lease that a failed condition speaks of, if it is one.
    pub(super) fn recall_for(
        &self,
        partition: PartitionId,
        failed: Option<&Condition>,
    ) -> Result<()> {
        let (Some(leases), Some(Condition::AbsentOr(key, _))) = (&self.leases, failed) else {
            return Ok(());
        };
        let Some(dir) = keys::inode_of(key).filter(|dir| dir.partition() == partition) else {
            return Ok(());
        };
        let (_, holders) = self.holders(dir)?;
        let owner = self.owner();
        let me = owner.encode();
        let others: Vec<&Bytes> = holders.iter().filter(|holder| **holder != me).collect();
        let ask = |holder: &Bytes| {
            let holder = Owner::decode(holder);
            // This host before it came back: it has forgotten all that it kept under that name.
            let was_me = holder.node == owner.node && holder.epoch < owner.epoch;
            if was_me { Ok(Recalled::Lost) } else { leases.recall.recall(&holder, dir) }
        };
        // All at once: each may take its time.
        let answers: Vec<Result<Recalled>> = match others[..] {
            [holder] => vec![ask(holder)],
            _ => intarsia_sync::thread::scope(|scope| {
                let asked =
                    others.iter().map(|holder| scope.spawn(allowance::shared(|| ask(holder))));
                let asked: Vec<_> = asked.collect();
                asked
                    .into_iter()
                    .map(|one| one.join().unwrap_or_else(|_| Err(unanswered())))
                    .collect()
            }),
        };
        for (holder, answer) in others.into_iter().zip(answers) {
            if answer? == Recalled::Lost {
                self.remove_holder(dir, holder)?;
            }
        }
        Ok(())
    }

    /// This host, as the records of leases name it.
    fn lease_holder(&self) -> Bytes {
        self.mark()
    }

    fn holders(&self, dir: InodeId) -> Result<(Option<Bytes>, Holders)> {
        let record = self.engine.get(dir.partition(), &lease_key(dir))?;
        let holders = match &record {
            None => Holders::default(),
            Some(record) => Holders::decode(record).ok_or_else(|| Error::Corrupt {
                ino: dir,
                what: "the lease on the directory".into(),
            })?,
        };
        Ok((record, holders))
    }

    fn remove_holder(&self, dir: InodeId, holder: &Bytes) -> Result<()> {
        let key = lease_key(dir);
        self.retry(|| {
            let (record, holders) = self.holders(dir)?;
            if !holders.contains(holder) {
                return Ok(Some(()));
            }
            let mut transaction = Transaction::at(dir);
            let part = &mut transaction.first;
            part.expect(Condition::still(key.clone(), record));
            let left = holders.without(holder);
            if left.is_empty() {
                part.delete(key.clone());
            } else {
                part.put(key.clone(), left.encode());
            }
            Ok(self.commit(transaction)?.then_some(()))
        })
    }
}

fn unanswered() -> Error {
    Error::Busy("asking another host for its lease came to no end".into())
}

fn lease_key(dir: InodeId) -> Key {
    keys::by_inode(keys::LEASE, dir).as_slice().into()
}
