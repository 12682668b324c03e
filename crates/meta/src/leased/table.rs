//! What is kept of leased directories.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::time::Duration;

use intarsia_sync::Instant;
use intarsia_types::InodeId;

use super::assumed::Assumed;
use super::changes::{Changes, Reading};
use super::invalidated::ChangesElsewhere;
use super::kept_keys;
use crate::engines::is_unheld;
use crate::{Condition, Inode, Key, Mutation, Value, keys, merge};

/// Most names that are kept, and most inodes.
const RECORDS_MAX: usize = 400_000;
/// Most directories of whose last lease the record is remembered; more only of those whose leases are held.
const OWN_MAX: usize = 8192;
/// Most bytes of bodies that are kept.
const BODY_BYTES_MAX: usize = 64 << 20;

/// How long a commit without an answer may still take effect: a server may have received it, and not have come to it yet.
const DOUBT: Duration = Duration::from_secs(10);

/// Most names that may differ in a directory of which all others are known.
const DIFFERING_MAX: usize = 1024;

/// A leased directory.
#[derive(Default)]
struct Held {
    /// The directory's own record.
    record: Option<Value>,
    /// The names that are known, by their keys; `None` for one that is known not to be there.
    names: BTreeMap<Key, Option<Value>>,
    /// Every name is known but for those that `may_differ`.
    is_complete: bool,
    /// Names that were forgotten since every name was known.
    may_differ: HashSet<Key>,
    /// Inodes of names in it, directories aside.
    inodes: HashSet<InodeId>,
    /// How many names and bodies were asked for and not known, since [`Table::take_misses`].
    misses: u32,
    /// At some moment since this host got the lease, no other host had it. Only then are creates deferred. Before a host with
    /// deferred creates can give its lease back, it may have to ask the other hosts for theirs. So of two hosts only one can
    /// have to ask the other, and they never wait for each other.
    was_alone: bool,
}

impl Held {
    /// What a name means, if that is known.
    fn name(&self, key: &[u8]) -> Option<Option<Value>> {
        let is_absent = || self.is_complete && !self.may_differ.contains(key);
        self.names.get(key).cloned().or_else(|| is_absent().then_some(None))
    }

    fn has_all_names(&self) -> bool {
        self.is_complete && self.may_differ.is_empty()
    }

    fn forget_name(&mut self, key: &[u8]) {
        if self.is_complete {
            self.may_differ.insert(Key::copy_from(key));
        }
        if self.may_differ.len() > DIFFERING_MAX {
            (self.is_complete, self.may_differ) = (false, HashSet::new());
        }
    }
}

/// An inode that is covered by the lease on another inode, its directory.
struct Covered {
    dir: InodeId,
    record: Value,
    /// The body beside it, if that is known; `Some(None)` if it is known that there is none.
    body: Option<Option<Value>>,
}

#[derive(Default)]
pub(super) struct Table {
    held: HashMap<InodeId, Held>,
    inodes: HashMap<InodeId, Covered>,
    /// Directories of which nothing is kept until the time that is given, because a commit without an answer may still change
    /// them.
    doubted: HashMap<InodeId, Instant>,
    /// By directory: the record of its lease while no other host is in it, of the last lease that this host had.
    own: HashMap<InodeId, Value>,
    pub(super) elsewhere: ChangesElsewhere,
    names: usize,
    body_bytes: usize,
    pub(super) changes: Changes,
    pub(super) assumed: Assumed,
}

impl Table {
    /// This host has the lease on `dir` from now on, with `own` as the record while no other host has it; with `is_alone` that
    /// is so now.
    pub(super) fn begin(&mut self, dir: InodeId, own: Value, is_alone: bool) {
        self.changes.begin_lease();
        self.held.entry(dir).or_default().was_alone = is_alone;
        if self.own.len() >= OWN_MAX {
            // Without its own record a change takes a lease that is not held for one that was left behind.
            self.own.retain(|dir, _| self.held.contains_key(dir));
        }
        self.own.insert(dir, own);
    }

