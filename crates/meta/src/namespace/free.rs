//! Backing files that exist on disk and belong to no inode.

use std::ops::Range;

use intarsia_types::{BackingFileId, BackingRef, InodeId, Layout, PartitionId, Result, TierId};

use super::{Namespace, Transaction, superblock};
use crate::{Inode, Key, keys};

/// Records read at once.
const PAGE: usize = 1000;

/// Free files are recorded where the inodes of this host are born.
const HOME: PartitionId = InodeId::ROOT.partition();

impl Namespace {
    /// Numbers `count` new backing files of a tier and records them as free, before they are created:
    /// a crash leaves a record without a file, never a file without a record.
    pub fn reserve_files(&self, tier: TierId, count: u32) -> Result<Vec<BackingFileId>> {
        let name = superblock::file_mark(tier);
        let range: Range<u64> = self.retry(|| {
            let mut transaction = Transaction::in_partition(HOME);
            let range = self.advance(&mut transaction, &name, 1, u64::from(count))?;
            for file in range.clone() {
                transaction.mark(&keys::free(BackingRef { tier, file: BackingFileId(file) }));
            }
            Ok(self.commit(transaction)?.then_some(range))
        })?;
        Ok(range.map(BackingFileId).collect())
    }

    /// All free files of a tier.
    pub fn free_files(&self, tier: TierId) -> Result<Vec<BackingFileId>> {
        let mut files = Vec::new();
        for partition in self.partitions() {
            let keys = self.keys_of(partition, &keys::free_prefix(tier), None)?;
            files.extend(
                keys.iter().filter_map(|k| keys::split_free(k)).map(|backing| backing.file),
            );
        }
        Ok(files)
    }

    /// Calls `each` with every backing file that the store knows of: those of inodes, then the free ones.
    pub fn each_known_file(&self, mut each: impl FnMut(BackingRef)) -> Result<()> {
        self.each_inode(|inode| match inode.layout {
            Layout::Packed { pack, .. } => each(pack),
            layout => layout.backing().into_iter().for_each(&mut each),
        })?;
        for partition in self.partitions() {
            let free = self.keys_of(partition, &[keys::FREE], None)?;
            free.iter().filter_map(|key| keys::split_free(key)).for_each(&mut each);
        }
        Ok(())
    }

    /// Calls `each` with every inode, in no order that means anything.
    pub fn each_inode(&self, mut each: impl FnMut(Inode)) -> Result<()> {
        for partition in self.partitions() {
            let mut after: Option<Key> = None;
            loop {
                let page = self.engine.scan(partition, &[keys::INODE], after.as_deref(), PAGE)?;
                for (key, record) in &page {
                    if let Some(ino) = keys::inode_of(key) {
                        each(Inode::decode(ino, record)?);
                    }
                }
                let Some((last, _)) = page.into_iter().next_back() else { break };
                after = Some(last);
            }
        }
        Ok(())
    }

    /// Forgets a free file that was removed from disk.
    pub fn forget_file(&self, tier: TierId, file: BackingFileId) -> Result<()> {
        self.forget_files(tier, &[file])
    }

    /// Forgets free files that were removed from disk, in one commit.
    pub fn forget_files(&self, tier: TierId, files: &[BackingFileId]) -> Result<()> {
        let mut transaction = Transaction::in_partition(HOME);
        for &file in files {
            transaction.delete(keys::free(BackingRef { tier, file }).as_slice());
        }
        self.commit(transaction)?;
        Ok(())
    }
}
