//! Leases on directories: which hosts may keep what they read of one.
//!
//! A record in the directory's partition names these hosts. Every change of the directory, or of an inode that its lease
//! covers, has the condition that the record names no other host, which is checked in the same commit. If it names one, that
//! host is told what changes (`shared_lease`), or is asked to forget all that it keeps and to leave the record; then the change
//! is tried again. So a lease costs nothing where one host works, many hosts can read without asking, and a change pays for the
//! hosts that have read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use intarsia_sync::{Mutex, MutexGuard};
use intarsia_types::{Error, InodeId, PartitionId, Result};

use super::promises::Promises;
use super::shared_lease::{Invalidated, Invalidation, SharedLeases};
use super::{Namespace, Owner, Transaction};
use crate::holders::Holders;
use crate::leased::LeasedEngine;
use crate::ranks::LEASE_TURN;
use crate::{Bytes, Condition, Key, allowance, keys};

/// Most names of a directory that is read as a whole, so that all its names are known.
const FETCH_MAX: usize = 50_000;
/// Most bodies that are read ahead of a directory that is read as a whole.
const BODIES_MAX: usize = 1024;

/// How many records of leases of this host can change at a time.
const TURNS: u64 = 64;
/// How long asking for a lease waits for its turn. Not longer, since a lease only saves time.
const TURN_PATIENCE: Duration = Duration::from_millis(50);
/// How long giving a lease back waits for its turn.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(10);

/// What a recall of another host's lease led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recalled {
    /// It has forgotten what it kept and left the record.
    Released,
    /// That life of it is over: whatever the host keeps later is under another name.
    Lost,
}

/// How other hosts are asked to give back leases on directories.
pub trait Recall: Send + Sync {
    /// Whether no other host can have given this one up, and taken over the leases that it holds.
    fn is_current(&self) -> bool;

    /// Asks `holder` to give its lease on `dir` back; takes a bounded time.
    ///
    /// # Errors
    /// When it does not answer and is not known to be dead.
    fn recall(&self, holder: &Owner, dir: InodeId) -> Result<Recalled>;

    /// Tells `holders`, all at the same time, which records of a leased directory change; takes a bounded time. For each, in
    /// their order, what became of that, or why it is not known.
    fn invalidate(
        &self,
        holders: &[Owner],
        invalidation: &Invalidation,
    ) -> Vec<Result<Invalidated>>;

    /// Tells `holders` that the change `number` of this host is over. The word may get lost.
    fn tell_over(&self, holders: &[Owner], number: u64);
}

/// What a namespace needs for leases.
pub(super) struct Leases {
    pub(super) engine: Arc<LeasedEngine>,
    pub(super) recall: Arc<dyn Recall>,
    turns: Turns,
    pub(super) promises: Promises,
    pub(super) shared: SharedLeases,
    /// Under how many numbers this host has asked for leases.
    asked: AtomicU64,
}

/// Locks, each held while this host enters a record or leaves it, so that the record says what this host believes to hold. Many
/// directories share one.
struct Turns(Vec<Mutex<()>>);

impl Turns {
    fn new() -> Self {
        Self((0..TURNS).map(|_| Mutex::ranked(LEASE_TURN, ())).collect())
    }

    fn of(&self, dir: InodeId) -> &Mutex<()> {
        // Hashed, since directories are born in all partitions with the same sequence numbers.
        let index = usize::try_from(keys::hash63(dir.0, b"") % TURNS).unwrap_or(0);
        &self.0[index]
    }

    /// The lock to leave the record of `dir`.
    ///
    /// # Errors
    /// [`Error::Busy`] when it does not come.
    fn to_leave(&self, dir: InodeId) -> Result<MutexGuard<'_, ()>> {
        let turn = self.of(dir).try_lock_for(allowance::of(GIVEN_BACK_WITHIN));
        turn.ok_or_else(|| Error::Busy("another lease is asked for".into()))
    }

    fn all(&self) -> Vec<MutexGuard<'_, ()>> {
        self.0.iter().map(Mutex::lock).collect()
    }
}