    /// The conditions that no other host has a lease, with the records as this host's leases make them.
    pub(super) fn under_own_leases(&self, conditions: &[Condition]) -> Vec<Condition> {
        let under = |condition: &Condition| match condition {
            Condition::AbsentOr(lease, _) => {
                let own = keys::inode_of(lease).and_then(|dir| self.own.get(&dir));
                own.map(|own| Condition::AbsentOr(lease.clone(), own.clone()))
            }
            _ => None,
        };
        conditions.iter().map(|one| under(one).unwrap_or_else(|| one.clone())).collect()
    }

    /// Forgets the leases that this host had under another name.
    pub(super) fn forget_own(&mut self) {
        self.own.clear();
    }

    /// A commit took effect on condition that no other host has the lease on `dir`. It began when so many `leases` had begun:
    /// only if that is still so the condition held under the present lease.
    pub(super) fn note_alone(&mut self, dir: InodeId, leases: u64) {
        if self.changes.leases() == leases
            && let Some(held) = self.held.get_mut(&dir)
        {
            held.was_alone = true;
        }
    }

    /// Forgets everything of a directory, as its lease has ended. Returns whether there was one.
    pub(super) fn end(&mut self, dir: InodeId) -> bool {
        let Some(held) = self.held.remove(&dir) else { return false };
        self.elsewhere.end_lease(dir, &mut self.changes);
        self.changes.begin_era();
        self.names -= held.names.len();
        for ino in held.inodes {
            self.drop_inode(ino);
        }
        true
    }

    /// Whether what is read of a directory is kept.
    pub(super) fn is_held(&self, dir: InodeId) -> bool {
        self.held.contains_key(&dir) && !self.is_doubted(dir)
    }

    /// Whether this host has the lease on `dir`, and this is the record while no other host has it.
    pub(super) fn has_lease(&self, dir: InodeId, record: &Value) -> bool {
        self.held.contains_key(&dir) && self.own.get(&dir) == Some(record)
    }

    fn is_doubted(&self, dir: InodeId) -> bool {
        self.doubted.get(&dir).is_some_and(|until| Instant::now() < *until)
    }

    /// Forgets everything of a directory, and keeps nothing of it for a while, because a commit without an answer may still
    /// change it.
    pub(super) fn doubt(&mut self, dir: InodeId) {
        let now = Instant::now();
        self.doubted.retain(|_, until| now < *until);
        self.doubted.insert(dir, now + DOUBT);
        let was_alone = self.held.get(&dir).is_some_and(|held| held.was_alone);
        // The lease goes on, and so do the changes of other hosts that it was told of.
        let changes = self.elsewhere.take(dir);
        if self.end(dir) {
            self.held.insert(dir, Held { was_alone, ..Held::default() });
        }
        self.elsewhere.put_back(dir, changes);
    }

    pub(super) fn all_held(&self) -> Vec<InodeId> {
        self.held.keys().copied().collect()
    }

    /// How often something of the directory was asked for and not known, since the last call.
    pub(super) fn take_misses(&mut self, dir: InodeId) -> u32 {
        self.held.get_mut(&dir).map_or(0, |held| std::mem::take(&mut held.misses))
    }

    pub(super) fn is_complete(&self, dir: InodeId) -> bool {
        self.held.get(&dir).is_some_and(Held::has_all_names)
    }

