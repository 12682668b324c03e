//! Listings of a directory, in pages, in the order of the name hashes.

use std::collections::BTreeMap;

use intarsia_types::{Error, FileKind, InodeId, PartitionId, Result};

use super::Namespace;
use crate::dentry::Dentry;
use crate::intent::Intent;
use crate::{Inode, Key, Value, keys};

/// Names read at once where all names of the store are.
const NAMES_AT_ONCE: usize = 1000;

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Where a listing goes on after this entry. Holds for ever, whatever comes and goes meanwhile.
    pub cookie: u64,
    /// Name.
    pub name: Vec<u8>,
    /// Inode number.
    pub ino: InodeId,
    /// Kind of file.
    pub kind: FileKind,
}

impl Namespace {
    /// The entries after `after_cookie` (0 for the start), without "." and "..". About `limit` of them:
    /// names of one hash stay on one page, so that none is lost between two. An empty page is the end.
    pub fn list(&self, dir: InodeId, after_cookie: u64, limit: usize) -> Result<Vec<DirEntry>> {
        let records = self.page(dir, after_cookie, limit.max(1))?;
        if records.is_empty() {
            // Nothing is listed below a file either; the error has to say whether `dir` is one.
            self.directory(dir)?;
        }
        let mut entries: Vec<DirEntry> =
            records.iter().map(|record| entry(dir, record)).collect::<Result<_>>()?;
        // Of several names with one hash only the last may say "go on after this hash": a listing that
        // is cut between them then shows one twice rather than losing one.
        for i in 1..entries.len() {
            if entries[i - 1].cookie == entries[i].cookie {
                entries[i - 1].cookie -= 1;
            }
        }
        Ok(entries)
    }

    /// As [`Namespace::list`], with the inode of each entry, and with what `before` returned for the entry before its inode was
    /// read.
    pub fn list_plus<T>(
        &self,
        dir: InodeId,
        after_cookie: u64,
        limit: usize,
        before: impl Fn(&DirEntry) -> T,
    ) -> Result<Vec<(DirEntry, Inode, T)>> {
        let mut after = after_cookie;
        loop {
            let entries = self.list(dir, after, limit)?;
            let Some(last) = entries.last() else { return Ok(Vec::new()) };
            after = last.cookie;
            let listed = self.with_inodes(dir, entries, &before)?;
            // A page whose names have all been removed meanwhile is not the end.
            if !listed.is_empty() {
                return Ok(listed);
            }
        }
    }

    fn with_inodes<T>(
        &self,
        dir: InodeId,
        entries: Vec<DirEntry>,
        before: &dyn Fn(&DirEntry) -> T,
    ) -> Result<Vec<(DirEntry, Inode, T)>> {
        let noted: Vec<T> = entries.iter().map(before).collect();
        let records = self.records(&entries)?;
        let mut listed = Vec::with_capacity(entries.len());
        for ((entry, note), record) in entries.into_iter().zip(noted).zip(records) {
            let key = keys::by_inode(keys::INODE, entry.ino);
            let inode = match record {
                Some(record) if Intent::of(&key, &record).is_none() => {
                    Some(Inode::decode(entry.ino, &record)?)
                }
                // A transaction holds it: it is read again when that is over.
                Some(_) => self.try_get(entry.ino)?,
                None => None,
            };
            match inode {
                Some(inode) => listed.push((entry, inode, note)),
                None => listed.extend(self.list_again(dir, &entry, before)?),
            }
        }
        Ok(listed)
    }

    /// An entry whose inode was gone: its name may have been removed, or mean another inode now.
    fn list_again<T>(
        &self,
        dir: InodeId,
        entry: &DirEntry,
        before: &dyn Fn(&DirEntry) -> T,
    ) -> Result<Option<(DirEntry, Inode, T)>> {
        self.retry(|| {
            let Some(found) = self.try_find(dir, &entry.name)? else { return Ok(Some(None)) };
            let (ino, kind) = (found.dentry.ino, found.stored.inode.kind);
            let entry = DirEntry { ino, kind, ..entry.clone() };
            let note = before(&entry);
            Ok(self.try_get(ino)?.map(|inode| Some((entry, inode, note))))
        })
    }

