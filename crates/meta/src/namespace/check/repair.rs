//! How each kind of damage is repaired.

use std::time::Duration;

use intarsia_types::{Error, InodeId, PartitionId, Result};

use super::Outcome;
use super::damage::{Damage, Name};
use crate::dentry::Dentry;
use crate::merge::encode_counter;
use crate::namespace::transaction::Part;
use crate::namespace::{FreeFile, Namespace, NewInode, Transaction, superblock};
use crate::{Condition, Inode, Mutation, keys};

const LOST_AND_FOUND: &[u8] = b"lost+found";

fn repaired(how: impl Into<String>) -> Result<Outcome> {
    Ok(Outcome::Repaired(how.into()))
}

fn unrepairable(why: &str) -> Result<Outcome> {
    Ok(Outcome::Unrepairable(why.into()))
}

impl Namespace {
    /// Repairs what is damaged, if that can be done.
    pub(super) fn mend(&self, damage: &Damage) -> Result<Outcome> {
        match damage {
            Damage::UnreadableInode { .. } | Damage::UnreadableName { .. } => {
                unrepairable("it may be of a newer version of this program; restore it from a copy")
            }
            Damage::LostIntent { .. } => {
                unrepairable("what it stands for is not known; restore the metadata from a copy")
            }
            Damage::Unfinished { .. } => {
                self.recover_transactions(Duration::ZERO)?;
                repaired("it was carried out or undone")
            }
            Damage::LostBody { .. } => unrepairable("remove the file or write it anew"),
            Damage::SharedFile { .. } => {
                unrepairable("whose bytes it holds cannot be told; copy one of them and remove it")
            }
            Damage::NameInNoDirectory(name)
            | Damage::NameWithoutInode { name, .. }
            | Damage::SecondName { name, .. } => self.remove_name(name),
            Damage::WrongKind { name, ino, kind } => {
                let dentry = Dentry { ino: *ino, kind: *kind };
                self.force(name.dir.partition(), |t| t.put(name.key.clone(), dentry.encode()))?;
                repaired("the name took the kind of its inode")
            }
            Damage::Misplaced { name, value } => self.replace_name(name, value.clone()),
            Damage::WrongParent { name, ino } => {
                self.set(*ino, |inode| {
                    inode.parent = name.dir;
                    inode.name.clone_from(&name.name);
                })?;
                repaired("it knows its name again")
            }
            Damage::Loop { ino } => self.break_loop(*ino),
            Damage::Unnamed { ino } => self.adopt(*ino),
            Damage::WrongLinks { ino, should, .. } => {
                self.set(*ino, |inode| inode.nlink = *should)?;
                repaired("the count was set right")
            }
            Damage::WrongEntries { ino, should, .. } => {
                self.set(*ino, |inode| inode.entries = *should)?;
                repaired("the count was set right")
            }
            Damage::Stray { table, ino } => self.remove_all(*table, *ino),
            Damage::XattrFlag { ino, should } => {
                self.set(*ino, |inode| {
                    inode.has_xattrs = *should;
                    // The commit notes them anew from the attributes.
                    inode.hints = None;
                })?;
                repaired("the inode was told")
            }
            Damage::WrongHints { ino, .. } => {
                self.set(*ino, |inode| inode.hints = None)?;
                repaired("the inode was told what its attributes say")
            }
            Damage::ChecksumFlag { ino } => {
                self.set(*ino, |inode| inode.checksummed = false)?;
                repaired("the file counts as not checksummed")
            }
            Damage::UsedButFree { backing, partition, .. } => {
                let free = FreeFile { file: backing.file, partition: *partition };
                self.forget_file(backing.tier, free)?;
                repaired("it is no longer called free")
            }
            Damage::WrongCount { partition, is, should } => {
                let delta = should.cast_signed() - is.cast_signed();
                let key = superblock::inodes_key();
                self.force(*partition, |t| t.mutations.push(Mutation::Add { key, delta }))?;
                repaired("the count was set right")
            }
            Damage::LowMark { partition, mark, should, .. } => {
                let key = keys::superblock(mark);
                self.force(*partition, |t| t.put(key, encode_counter(should + 1)))?;
                self.forget_numbers(*partition);
                repaired("the mark was moved past them")
            }
        }
    }

