//! Renaming: moving names, and swapping them.

use intarsia_types::{Error, FileKind, InodeId, PartitionId, Result, Timestamp};

use super::lookup::Found;
use super::{Namespace, Transaction, name};
use crate::merge::{decode_counter, encode_counter};
use crate::{Condition, DirDelta, Inode, keys};

/// The superblock value that counts the directories that changed their parent.
const MOVES: &str = "moves";
const HOME: PartitionId = InodeId::ROOT.partition();

/// What a rename does when the new name exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// Replaces it.
    #[default]
    Replace,
    /// Fails (`RENAME_NOREPLACE`).
    NoReplace,
    /// Swaps the two; fails when it does not exist (`RENAME_EXCHANGE`).
    Exchange,
}

/// One end of a rename.
#[derive(Clone, Copy)]
struct Place<'n> {
    parent: InodeId,
    name: &'n [u8],
}

impl Namespace {
    /// Moves `name` in `parent` to `new_name` in `new_parent`. Returns the inode that was replaced, as it is afterwards;
    /// `keep_orphan` as for [`Namespace::unlink`]. If both are names of one inode, both stay, as POSIX wants.
    #[allow(
        clippy::too_many_arguments,
        reason = "the arguments of renameat2, the time and a callback"
    )]
    pub fn rename(
        &self,
        parent: InodeId,
        name: &[u8],
        new_parent: InodeId,
        new_name: &[u8],
        mode: RenameMode,
        keep_orphan: impl Fn(InodeId) -> bool,
        now: Timestamp,
    ) -> Result<Option<Inode>> {
        name::check_old(name)?;
        name::check_old(new_name)?;
        let from = Place { parent, name };
        let to = Place { parent: new_parent, name: new_name };
        self.retry(|| match mode {
            RenameMode::Exchange => Ok(self.try_exchange(from, to, now)?.then_some(None)),
            RenameMode::Replace | RenameMode::NoReplace => {
                self.try_move(from, to, mode, &keep_orphan, now)
            }
        })
    }

    fn try_move(
        &self,
        from: Place<'_>,
        to: Place<'_>,
        mode: RenameMode,
        keep_orphan: &dyn Fn(InodeId) -> bool,
        now: Timestamp,
    ) -> Result<Option<Option<Inode>>> {
        let moved = self.find(from.parent, from.name)?;
        let replaced = self.try_find(to.parent, to.name)?;
        if let Some(replaced) = &replaced {
            let answer = match check_replacing(&moved, replaced, mode) {
                Ok(true) => None,
                Ok(false) => Some(Ok(Some(None))),
                Err(error) => Some(Err(error)),
            };
            if let Some(answer) = answer {
                // The answer is that of one moment, namely when the second was read, if the first still is as it was.
                return if self.is_still(from, &moved)? { answer } else { Ok(None) };
            }
        }
        let mut transaction = Transaction::at(from.parent);
        if moves_directory(&moved, from, to) {
            let turn = self.take_turn(&mut transaction)?;
            if !self.check_no_loop(&turn, &moved, from, to)? {
                return Ok(None);
            }
        }
        transaction.of(from.parent).expect(moved.unchanged());
        transaction.of(from.parent).delete(moved.key.to_bytes());
        self.place(&mut transaction, &moved, to, now)?;
        let after = match &replaced {
            Some(replaced) => {
                transaction.of(to.parent).expect(replaced.unchanged());
                Some(self.drop_name(&mut transaction, &replaced.stored, keep_orphan, now)?)
            }
            None => {
                if self.is_partitioned() && from.parent != to.parent {
                    // The merge may be carried out after the decision, when it is too late to find that this is no directory.
                    self.directory(to.parent)?;
                }
                let key = self.dentry_key(to.parent, to.name).to_bytes();
                transaction.of(to.parent).expect(Condition::Absent(key));
                None
            }
        };
        let dir = i32::from(moved.stored.inode.is_directory());
        let (lost, lost_dir) = replaced
            .map_or((0, 0), |replaced| (1, i32::from(replaced.stored.inode.is_directory())));
        if from.parent == to.parent {
            merge(&mut transaction, from.parent, now, -lost_dir, -lost);
        } else {
            merge(&mut transaction, from.parent, now, -dir, -1);
            merge(&mut transaction, to.parent, now, dir - lost_dir, 1 - lost);
        }
        Ok(self.commit(transaction)?.then_some(after))
    }

    /// One attempt to swap two names; `false` when it must be tried again.
    fn try_exchange(&self, from: Place<'_>, to: Place<'_>, now: Timestamp) -> Result<bool> {
        let a = self.find(from.parent, from.name)?;
        let b = self.find(to.parent, to.name)?;
        if a.dentry.ino == b.dentry.ino {
            return self.is_still(from, &a);
        }
        let mut transaction = Transaction::at(from.parent);
        if moves_directory(&a, from, to) || moves_directory(&b, to, from) {
            let turn = self.take_turn(&mut transaction)?;
            let no_loop = self.check_no_loop(&turn, &a, from, to)?
                && self.check_no_loop(&turn, &b, to, from)?;
            if !no_loop {
                return Ok(false);
            }
        }
        transaction.of(from.parent).expect(a.unchanged());
        transaction.of(to.parent).expect(b.unchanged());
        self.place(&mut transaction, &a, to, now)?;
        self.place(&mut transaction, &b, from, now)?;
        let a_dir = i32::from(a.stored.inode.is_directory());
        let b_dir = i32::from(b.stored.inode.is_directory());
        merge(&mut transaction, from.parent, now, b_dir - a_dir, 0);
        merge(&mut transaction, to.parent, now, a_dir - b_dir, 0);
        self.commit(transaction)
    }

    /// Adds to `transaction` that the inode that was found gets the name of the place `to`.
    fn place(
        &self,
        transaction: &mut Transaction,
        found: &Found,
        to: Place<'_>,
        now: Timestamp,
    ) -> Result<()> {
        transaction.expect_unchanged(&found.stored);
        let part = transaction.of(to.parent);
        part.require(Condition::Unheld(keys::inode(to.parent)), || Error::NotFound);
        part.put(self.dentry_key(to.parent, to.name).to_bytes(), found.value.clone());
        let mut inode = found.stored.inode.clone();
        self.note_hints(&mut inode)?;
        inode.ctime = now;
        inode.version = inode.version.wrapping_add(1);
        if inode.is_directory() {
            inode.parent = to.parent;
            inode.name = to.name.to_vec();
        } else if inode.nlink == 1 {
            inode.parent = self.only_dir(inode.ino, to.parent);
        }
        transaction.put_inode(&inode)
    }

    /// Adds to `transaction` that it fails if a directory changes its parent meanwhile, and that it counts as such a change
    /// itself. So the parents that are read from now on are still those at the commit, and two moves at the same time, on
    /// whatever hosts, cannot make a loop together that neither of them sees.
    fn take_turn(&self, transaction: &mut Transaction) -> Result<Condition> {
        let key = keys::superblock(MOVES);
        let old = self.read(HOME, &key)?;
        let moves = old.as_deref().map_or(Ok(0), decode_counter)?;
        let turn = Condition::still(key.clone(), old);
        let part = transaction.part(HOME);
        part.expect(turn.clone());
        part.put(key, encode_counter(moves.wrapping_add(1)));
        Ok(turn)
    }

    /// Whether `moved` surely does not come to lie below itself; `false` if that has to be looked at again.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it would.
    fn check_no_loop(
        &self,
        turn: &Condition,
        moved: &Found,
        from: Place<'_>,
        to: Place<'_>,
    ) -> Result<bool> {
        if !moves_directory(moved, from, to) {
            return Ok(true);
        }
        match self.is_within(to.parent, moved.dentry.ino)? {
            Some(false) => Ok(true),
            // That was so at one moment if no directory has moved since the first look.
            Some(true) if self.is_still(from, moved)? && self.is_turn(turn)? => {
                Err(Error::Invalid("a directory cannot move below itself".into()))
            }
            Some(true) | None => Ok(false),
        }
    }

    fn is_turn(&self, turn: &Condition) -> Result<bool> {
        let now = self.read(HOME, &keys::superblock(MOVES))?;
        Ok(match turn {
            Condition::Equals(_, value) => now.as_ref() == Some(value),
            _ => now.is_none(),
        })
    }

    /// Whether a name still means what was found.
    fn is_still(&self, at: Place<'_>, found: &Found) -> Result<bool> {
        let value = self.engine.get(at.parent.partition(), &found.key)?;
        Ok(value.as_ref() == Some(&found.value))
    }
}

