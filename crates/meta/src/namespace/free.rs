//! The ledger: backing files that belong to no inode.

use std::collections::BTreeMap;
use std::ops::Range;

use intarsia_types::{
    BackingFileId, BackingRef, Error, InodeId, Layout, PartitionId, Result, TierId,
};

use super::transaction::Part;
use super::{Namespace, Transaction, superblock};
use crate::{Condition, Inode, Key, keys};

/// Records read at once.
const PAGE: usize = 1000;

/// Reserved files are recorded where the inodes of a store of one partition are born.
const HOME: PartitionId = InodeId::ROOT.partition();

/// A backing file that belongs to no inode, and the partition that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FreeFile {
    /// The file.
    pub file: BackingFileId,
    /// The partition of its record.
    pub partition: PartitionId,
}

impl FreeFile {
    /// A file that has had no owner since it was reserved.
    #[must_use]
    pub const fn reserved(file: BackingFileId) -> Self {
        Self { file, partition: HOME }
    }

    /// A file that belonged to `ino`, or was made for it. It is recorded in the partition of the inode, so that one commit
    /// changes both.
    #[must_use]
    pub const fn of(ino: InodeId, file: BackingFileId) -> Self {
        Self { file, partition: ino.partition() }
    }
}

impl Namespace {
    /// Numbers `count` new backing files of a tier, and records them as free, before they are created. So a crash may leave a
    /// record without a file, but never a file without a record.
    ///
    /// With several partitions they are only numbered. Their inodes may be born in any partition, and to remove a record in
    /// another partition would cost more than the file itself. There, files of no inode are found after a crash, by comparing
    /// the disk with [`Namespace::each_known_file`].
    pub fn reserve_files(&self, tier: TierId, count: u32) -> Result<Vec<BackingFileId>> {
        let name = superblock::file_mark(tier);
        let range: Range<u64> = self.retry(|| {
            let mut transaction = Transaction::in_partition(HOME);
            let part = &mut transaction.first;
            let range = self.advance(part, &name, 1, u64::from(count))?;
            if self.records_reserved_files() {
                for file in range.clone() {
                    part.mark(&keys::free(BackingRef { tier, file: BackingFileId(file) }));
                }
            }
            Ok(self.commit(transaction)?.then_some(range))
        })?;
        Ok(range.map(BackingFileId).collect())
    }

    /// Whether reserved files are recorded as free until an inode owns them. If not, files that wait in a pool for another
    /// owner must not be recorded either: they have to be taken out of the ledger before, by [`Namespace::take_free_file`].
    #[must_use]
    pub fn records_reserved_files(&self) -> bool {
        !self.is_partitioned()
    }

    /// All free files of a tier.
    pub fn free_files(&self, tier: TierId) -> Result<Vec<FreeFile>> {
        let mut files = Vec::new();
        for partition in self.partitions() {
            let keys = self.keys_of(partition, &keys::free_prefix(tier), None)?;
            let free = keys.iter().filter_map(|key| keys::split_free(key));
            files.extend(free.map(|backing| FreeFile { file: backing.file, partition }));
        }
        Ok(files)
    }

    /// Calls `each` with every backing file that the store knows of: those of inodes, then the free ones.
    pub fn each_known_file(&self, mut each: impl FnMut(BackingRef)) -> Result<()> {
        self.each_inode(|inode| match inode.layout {
            Layout::Packed { pack, .. } => each(pack),
            layout => layout.files().iter().copied().for_each(&mut each),
        })?;
        for partition in self.partitions() {
            let free = self.keys_of(partition, &[keys::FREE], None)?;
            free.iter().filter_map(|key| keys::split_free(key)).for_each(&mut each);
        }
        Ok(())
    }

    /// Calls `each` with every inode, in no particular order.
    pub fn each_inode(&self, mut each: impl FnMut(Inode)) -> Result<()> {
        self.partitions().try_for_each(|partition| self.each_inode_of(partition, &mut each))
    }

    /// As [`each_inode`](Self::each_inode), for one partition.
    pub fn each_inode_of(&self, partition: PartitionId, mut each: impl FnMut(Inode)) -> Result<()> {
        let mut after: Option<Key> = None;
        loop {
            let page = self.scan_concluded(partition, &[keys::INODE], after.as_deref(), PAGE)?;
            for (key, record) in &page {
                if let Some(ino) = keys::inode_of(key) {
                    each(Inode::decode(ino, record)?);
                }
            }
            let Some((last, _)) = page.into_iter().next_back() else { return Ok(()) };
            after = Some(last);
        }
    }

    /// Forgets a free file that was removed from disk.
    pub fn forget_file(&self, tier: TierId, file: FreeFile) -> Result<()> {
        self.forget_files(tier, &[file])
    }

    /// Forgets free files that were removed from disk, in one commit a partition.
    pub fn forget_files(&self, tier: TierId, files: &[FreeFile]) -> Result<()> {
        for (partition, files) in by_partition(files) {
            let mut transaction = Transaction::in_partition(partition);
            for free in files {
                let key = keys::free(BackingRef { tier, file: free.file });
                transaction.first.delete(key.as_slice());
            }
            self.commit(transaction)?;
        }
        Ok(())
    }

    /// Takes a free file out of the ledger, so that it can have another owner or be removed. `false` if the ledger does not
    /// name it, or not yet: then it must not be used.
    pub fn take_free_file(&self, tier: TierId, free: FreeFile) -> Result<bool> {
        self.take_recorded(tier, free.partition, &[free])
    }

    /// As [`take_free_file`](Self::take_free_file), for many at once. Returns those that the ledger named; the others may have
    /// got an owner since they were listed.
    pub fn take_free_files(&self, tier: TierId, files: &[FreeFile]) -> Result<Vec<FreeFile>> {
        let mut taken = Vec::new();
        for (partition, files) in by_partition(files) {
            if self.take_recorded(tier, partition, &files)? {
                taken.extend(files);
                continue;
            }
            for free in files {
                if self.take_free_file(tier, free)? {
                    taken.push(free);
                }
            }
        }
        Ok(taken)
    }

    /// Takes all of `files` out of the ledger, or none.
    fn take_recorded(
        &self,
        tier: TierId,
        partition: PartitionId,
        files: &[FreeFile],
    ) -> Result<bool> {
        let mut transaction = Transaction::in_partition(partition);
        for free in files {
            let key = Key::copy_from(&keys::free(BackingRef { tier, file: free.file }));
            transaction.first.expect(Condition::Present(key.clone()));
            transaction.first.delete(key);
        }
        self.commit(transaction)
    }

    /// Puts a file into the ledger that was made for `ino`. From then on a change of that inode may
    /// [claim](super::Extra::ClaimFree) it.
    pub fn offer_file(&self, ino: InodeId, backing: BackingRef) -> Result<()> {
        let mut transaction = Transaction::at(ino);
        transaction.first.mark(&keys::free(backing));
        self.commit(transaction).map(|_| ())
    }

    /// Adds to `part` that a file leaves the ledger, on condition that it is there.
    pub(super) fn claim_free(part: &mut Part, backing: BackingRef) {
        let key = Key::copy_from(&keys::free(backing));
        part.require(Condition::Present(key.clone()), || {
            Error::Busy("a host has collected the copy that was made for the file".into())
        });
        part.delete(key);
    }
}

fn by_partition(files: &[FreeFile]) -> BTreeMap<PartitionId, Vec<FreeFile>> {
    let mut sorted: BTreeMap<PartitionId, Vec<FreeFile>> = BTreeMap::new();
    for free in files {
        sorted.entry(free.partition).or_default().push(*free);
    }
    sorted
}
