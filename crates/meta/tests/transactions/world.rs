//! Small stores whose directories and inodes are in chosen partitions, what is done to them, and what
//! can be seen of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::intent::Intent;
use intarsia_meta::{
    CommitOutcome, Inode, Key, MetaEngine, Mutation, Namespace, NewInode, OpId, RenameMode, Value,
    keys,
};
use intarsia_types::{
    BackingFileId, BackingRef, FileKind, InodeId, Layout, PartitionId, TierId, Timestamp,
};

use crate::common::{ROOT_SPEC, at, dir, file};

pub(crate) const PARTITIONS: u16 = 5;
const ROOT: InodeId = InodeId::ROOT;
const TIER: TierId = TierId(1);
const TABLES: &[u8] = b"IDXBCOWFST";
const RECORDS_MAX: usize = 10_000;

/// A store that is copied for each run.
pub(crate) struct World {
    engine: Arc<MemoryEngine>,
    /// The inodes that are there from the start, by the names that tests give them.
    known: BTreeMap<&'static str, InodeId>,
}

/// What to do.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Rename { from: Name, to: Name, mode: RenameMode, keep: bool },
    Link { ino: &'static str, to: Name },
    Unlink { name: Name, keep: bool },
    Rmdir { name: Name },
    Mkdir { name: Name },
    Create { name: Name },
    Lookup { name: Name },
    List { dir: &'static str },
    Stat { ino: &'static str },
    Sweep,
}

/// A name in a known directory.
pub(crate) type Name = (&'static str, &'static str);

/// What an operation says: a word or an errno.
pub(crate) type Answer = Result<String, i32>;

/// Everything that can be seen of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    names: BTreeMap<String, Inode>,
    /// Known inodes that are left.
    left: BTreeMap<&'static str, Inode>,
    orphans: Vec<InodeId>,
    free: BTreeSet<BackingFileId>,
    inodes: u64,
}

/// As [`View`], without what depends on the order in which independent things happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    names: BTreeMap<String, (String, FileKind, u32, u64)>,
    left: BTreeMap<&'static str, u32>,
    orphans: usize,
    free: usize,
    inodes: u64,
}

/// A node with a session of its own.
pub(crate) fn node(engine: Arc<dyn MetaEngine>) -> Namespace {
    Namespace::open(engine, ROOT_SPEC, at(0)).unwrap().with_patience(Duration::ZERO)
}

pub(crate) fn replace(from: Name, to: Name) -> Op {
    Op::Rename { from, to, mode: RenameMode::Replace, keep: false }
}

impl World {
    /// A store with nothing but its root.
    pub(crate) fn new() -> Self {
        let engine = Arc::new(MemoryEngine::new(PARTITIONS));
        Self { engine, known: [("root", ROOT)].into() }
    }

    pub(crate) fn ino(&self, known: &str) -> InodeId {
        self.known[known]
    }

    fn ns(&self) -> Namespace {
        node(Arc::clone(&self.engine) as Arc<dyn MetaEngine>)
    }

    /// Adds a directory that is born in a given partition.
    pub(crate) fn dir(mut self, what: &'static str, partition: u16, name: Name) -> Self {
        let ns = self.ns();
        let ino = self.born(&ns, PartitionId(partition), name);
        self.known.insert(what, ino);
        self
    }

    fn born(&self, ns: &Namespace, partition: PartitionId, (parent, name): Name) -> InodeId {
        for n in 0.. {
            let first = format!("tmp{n}");
            let ino = ns.create(ROOT, first.as_bytes(), dir(), at(1)).unwrap().ino;
            if ino.partition() == partition {
                let parent = self.ino(parent);
                let mode = RenameMode::NoReplace;
                ns.rename(ROOT, first.as_bytes(), parent, name.as_bytes(), mode, |_| false, at(1))
                    .unwrap();
                return ino;
            }
            ns.rmdir(ROOT, first.as_bytes(), at(1)).unwrap();
        }
        unreachable!()
    }

