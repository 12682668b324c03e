//! Orphans, the marks of inodes that may be being written, and how all records of an inode are removed.

use intarsia_types::{Error, FileKind, InodeId, Layout, NodeId, PartitionId, Result};

use super::transaction::Part;
use super::{Namespace, Owner, Transaction};
use crate::{Inode, Key, keys};

const PAGE: usize = 1000;

impl Namespace {
    /// Removes an orphan whose last handle was closed. Returns the inode as it was.
    pub fn reap(&self, ino: InodeId) -> Result<Inode> {
        self.retry(|| {
            let stored = self.stored(ino)?;
            if stored.inode.nlink > 0 {
                return Err(Error::Busy(format!("inode {ino} still has a name")));
            }
            let mut transaction = Transaction::at(ino);
            transaction.expect_unchanged(&stored);
            self.delete_inode(&mut transaction, &stored.inode)?;
            transaction.of(ino).delete(keys::by_inode(keys::ORPHAN, ino).as_slice());
            Ok(self.commit(transaction)?.then_some(stored.inode))
        })
    }

    /// Up to `limit` orphans that this host marked, in whichever of its lives, after `after`, in the order of their numbers.
    pub fn orphans(&self, after: Option<InodeId>, limit: usize) -> Result<Vec<InodeId>> {
        let found = self.marked(keys::ORPHAN, &self.owner().node, after, limit)?;
        Ok(found.into_iter().map(|(ino, _)| ino).collect())
    }

    /// All orphans that a host marked.
    pub fn orphans_of(&self, node: &NodeId) -> Result<Vec<InodeId>> {
        let found = self.marked(keys::ORPHAN, node, None, usize::MAX)?;
        Ok(found.into_iter().map(|(ino, _)| ino).collect())
    }

    /// Up to `limit` inodes after `after` that `node` marked writable, in whichever of its lives, and that have not settled
    /// since, each with the owner that its mark names.
    pub fn writable_inodes(
        &self,
        node: &NodeId,
        after: Option<InodeId>,
        limit: usize,
    ) -> Result<Vec<(InodeId, Owner)>> {
        self.marked(keys::WRITABLE, node, after, limit)
    }

    /// Whether an inode is marked writable.
    pub fn is_marked_writable(&self, ino: InodeId) -> Result<bool> {
        let key = keys::by_inode(keys::WRITABLE, ino);
        Ok(self.engine.get(ino.partition(), &key)?.is_some())
    }

    /// Up to `limit` inodes after `after` with a mark in `table` that names `node`.
    fn marked(
        &self,
        table: u8,
        node: &NodeId,
        after: Option<InodeId>,
        limit: usize,
    ) -> Result<Vec<(InodeId, Owner)>> {
        let first = after.map_or(PartitionId(0), InodeId::partition);
        let mut found = Vec::new();
        for partition in self.partitions().skip(usize::from(first.0)) {
            let mut from: Option<Key> =
                after.map(|ino| keys::by_inode(table, ino).as_slice().into());
            loop {
                let page = self.engine.scan(partition, &[table], from.as_deref(), PAGE)?;
                let owned = page.iter().filter_map(|(key, mark)| {
                    let owner = Owner::decode(mark);
                    (owner.node == *node).then_some((keys::inode_of(key)?, owner))
                });
                found.extend(owned);
                if found.len() >= limit {
                    found.truncate(limit);
                    return Ok(found);
                }
                match page.into_iter().next_back() {
                    Some((last, _)) => from = Some(last),
                    None => break,
                }
            }
        }
        Ok(found)
    }

    /// Adds to `transaction` that all records of an inode are removed, and its backing files go into the ledger. The caller has
    /// made it a condition that the inode's record is unchanged. That holds for its attributes, body and checksums too, since
    /// none of them changes without the record.
    pub(super) fn delete_inode(&self, transaction: &mut Transaction, inode: &Inode) -> Result<()> {
        let ino = inode.ino;
        let part = transaction.of(ino);
        part.delete(keys::inode(ino));
        part.count_inodes(-1);
        if inode.has_xattrs {
            self.delete_all(part, &keys::by_inode(keys::XATTR, ino))?;
        }
        if inode.is_directory() && self.leases.is_some() {
            part.delete(keys::by_inode(keys::LEASE, ino).as_slice());
        }
        if inode.is_directory() && matches!(inode.layout, Layout::Lower { .. }) {
            self.delete_all(part, &keys::by_inode(keys::HIDDEN, ino))?;
        }
        if inode.kind != FileKind::Regular {
            return Ok(());
        }
        if inode.layout.backing().is_some() || self.leases.is_some() {
            // In a store of one host only a file with a backing file has the mark: it alone can be written without the node
            // seeing it. With several hosts the mark is a lease, which any file may have.
            part.delete(keys::by_inode(keys::WRITABLE, ino).as_slice());
        }
        if inode.layout == Layout::Inline {
            part.delete(keys::by_inode(keys::BODY, ino).as_slice());
        }
        if inode.checksummed {
            self.delete_all(part, &keys::by_inode(keys::CHECKSUM, ino))?;
        }
        for backing in inode.layout.files() {
            part.mark(&keys::free(*backing));
        }
        Ok(())
    }

    fn delete_all(&self, part: &mut Part, prefix: &[u8]) -> Result<()> {
        for key in self.keys_of(part.partition, prefix, None)? {
            part.delete(key);
        }
        Ok(())
    }

    /// All keys with a prefix, read in pages.
    pub(super) fn keys_of(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
    ) -> Result<Vec<Key>> {
        let mut found: Vec<Key> = Vec::new();
        loop {
            let from = found.last().map(AsRef::as_ref).or(after);
            let page = self.engine.scan(partition, prefix, from, PAGE)?;
            let is_last = page.len() < PAGE;
            found.extend(page.into_iter().map(|(key, _)| key));
            if is_last {
                return Ok(found);
            }
        }
    }
}
