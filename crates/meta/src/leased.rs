//! An engine that stands in front of another one, and keeps what was read of the directories on which this host has leases.
//!
//! While this host has the lease on a directory, no other host changes its names, its record, or the inodes that the lease
//! covers without asking for the lease back first, and every change of this process passes through here. So what is kept is
//! what the engine behind would answer. Nothing is kept of a key that a transaction holds, because any host may end that
//! transaction without asking for the lease.

mod assumed;
mod changes;
mod invalidated;
mod table;

use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use intarsia_sync::Mutex;
use intarsia_types::{InodeId, PartitionId, Result};

use self::changes::Reading;
pub(crate) use self::invalidated::concerns_names;
use self::table::Table;
use crate::{
    CommitOutcome, Condition, EngineStats, Inode, Key, MetaEngine, Mutation, OpId, Value, dentry,
    keys,
};

/// Records read at once when a directory is fetched.
const PAGE: usize = 1000;
/// Bodies read at once.
const BODY_PAGE: usize = 128;

/// The engine behind, and what is kept of it.
pub(crate) struct LeasedEngine {
    inner: Arc<dyn MetaEngine>,
    table: Mutex<Table>,
    /// Whether answers may come from what is kept: not while other hosts may have given this one up.
    is_valid: Box<dyn Fn() -> bool + Send + Sync>,
    hits: AtomicU64,
    /// Commits of this process that have begun, and that have ended.
    commits: AtomicU64,
}

impl LeasedEngine {
    /// An engine in front of `inner`. While `is_valid` says no, everything is read from `inner`.
    pub(crate) fn new(
        inner: Arc<dyn MetaEngine>,
        is_valid: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let (table, is_valid) = (Mutex::default(), Box::new(is_valid));
        Self { inner, table, is_valid, hits: AtomicU64::new(0), commits: AtomicU64::new(0) }
    }

    /// How many commits of this process have begun and ended, counted together. While that stays the same, this process has
    /// changed nothing.
    pub(crate) fn commits_seen(&self) -> u64 {
        self.commits.load(SeqCst)
    }

    /// Whether answers may come from what is kept.
    pub(crate) fn is_valid(&self) -> bool {
        (self.is_valid)()
    }

    /// Forgets everything, as all leases have ended.
    pub(crate) fn drop_all(&self) {
        let mut table = self.table.lock();
        for dir in table.all_held() {
            table.end(dir);
        }
        table.forget_own();
    }

    /// This host has the lease on `dir` from now on, with `own` as the record while no other host has it; with `is_alone` that
    /// is so now.
    pub(crate) fn begin(&self, dir: InodeId, own: Value, is_alone: bool) {
        self.table.lock().begin(dir, own, is_alone);
    }

    /// From now on reads are answered as if `mutations`, which make a new name in `dir`, were committed, until they are, or are
    /// [renounced](Self::renounce). `false`, and nothing is done, unless this host has the lease, was the only one with it at
    /// some moment, and knows that the name is free.
    pub(crate) fn assume(&self, dir: InodeId, name: &[u8], mutations: &[Mutation]) -> bool {
        self.is_valid() && self.table.lock().assume(dir, name, mutations)
    }

    /// Replaces what is assumed of a new file in `dir` by what `mutations` put. `false`, and nothing is done, unless something
    /// is assumed of each of these keys, and answers may come from what is kept.
    pub(crate) fn amend(&self, dir: InodeId, mutations: &[Mutation]) -> bool {
        let is_amended = self.is_valid() && self.table.lock().amend(dir, mutations);
        if is_amended {
            // This counts like a commit that began and ended.
            self.commits.fetch_add(2, SeqCst);
        }
        is_amended
    }

    /// What was assumed will not be committed, or may have been: nothing of `dir` is kept for a while.
    pub(crate) fn renounce(&self, dir: InodeId, mutations: &[Mutation]) {
        let mut table = self.table.lock();
        table.confirm(mutations);
        table.doubt(dir);
    }

    /// Forgets everything of `dir`, as its lease has ended. Returns whether there was one.
    pub(crate) fn drop_lease(&self, dir: InodeId) -> bool {
        self.table.lock().end(dir)
    }