    fn try_get(&self, ino: InodeId) -> Result<Option<Inode>> {
        match self.get(ino) {
            Ok(inode) => Ok(Some(inode)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The records of the inodes of entries, in their order, with one request a partition.
    fn records(&self, entries: &[DirEntry]) -> Result<Vec<Option<Value>>> {
        let mut by_partition: BTreeMap<PartitionId, Vec<usize>> = BTreeMap::new();
        for (at, entry) in entries.iter().enumerate() {
            by_partition.entry(entry.ino.partition()).or_default().push(at);
        }
        let mut records = vec![None; entries.len()];
        for (partition, places) in by_partition {
            let keys: Vec<Key> = places.iter().map(|&at| keys::inode(entries[at].ino)).collect();
            for (at, record) in places.into_iter().zip(self.engine.get_many(partition, &keys)?) {
                records[at] = record;
            }
        }
        Ok(records)
    }

    fn page(&self, dir: InodeId, after: u64, limit: usize) -> Result<Vec<(Key, Value)>> {
        let prefix = keys::by_inode(keys::DENTRY, dir);
        let start = after_hash(dir, after);
        let mut page = self.scan_concluded(dir.partition(), &prefix, Some(&start), limit + 1)?;
        if page.len() <= limit {
            return Ok(page);
        }
        // Complete the group of the last hash, however many pages that takes.
        let hash = hash_of(dir, &page[limit - 1].0)?;
        while hash_of(dir, &page[page.len() - 1].0)? == hash {
            let last = page[page.len() - 1].0.clone();
            let more = self.scan_concluded(dir.partition(), &prefix, Some(&last), limit)?;
            if more.is_empty() {
                return Ok(page);
            }
            page.extend(more);
        }
        let mut end = limit;
        while hash_of(dir, &page[end].0)? == hash {
            end += 1;
        }
        page.truncate(end);
        Ok(page)
    }
}

/// A key that comes after all names with this hash or a lower one, and before all others: no name is empty.
fn after_hash(dir: InodeId, hash: u64) -> [u8; 17] {
    let mut key = [0; 17];
    key[..9].copy_from_slice(&keys::by_inode(keys::DENTRY, dir));
    key[9..].copy_from_slice(&hash.saturating_add(1).to_be_bytes());
    key
}

fn hash_of(dir: InodeId, key: &[u8]) -> Result<u64> {
    keys::split_dentry(key).map(|(_, hash, _)| hash).ok_or_else(|| corrupt(dir))
}

fn entry(dir: InodeId, (key, value): &(Key, Value)) -> Result<DirEntry> {
    let (_, cookie, name) = keys::split_dentry(key).ok_or_else(|| corrupt(dir))?;
    let Dentry { ino, kind } = Dentry::decode(dir, value)?;
    Ok(DirEntry { cookie, name: name.to_vec(), ino, kind })
}

fn corrupt(dir: InodeId) -> Error {
    Error::Corrupt { ino: dir, what: "the key of a directory entry".into() }
}

/// That a name in a directory means an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// The directory.
    pub parent: InodeId,
    /// The name in it.
    pub name: Vec<u8>,
    /// What it means.
    pub ino: InodeId,
}

impl Namespace {
    /// Calls `each` with every name of the store, in no order that means anything. What is renamed meanwhile may
    /// be met twice or not at all.
    pub fn each_name(&self, mut each: impl FnMut(Naming)) -> Result<()> {
        for partition in self.partitions() {
            let mut after: Option<Key> = None;
            loop {
                let page = self.scan_concluded(
                    partition,
                    &[keys::DENTRY],
                    after.as_deref(),
                    NAMES_AT_ONCE,
                )?;
                for (key, value) in &page {
                    let Some((parent, _, name)) = keys::split_dentry(key) else { continue };
                    let ino = Dentry::decode(parent, value)?.ino;
                    each(Naming { parent, name: name.to_vec(), ino });
                }
                let Some((last, _)) = page.into_iter().next_back() else { break };
                after = Some(last);
            }
        }
        Ok(())
    }
}