    /// Commits without a condition: nobody else uses the store during a check.
    fn force(&self, partition: PartitionId, build: impl FnOnce(&mut Part)) -> Result<()> {
        let mut transaction = Transaction::in_partition(partition);
        build(&mut transaction.first);
        self.commit(transaction)?;
        Ok(())
    }

    fn set(&self, ino: InodeId, change: impl Fn(&mut Inode)) -> Result<Inode> {
        self.update(ino, |inode| {
            change(inode);
            Ok(())
        })
    }

    fn remove_name(&self, name: &Name) -> Result<Outcome> {
        self.force(name.dir.partition(), |t| t.delete(name.key.clone()))?;
        repaired("the name was removed")
    }

    fn replace_name(&self, name: &Name, value: crate::Value) -> Result<Outcome> {
        let key = self.dentry_key(name.dir, &name.name).to_bytes();
        let mut transaction = Transaction::at(name.dir);
        let part = transaction.of(name.dir);
        part.require(Condition::Absent(key.clone()), || Error::Exists);
        part.put(key, value);
        part.delete(name.key.clone());
        match self.commit(transaction) {
            Err(Error::Exists) => self.remove_name(name),
            Err(error) => Err(error),
            Ok(_) => repaired("it was filed where it belongs"),
        }
    }

    /// Removes the name of a directory that lies within itself. The next round finds it without a name, and gives it one in
    /// `/lost+found`.
    fn break_loop(&self, ino: InodeId) -> Result<Outcome> {
        let dir = self.get(ino)?;
        let key = self.dentry_key(dir.parent, &dir.name).to_bytes();
        self.force(dir.parent.partition(), |t| t.delete(key))?;
        repaired("its name was taken from it")
    }

    fn remove_all(&self, table: u8, ino: InodeId) -> Result<Outcome> {
        let prefix = keys::by_inode(table, ino);
        let found = self.keys_of(ino.partition(), &prefix, None)?;
        self.force(ino.partition(), |t| found.into_iter().for_each(|key| t.delete(key)))?;
        repaired("removed")
    }

    /// Gives an inode a name in `/lost+found`.
    fn adopt(&self, ino: InodeId) -> Result<Outcome> {
        let home = self.lost_and_found()?;
        let name = format!("#{ino}");
        let inode = self.get(ino)?;
        let stored = self.stored(ino)?;
        let mut transaction = Transaction::at(home);
        let dentry = Dentry { ino, kind: inode.kind };
        self.name(&mut transaction, home, name.as_bytes(), dentry, inode.ctime)?;
        transaction.expect_unchanged(&stored);
        let mut adopted = inode;
        adopted.version = adopted.version.wrapping_add(1);
        if adopted.is_directory() {
            adopted.parent = home;
            adopted.name = name.clone().into_bytes();
        } else {
            adopted.nlink = 1;
        }
        transaction.put_inode(&adopted)?;
        self.commit(transaction)?;
        repaired(format!("it is /lost+found/{name} now"))
    }

    fn lost_and_found(&self) -> Result<InodeId> {
        match self.lookup(InodeId::ROOT, LOST_AND_FOUND) {
            Ok(home) => Ok(home.ino),
            Err(Error::NotFound) => {
                let root = self.get(InodeId::ROOT)?;
                let new = NewInode::new(root.kind, 0o700, root.uid, root.gid);
                Ok(self.create(InodeId::ROOT, LOST_AND_FOUND, new, root.ctime)?.ino)
            }
            Err(error) => Err(error),
        }
    }
}
