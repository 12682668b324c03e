//! New files, directories, symbolic links and nodes.

use intarsia_types::{
    Encoding, Error, FileKind, InodeId, Layout, PartitionId, RecordedHints, Result, Timestamp,
};

use super::{Namespace, Transaction, name, xattr};
use crate::dentry::Dentry;
use crate::{Condition, DirDelta, Inode, Value, keys};

/// In how many partitions the directories of one node are born. Not in all, since in each the node has to reserve a block of
/// inode numbers first.
const BIRTHS: u64 = 8;

/// What a new inode takes over from a file elsewhere, such as one of the lower file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Length; 0 for directories.
    pub size_bytes: u64,
    /// Disk use.
    pub blocks_512: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
}

/// What a new inode is. The caller has applied umask and set-gid inheritance.
#[derive(Clone, Debug)]
pub struct NewInode {
    /// Kind of file.
    pub kind: FileKind,
    /// Permission bits (07777).
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device file.
    pub rdev: u32,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
    /// Where the bytes will be. Its backing files leave the ledger in the same commit.
    pub layout: Layout,
    /// Records that the file may be written from now on (see [`Namespace::writable_inodes`]).
    pub mark_writable: bool,
    /// It need not be committed before [`Namespace::create`] returns. The caller sees to it, at the latest when the file is
    /// closed ([`Namespace::keep_promise`]).
    pub may_wait: bool,
    /// Extended attributes that it starts with: name and value.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Length and times that it takes over; without this it is empty, and its times are now.
    pub origin: Option<Origin>,
}

impl NewInode {
    /// A new inode without device number, target, bytes or extended attributes.
    #[must_use]
    pub const fn new(kind: FileKind, perm: u16, uid: u32, gid: u32) -> Self {
        Self {
            kind,
            perm,
            uid,
            gid,
            rdev: 0,
            target: None,
            layout: Layout::Empty,
            mark_writable: false,
            may_wait: false,
            xattrs: Vec::new(),
            origin: None,
        }
    }
}