    /// Adds a file, with all that can stand beside one, whose inode is in a given partition.
    pub(crate) fn file(mut self, what: &'static str, partition: u16, name: Name) -> Self {
        let ns = self.ns();
        let home = self.born(&ns, PartitionId(partition), ("root", "home"));
        let backing = BackingRef { tier: TIER, file: ns.reserve_files(TIER, 1).unwrap()[0] };
        let new = NewInode {
            layout: Layout::Local(backing),
            mark_writable: true,
            xattrs: vec![(b"user.a".to_vec(), b"1".to_vec())],
            ..file()
        };
        let ino = ns.create(home, b"f", new, at(1)).unwrap().ino;
        let (parent, name) = (self.ino(name.0), name.1.as_bytes());
        ns.rename(home, b"f", parent, name, RenameMode::NoReplace, |_| false, at(1)).unwrap();
        ns.rmdir(ROOT, b"home", at(1)).unwrap();
        self.known.insert(what, ino);
        self
    }

    /// Adds another name of a file.
    pub(crate) fn link(self, what: &'static str, (parent, name): Name) -> Self {
        self.ns().link(self.ino(what), self.ino(parent), name.as_bytes(), at(1)).unwrap();
        self
    }

    /// Such a store of its own.
    pub(crate) fn fork(&self) -> Arc<MemoryEngine> {
        copy(&self.engine)
    }

    /// Such a store in an engine that is empty and has as many partitions.
    pub(crate) fn copy_into(&self, engine: &dyn MetaEngine) {
        copy_into(&*self.engine, engine);
    }

    pub(crate) fn run(&self, ns: &Namespace, op: &Op, now: Timestamp) -> Answer {
        let say = |_| String::new();
        let answer = match op {
            Op::Rename { from, to, mode, keep } => {
                let (a, b) = (self.ino(from.0), self.ino(to.0));
                let (x, y) = (from.1.as_bytes(), to.1.as_bytes());
                ns.rename(a, x, b, y, *mode, |_| *keep, now).map(|lost| match lost {
                    Some(lost) => format!("{} lost its name", self.name_of(lost.ino)),
                    None => String::new(),
                })
            }
            Op::Link { ino, to } => {
                ns.link(self.ino(ino), self.ino(to.0), to.1.as_bytes(), now).map(say)
            }
            Op::Unlink { name, keep } => {
                ns.unlink(self.ino(name.0), name.1.as_bytes(), |_| *keep, now).map(say)
            }
            Op::Rmdir { name } => ns.rmdir(self.ino(name.0), name.1.as_bytes(), now).map(say),
            Op::Mkdir { name } => {
                ns.create(self.ino(name.0), name.1.as_bytes(), dir(), now).map(say)
            }
            Op::Create { name } => {
                ns.create(self.ino(name.0), name.1.as_bytes(), file(), now).map(say)
            }
            Op::Lookup { name } => {
                ns.lookup(self.ino(name.0), name.1.as_bytes()).map(|inode| self.name_of(inode.ino))
            }
            Op::List { dir } => ns.list_plus(self.ino(dir), 0, 100, |_| ()).map(|entries| {
                let entries = entries.into_iter().map(|(entry, inode, ())| {
                    assert_eq!((entry.ino, entry.kind), (inode.ino, inode.kind));
                    format!("{}={}", entry.name.escape_ascii(), self.name_of(entry.ino))
                });
                // The order is that of hashes with a random seed.
                entries.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
            }),
            Op::Stat { ino } => ns.get(self.ino(ino)).map(|inode| format!("{}", inode.nlink)),
            Op::Sweep => ns.recover_transactions(Duration::from_secs(3600)).map(|_| String::new()),
        };
        answer.map_err(|error| error.errno())
    }

    fn name_of(&self, ino: InodeId) -> String {
        let known = self.known.iter().find(|(_, known)| **known == ino);
        known.map_or("new", |(name, _)| name).into()
    }

    /// Looks at everything, as any program would.
    pub(crate) fn view(&self, ns: &Namespace) -> View {
        let mut names = BTreeMap::new();
        see(ns, ROOT, "", &mut names);
        names.insert("/".into(), ns.get(ROOT).unwrap());
        let left = self.known.iter().filter_map(|(name, ino)| Some((*name, ns.get(*ino).ok()?)));
        View {
            left: left.collect(),
            names,
            orphans: ns.orphans(None, 100).unwrap(),
            free: ns.free_files(TIER).unwrap().into_iter().map(|free| free.file).collect(),
            inodes: ns.counts().unwrap().inodes,
        }
    }