impl Namespace {
    /// Turns leases on directories on. Either all hosts of a store have to do that, or none.
    #[must_use]
    pub fn with_leases(mut self, recall: Arc<dyn Recall>) -> Self {
        let asked = Arc::clone(&recall);
        let engine = LeasedEngine::new(Arc::clone(&self.engine), move || asked.is_current());
        let engine = Arc::new(engine);
        self.engine = Arc::<LeasedEngine>::clone(&engine);
        let (turns, promises) = (Turns::new(), Promises::default());
        let (shared, asked) = (SharedLeases::default(), AtomicU64::new(0));
        self.leases = Some(Leases { engine, recall, turns, promises, shared, asked });
        self
    }

    /// Asks for the lease on a directory. Until it is given back, what is read of the directory is kept. `false` if too many
    /// hosts have the lease already.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the directory is gone, [`Error::Busy`] when the turn for the lease does not come soon; the
    /// engine's own.
    pub fn lease_directory(&self, dir: InodeId) -> Result<bool> {
        let Some(leases) = &self.leases else { return Ok(false) };
        let Some(_turn) = leases.turns.of(dir).try_lock_for(TURN_PATIENCE) else {
            return Err(Error::Busy("another lease is asked for".into()));
        };
        if leases.engine.is_held(dir) {
            return Ok(true);
        }
        let (key, me) = (lease_key(dir), self.lease_holder());
        let number = leases.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let mut is_alone = false;
        let is_granted = self.retry(|| {
            let (record, holders) = self.holders(dir)?;
            // Should this host stand in the record, the answer to the commit that entered it was lost, or it could not leave.
            let others = holders.without(&me);
            is_alone = others.is_empty();
            if others.is_full() {
                return Ok(Some(false));
            }
            let mut transaction = Transaction::at(dir);
            let part = &mut transaction.first;
            part.require(Condition::Unheld(keys::inode(dir)), || Error::NotFound);
            part.expect(Condition::still(key.clone(), record));
            part.put(key.clone(), others.with(&me, number).encode());
            Ok(self.commit(transaction)?.then_some(true))
        })?;
        if is_granted {
            leases.engine.begin(dir, Holders::alone(&me, number).encode(), is_alone);
        }
        Ok(is_granted)
    }

    /// Forgets what is kept of a directory, and commits what was promised in it. The record still names this host.
    pub fn forget_directory(&self, dir: InodeId) {
        if let Some(leases) = &self.leases {
            leases.engine.drop_lease(dir);
            self.keep_promises_in(dir);
        }
    }

    /// Gives back the lease on a directory, whether it is held or not.
    ///
    /// # Errors
    /// The engine's own, and [`Error::Busy`] when the turn for the lease does not come: then the record may still name this
    /// host.
    pub fn release_directory(&self, dir: InodeId) -> Result<()> {
        let Some(leases) = &self.leases else { return Ok(()) };
        self.forget_directory(dir);
        // The thread that has the turn may be waiting for an answer of the engine.
        let _turn = leases.turns.to_leave(dir)?;
        leases.engine.drop_lease(dir);
        self.remove_holder(dir, &self.lease_holder())
    }

    /// Whether what is kept under leases may be told to programs now: not while the others may have given this host up.
    #[must_use]
    pub fn keeps_directories(&self) -> bool {
        self.leases.as_ref().is_some_and(|leases| leases.engine.is_valid())
    }

    /// Forgets all that is kept, because this host has another owner's name from now on, under which it has no leases.
    pub(super) fn forget_directories(&self) {
        if let Some(leases) = &self.leases {
            // Waits for threads that are asking for a lease under the old name.
            let _turns = leases.turns.all();
            leases.engine.drop_all();
            self.break_promises();
        }
    }

