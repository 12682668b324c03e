//! The right to write a file: the mark of an unsettled inode names the host that may write.
//!
//! In a store of one host the mark names nobody. With several hosts it is a lease: only its holder changes content and length,
//! and every such change has the condition that it still holds the lease. So once another host has taken the lease over from a
//! dead one, no change of the dead one can come late.

use intarsia_types::{BackingRef, Error, InodeId, Layout, Result};

use super::transaction::Part;
use super::{Namespace, Owner, Stored, Transaction};
use crate::{Bytes, Condition, Inode, Key, Value, keys};

/// The answer to a host that asks for the right to write to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteLease {
    /// The host that asked has the right now. With the inode as it is.
    Held(Box<Inode>),
    /// Another host has it, or an earlier life of this one.
    HeldBy(Owner),
    /// No host has it or needs it, since any host may write to a striped file at any time. With the inode as it is.
    Unneeded(Box<Inode>),
}

impl Namespace {
    /// Has marks made in the name of `owner`, among them the leases to write.
    #[must_use]
    pub fn with_owner(self, owner: Owner) -> Self {
        self.set_owner(owner);
        self
    }

    /// From now on marks are made in the name of `owner`. Those of the owner before stay as they are
    /// ([`Namespace::hand_over_write`] changes them), but its leases on directories are not used any more.
    pub fn set_owner(&self, owner: Owner) {
        *self.owner.write() = owner;
        self.forget_directories();
    }

    /// The owner in whose name marks are made.
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

    /// Takes the right to write from a holder that is known to be dead. The holder may have changed its own copies, for which
    /// `is_his` holds, without publishing that. So if there are others, the record names those of the holder no more. Returns
    /// the copies that it names no more, which are in the ledger now; `None` when the holder did not have the right any more.
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

    /// As [`hand_over_write`](Self::hand_over_write), on condition that the file's record is still `known`; `false` too if it
    /// is not.
    pub fn hand_over_unchanged(&self, known: &Inode, from: &Owner, to: &Owner) -> Result<bool> {
        let mut transaction = handing_over(known.ino, from, to);
        transaction.first.expect(Condition::Equals(keys::inode(known.ino), known.encode()?));
        self.commit(transaction)
    }

    /// Gives back the right to write several files of one partition, in one commit. `false`, and nothing is given back, when
    /// this host does not have the right to one of them any more.
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

    /// The owner of the right to write, if there is one.
    pub fn writer(&self, ino: InodeId) -> Result<Option<Owner>> {
        let mark = self.engine.get(ino.partition(), &write_key(ino))?;
        Ok(mark.map(|mark| Owner::decode(&mark)))
    }

    /// The inode with this number, and the owner of the right to write it, if there is one, in one question to the metadata. An
    /// owner that is named had the right already when the record was read.
    pub fn get_with_writer(&self, ino: InodeId) -> Result<(Inode, Option<Owner>)> {
        self.retry(|| {
            let found = self.stored_with_mark(ino)?;
            Ok(found.map(|(stored, mark)| (stored.inode, mark.map(|mark| Owner::decode(&mark)))))
        })
    }

    /// A record and the mark beside it; `None` if a transaction held one of them, which has ended by now.
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

    /// Adds to `part` the condition that this host still has the right to write.
    pub(super) fn require_write(&self, part: &mut Part, ino: InodeId) {
        part.require(Condition::Equals(write_key(ino), self.mark()), || {
            Error::Engine(
                "another host has taken over the file; what was written here since is lost".into(),
            )
        });
    }

    /// Adds to `part` the condition that no host has the right to write.
    pub(super) fn require_unwritten(part: &mut Part, ino: InodeId) {
        part.require(Condition::Absent(write_key(ino)), || {
            Error::Busy("somebody may be writing to the file".into())
        });
    }
}

/// A transaction that passes the right to write on, on condition that `from` has it.
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