    pub(crate) fn outline(&self, ns: &Namespace) -> Outline {
        let View { names, left, orphans, free, inodes } = self.view(ns);
        let seen = |inode: Inode| (self.name_of(inode.ino), inode.kind, inode.nlink, inode.entries);
        Outline {
            names: names.into_iter().map(|(path, inode)| (path, seen(inode))).collect(),
            left: left.into_iter().map(|(name, inode)| (name, inode.nlink)).collect(),
            orphans: orphans.len(),
            free: free.len(),
            inodes,
        }
    }
}

impl View {
    /// As it is, with so many inodes less.
    pub(crate) fn with_inodes_less(mut self, less: u64) -> Self {
        self.inodes -= less;
        self
    }

    /// As it is, but for what the change of a name does to the directories around it: that follows when
    /// somebody meets the name.
    pub(crate) fn without_merges(mut self) -> Self {
        for inode in self.names.values_mut().chain(self.left.values_mut()) {
            if inode.is_directory() {
                (inode.nlink, inode.entries, inode.version) = (0, 0, 0);
                (inode.mtime, inode.ctime) = (at(0), at(0));
            }
        }
        self
    }
}

fn see(ns: &Namespace, dir: InodeId, path: &str, names: &mut BTreeMap<String, Inode>) {
    for entry in ns.list(dir, 0, 100).unwrap() {
        let inode = ns.lookup(dir, &entry.name).unwrap();
        assert_eq!((entry.ino, entry.kind), (inode.ino, inode.kind));
        let path = format!("{path}/{}", entry.name.escape_ascii());
        assert_eq!(ns.get(inode.ino).unwrap(), inode);
        if inode.is_directory() {
            assert_eq!(ns.path_of(inode.ino).unwrap(), path.as_bytes());
            see(ns, inode.ino, &path, names);
        }
        assert!(names.insert(path, inode).is_none());
    }
}

/// All records of a store in another engine.
pub(crate) fn copy(engine: &MemoryEngine) -> Arc<MemoryEngine> {
    let copy = Arc::new(MemoryEngine::new(PARTITIONS));
    copy_into(engine, &*copy);
    copy
}

fn copy_into(from: &dyn MetaEngine, to: &dyn MetaEngine) {
    assert_eq!(from.partitions(), to.partitions());
    for partition in (0..PARTITIONS).map(PartitionId) {
        let records = TABLES.iter().flat_map(|table| all(from, partition, *table));
        let puts = records.map(|(key, value)| Mutation::Put(key, value)).collect();
        let op = OpId { session: 0, number: 0 };
        assert_eq!(to.commit(partition, op, &[], puts).unwrap(), CommitOutcome::Applied);
    }
}

fn all(engine: &dyn MetaEngine, partition: PartitionId, table: u8) -> Vec<(Key, Value)> {
    let records = engine.scan(partition, &[table], None, RECORDS_MAX).unwrap();
    assert!(records.len() < RECORDS_MAX);
    records
}

/// The intents and the records of transactions in a store, as text.
pub(crate) fn traces(engine: &dyn MetaEngine) -> Vec<String> {
    let mut traces = Vec::new();
    for partition in (0..PARTITIONS).map(PartitionId) {
        for (key, value) in TABLES.iter().flat_map(|table| all(engine, partition, *table)) {
            if key[0] == keys::TRANSACTION || Intent::of(&key, &value).is_some() {
                traces.push(format!("{key:?} in {partition:?}"));
            }
        }
    }
    traces
}

/// Nothing is wrong and nothing is pending in a store that nobody uses.
pub(crate) fn assert_sound(engine: Arc<dyn MetaEngine>, context: &str) {
    assert_eq!(traces(&*engine), [""; 0], "{context}");
    let ns = node(engine);
    let report = ns.check(false, &mut |_| {}).unwrap();
    assert_eq!(report.findings, [], "{context}");
}