    /// Whether this host has the lease on `dir` and keeps what is read of it.
    pub(crate) fn is_held(&self, dir: InodeId) -> bool {
        self.table.lock().is_held(dir)
    }

    /// Whether this host has the lease on `dir` with this record, also if it keeps nothing for a while.
    pub(crate) fn has_lease(&self, dir: InodeId, record: &Value) -> bool {
        self.table.lock().has_lease(dir, record)
    }

    pub(crate) fn all_held(&self) -> Vec<InodeId> {
        self.table.lock().all_held()
    }

    pub(crate) fn take_misses(&self, dir: InodeId) -> u32 {
        self.table.lock().take_misses(dir)
    }

    /// Reads all names of a leased directory, and the inodes that its lease covers. Gives up if there are more names than
    /// `names_max`.
    pub(crate) fn fetch(&self, dir: InodeId, names_max: usize) -> Result<()> {
        if self.table.lock().is_complete(dir) {
            return Ok(());
        }
        self.reading(|reading| {
            let prefix = keys::by_inode(keys::DENTRY, dir);
            let mut names: Vec<(Key, Value)> = Vec::new();
            loop {
                let after = names.last().map(|(key, _)| key.clone());
                let page = self.inner.scan(dir.partition(), &prefix, after.as_deref(), PAGE)?;
                let is_last = page.len() < PAGE;
                names.extend(page);
                if is_last {
                    break;
                }
                if names.len() > names_max {
                    return Ok(());
                }
            }
            self.fetch_inodes(reading, dir, &names)?;
            let mut table = self.table.lock();
            for (key, value) in &names {
                table.learn(reading, key, Some(value));
            }
            table.complete(reading, dir, names.iter().map(|(key, _)| key));
            Ok(())
        })
    }

    fn fetch_inodes(&self, reading: Reading, dir: InodeId, names: &[(Key, Value)]) -> Result<()> {
        let beside =
            |key: &Key| keys::inode_of(key).is_some_and(|n| n.partition() == dir.partition());
        let named = names.iter().filter_map(|(_, value)| dentry::follow(value)).filter(beside);
        let inodes: Vec<Key> = std::iter::once(keys::inode(dir)).chain(named).collect();
        for some in inodes.chunks(PAGE) {
            let records = self.inner.get_many(dir.partition(), some)?;
            let mut table = self.table.lock();
            for (key, record) in some.iter().zip(&records) {
                table.learn(reading, key, record.as_ref());
            }
        }
        Ok(())
    }

