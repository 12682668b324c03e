//! Deferred creates, here called promises: new files that a program may use before they are committed.
//!
//! Under the lease on a directory this host knows that a name is free, and no other host makes it without asking for the lease
//! back. So a program can go on with its new file before that is committed. The file is committed, and the promise so kept, by
//! what comes first: a change of the file, above all its publication at the close, in the same commit; the recall of the lease;
//! or the end of a short time. Until then this host shows the file as if it were there.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Error, InodeId, Result};

use super::Namespace;
use super::directory_lease::Leases;
use super::shared_lease::Change;
use super::transaction::Part;
use crate::{CommitOutcome, Condition, Key, Mutation, Value, allowance, keys};

/// Most promises that wait at a time. Beyond that, new files are committed at once.
const PROMISES_MAX: usize = 256;
/// How long a thread waits for another one that is committing a promise.
const UNDER_WAY_MAX: Duration = Duration::from_secs(9);

/// One new file whose commit is deferred.
#[derive(Clone)]
struct Promise {
    dir: InodeId,
    ino: InodeId,
    /// The key of its dentry.
    name: Key,
    /// What is to be committed.
    part: Part,
    since: Instant,
}

#[derive(Default)]
struct Given {
    /// Promises that nobody has begun to commit.
    waiting: HashMap<InodeId, Promise>,
    /// Promises that a thread is committing.
    under_way: HashMap<InodeId, Promise>,
    /// Open files whose deferred commit failed, or had no answer: they may not be there.
    broken: HashSet<InodeId>,
}

/// The promises of this host.
#[derive(Default)]
pub(super) struct Promises {
    given: Mutex<Given>,
    /// Signalled when promises have been committed or broken.
    ended: Condvar,
    /// How many wait or are under way. While there are none, nobody takes the lock.
    count: AtomicUsize,
    /// How many are broken.
    broken: AtomicUsize,
}

impl Promise {
    /// The value that its commit puts under a key.
    fn puts(&self, key: &[u8]) -> Option<&Value> {
        self.part.mutations.iter().find_map(|mutation| match mutation {
            Mutation::Put(put, value) if **put == *key => Some(value),
            _ => None,
        })
    }

    /// Whether the promise can take a change into its own commit: if the change only gives other values to keys that the
    /// promise puts, on conditions that the promise has too or that hold of what it puts.
    fn takes(&self, part: &Part) -> bool {
        let is_known = |condition: &Condition| match condition {
            Condition::Equals(key, value) => self.puts(key) == Some(value),
            other => self.part.conditions.contains(other),
        };
        let is_put = |mutation: &Mutation| match mutation {
            Mutation::Put(key, _) => self.puts(key).is_some(),
            _ => false,
        };
        part.partition == self.part.partition
            && part.conditions.iter().all(is_known)
            && part.mutations.iter().all(is_put)
    }

    /// Puts the values of `changes` in place of the promise's own.
    fn amend(&mut self, changes: &[Mutation]) {
        for mutation in &mut self.part.mutations {
            if let Mutation::Put(key, value) = mutation
                && let Some(Mutation::Put(_, new)) =
                    changes.iter().find(|change| change.key() == key)
            {
                value.clone_from(new);
            }
        }
    }

    /// Whether a change may read or replace something that is promised.
    fn concerns(&self, part: &Part) -> bool {
        if part.partition != self.part.partition {
            return false;
        }
        let is_ours = |key: &Key| *key == self.name || keys::inode_of(key) == Some(self.ino);
        let is_of_dir = |key: &Key| **key == keys::by_inode(keys::INODE, self.dir);
        let by_condition = part.conditions.iter().any(|condition| match condition {
            // Every change in the directory has this condition.
            Condition::AbsentOr(..) => false,
            Condition::Unheld(key) => is_ours(key),
            Condition::Absent(key) | Condition::Present(key) | Condition::Equals(key, _) => {
                is_ours(key) || is_of_dir(key)
            }
            Condition::PrefixEmpty(prefix) => {
                self.part.mutations.iter().any(|m| m.key().starts_with(prefix))
            }
        });
        let by_mutation = part.mutations.iter().any(|mutation| match mutation {
            Mutation::Put(key, _) | Mutation::Delete(key) => is_ours(key) || is_of_dir(key),
            Mutation::Merge { .. } | Mutation::Add { .. } => false,
        });
        by_condition || by_mutation
    }
}

