//! New files, directories, symbolic links and nodes.

use intarsia_types::{
    Encoding, Error, FileKind, InodeId, Layout, PartitionId, RecordedHints, Result, Timestamp,
};

use super::{Namespace, Transaction, name, xattr};
use crate::dentry::Dentry;
use crate::{Condition, DirDelta, Inode, Value, keys};

/// Partitions in which the directories of one node are born: in each it reserves numbers first.
const BIRTHS: u64 = 8;

/// What a new inode takes over from a file that existed before it.
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
    /// Where the bytes will be. A backing file stops being a free one in the same commit.
    pub layout: Layout,
    /// Records that the file may be written from now on (see [`Namespace::writable_inodes`]).
    pub mark_writable: bool,
    /// It need not be committed before [`Namespace::create`] returns: whoever closes it asks for that
    /// ([`Namespace::keep_promise`]).
    pub may_wait: bool,
    /// Extended attributes that it starts with: name and value.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Length and times that it has from elsewhere; without, it is empty and of now.
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
            // Each time another: what became of the one before is for others to end, perhaps.
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

    /// Where a new inode is born: the directories of a node are spread over some partitions by their names, and with
    /// them the load, and those of all nodes over all; all else is born beside its name.
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
            // Other ones at every node.
            false => (self.session % all + hash % BIRTHS * (all / BIRTHS)) % all,
        };
        u16::try_from(born).map_or(parent.partition(), PartitionId)
    }

    /// Adds the record of a new inode, and what stands beside it, to `transaction`.
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

    /// Adds a new name to `transaction`: its conditions, its record, its trace in the parent.
    pub(super) fn name(
        &self,
        transaction: &mut Transaction,
        parent: InodeId,
        name: &[u8],
        dentry: Dentry,
        now: Timestamp,
    ) -> Result<()> {
        if dentry.kind != FileKind::Directory && dentry.ino.partition() != parent.partition() {
            // The merge may come after the decision, when it is too late to refuse. Where a directory is made the decision
            // is its parent's.
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
        // It is there before its name is, so that who follows the name never finds nothing.
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
