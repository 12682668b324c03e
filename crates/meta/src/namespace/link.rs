//! Further names of existing inodes, and the removal of names.

use intarsia_types::{Error, FileKind, InodeId, Result, Timestamp};

use super::lookup::Found;
use super::{Namespace, Stored, Transaction, name};
use crate::dentry::Dentry;
use crate::{Condition, DirDelta, Inode, keys};

/// Most names of one file, as on ext4.
pub const LINK_MAX: u32 = 65_000;

impl Namespace {
    /// Gives a file another name.
    pub fn link(
        &self,
        ino: InodeId,
        parent: InodeId,
        name: &[u8],
        now: Timestamp,
    ) -> Result<Inode> {
        name::check_new(name)?;
        self.retry(|| {
            let stored = self.stored(ino)?;
            let mut inode = linked(&stored.inode, now)?;
            self.note_hints(&mut inode)?;
            let mut transaction = Transaction::at(parent);
            self.name(&mut transaction, parent, name, Dentry { ino, kind: inode.kind }, now)?;
            transaction.expect_unchanged(&stored);
            transaction.put_inode(&inode)?;
            Ok(self.commit(transaction)?.then_some(inode))
        })
    }

    /// Removes a name of a file. If it was the last one, `keep_orphan` says whether the inode stays as an orphan, until
    /// [`Namespace::reap`], because it is open somewhere. Otherwise all records of the inode go in the same commit, and its
    /// backing files go into the ledger. Returns the inode as it is afterwards.
    pub fn unlink(
        &self,
        parent: InodeId,
        name: &[u8],
        keep_orphan: impl Fn(InodeId) -> bool,
        now: Timestamp,
    ) -> Result<Inode> {
        self.remove(parent, name, &keep_orphan, now, |kind| match kind {
            FileKind::Directory => Err(Error::IsDirectory),
            _ => Ok(()),
        })
    }

    /// Removes an empty directory. Returns its inode as it was, with no links.
    pub fn rmdir(&self, parent: InodeId, name: &[u8], now: Timestamp) -> Result<Inode> {
        if name == b".." {
            return Err(Error::NotEmpty);
        }
        self.remove(parent, name, &|_| false, now, |kind| match kind {
            FileKind::Directory => Ok(()),
            _ => Err(Error::NotDirectory),
        })
    }

    fn remove(
        &self,
        parent: InodeId,
        name: &[u8],
        keep_orphan: &dyn Fn(InodeId) -> bool,
        now: Timestamp,
        allow: impl Fn(FileKind) -> Result<()>,
    ) -> Result<Inode> {
        name::check_old(name)?;
        let is_fit = |found: &Found| allow(found.stored.inode.kind).is_ok();
        let mut known = self.recent.take(parent, name).filter(is_fit);
        self.retry(|| {
            let found = known.take().map_or_else(|| self.find(parent, name), Ok)?;
            allow(found.stored.inode.kind)?;
            let mut transaction = Transaction::at(parent);
            transaction.of(parent).expect(found.unchanged());
            transaction.of(parent).delete(found.key.to_bytes());
            let nlink = -i32::from(found.stored.inode.is_directory());
            transaction.merge(parent, DirDelta { time: now, nlink, entries: -1 });
            let after = self.drop_name(&mut transaction, &found.stored, keep_orphan, now)?;
            Ok(self.commit(transaction)?.then_some(after))
        })
    }

    /// Adds to `transaction` what becomes of an inode that loses a name.
    pub(super) fn drop_name(
        &self,
        transaction: &mut Transaction,
        stored: &Stored,
        keep_orphan: &dyn Fn(InodeId) -> bool,
        now: Timestamp,
    ) -> Result<Inode> {
        let ino = stored.inode.ino;
        transaction.expect_unchanged(stored);
        let mut after = stored.inode.clone();
        after.ctime = now;
        after.version = after.version.wrapping_add(1);
        if after.is_directory() {
            let entries = keys::by_inode(keys::DENTRY, ino).as_slice().into();
            transaction.of(ino).require(Condition::PrefixEmpty(entries), || Error::NotEmpty);
            after.nlink = 0;
        } else {
            after.nlink = after.nlink.saturating_sub(1);
        }
        if after.nlink > 0 {
            transaction.put_inode(&after)?;
        } else if !after.is_directory() && keep_orphan(ino) {
            // From now on no lease on a directory covers it, so that no host has to be asked for one when it goes.
            after.parent = InodeId(0);
            transaction.put_inode(&after)?;
            let mark = keys::by_inode(keys::ORPHAN, ino);
            transaction.of(ino).put(mark.as_slice(), self.mark());
        } else {
            self.delete_inode(transaction, &after)?;
        }
        Ok(after)
    }
}

fn linked(inode: &Inode, now: Timestamp) -> Result<Inode> {
    match inode.nlink {
        _ if inode.is_directory() => Err(Error::NotPermitted),
        0 => Err(Error::NotFound),
        LINK_MAX.. => Err(Error::TooManyLinks),
        nlink => Ok(Inode {
            nlink: nlink + 1,
            ctime: now,
            version: inode.version.wrapping_add(1),
            parent: InodeId(0),
            ..inode.clone()
        }),
    }
}