impl Promises {
    /// Takes the promises that are `wanted`, to commit them. Waits first for those of them that another thread is committing.
    fn take(&self, wanted: impl Fn(&Promise) -> bool) -> Vec<Promise> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let mut given = self.given.lock();
        // The other thread takes no longer than a commit may take.
        let until = Instant::now() + allowance::of(UNDER_WAY_MAX);
        while given.under_way.values().any(&wanted) {
            if self.ended.wait_until(&mut given, until).timed_out() {
                break;
            }
        }
        let taken: Vec<Promise> = given.waiting.values().filter(|p| wanted(p)).cloned().collect();
        for promise in &taken {
            given.waiting.remove(&promise.ino);
            given.under_way.insert(promise.ino, promise.clone());
        }
        taken
    }

    /// Promises that were taken have been committed, or are broken.
    fn end(&self, taken: &[Promise], is_kept: bool) {
        let mut given = self.given.lock();
        for promise in taken {
            given.under_way.remove(&promise.ino);
            if !is_kept {
                given.broken.insert(promise.ino);
            }
        }
        self.broken.store(given.broken.len(), Ordering::Release);
        self.count.fetch_sub(taken.len(), Ordering::AcqRel);
        drop(given);
        self.ended.notify_all();
    }

    fn is_broken(&self, ino: InodeId) -> bool {
        self.broken.load(Ordering::Acquire) > 0 && self.given.lock().broken.contains(&ino)
    }

    /// Forgets that the promise of a file is broken. Returns whether it was.
    fn forgive(&self, ino: InodeId) -> bool {
        if self.broken.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut given = self.given.lock();
        let was_broken = given.broken.remove(&ino);
        self.broken.store(given.broken.len(), Ordering::Release);
        was_broken
    }
}

/// The conditions of a commit of some promises together with a change; `None` when the promises have to be committed before the
/// change.
fn joined(promises: &[Promise], part: &Part) -> Option<Vec<Condition>> {
    let puts = |key: &Key| promises.iter().find_map(|promise| promise.puts(key));
    let is_of_dir = |key: &Key| {
        promises.iter().any(|promise| **key == keys::by_inode(keys::INODE, promise.dir))
    };
    let mut conditions = conditions_of(promises);
    let mut add = |condition: &Condition| {
        if !conditions.contains(condition) {
            conditions.push(condition.clone());
        }
    };
    for condition in &part.conditions {
        match condition {
            Condition::Equals(key, value) if puts(key).is_some_and(|put| put == value) => {}
            Condition::Equals(key, _) | Condition::Absent(key)
                if puts(key).is_some() || is_of_dir(key) =>
            {
                return None;
            }
            Condition::Present(key) | Condition::Unheld(key) if puts(key).is_some() => {}
            Condition::PrefixEmpty(_) => return None,
            _ => add(condition),
        }
    }
    Some(conditions)
}

/// The conditions of a commit of some promises, each once.
fn conditions_of(promises: &[Promise]) -> Vec<Condition> {
    let mut conditions: Vec<Condition> = Vec::new();
    for condition in promises.iter().flat_map(|promise| &promise.part.conditions) {
        if !conditions.contains(condition) {
            conditions.push(condition.clone());
        }
    }
    conditions
}