    /// Reads bodies of files in a leased directory that are not known yet, at most `limit` of them.
    pub(crate) fn fetch_bodies(&self, dir: InodeId, limit: usize) -> Result<()> {
        let files = self.table.lock().without_body(dir, limit);
        for some in files.chunks(BODY_PAGE) {
            let keys: Vec<Key> =
                some.iter().map(|ino| keys::by_inode(keys::BODY, *ino).as_slice().into()).collect();
            self.reading(|reading| {
                let bodies = self.inner.get_many(dir.partition(), &keys)?;
                let mut table = self.table.lock();
                for (key, body) in keys.iter().zip(&bodies) {
                    table.learn(reading, key, body.as_ref());
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Runs a read of the engine behind. What it brings may be kept, if it is still valid then.
    fn reading<T>(&self, read: impl FnOnce(Reading) -> Result<T>) -> Result<T> {
        let reading = self.table.lock().changes.start_reading();
        let outcome = read(reading);
        self.table.lock().changes.end_reading();
        outcome
    }

    /// As [`MetaEngine::get`], but not from what is kept: that is older than the engine for a moment, while a commit of this
    /// process ends. What is assumed is returned, since the engine does not have it.
    pub(crate) fn get_committed(
        &self,
        partition: PartitionId,
        key: &[u8],
    ) -> Result<Option<Value>> {
        match self.assumed(key) {
            None => self.inner.get(partition, key),
            promised => Ok(promised),
        }
    }

    /// As [`MetaEngine::get_follow`], but not from what is kept; see [`get_committed`](Self::get_committed).
    pub(crate) fn get_follow_committed(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        match self.assumed(key) {
            Some(_) => self.get_follow(partition, key, follow),
            None => self.read_follow(partition, key, follow),
        }
    }

    fn read_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.reading(|reading| {
            let mut pair = self.inner.get_follow(partition, key, follow)?;
            let is_valid = self.is_valid();
            let mut table = self.table.lock();
            table.learn(reading, &Key::copy_from(key), pair.as_ref().map(|(first, _)| first));
            if let Some((first, Some(second))) = &mut pair
                && let Some(named) = follow(first)
            {
                table.learn(reading, &named, Some(second));
                // The engine does not have the merges that are assumed, so what is kept is newer.
                if table.assumed.merges(&named)
                    && let Some(Some(known)) = table.find(&named).filter(|_| is_valid)
                {
                    *second = known;
                }
            }
            Ok(pair)
        })
    }

    fn assumed(&self, key: &[u8]) -> Option<Value> {
        self.table.lock().assumed.get(key).cloned()
    }

    fn find(&self, key: &[u8]) -> Option<Option<Value>> {
        let mut table = self.table.lock();
        if let Some(value) = table.assumed.get(key) {
            return Some(Some(value.clone()));
        }
        let known = table.find(key);
        drop(table);
        let known = known.filter(|_| self.is_valid());
        self.hits.fetch_add(u64::from(known.is_some()), Relaxed);
        known
    }

    /// Commits what was assumed, and then `mutations`, in one commit.
    pub(crate) fn commit_assumed(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        assumed: &[Mutation],
        mutations: &[Mutation],
    ) -> Result<CommitOutcome> {
        let touched = kept_keys(mutations);
        let mut table = self.table.lock();
        let conditions = &table.under_own_leases(conditions);
        let leases = table.changes.begin(&touched);
        drop(table);
        // A key that `mutations` set or remove need not be set before.
        let replaces = |mutation: &Mutation| {
            matches!(mutation, Mutation::Put(..))
                && mutations.iter().any(|m| {
                    matches!(m, Mutation::Put(..) | Mutation::Delete(_))
                        && m.key() == mutation.key()
                })
        };
        let mut all: Vec<Mutation> = assumed.iter().filter(|m| !replaces(m)).cloned().collect();
        all.extend_from_slice(mutations);
        self.commits.fetch_add(1, SeqCst);
        let outcome = self.inner.commit(partition, op, conditions, all);
        self.commits.fetch_add(1, SeqCst);
        let mut table = self.table.lock();
        match &outcome {
            Ok(CommitOutcome::Applied) => {
                table.apply(mutations, &touched, leases);
                table.confirm(assumed);
                table.note_made(assumed, &touched);
                for condition in conditions {
                    if let Condition::AbsentOr(..) = condition
                        && let Some(dir) = guarded(condition)
                    {
                        table.note_alone(dir, leases);
                    }
                }
            }
            Ok(CommitOutcome::Conflict { index }) => {
                table.give_up(&touched, leases, true);
                // What was kept was wrong, or another thread has changed it: the keys of the conditions are read anew. A key
                // that only had to be free of transactions is kept, unless its condition is the one that failed.
                for (at, condition) in conditions.iter().enumerate() {
                    if let Some(key) = stated_key(condition).filter(|key| is_kept(key))
                        && (at == *index || !matches!(condition, Condition::Unheld(_)))
                    {
                        table.forget(key);
                    }
                }
            }
            Err(_) => {
                table.give_up(&touched, leases, false);
                // The commit may still take effect. Its conditions name the directories that it changes.
                conditions.iter().filter_map(guarded).for_each(|dir| table.doubt(dir));
            }
        }
        drop(table);
        outcome
    }
}

impl MetaEngine for LeasedEngine {
    fn partitions(&self) -> u16 {
        self.inner.partitions()
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        if let Some(known) = self.find(key) {
            return Ok(known);
        }
        self.reading(|reading| {
            let value = self.inner.get(partition, key)?;
            self.table.lock().learn(reading, &Key::copy_from(key), value.as_ref());
            Ok(value)
        })
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        match self.find(key) {
            Some(None) => return Ok(None),
            Some(Some(first)) => {
                let beside = follow(&first)
                    .filter(|key| keys::inode_of(key).is_some_and(|n| n.partition() == partition));
                let second = match beside {
                    Some(named) => self.get(partition, &named)?,
                    None => None,
                };
                return Ok(Some((first, second)));
            }
            None => {}
        }
        self.read_follow(partition, key, follow)
    }

    fn get_many(&self, partition: PartitionId, keys: &[Key]) -> Result<Vec<Option<Value>>> {
        let mut values: Vec<Option<Option<Value>>> =
            keys.iter().map(|key| self.find(key)).collect();
        let wanted: Vec<Key> = keys
            .iter()
            .zip(&values)
            .filter(|(_, known)| known.is_none())
            .map(|(key, _)| key.clone())
            .collect();
        if !wanted.is_empty() {
            let read = self.reading(|reading| {
                let read = self.inner.get_many(partition, &wanted)?;
                let mut table = self.table.lock();
                for (key, value) in wanted.iter().zip(&read) {
                    table.learn(reading, key, value.as_ref());
                }
                Ok(read)
            })?;
            let missing = values.iter_mut().filter(|known| known.is_none());
            for (place, value) in missing.zip(read) {
                *place = Some(value);
            }
        }
        Ok(values.into_iter().map(Option::flatten).collect())
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        if prefix.len() == 9
            && prefix.first() == Some(&keys::DENTRY)
            && self.is_valid()
            && let Some(dir) = keys::inode_of(prefix)
            && let Some(listed) = self.table.lock().list(dir, after, limit)
        {
            self.hits.fetch_add(1, Relaxed);
            return Ok(listed);
        }
        // What is assumed is read first: if it is committed meanwhile, the scan finds it in the engine as well.
        let assumed = self.table.lock().assumed.scan(partition, prefix, after);
        let found = self.inner.scan(partition, prefix, after, limit)?;
        Ok(assumed::merged(found, assumed, limit))
    }

    fn commit(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        self.commit_assumed(partition, op, conditions, &[], &mutations)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn stats(&self) -> EngineStats {
        let stats = self.inner.stats();
        let hits = self.hits.load(Relaxed);
        EngineStats { gets: stats.gets + hits, cache_hits: stats.cache_hits + hits, ..stats }
    }
}

/// Whether a key is of a table of which something may be kept.
fn is_kept(key: &Key) -> bool {
    matches!(key.first(), Some(&(keys::DENTRY | keys::INODE | keys::BODY)))
}

/// The keys of which something may be kept, each once.
pub(crate) fn kept_keys<'m>(mutations: impl IntoIterator<Item = &'m Mutation>) -> Vec<Key> {
    let keys = mutations.into_iter().map(Mutation::key);
    let mut touched: Vec<Key> = keys.filter(|key| is_kept(key)).cloned().collect();
    touched.sort_unstable();
    touched.dedup();
    touched
}

/// The directory of which a condition says which hosts have the lease.
fn guarded(condition: &Condition) -> Option<InodeId> {
    match condition {
        Condition::AbsentOr(lease, _) => keys::inode_of(lease),
        Condition::Equals(key, _) if key.first() == Some(&keys::LEASE) => keys::inode_of(key),
        _ => None,
    }
}

/// The key whose value a condition states.
const fn stated_key(condition: &Condition) -> Option<&Key> {
    match condition {
        Condition::Absent(key)
        | Condition::Equals(key, _)
        | Condition::AbsentOr(key, _)
        | Condition::Present(key)
        | Condition::Unheld(key) => Some(key),
        Condition::PrefixEmpty(_) => None,
    }
}

impl Inode {
    /// The directory whose lease covers this inode: for a directory its own, and for any other inode that of the directory with
    /// its only name, if both are in one partition.
    #[must_use]
    pub fn covered_by(&self) -> Option<InodeId> {
        if self.is_directory() {
            return Some(self.ino);
        }
        let is_beside =
            self.parent != InodeId(0) && self.parent.partition() == self.ino.partition();
        is_beside.then_some(self.parent)
    }
}