    /// A read has brought `names`, which are all names of the directory. It is complete if all of them are kept; a name that a
    /// commit changes at the same time is not.
    pub(super) fn complete<'n>(
        &mut self,
        reading: Reading,
        dir: InodeId,
        mut names: impl Iterator<Item = &'n Key>,
    ) {
        // A name that another host is making may be in no listing yet.
        if self.changes.is_of_this_era(reading)
            && !self.is_doubted(dir)
            && !self.elsewhere.is_changed(dir)
            && let Some(held) = self.held.get_mut(&dir)
            && names.all(|name| held.names.contains_key(name))
        {
            (held.is_complete, held.may_differ) = (true, HashSet::new());
        }
    }

    /// The value of a key, if it is known; `Some(None)` for a key that is known to have none.
    pub(super) fn find(&mut self, key: &[u8]) -> Option<Option<Value>> {
        let ino = keys::inode_of(key)?;
        match *key.first()? {
            keys::DENTRY => {
                let held = self.held.get_mut(&ino)?;
                let known = held.name(key);
                held.misses += u32::from(known.is_none());
                known
            }
            keys::INODE => match self.held.get(&ino) {
                Some(held) => held.record.clone().map(Some),
                None => self.inodes.get(&ino).map(|covered| Some(covered.record.clone())),
            },
            keys::BODY => {
                let covered = self.inodes.get(&ino)?;
                if covered.body.is_none()
                    && let Some(held) = self.held.get_mut(&covered.dir)
                {
                    held.misses += 1;
                }
                covered.body.clone()
            }
            _ => None,
        }
    }

    /// Up to `limit` names of a directory, as records, from the first that comes after `after`; `None` if not all names are
    /// known.
    pub(super) fn list(
        &self,
        dir: InodeId,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Option<Vec<(Key, Value)>> {
        let held = self.held.get(&dir).filter(|held| held.has_all_names())?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = held.names.range::<[u8], _>((from, Bound::Unbounded));
        let named = names.filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
        Some(named.take(limit).collect())
    }

    /// Up to `limit` inodes of a directory that have a body which is not known yet.
    pub(super) fn without_body(&self, dir: InodeId, limit: usize) -> Vec<InodeId> {
        let Some(held) = self.held.get(&dir) else { return Vec::new() };
        let lacks_body = |ino: &&InodeId| {
            self.inodes.get(ino).is_some_and(|covered| {
                covered.body.is_none()
                    && Inode::decode(**ino, &covered.record)
                        .is_ok_and(|inode| inode.layout == intarsia_types::Layout::Inline)
            })
        };
        held.inodes.iter().filter(lacks_body).take(limit).copied().collect()
    }

    /// Keeps what a read brought of a key, if a lease covers it and it is still valid.
    pub(super) fn learn(&mut self, reading: Reading, key: &Key, value: Option<&Value>) {
        if self.changes.is_fresh(reading, key) && !self.assumed.merges(key) {
            self.set(key, value);
        }
    }

    /// A commit of this process was applied, which began when so many `leases` had begun: keeps what it changed, where that is
    /// known to be the latest.
    pub(super) fn apply(&mut self, mutations: &[Mutation], touched: &[Key], leases: u64) {
        let mut unsure: Vec<&Key> = Vec::new();
        for key in touched {
            if !self.changes.end(key, leases) {
                unsure.push(key);
            }
        }
        for mutation in mutations {
            if let Mutation::Merge { key, .. } = mutation {
                self.assumed.note_merge(key);
            }
            self.take_over(mutation);
        }
        for key in unsure {
            self.forget(key);
        }
    }

    fn take_over(&mut self, mutation: &Mutation) {
        match mutation {
            Mutation::Put(key, value) => self.set(key, Some(value)),
            Mutation::Delete(key) => self.set(key, None),
            Mutation::Merge { key, delta } => {
                let Some(ino) = keys::inode_of(key) else { return };
                if let Some(held) = self.held.get_mut(&ino) {
                    let old = held.record.take();
                    held.record =
                        old.and_then(|old| merge::merge_directory(ino, &old, *delta).ok());
                }
            }
            Mutation::Add { .. } => {}
        }
    }

    /// See [`super::LeasedEngine::assume`].
    pub(super) fn assume(&mut self, dir: InodeId, name: &[u8], mutations: &[Mutation]) -> bool {
        let is_ours = |held: &Held| held.was_alone && held.record.is_some();
        let is_held = self.is_held(dir) && self.held.get(&dir).is_some_and(is_ours);
        let is_changing = |mutation: &Mutation| self.changes.is_changing(mutation.key());
        if !is_held
            || mutations.iter().any(is_changing)
            || self.assumed.get(name).is_some()
            || self.find(name) != Some(None)
        {
            return false;
        }
        for key in kept_keys(mutations) {
            self.changes.note(&key);
        }
        self.assumed.begin(mutations);
        mutations.iter().for_each(|mutation| self.take_over(mutation));
        true
    }

    /// See [`super::LeasedEngine::amend`].
    pub(super) fn amend(&mut self, dir: InodeId, mutations: &[Mutation]) -> bool {
        self.is_held(dir) && !self.is_doubted(dir) && self.assumed.replace(mutations)
    }

    /// What was assumed has been committed.
    pub(super) fn confirm(&mut self, assumed: &[Mutation]) {
        for mutation in assumed {
            if let Mutation::Merge { key, .. } = mutation {
                self.changes.note(key);
            }
        }
        for dir in self.assumed.end(assumed) {
            self.forget(&dir);
        }
    }

    /// Names that were assumed have been committed, except those that the same commit has `touched` again. If the lease has
    /// ended and another has begun since they were assumed, what was read under that one may lack them: then they are
    /// forgotten.
    pub(super) fn note_made(&mut self, assumed: &[Mutation], touched: &[Key]) {
        for mutation in assumed {
            let key = mutation.key();
            let held = keys::inode_of(key).and_then(|dir| self.held.get(&dir));
            let is_known = held.is_none_or(|held| matches!(held.names.get(key), Some(Some(_))));
            if key.first() == Some(&keys::DENTRY) && !is_known && !touched.contains(key) {
                self.forget(key);
            }
        }
    }

    /// A commit of this process failed, which `is_known_to_fail`, or had no answer: forgets what may not be the latest.
    pub(super) fn give_up(&mut self, touched: &[Key], leases: u64, is_known_to_fail: bool) {
        for key in touched {
            let was_alone = self.changes.end(key, leases);
            if !was_alone || !is_known_to_fail {
                self.forget(key);
            }
        }
    }

    /// Forgets what is known of a key, which is read anew then.
    pub(super) fn forget(&mut self, key: &[u8]) {
        let Some(ino) = keys::inode_of(key) else { return };
        match key.first() {
            Some(&keys::DENTRY) => {
                let Some(held) = self.held.get_mut(&ino) else { return };
                held.forget_name(key);
                self.names -= usize::from(held.names.remove(key).is_some());
                // A listing that is being read now must not make the directory complete.
                self.changes.begin_era();
            }
            Some(&keys::INODE) => match self.held.get_mut(&ino) {
                Some(held) => held.record = None,
                None => self.drop_inode(ino),
            },
            Some(&keys::BODY) => self.set_body(ino, None),
            _ => {}
        }
    }

    fn set(&mut self, key: &Key, value: Option<&Value>) {
        let Some(ino) = keys::inode_of(key) else { return };
        if value.is_some_and(|value| !is_unheld(value)) && key.first() != Some(&keys::BODY) {
            // A transaction holds the key, and any host may end that transaction without asking for the lease.
            return self.forget(key);
        }
        match key.first() {
            Some(&keys::DENTRY) => {
                if self.is_doubted(ino) {
                    return;
                }
                let is_full = self.names >= RECORDS_MAX;
                let Some(held) = self.held.get_mut(&ino) else { return };
                if is_full && !held.names.contains_key(key) {
                    return self.forget(key);
                }
                self.names += usize::from(held.names.insert(key.clone(), value.cloned()).is_none());
                held.may_differ.remove(key);
            }
            Some(&keys::INODE) => self.set_inode(ino, value),
            Some(&keys::BODY) => self.set_body(ino, Some(value.cloned())),
            _ => {}
        }
    }

    fn set_inode(&mut self, ino: InodeId, value: Option<&Value>) {
        let Some(value) = value else {
            self.drop_inode(ino);
            if self.held.contains_key(&ino) {
                // The directory is gone.
                self.end(ino);
            }
            return;
        };
        let is_doubted = self.is_doubted(ino);
        if let Some(held) = self.held.get_mut(&ino) {
            held.record = Some(value.clone()).filter(|_| !is_doubted);
            return;
        }
        let dir = Inode::decode(ino, value).ok().and_then(|inode| inode.covered_by());
        let known = self.inodes.get(&ino);
        let is_same_dir = known.map(|covered| covered.dir) == dir;
        if known.is_some() && !is_same_dir {
            self.drop_inode(ino);
        }
        let Some(dir) = dir.filter(|dir| *dir != ino && !self.is_doubted(*dir)) else { return };
        if self.inodes.len() >= RECORDS_MAX && !self.inodes.contains_key(&ino) {
            return;
        }
        let Some(held) = self.held.get_mut(&dir) else { return };
        held.inodes.insert(ino);
        match self.inodes.get_mut(&ino) {
            Some(covered) => covered.record = value.clone(),
            None => {
                let covered = Covered { dir, record: value.clone(), body: None };
                self.inodes.insert(ino, covered);
            }
        }
    }

    fn set_body(&mut self, ino: InodeId, body: Option<Option<Value>>) {
        let Some(covered) = self.inodes.get_mut(&ino) else { return };
        let len =
            |body: &Option<Option<Value>>| body.iter().flatten().map(|v| v.len()).sum::<usize>();
        self.body_bytes -= len(&covered.body);
        let is_kept = self.body_bytes + len(&body) <= BODY_BYTES_MAX;
        covered.body = body.filter(|_| is_kept);
        self.body_bytes += len(&covered.body);
    }

    fn drop_inode(&mut self, ino: InodeId) {
        self.set_body(ino, None);
        if let Some(covered) = self.inodes.remove(&ino)
            && let Some(held) = self.held.get_mut(&covered.dir)
        {
            held.inodes.remove(&ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;

    #[test]
    fn a_name_that_is_committed_under_a_later_lease_is_not_taken_for_absent() {
        let dir = InodeId(7);
        let prefix = keys::by_inode(keys::DENTRY, dir);
        let name = Key::copy_from(&[&prefix[..], b"12345678n"].concat());
        let made = [Mutation::Put(name.clone(), Bytes::copy_from(&[0; 9]))];
        let mut table = Table::default();
        table.begin(dir, Value::default(), true);
        let reading = table.changes.start_reading();
        table.complete(reading, dir, std::iter::empty());
        assert_eq!(table.find(&name), Some(None), "it was read before the commit");
        let listing = table.changes.start_reading();
        table.note_made(&made, std::slice::from_ref(&name));
        assert_eq!(table.find(&name), Some(None), "the same commit has removed it");
        table.note_made(&made, &[]);
        table.complete(listing, dir, std::iter::empty());
        assert_eq!((table.find(&name), table.is_complete(dir)), (None, false));
    }

    #[test]
    fn nothing_is_kept_of_a_directory_that_a_lost_commit_may_change() {
        let (dir, other) = (InodeId(7), InodeId(8));
        let [name, elsewhere] = [dir, other].map(|dir| {
            Key::copy_from(&[&keys::by_inode(keys::DENTRY, dir)[..], b"12345678n"].concat())
        });
        let value = Bytes::copy_from(&[0; 9]);
        let mut table = Table::default();
        table.begin(dir, Value::default(), true);
        table.begin(other, Value::default(), true);
        for key in [&name, &elsewhere] {
            let reading = table.changes.start_reading();
            table.learn(reading, key, Some(&value));
            assert_eq!(table.find(key), Some(Some(value.clone())));
            table.changes.end_reading();
        }
        table.doubt(dir);
        for _ in 0..2 {
            assert!(!table.is_held(dir) && table.is_held(other));
            let reading = table.changes.start_reading();
            table.learn(reading, &name, Some(&value));
            table.complete(reading, dir, std::iter::empty());
            table.changes.end_reading();
            assert_eq!((table.find(&name), table.is_complete(dir)), (None, false));
            // Nor under the next lease.
            table.end(dir);
            table.begin(dir, Value::default(), true);
        }
        assert_eq!(table.find(&elsewhere), Some(Some(value)));
    }
}