impl Namespace {
    /// Defers the commit of `part`, which makes the file `ino` with the dentry `name` in `dir`. `false` when it has to be
    /// committed now.
    pub(super) fn promise(&self, dir: InodeId, ino: InodeId, name: &Key, part: &Part) -> bool {
        let Some(leases) = &self.leases else { return false };
        let mut given = leases.promises.given.lock();
        // Counted before it is assumed. A thread that gives the lease back first ends it, so that nothing more is assumed, and
        // then looks at the count: it does not miss this promise.
        leases.promises.count.fetch_add(1, Ordering::SeqCst);
        if given.waiting.len() >= PROMISES_MAX || !leases.engine.assume(dir, name, &part.mutations)
        {
            leases.promises.count.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        let (name, part, since) = (name.clone(), part.clone(), Instant::now());
        given.waiting.insert(ino, Promise { dir, ino, name, part, since });
        true
    }

    /// Defers a change of a promised file, to be committed with the file. `false`, and nothing is done, if it has to be
    /// committed now.
    pub(super) fn amend_promise(&self, ino: InodeId, part: &Part) -> bool {
        let Some(leases) = &self.leases else { return false };
        if leases.promises.count.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let mut given = leases.promises.given.lock();
        let Some(promise) = given.waiting.get_mut(&ino).filter(|promise| promise.takes(part))
        else {
            return false;
        };
        let is_amended = leases.engine.amend(promise.dir, &part.mutations);
        if is_amended {
            promise.amend(&part.mutations);
        }
        is_amended
    }

    /// Commits a change together with the promises that it depends on. `false` when the change still has to be committed by
    /// itself, because there are no such promises, or they had to be committed before it.
    pub(super) fn commit_with_promises(&self, part: &Part) -> Result<bool> {
        let Some(leases) = &self.leases else { return Ok(false) };
        let taken = leases.promises.take(|promise| promise.concerns(part));
        let (false, Some(conditions)) = (taken.is_empty(), joined(&taken, part)) else {
            taken.iter().for_each(|promise| self.keep_alone(leases, promise));
            return Ok(false);
        };
        self.keep_together(leases, &taken, &conditions, &part.mutations)
    }

    /// Commits the promises that a change depends on.
    pub(super) fn keep_promises_before(&self, part: &Part) {
        self.keep_promises(|promise| promise.concerns(part));
    }

    /// Commits the promised files of a directory.
    pub(super) fn keep_promises_in(&self, dir: InodeId) {
        self.keep_promises(|promise| promise.dir == dir);
    }

    /// Commits the promises that are at least `age` old.
    pub fn keep_promises_older_than(&self, age: Duration) {
        self.keep_promises(|promise| promise.since.elapsed() >= age);
    }

    /// Whether there are files whose commit [`Namespace::create`] has deferred and that are not committed yet.
    #[must_use]
    pub fn has_promises(&self) -> bool {
        self.leases.as_ref().is_some_and(|l| l.promises.count.load(Ordering::SeqCst) > 0)
    }

    /// Commits a file that was made on this host, if that was deferred. From then on all hosts see it.
    ///
    /// # Errors
    /// [`Error::Engine`] when the deferred commit failed and the file is not there.
    pub fn keep_promise(&self, ino: InodeId) -> Result<()> {
        let Some(leases) = &self.leases else { return Ok(()) };
        self.keep_promises(|promise| promise.ino == ino);
        if !leases.promises.is_broken(ino) {
            return Ok(());
        }
        match self.get(ino) {
            Ok(_) => {
                leases.promises.forgive(ino);
                Ok(())
            }
            Err(Error::NotFound) => Err(Error::Engine("the file could not be made".into())),
            Err(error) => Err(error),
        }
    }

    /// To be called when no program has the file open any more, so that none asks whether it is there. Returns whether its
    /// promise was broken: then the file may not be there, or its commit may still take effect.
    pub fn forget_promise(&self, ino: InodeId) -> bool {
        self.leases.as_ref().is_some_and(|leases| leases.promises.forgive(ino))
    }

    /// To be called when this host was given up. Others may have the leases now under which creates were deferred, so these are
    /// not committed any more, and closes of the files fail.
    pub fn break_promises(&self) {
        if let Some(leases) = &self.leases {
            let why = Error::Engine("this host was given up".into());
            leases.break_promises(&leases.promises.take(|_| true), &why);
        }
    }

    fn keep_promises(&self, wanted: impl Fn(&Promise) -> bool) {
        let Some(leases) = &self.leases else { return };
        let mut taken = leases.promises.take(wanted);
        taken.sort_by_key(|promise| (promise.part.partition, promise.since));
        for some in taken.chunk_by(|a, b| a.part.partition == b.part.partition) {
            let conditions = conditions_of(some);
            // What failed is told when the file is closed.
            let _ = self.keep_together(leases, some, &conditions, &[]);
        }
    }

    /// Commits promises of one partition together with a change. If a condition does not hold, commits each promise by itself
    /// instead, and not the change. Returns whether the change was committed.
    fn keep_together(
        &self,
        leases: &Leases,
        taken: &[Promise],
        conditions: &[Condition],
        change: &[Mutation],
    ) -> Result<bool> {
        let Some(partition) = taken.first().map(|promise| promise.part.partition) else {
            return Ok(false);
        };
        let assumed: Vec<Mutation> =
            taken.iter().flat_map(|promise| promise.part.mutations.clone()).collect();
        let change = Change { partition, conditions, assumed: &assumed, mutations: change };
        match self.commit_leased(leases, change) {
            Ok(CommitOutcome::Applied) => {
                leases.promises.end(taken, true);
                Ok(true)
            }
            Ok(CommitOutcome::Conflict { .. }) => {
                taken.iter().for_each(|promise| self.keep_alone(leases, promise));
                Ok(false)
            }
            Err(error) => {
                leases.break_promises(taken, &error);
                Err(error)
            }
        }
    }

    /// Commits one promise by itself.
    fn keep_alone(&self, leases: &Leases, promise: &Promise) {
        let part = &promise.part;
        let outcome = self.retry(|| {
            let (partition, conditions) = (part.partition, &part.conditions);
            let change = Change { partition, conditions, assumed: &part.mutations, mutations: &[] };
            match self.commit_leased(leases, change)? {
                CommitOutcome::Applied => Ok(Some(())),
                CommitOutcome::Conflict { index } => match conditions.get(index) {
                    // This host has lost the lease, and another one has made a file of that name.
                    Some(Condition::Absent(key)) if *key == promise.name => Err(Error::Exists),
                    _ => match self.refusal(part, index, &[])? {
                        Some(error) => Err(error),
                        None => self.await_holder(part, index, change.can_be_told()).map(|()| None),
                    },
                },
            }
        });
        let promise = std::slice::from_ref(promise);
        match outcome {
            Ok(()) => leases.promises.end(promise, true),
            Err(error) => leases.break_promises(promise, &error),
        }
    }
}

impl Leases {
    /// The commit of these promises failed or had no answer, so nobody knows whether the files are there, or will be.
    fn break_promises(&self, promises: &[Promise], why: &Error) {
        for Promise { dir, ino, part, .. } in promises {
            tracing::warn!(%ino, %dir, error = %why, "a new file could not be recorded");
            self.engine.renounce(*dir, &part.mutations);
        }
        self.promises.end(promises, false);
    }
}