    /// How many commits of this host have begun and ended, counted together; `None` without leases. While that is the same,
    /// this host has changed nothing of what it read.
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

    /// How often something of a leased directory was asked for and not known, since the last call.
    #[must_use]
    pub fn take_directory_misses(&self, dir: InodeId) -> u32 {
        self.leases.as_ref().map_or(0, |leases| leases.engine.take_misses(dir))
    }

    /// Reads a leased directory as a whole, unless it has too many names: its names, and what its lease covers, inodes and
    /// small bodies.
    ///
    /// # Errors
    /// The engine's own.
    pub fn fetch_directory(&self, dir: InodeId) -> Result<()> {
        let Some(leases) = &self.leases else { return Ok(()) };
        leases.engine.fetch(dir, FETCH_MAX)?;
        leases.engine.fetch_bodies(dir, BODIES_MAX)
    }

    /// What the record of an inode that is no directory says of the directory with its only name: `dir` if a lease on that
    /// covers the inode, else none.
    pub(super) fn only_dir(&self, ino: InodeId, dir: InodeId) -> InodeId {
        let is_covered = self.leases.is_some() && ino.partition() == dir.partition();
        if is_covered { dir } else { InodeId(0) }
    }

    /// The transaction with the condition that no other host has a lease on something that it changes.
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
        // The engine in front puts the number in under which this host has asked for the lease.
        let alone = Holders::alone(&self.lease_holder(), 0);
        Some(Condition::AbsentOr(lease_key(dir), alone.encode()))
    }

    /// If the condition that failed is that no other host has a lease: with `can_share` has the next attempt tell those that have
    /// it what changes, if they are few; else recalls it from them.
    pub(super) fn recall_for(
        &self,
        partition: PartitionId,
        failed: Option<&Condition>,
        can_share: bool,
    ) -> Result<()> {
        let (Some(leases), Some(Condition::AbsentOr(key, _))) = (&self.leases, failed) else {
            return Ok(());
        };
        let Some(dir) = keys::inode_of(key).filter(|dir| dir.partition() == partition) else {
            return Ok(());
        };
        let (record, holders) = self.holders(dir)?;
        let owner = self.owner();
        let me = owner.encode();
        let others: Vec<&Bytes> = holders.hosts().filter(|holder| **holder != me).collect();
        if others.is_empty() && holders.contains(&me) {
            return self.leave_if_not_held(leases, dir);
        }
        if can_share && leases.shared.begin(dir, record, &others) {
            return Ok(());
        }
        let ask = |holder: &Bytes| {
            let holder = Owner::decode(holder);
            if is_earlier_life(&holder, &owner) {
                Ok(Recalled::Lost)
            } else {
                leases.recall.recall(&holder, dir)
            }
        };
        // All at the same time, since each may take long to answer.
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

    /// The record names this host alone: if not under the number of the lease that it has, it was left behind in it.
    fn leave_if_not_held(&self, leases: &Leases, dir: InodeId) -> Result<()> {
        let _turn = leases.turns.to_leave(dir)?;
        let (record, _) = self.holders(dir)?;
        if record.is_some_and(|record| leases.engine.has_lease(dir, &record)) {
            return Ok(());
        }
        leases.engine.drop_lease(dir);
        self.remove_holder(dir, &self.lease_holder())
    }

    /// How the records of leases name this host.
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

    pub(super) fn remove_holder(&self, dir: InodeId, holder: &Bytes) -> Result<()> {
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

/// Whether `holder` is a host that this one was before: what it kept under that name is forgotten.
pub(super) fn is_earlier_life(holder: &Owner, me: &Owner) -> bool {
    holder.node == me.node && holder.epoch < me.epoch
}

fn unanswered() -> Error {
    Error::Busy("asking another host for its lease came to no end".into())
}

pub(super) fn lease_key(dir: InodeId) -> Key {
    keys::by_inode(keys::LEASE, dir).as_slice().into()
}
