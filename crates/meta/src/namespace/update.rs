//! Changes of an inode, with what else changes beside it in the same commit.

use intarsia_types::{BackingRef, InodeId, Result};

use super::transaction::Part;
use super::{Namespace, Owner, Stored, Transaction};
use crate::{Bytes, Inode, keys};

/// Something that changes together with an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Records that the file may be written from now on.
    MarkWritable,
    /// Makes the change conditional on the right to write (see [`Namespace::acquire_write`]).
    HoldWritable,
    /// Records that the file has settled.
    ClearWritable,
    /// Passes the right to write to another owner.
    PassWritable(Owner),
    /// Puts the backing file into the ledger: it belongs to no inode any more.
    PutFree(BackingRef),
    /// Takes the backing file out of the ledger, if it is there: it belongs to this inode now.
    TakeFree(BackingRef),
    /// As `TakeFree`, on condition that the ledger names the file: then its host has not collected it. Fails with
    /// [`intarsia_types::Error::Busy`] otherwise.
    ClaimFree(BackingRef),
    /// Makes the change conditional on no host having the right to write; [`intarsia_types::Error::Busy`] otherwise.
    HoldUnwritten,
    /// Sets the inline body.
    PutBody(Bytes),
    /// Removes the inline body.
    DeleteBody,
    /// Sets one list of checksums; `checksummed` of the inode follows.
    PutChecksums {
        /// Position of the list.
        index: u32,
        /// The list, in the caller's own form.
        list: Bytes,
    },
    /// Removes the lists of checksums from this position on; `checksummed` of the inode follows.
    DeleteChecksums {
        /// Position of the first list that is removed.
        from: u32,
    },
}

impl Namespace {
    /// Changes an inode; a change that leaves it equal costs no commit. `change` may run several times.
    pub fn update(
        &self,
        ino: InodeId,
        mut change: impl FnMut(&mut Inode) -> Result<()>,
    ) -> Result<Inode> {
        self.change(ino, |inode, _| change(inode))
    }

    /// As [`Namespace::update`], for changes of attributes. If the create of the file is deferred, so is the change, and both
    /// are committed together.
    pub fn set_attributes(
        &self,
        ino: InodeId,
        mut change: impl FnMut(&mut Inode) -> Result<()>,
    ) -> Result<Inode> {
        self.retry(|| {
            let stored = self.stored(ino)?;
            let (inode, transaction) = self.changed(&stored, &mut |inode, _| change(inode))?;
            let Some(transaction) = transaction.map(|transaction| self.guarded(transaction)) else {
                return Ok(Some(inode));
            };
            let is_alone = transaction.others.is_empty();
            if is_alone && self.amend_promise(ino, &transaction.first) {
                return Ok(Some(inode));
            }
            Ok(self.commit(transaction)?.then_some(inode))
        })
    }

    /// Changes an inode and, in the same commit, what `extras` say.
    pub fn update_with(
        &self,
        ino: InodeId,
        extras: &[Extra],
        mut change: impl FnMut(&mut Inode) -> Result<()>,
    ) -> Result<Inode> {
        self.change(ino, |inode, more| {
            more.extend_from_slice(extras);
            change(inode)
        })
    }

    /// As [`Namespace::update_with`], for extras that depend on what the inode is: `change` pushes them.
    pub fn change(
        &self,
        ino: InodeId,
        mut change: impl FnMut(&mut Inode, &mut Vec<Extra>) -> Result<()>,
    ) -> Result<Inode> {
        self.retry(|| {
            let stored = self.stored(ino)?;
            let (inode, transaction) = self.changed(&stored, &mut change)?;
            match transaction {
                None => Ok(Some(inode)),
                Some(transaction) => Ok(self.commit(transaction)?.then_some(inode)),
            }
        })
    }

