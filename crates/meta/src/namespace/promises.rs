//! New files that are promised to a program before they are committed.
//!
//! Under the lease on a directory this host knows that a name is free, and nobody else makes it without asking for
//! the lease back. So a new file need not be committed before its program goes on. What keeps the promise is
//! whatever comes first: a change of the file, above all the one that publishes it at its close, in whose commit it
//! goes; the recall of the lease; or that a moment has passed. Until then it is shown on this host as if it were there.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Error, InodeId, Result};

use super::Namespace;
use super::directory_lease::Leases;
use super::transaction::Part;
use crate::{CommitOutcome, Condition, Key, Mutation, Value, allowance, keys};

/// Promises at a time. With more, files are committed at once.
const PROMISES_MAX: usize = 256;
/// How long others that commit a promise are waited for.
const UNDER_WAY_MAX: Duration = Duration::from_secs(9);

/// One new file.
#[derive(Clone)]
struct Promise {
    dir: InodeId,
    ino: InodeId,
    /// The key of its dentry.
    name: Key,
    part: Part,
    since: Instant,
}

#[derive(Default)]
struct Given {
    waiting: HashMap<InodeId, Promise>,
    /// Being committed now.
    under_way: HashMap<InodeId, Promise>,
    /// Files that were promised and are still open, and nobody knows that they are there.
    broken: HashSet<InodeId>,
}

/// The promises of this host.
#[derive(Default)]
pub(super) struct Promises {
    given: Mutex<Given>,
    /// Some are not under way any more.
    ended: Condvar,
    /// Those that wait or are under way, so that nobody looks where there are none.
    count: AtomicUsize,
    broken: AtomicUsize,
}

impl Promise {
    /// The value that it puts under a key.
    fn puts(&self, key: &[u8]) -> Option<&Value> {
        self.part.mutations.iter().find_map(|mutation| match mutation {
            Mutation::Put(put, value) if **put == *key => Some(value),
            _ => None,
        })
    }

    /// Whether a change does nothing but give what is promised another value, on no condition that is not the promise's own.
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

    /// Puts what `changes` put in the place of what it put before.
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
            // What every change in the directory says.
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
    /// Takes those that `wanted` names to be committed; waits for those that somebody else is committing.
    fn take(&self, wanted: impl Fn(&Promise) -> bool) -> Vec<Promise> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let mut given = self.given.lock();
        // Whoever commits them is done in the time that a commit may take.
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

/// The conditions of what commits some promises and a change together; `None` when what the change depends on has to
/// be there before.
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

/// The conditions of what commits some promises, each once.
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
    /// Promises what `part` does: it makes the file `ino` with the dentry `name` in `dir`. `false` when that has to be
    /// committed now.
    pub(super) fn promise(&self, dir: InodeId, ino: InodeId, name: &Key, part: &Part) -> bool {
        let Some(leases) = &self.leases else { return false };
        let mut given = leases.promises.given.lock();
        // Counted before it is assumed: who gives the lease back ends assuming first and looks at the count then.
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

    /// Has a change of a file that is promised wait with it. `false`, and nothing is done, where it has to be committed.
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

    /// Commits a change together with the promises that it depends on. `false` when it is to be committed alone:
    /// there are none, or they had to be kept first.
    pub(super) fn commit_with_promises(&self, part: &Part) -> Result<bool> {
        let Some(leases) = &self.leases else { return Ok(false) };
        let taken = leases.promises.take(|promise| promise.concerns(part));
        let (false, Some(conditions)) = (taken.is_empty(), joined(&taken, part)) else {
            taken.iter().for_each(|promise| self.keep_alone(leases, promise));
            return Ok(false);
        };
        self.keep_together(leases, &taken, &conditions, &part.mutations)
    }

    /// Keeps the promises that a change depends on.
    pub(super) fn keep_promises_before(&self, part: &Part) {
        self.keep_promises(|promise| promise.concerns(part));
    }

    /// Keeps the promises of files in a directory.
    pub(super) fn keep_promises_in(&self, dir: InodeId) {
        self.keep_promises(|promise| promise.dir == dir);
    }

    /// Keeps the promises that were given so long ago.
    pub fn keep_promises_older_than(&self, age: Duration) {
        self.keep_promises(|promise| promise.since.elapsed() >= age);
    }

    /// Whether there are files that [`Namespace::create`] promised and that are not committed yet.
    #[must_use]
    pub fn has_promises(&self) -> bool {
        self.leases.as_ref().is_some_and(|l| l.promises.count.load(Ordering::SeqCst) > 0)
    }

    /// Sees to it that a file which was made on this host is there for all.
    ///
    /// # Errors
    /// [`Error::Engine`] when it was promised, and has not come to be.
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

    /// Nobody has the file open any more, so nobody asks whether it has come to be. Returns whether its promise was
    /// broken: it may not be there, or come to be yet.
    pub fn forget_promise(&self, ino: InodeId) -> bool {
        self.leases.as_ref().is_some_and(|leases| leases.promises.forgive(ino))
    }

    /// Others may have the leases now under which all that waits was promised: none of it is recorded any more, which
    /// may take asking them. Files that are closed later say so.
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
            // What failed is told to whoever closes the file.
            let _ = self.keep_together(leases, some, &conditions, &[]);
        }
    }

    /// Commits promises of one partition and a change; each promise alone when a condition does not hold, and then not
    /// the change. Whether it was committed.
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
        let promised: Vec<Mutation> =
            taken.iter().flat_map(|promise| promise.part.mutations.clone()).collect();
        let op = self.next_op();
        match leases.engine.commit_assumed(partition, op, conditions, &promised, change) {
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

    fn keep_alone(&self, leases: &Leases, promise: &Promise) {
        let part = &promise.part;
        let outcome = self.retry(|| {
            let (op, conditions) = (self.next_op(), &part.conditions);
            let promised = &part.mutations;
            match leases.engine.commit_assumed(part.partition, op, conditions, promised, &[])? {
                CommitOutcome::Applied => Ok(Some(())),
                CommitOutcome::Conflict { index } => match conditions.get(index) {
                    // Without the lease somebody else has made one.
                    Some(Condition::Absent(key)) if *key == promise.name => Err(Error::Exists),
                    _ => match self.refusal(part, index, &[])? {
                        Some(error) => Err(error),
                        None => self.await_holder(part, index).map(|()| None),
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
    /// Nobody knows whether what was promised has come to be, or will.
    fn break_promises(&self, promises: &[Promise], why: &Error) {
        for Promise { dir, ino, part, .. } in promises {
            tracing::warn!(%ino, %dir, error = %why, "a new file could not be recorded");
            self.engine.renounce(*dir, &part.mutations);
        }
        self.promises.end(promises, false);
    }
}
