//! The right to write a file: the mark that it may be being written names who may.
//!
//! A store of one host marks without a name. With several hosts the mark is a lease: only its holder
//! changes content and length, every such change is conditional on still holding it, and whoever takes it
//! over from a dead host thereby fences that host off.

use intarsia_types::{BackingRef, Error, InodeId, Layout, Result};

use super::transaction::Part;
use super::{Namespace, Owner, Stored, Transaction};
use crate::{Bytes, Condition, Inode, Key, Value, keys};

/// Who may write to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteLease {
    /// The asker, from now on; with the inode as it is.
    Held(Box<Inode>),
    /// Somebody else.
    HeldBy(Owner),
    /// Nobody, and nobody needs it: any host may write to the file at any time.
    Unneeded(Box<Inode>),
}

impl Namespace {
    /// Names whoever opens this namespace in the marks that it makes, among them the leases to write.
    #[must_use]
    pub fn with_owner(self, owner: Owner) -> Self {
        self.set_owner(owner);
        self
    }

    /// From now on marks are made in the name of `owner`. Those of the owner before stay as they are; see
    /// [`Namespace::hand_over_write`].
    pub fn set_owner(&self, owner: Owner) {
        *self.owner.write() = owner;
        self.forget_directories();
    }

    /// In whose name marks are made.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.owner.read().clone()
    }

    /// The value of a mark made now.
    pub(super) fn mark(&self) -> Bytes {
        self.owner.read().encode()
    }

    /// Asks for the right to write.
    pub fn acquire_write(&self, ino: InodeId) -> Result<WriteLease> {
        let mark = self.mark();
        self.retry(|| {
            let Some((Stored { inode, value }, holder)) = self.stored_with_mark(ino)? else {
                return Ok(None);
            };
            match holder {
                Some(holder) if holder == mark => Ok(Some(held(inode))),
                Some(holder) => Ok(Some(WriteLease::HeldBy(Owner::decode(&holder)))),
                None if matches!(inode.layout, Layout::Striped { .. }) => {
                    Ok(Some(WriteLease::Unneeded(Box::new(inode))))
                }
                None => {
                    let mut transaction = Transaction::at(ino);
                    transaction.first.expect(Condition::Absent(write_key(ino)));
                    transaction.expect_unchanged(&Stored { inode: inode.clone(), value });
                    transaction.first.put(write_key(ino), mark.clone());
                    Ok(self.commit(transaction)?.then(|| held(inode)))
                }
            }
        })
    }

    /// Takes the right to write from a holder that is known to be dead. Takes the holder's copies, for which `is_his` holds,
    /// out of the record if there are others: the holder may have changed them without publishing that. Returns the copies that
    /// were taken out, which are in the ledger now; `None` when the holder did not have the right any more.
    pub fn take_over_write(
        &self,
        ino: InodeId,
        dead: &Owner,
        is_his: impl Fn(&BackingRef) -> bool,
    ) -> Result<Option<Vec<BackingRef>>> {
        let (theirs, me) = (dead.encode(), self.owner());
        self.retry(|| {
            let stored = self.stored(ino)?;
            if self.engine.get(ino.partition(), &write_key(ino))?.as_ref() != Some(&theirs) {
                return Ok(Some(None));
            }
            let mut transaction = handing_over(ino, dead, &me);
            let (his, others): (Vec<_>, Vec<_>) =
                stored.inode.layout.copies().iter().copied().partition(&is_his);
            if his.is_empty() || others.is_empty() {
                return Ok(self.commit(transaction)?.then(|| Some(Vec::new())));
            }
            transaction.expect_unchanged(&stored);
            his.iter().for_each(|copy| transaction.first.mark(&keys::free(*copy)));
            let mut inode = stored.inode;
            inode.layout = Layout::of_copies(others);
            inode.version = inode.version.wrapping_add(1);
            transaction.put_inode(&inode)?;
            Ok(self.commit(transaction)?.then_some(Some(his)))
        })
    }

    /// Passes the right to write from one owner to another; `false` when `from` did not have it any more.
    pub fn hand_over_write(&self, ino: InodeId, from: &Owner, to: &Owner) -> Result<bool> {
        self.commit(handing_over(ino, from, to))
    }

    /// As [`hand_over_write`](Self::hand_over_write), of a file whose record is still `known`; `false` too if it is not.
    pub fn hand_over_unchanged(&self, known: &Inode, from: &Owner, to: &Owner) -> Result<bool> {
        let mut transaction = handing_over(known.ino, from, to);
        transaction.first.expect(Condition::Equals(keys::inode(known.ino), known.encode()?));
        self.commit(transaction)
    }

    /// Gives back the right to write several files of one partition, in one commit. `false`, and nothing is
    /// given back, when some are not this host's any more.
    pub fn release_writes(&self, files: &[InodeId]) -> Result<bool> {
        let Some(first) = files.first() else { return Ok(true) };
        let mark = self.mark();
        let mut transaction = Transaction::at(*first);
        for ino in files {
            let part = transaction.of(*ino);
            part.expect(Condition::Equals(write_key(*ino), mark.clone()));
            part.delete(write_key(*ino));
        }
        self.commit(transaction)
    }

    /// Who may write, if anybody.
    pub fn writer(&self, ino: InodeId) -> Result<Option<Owner>> {
        let mark = self.engine.get(ino.partition(), &write_key(ino))?;
        Ok(mark.map(|mark| Owner::decode(&mark)))
    }

    /// The inode with this number and who may write to it, if anybody, in one question to the metadata. Whoever is named
    /// had the right already when the record was read.
    pub fn get_with_writer(&self, ino: InodeId) -> Result<(Inode, Option<Owner>)> {
        self.retry(|| {
            let found = self.stored_with_mark(ino)?;
            Ok(found.map(|(stored, mark)| (stored.inode, mark.map(|mark| Owner::decode(&mark)))))
        })
    }

    /// A record and the mark beside it; `None` if a transaction had one of them, which is at its end by now.
    fn stored_with_mark(&self, ino: InodeId) -> Result<Option<(Stored, Option<Value>)>> {
        let wanted = [keys::inode(ino), write_key(ino)];
        let mut found = self.engine.get_many(ino.partition(), &wanted)?.into_iter();
        let value = found.next().flatten().ok_or(Error::NotFound)?;
        let mark = found.next().flatten();
        for (key, value) in wanted.iter().zip([Some(&value), mark.as_ref()]) {
            let Some(value) = value else { continue };
            if self.conclude_value(ino.partition(), key, value)? {
                return Ok(None);
            }
        }
        Ok(Some((Stored { inode: Inode::decode(ino, &value)?, value }, mark)))
    }

    /// Adds to `transaction` that the right to write is still held.
    pub(super) fn require_write(&self, part: &mut Part, ino: InodeId) {
        part.require(Condition::Equals(write_key(ino), self.mark()), || {
            Error::Engine(
                "another host has taken over the file; what was written here since is lost".into(),
            )
        });
    }

    /// Adds to `transaction` that nobody has the right to write.
    pub(super) fn require_unwritten(part: &mut Part, ino: InodeId) {
        part.require(Condition::Absent(write_key(ino)), || {
            Error::Busy("somebody may be writing to the file".into())
        });
    }
}

/// Passes the right to write on, if `from` has it.
fn handing_over(ino: InodeId, from: &Owner, to: &Owner) -> Transaction {
    let mut transaction = Transaction::at(ino);
    transaction.first.expect(Condition::Equals(write_key(ino), from.encode()));
    transaction.first.put(write_key(ino), to.encode());
    transaction
}

fn held(inode: Inode) -> WriteLease {
    WriteLease::Held(Box::new(inode))
}

fn write_key(ino: InodeId) -> Key {
    keys::by_inode(keys::WRITABLE, ino).as_slice().into()
}