    /// As [`Namespace::change`], for an inode that was read before. It is read again only if it is not the same any more.
    pub fn change_known(
        &self,
        known: &Inode,
        mut change: impl FnMut(&mut Inode, &mut Vec<Extra>) -> Result<()>,
    ) -> Result<Inode> {
        let stored = Stored { inode: known.clone(), value: known.encode()? };
        // If `change` refuses an inode that may be outdated, that does not count: it is asked again with the present one.
        let mut is_refused = false;
        let mut attempt = |inode: &mut Inode, extras: &mut Vec<Extra>| {
            change(inode, extras).inspect_err(|_| is_refused = true)
        };
        match self.changed(&stored, &mut attempt) {
            Ok((inode, Some(transaction))) => {
                if self.commit(transaction)? {
                    return Ok(inode);
                }
            }
            // The error of the engine: asking again would only make the caller wait for it a second time.
            Err(error) if !is_refused => return Err(error),
            Ok((_, None)) | Err(_) => {}
        }
        self.change(known.ino, change)
    }

    /// The inode as `change` makes it, and the transaction that commits it; no transaction if it stays as it is.
    fn changed(
        &self,
        stored: &Stored,
        change: &mut impl FnMut(&mut Inode, &mut Vec<Extra>) -> Result<()>,
    ) -> Result<(Inode, Option<Transaction>)> {
        let ino = stored.inode.ino;
        let mut inode = stored.inode.clone();
        let mut extras = Vec::new();
        change(&mut inode, &mut extras)?;
        if extras.is_empty() && inode == stored.inode {
            return Ok((inode, None));
        }
        let mut transaction = Transaction::at(ino);
        transaction.expect_unchanged(stored);
        if stored.inode.checksummed && !inode.checksummed {
            // So a caller that says that a file has no sums need not know whether any are stored.
            self.cut_checksums(transaction.of(ino), &mut inode, 0)?;
        }
        for extra in extras {
            self.add_extra(transaction.of(ino), &mut inode, extra)?;
        }
        self.note_hints(&mut inode)?;
        inode.version = stored.inode.version.wrapping_add(1);
        transaction.put_inode(&inode)?;
        Ok((inode, Some(transaction)))
    }

    fn add_extra(&self, part: &mut Part, inode: &mut Inode, extra: Extra) -> Result<()> {
        let key = |table| keys::by_inode(table, inode.ino);
        match extra {
            Extra::MarkWritable => part.put(key(keys::WRITABLE).as_slice(), self.mark()),
            Extra::HoldWritable => self.require_write(part, inode.ino),
            Extra::ClearWritable => part.delete(key(keys::WRITABLE).as_slice()),
            Extra::PassWritable(owner) => {
                part.put(key(keys::WRITABLE).as_slice(), owner.encode());
            }
            Extra::PutFree(backing) => part.mark(&keys::free(backing)),
            Extra::TakeFree(backing) => part.delete(keys::free(backing).as_slice()),
            Extra::ClaimFree(backing) => Self::claim_free(part, backing),
            Extra::HoldUnwritten => Self::require_unwritten(part, inode.ino),
            Extra::PutBody(body) => part.put(key(keys::BODY).as_slice(), body),
            Extra::DeleteBody => part.delete(key(keys::BODY).as_slice()),
            Extra::PutChecksums { index, list } => {
                part.put(keys::checksum(inode.ino, index).as_slice(), list);
                inode.checksummed = true;
            }
            Extra::DeleteChecksums { from } => self.cut_checksums(part, inode, from)?,
        }
        Ok(())
    }

    fn cut_checksums(&self, part: &mut Part, inode: &mut Inode, from: u32) -> Result<()> {
        let first = keys::checksum(inode.ino, from);
        let prefix = keys::by_inode(keys::CHECKSUM, inode.ino);
        for key in self.keys_of(part.partition, &prefix, None)? {
            if *key >= first[..] {
                part.delete(key);
            }
        }
        inode.checksummed &= from > 0;
        Ok(())
    }

    /// The inline body of a file, if it has one.
    pub fn get_body(&self, ino: InodeId) -> Result<Option<Bytes>> {
        self.engine.get(ino.partition(), &keys::by_inode(keys::BODY, ino))
    }

    /// One list of checksums of a file.
    pub fn get_checksums(&self, ino: InodeId, index: u32) -> Result<Option<Bytes>> {
        self.engine.get(ino.partition(), &keys::checksum(ino, index))
    }
}