/// Whether a directory changes its parent.
fn moves_directory(found: &Found, from: Place<'_>, to: Place<'_>) -> bool {
    found.stored.inode.is_directory() && from.parent != to.parent
}

fn merge(transaction: &mut Transaction, dir: InodeId, time: Timestamp, nlink: i32, entries: i64) {
    transaction.merge(dir, DirDelta { time, nlink, entries });
}

/// Whether a rename to a name that exists has something to do: not if both are names of one inode.
///
/// # Errors
/// What `renameat2` says where it must not replace the name.
fn check_replacing(moved: &Found, replaced: &Found, mode: RenameMode) -> Result<bool> {
    if mode == RenameMode::NoReplace {
        return Err(Error::Exists);
    }
    if replaced.dentry.ino == moved.dentry.ino {
        return Ok(false);
    }
    check_kinds(moved.dentry.kind, replaced.dentry.kind).map(|()| true)
}

fn check_kinds(moved: FileKind, replaced: FileKind) -> Result<()> {
    match (moved, replaced) {
        (FileKind::Directory, FileKind::Directory) => Ok(()),
        (FileKind::Directory, _) => Err(Error::NotDirectory),
        (_, FileKind::Directory) => Err(Error::IsDirectory),
        _ => Ok(()),
    }
}
