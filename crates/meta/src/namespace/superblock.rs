//! What a store knows about itself: the seed of its name hashes, its root, its counters.

use std::hash::{BuildHasher, Hasher};

use intarsia_types::{
    Encoding, Error, FileKind, InodeId, Layout, PartitionId, RecordedHints, Result, TierId,
    Timestamp,
};

use super::Namespace;
use crate::merge::{decode_counter, encode_counter};
use crate::{CommitOutcome, Condition, Inode, Key, MetaEngine, Mutation, OpId, keys};

/// Owner and permissions of a new root directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootSpec {
    /// Permission bits.
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Inodes of every kind, also unlinked ones that are still open.
    pub inodes: u64,
}

const ROOT_PARTITION: PartitionId = InodeId::ROOT.partition();

fn seed_key() -> Key {
    keys::superblock("seed")
}

/// The key of the counter of a partition's inodes. It is short, so that it needs no allocation.
pub(super) fn inodes_key() -> Key {
    Key::copy_from(b"Sinodes")
}

/// The name of the high-water mark above the numbers of a tier's backing files.
pub(super) fn file_mark(tier: TierId) -> String {
    format!("file{}", tier.0)
}

/// A number that nobody can foresee: the standard library seeds its hash maps from the system.
pub(super) fn random() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Returns the seed of the name hashes; creates superblock and root in an empty engine.
pub(super) fn open(engine: &dyn MetaEngine, root: RootSpec, now: Timestamp) -> Result<u64> {
    if engine.get(ROOT_PARTITION, &seed_key())?.is_none() {
        create(engine, root, now)?;
    }
    if engine.get(ROOT_PARTITION, &keys::inode(InodeId::ROOT))?.is_none() {
        return Err(Error::Corrupt { ino: InodeId::ROOT, what: "the root directory".into() });
    }
    let seed = engine.get(ROOT_PARTITION, &seed_key())?;
    decode_counter(&seed.ok_or_else(|| Error::Engine("the superblock vanished".into()))?)
}

/// Whether the engine has anything in it.
pub(super) fn exists(engine: &dyn MetaEngine) -> Result<bool> {
    engine.get(ROOT_PARTITION, &seed_key()).map(|seed| seed.is_some())
}

fn create(engine: &dyn MetaEngine, root: RootSpec, now: Timestamp) -> Result<()> {
    let root = root_inode(root, now);
    let conditions = [Condition::Absent(seed_key()), Condition::Absent(keys::inode(root.ino))];
    let mutations = vec![
        Mutation::Put(seed_key(), encode_counter(random())),
        Mutation::Put(keys::inode(root.ino), root.encode()?),
        Mutation::Add { key: inodes_key(), delta: 1 },
    ];
    let op = OpId { session: random(), number: 0 };
    match engine.commit(ROOT_PARTITION, op, &conditions, mutations)? {
        // A conflict on the seed means that another node has just created the store.
        CommitOutcome::Applied | CommitOutcome::Conflict { index: 0 } => engine.sync(),
        CommitOutcome::Conflict { .. } => {
            Err(Error::Engine("there is a root directory but no superblock".into()))
        }
    }
}

fn root_inode(root: RootSpec, now: Timestamp) -> Inode {
    Inode {
        ino: InodeId::ROOT,
        kind: FileKind::Directory,
        perm: root.perm,
        uid: root.uid,
        gid: root.gid,
        nlink: 2,
        rdev: 0,
        size_bytes: 0,
        blocks_512: 0,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        version: 1,
        entries: 0,
        parent: InodeId::ROOT,
        name: Vec::new(),
        has_xattrs: false,
        checksummed: false,
        layout: Layout::Empty,
        target: None,
        encoding: Encoding::Plain,
        hints: Some(RecordedHints::default()),
    }
}

impl Namespace {
    /// How many inodes there are, for `statfs` and status. Asks all partitions.
    pub fn counts(&self) -> Result<Counts> {
        let mut inodes = 0;
        for partition in self.partitions() {
            if let Some(value) = self.engine.get(partition, &inodes_key())? {
                inodes += decode_counter(&value)?;
            }
        }
        Ok(Counts { inodes })
    }

    /// All partitions of the store.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.engine.partitions()).map(PartitionId)
    }
}
