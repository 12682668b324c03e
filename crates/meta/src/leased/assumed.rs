//! What is assumed: the records that deferred creates will put, and that the engine does not have yet.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use intarsia_types::PartitionId;

use crate::{Key, Mutation, Value, keys};

#[derive(Default)]
pub(super) struct Assumed {
    /// The values that the deferred commits will put.
    values: BTreeMap<Key, Value>,
    /// The records of directories that the deferred commits will merge into.
    merged: HashMap<Key, Merging>,
}

#[derive(Default)]
struct Merging {
    commits: u32,
    /// Several commits merge into the directory at this time, and the engine may apply them in another order than was assumed.
    has_others: bool,
}

impl Assumed {
    /// Assumes what these mutations of a deferred create do.
    pub(super) fn begin(&mut self, mutations: &[Mutation]) {
        for mutation in mutations {
            match mutation {
                Mutation::Put(key, value) => drop(self.values.insert(key.clone(), value.clone())),
                Mutation::Merge { key, .. } => {
                    let merging = self.merged.entry(key.clone()).or_default();
                    merging.has_others |= merging.commits > 0;
                    merging.commits += 1;
                }
                Mutation::Delete(_) | Mutation::Add { .. } => {}
            }
        }
    }

    /// Replaces values that are assumed. `false`, and nothing is done, if `mutations` do anything else.
    pub(super) fn replace(&mut self, mutations: &[Mutation]) -> bool {
        let is_assumed = |mutation: &Mutation| matches!(mutation, Mutation::Put(key, _) if self.values.contains_key(key));
        if !mutations.iter().all(is_assumed) {
            return false;
        }
        for mutation in mutations {
            if let Mutation::Put(key, value) = mutation {
                self.values.insert(key.clone(), value.clone());
            }
        }
        true
    }

    /// The commits have been made or given up. Returns the directories whose record is not known for sure any more.
    pub(super) fn end(&mut self, mutations: &[Mutation]) -> Vec<Key> {
        let mut unsure = Vec::new();
        for mutation in mutations {
            self.values.remove(mutation.key());
            if let Mutation::Merge { key, .. } = mutation
                && let Some(merging) = self.merged.get_mut(key)
            {
                merging.commits -= 1;
                if merging.commits == 0 {
                    unsure.extend(merging.has_others.then(|| key.clone()));
                    self.merged.remove(key);
                }
            }
        }
        unsure
    }

    /// Another commit has merged into a directory.
    pub(super) fn note_merge(&mut self, key: &[u8]) {
        if let Some(merging) = self.merged.get_mut(key) {
            merging.has_others = true;
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Value> {
        self.values.get(key)
    }

    /// Whether a merge into a key is assumed that the engine does not have.
    pub(super) fn merges(&self, key: &[u8]) -> bool {
        self.merged.contains_key(key)
    }

    /// The records of a partition whose keys start with `prefix` and come after `after`, in order.
    pub(super) fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
    ) -> Vec<(Key, Value)> {
        let from = match after {
            Some(after) if after > prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        self.values
            .range::<[u8], _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(key, _)| keys::inode_of(key).is_some_and(|n| n.partition() == partition))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }
}

/// A page of at most `limit` records, of those that the engine has, of which `found` is such a page, and of `assumed`.
pub(super) fn merged(
    mut found: Vec<(Key, Value)>,
    assumed: Vec<(Key, Value)>,
    limit: usize,
) -> Vec<(Key, Value)> {
    if assumed.is_empty() {
        return found;
    }
    // If `found` is a full page, the engine may have more records behind its last one.
    let end = found.last().filter(|_| found.len() >= limit).map(|(key, _)| key.clone());
    let is_within = |key: &Key| end.as_ref().is_none_or(|end| key <= end);
    found.extend(assumed.into_iter().filter(|(key, _)| is_within(key)));
    // Of two records with one key the one that the engine has comes first, and stays.
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found.dedup_by(|(b, _), (a, _)| a == b);
    found.truncate(limit);
    found
}

#[cfg(test)]
mod tests {
    use intarsia_types::{InodeId, Timestamp};

    use super::*;
    use crate::DirDelta;

    fn key(ino: u64, tail: &[u8]) -> Key {
        Key::copy_from(&[&keys::by_inode(keys::DENTRY, InodeId(ino))[..], tail].concat())
    }

    fn record(ino: u64, tail: &[u8], value: &[u8]) -> (Key, Value) {
        (key(ino, tail), Value::copy_from(value))
    }

    #[test]
    fn pages_join_what_is_there_and_what_is_assumed() {
        let mut assumed = Assumed::default();
        for tail in [b"b", b"d", b"f"] {
            assumed.begin(&[Mutation::Put(key(7, tail), Value::copy_from(b"new"))]);
        }
        assumed.begin(&[Mutation::Put(key(8, b"a"), Value::copy_from(b"other"))]);
        let prefix = keys::by_inode(keys::DENTRY, InodeId(7));
        let at = InodeId(7).partition();
        let rest = assumed.scan(at, &prefix, Some(&key(7, b"b")));
        assert_eq!(rest, [record(7, b"d", b"new"), record(7, b"f", b"new")]);
        let all = assumed.scan(at, &prefix, None);
        assert_eq!(all.len(), 3);
        // A full page that ends with "e": what comes behind that is of the next one.
        let found = vec![record(7, b"a", b"old"), record(7, b"d", b"old"), record(7, b"e", b"old")];
        let page = merged(found.clone(), all.clone(), 3);
        assert_eq!(
            page,
            [record(7, b"a", b"old"), record(7, b"b", b"new"), record(7, b"d", b"old")]
        );
        assert_eq!(merged(found, all.clone(), 9).len(), 5);
        assert_eq!(merged(Vec::new(), all, 2).len(), 2);
        assumed.end(&[Mutation::Put(key(7, b"d"), Value::default())]);
        let merge = || Mutation::Merge {
            key: keys::inode(InodeId(7)),
            delta: DirDelta { time: Timestamp::default(), nlink: 0, entries: 1 },
        };
        let dir = keys::inode(InodeId(7));
        assumed.begin(&[merge()]);
        assumed.begin(&[merge()]);
        assert_eq!(assumed.end(&[merge()]), []);
        assert!(assumed.merges(&dir));
        assert_eq!(assumed.end(&[merge()]), std::slice::from_ref(&dir), "two, in whatever order");
        assert!(!assumed.merges(&dir));
        assumed.begin(&[merge()]);
        assert_eq!(assumed.end(&[merge()]), []);
        assumed.begin(&[merge()]);
        assumed.note_merge(&dir);
        assert_eq!(assumed.end(&[merge()]), [dir]);
        assert_eq!(assumed.get(&key(7, b"d")), None);
        assert_eq!(assumed.scan(at, &prefix, Some(&key(7, b"b"))).len(), 1);
    }
}