impl Namespace {
    /// Creates `name` in the directory `parent`.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "it is consumed in meaning: one description makes one inode"
    )]
    pub fn create(
        &self,
        parent: InodeId,
        name: &[u8],
        new: NewInode,
        now: Timestamp,
    ) -> Result<Inode> {
        name::check_new(name)?;
        new.xattrs.iter().try_for_each(|(name, value)| xattr::check(name, value))?;

        let partition = self.birth_partition(parent, name, new.kind);
        self.retry(|| {
            // Another number in each attempt: an inode of the attempt before may still be there until others take it back.
            let ino = self.new_ino(partition)?;
            let mut transaction = Transaction::at(parent);
            self.name(&mut transaction, parent, name, Dentry { ino, kind: new.kind }, now)?;
            let inode = self.write_new(&mut transaction, ino, (parent, name), &new, now)?;
            if new.mark_writable {
                let mark = keys::by_inode(keys::WRITABLE, ino);
                transaction.of(ino).put(mark.as_slice(), self.mark());
            }
            let transaction = self.guarded(transaction);
            let key = self.dentry_key(parent, name).to_bytes();
            if new.may_wait && self.promise(parent, ino, &key, &transaction.first) {
                return Ok(Some(inode));
            }
            Ok(self.commit(transaction)?.then_some(inode))
        })
    }

    /// The partition in which a new inode is born. A node spreads its directories over a few partitions, by the hash of their
    /// names. Each node has others, so all nodes spread theirs, and with them the load, over all partitions. Everything else is
    /// born in the partition of its directory, so that its name and its record are one commit.
    pub(super) fn birth_partition(
        &self,
        parent: InodeId,
        name: &[u8],
        kind: FileKind,
    ) -> PartitionId {
        let partitions = self.engine.partitions();
        if kind != FileKind::Directory || partitions < 2 {
            return parent.partition();
        }
        let (all, hash) = (u64::from(partitions), keys::hash63(self.seed ^ parent.0, name));
        let born = match all <= BIRTHS {
            true => hash % all,
            // Beginning with another partition at every node.
            false => (self.session % all + hash % BIRTHS * (all / BIRTHS)) % all,
        };
        u16::try_from(born).map_or(parent.partition(), PartitionId)
    }

    /// Adds to `transaction` the record of a new inode, and the records that belong to it.
    pub(super) fn write_new(
        &self,
        transaction: &mut Transaction,
        ino: InodeId,
        (parent, name): (InodeId, &[u8]),
        new: &NewInode,
        now: Timestamp,
    ) -> Result<Inode> {
        let place = match new.kind {
            FileKind::Directory => (parent, name),
            _ => (self.only_dir(ino, parent), [].as_slice()),
        };
        write_inode(transaction, ino, place, new, now)
    }

    /// Adds a new name to `transaction`: the conditions that it is free and its directory is there, its dentry, and the times
    /// and counts of its directory.
    pub(super) fn name(
        &self,
        transaction: &mut Transaction,
        parent: InodeId,
        name: &[u8],
        dentry: Dentry,
        now: Timestamp,
    ) -> Result<()> {
        if dentry.kind != FileKind::Directory && dentry.ino.partition() != parent.partition() {
            // The merge may be carried out after the decision, when it is too late to find that `parent` is no directory.
            // Where a directory is made, `parent` is in the partition of the decision, which refuses.
            self.directory(parent)?;
        }
        let key = self.dentry_key(parent, name).to_bytes();
        let part = transaction.of(parent);
        part.require(Condition::Absent(key.clone()), || Error::Exists);
        part.require(Condition::Unheld(keys::inode(parent)), || Error::NotFound);
        part.put(key, dentry.encode());
        let nlink = i32::from(dentry.kind == FileKind::Directory);
        transaction.merge(parent, DirDelta { time: now, nlink, entries: 1 });
        Ok(())
    }
}

fn write_inode(
    transaction: &mut Transaction,
    ino: InodeId,
    (parent, name): (InodeId, &[u8]),
    new: &NewInode,
    now: Timestamp,
) -> Result<Inode> {
    let is_directory = new.kind == FileKind::Directory;
    let origin = new.origin.unwrap_or(Origin {
        size_bytes: new.target.as_ref().map_or(0, |target| target.len() as u64),
        blocks_512: 0,
        atime: now,
        mtime: now,
        ctime: now,
    });
    let mut hints = RecordedHints::default();
    for (name, value) in &new.xattrs {
        hints.set_attribute(name, value);
    }
    let inode = Inode {
        ino,
        kind: new.kind,
        perm: new.perm,
        uid: new.uid,
        gid: new.gid,
        nlink: if is_directory { 2 } else { 1 },
        rdev: new.rdev,
        size_bytes: origin.size_bytes,
        blocks_512: origin.blocks_512,
        atime: origin.atime,
        mtime: origin.mtime,
        ctime: origin.ctime,
        btime: now,
        version: 1,
        entries: 0,
        parent,
        name: name.to_vec(),
        has_xattrs: !new.xattrs.is_empty(),
        checksummed: false,
        layout: new.layout.clone(),
        target: new.target.clone(),
        encoding: Encoding::Plain,
        hints: Some(hints),
    };
    if is_directory && ino.partition() != parent.partition() {
        // It is made before its name, so that whoever follows the name finds it.
        transaction.of(ino).expect(Condition::Absent(keys::inode(ino)));
        transaction.of(ino).is_unknown = true;
    }
    transaction.put_inode(&inode)?;
    let part = transaction.of(ino);
    for backing in inode.layout.files() {
        part.delete(keys::free(*backing).as_slice());
    }
    for (name, value) in &new.xattrs {
        part.put(keys::xattr(ino, name), Value::copy_from(value));
    }
    part.count_inodes(1);
    Ok(inode)
}
