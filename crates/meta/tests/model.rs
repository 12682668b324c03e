//! Random histories of the namespace against a reference that is too simple to be wrong.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "helpers of tests, outside of test functions"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use common::{at, dir, embedded, file, namespace};
use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{MetaEngine, Namespace, RenameMode, SetMode, keys};
use intarsia_types::{Error, InodeId, PartitionId, RecordedHints};
use proptest::prelude::*;

const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const EISDIR: i32 = 21;
const ENODATA: i32 = 61;
const ENOENT: i32 = 2;
const ENOTDIR: i32 = 20;
const ENOTEMPTY: i32 = 39;
const EPERM: i32 = 1;

/// One operation. Inodes are picked from all that ever were, by an index that wraps around, so that
/// some are long gone.
#[derive(Clone, Debug)]
enum Op {
    Create { parent: usize, name: u8, is_dir: bool },
    Link { ino: usize, parent: usize, name: u8 },
    Unlink { parent: usize, name: u8, keep: bool },
    Rmdir { parent: usize, name: u8 },
    Rename { parent: usize, name: u8, new_parent: usize, new_name: u8, mode: RenameMode },
    SetXattr { ino: usize, name: u8, mode: SetMode },
    RemoveXattr { ino: usize, name: u8 },
    Reap { ino: usize },
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let (pick, name) = (0..40_usize, 0..6_u8);
    let rename = prop_oneof![
        3 => Just(RenameMode::Replace),
        1 => Just(RenameMode::NoReplace),
        1 => Just(RenameMode::Exchange),
    ];
    let set = prop_oneof![Just(SetMode::Either), Just(SetMode::Create), Just(SetMode::Replace)];
    prop_oneof![
        8 => (pick.clone(), name.clone(), any::<bool>())
            .prop_map(|(parent, name, is_dir)| Op::Create { parent, name, is_dir }),
        2 => (pick.clone(), pick.clone(), name.clone())
            .prop_map(|(ino, parent, name)| Op::Link { ino, parent, name }),
        3 => (pick.clone(), name.clone(), any::<bool>())
            .prop_map(|(parent, name, keep)| Op::Unlink { parent, name, keep }),
        2 => (pick.clone(), name.clone()).prop_map(|(parent, name)| Op::Rmdir { parent, name }),
        8 => (pick.clone(), name.clone(), pick.clone(), name.clone(), rename).prop_map(
            |(parent, name, new_parent, new_name, mode)| Op::Rename {
                parent, name, new_parent, new_name, mode
            }
        ),
        2 => (pick.clone(), name.clone(), set)
            .prop_map(|(ino, name, mode)| Op::SetXattr { ino, name, mode }),
        1 => (pick.clone(), name).prop_map(|(ino, name)| Op::RemoveXattr { ino, name }),
        1 => pick.prop_map(|ino| Op::Reap { ino }),
        1 => Just(Op::Reopen),
    ]
}

/// The name of an attribute: a hint, or not.
fn attribute(n: u8) -> Vec<u8> {
    let prefix = if n.is_multiple_of(2) { "user.intarsia." } else { "user." };
    format!("{prefix}name-{n}").into_bytes()
}

fn name(n: u8) -> Vec<u8> {
    format!("name-{n}").into_bytes()
}

#[derive(Clone, Debug)]
enum Node {
    Dir(BTreeMap<Vec<u8>, InodeId>),
    /// Names left.
    File(u32),
}

/// The reference: maps of maps. Everything else is computed from them.
struct Model {
    nodes: BTreeMap<InodeId, Node>,
    xattrs: BTreeSet<(InodeId, Vec<u8>)>,
    /// Every inode that ever was.
    all: Vec<InodeId>,
}

type Answer<T = ()> = Result<T, i32>;

impl Model {
    fn new() -> Self {
        let root = InodeId::ROOT;
        let nodes = [(root, Node::Dir(BTreeMap::new()))].into();
        Self { nodes, xattrs: BTreeSet::new(), all: vec![root] }
    }

    fn pick(&self, n: usize) -> InodeId {
        self.all[n % self.all.len()]
    }

    fn names(&mut self, dir: InodeId) -> Answer<&mut BTreeMap<Vec<u8>, InodeId>> {
        match self.nodes.get_mut(&dir) {
            Some(Node::Dir(names)) => Ok(names),
            Some(Node::File(_)) => Err(ENOTDIR),
            None => Err(ENOENT),
        }
    }

    fn find(&mut self, dir: InodeId, name: &[u8]) -> Answer<InodeId> {
        self.names(dir)?.get(name).copied().ok_or(ENOENT)
    }

    fn is_dir(&self, ino: InodeId) -> bool {
        matches!(self.nodes.get(&ino), Some(Node::Dir(_)))
    }

    fn may_create(&mut self, parent: InodeId, name: &[u8]) -> Answer {
        if self.names(parent)?.contains_key(name) { Err(EEXIST) } else { Ok(()) }
    }

    fn create(&mut self, parent: InodeId, name: &[u8], ino: InodeId, is_dir: bool) {
        self.names(parent).unwrap().insert(name.to_vec(), ino);
        let node = if is_dir { Node::Dir(BTreeMap::new()) } else { Node::File(1) };
        self.nodes.insert(ino, node);
        self.all.push(ino);
    }

    fn link(&mut self, ino: InodeId, parent: InodeId, name: &[u8]) -> Answer {
        match self.nodes.get(&ino) {
            Some(Node::Dir(_)) => return Err(EPERM),
            Some(Node::File(0)) | None => return Err(ENOENT),
            Some(Node::File(_)) => {}
        }
        self.may_create(parent, name)?;
        self.names(parent)?.insert(name.to_vec(), ino);
        let Some(Node::File(names)) = self.nodes.get_mut(&ino) else { unreachable!() };
        *names += 1;
        Ok(())
    }

    fn unlink(&mut self, parent: InodeId, name: &[u8], keep: bool) -> Answer {
        let ino = self.find(parent, name)?;
        if self.is_dir(ino) {
            return Err(EISDIR);
        }
        self.names(parent)?.remove(name);
        self.drop_name(ino, keep);
        Ok(())
    }

    fn drop_name(&mut self, ino: InodeId, keep: bool) {
        let is_gone = match self.nodes.get_mut(&ino) {
            Some(Node::File(names)) => {
                *names -= 1;
                *names == 0 && !keep
            }
            _ => true,
        };
        if is_gone {
            self.forget(ino);
        }
    }

    fn forget(&mut self, ino: InodeId) {
        self.nodes.remove(&ino);
        self.xattrs.retain(|(owner, _)| *owner != ino);
    }

    fn rmdir(&mut self, parent: InodeId, name: &[u8]) -> Answer {
        let ino = self.find(parent, name)?;
        match &self.nodes[&ino] {
            Node::File(_) => Err(ENOTDIR),
            Node::Dir(names) if !names.is_empty() => Err(ENOTEMPTY),
            Node::Dir(_) => {
                self.names(parent)?.remove(name);
                self.forget(ino);
                Ok(())
            }
        }
    }

    fn rename(
        &mut self,
        (parent, name): (InodeId, &[u8]),
        (new_parent, new_name): (InodeId, &[u8]),
        mode: RenameMode,
    ) -> Answer {
        let ino = self.find(parent, name)?;
        let other = self.names(new_parent)?.get(new_name).copied();
        match (mode, other) {
            (RenameMode::NoReplace, Some(_)) => return Err(EEXIST),
            (RenameMode::Exchange, None) => return Err(ENOENT),
            (_, Some(other)) if other == ino => return Ok(()),
            (RenameMode::Replace, Some(other)) => match (self.is_dir(ino), self.is_dir(other)) {
                (true, false) => return Err(ENOTDIR),
                (false, true) => return Err(EISDIR),
                _ => {}
            },
            _ => {}
        }
        if self.holds(ino, new_parent) {
            return Err(EINVAL);
        }
        if mode == RenameMode::Exchange {
            let other = other.unwrap();
            if self.holds(other, parent) {
                return Err(EINVAL);
            }
            self.names(parent)?.insert(name.to_vec(), other);
        } else {
            if let Some(Node::Dir(names)) = other.map(|other| &self.nodes[&other])
                && !names.is_empty()
            {
                return Err(ENOTEMPTY);
            }
            self.names(parent)?.remove(name);
            other.into_iter().for_each(|other| self.drop_name(other, false));
        }
        self.names(new_parent)?.insert(new_name.to_vec(), ino);
        Ok(())
    }

    /// Whether `inner` is `outer` or lies below it.
    fn holds(&self, outer: InodeId, inner: InodeId) -> bool {
        let Some(Node::Dir(names)) = self.nodes.get(&outer) else { return false };
        outer == inner || names.values().any(|&child| self.holds(child, inner))
    }

    fn set_xattr(&mut self, ino: InodeId, name: &[u8], mode: SetMode) -> Answer {
        if !self.nodes.contains_key(&ino) {
            return Err(ENOENT);
        }
        let entry = (ino, name.to_vec());
        match (mode, self.xattrs.contains(&entry)) {
            (SetMode::Create, true) => Err(EEXIST),
            (SetMode::Replace, false) => Err(ENODATA),
            _ => {
                self.xattrs.insert(entry);
                Ok(())
            }
        }
    }

    fn remove_xattr(&mut self, ino: InodeId, name: &[u8]) -> Answer {
        if !self.nodes.contains_key(&ino) {
            return Err(ENOENT);
        }
        if self.xattrs.remove(&(ino, name.to_vec())) { Ok(()) } else { Err(ENODATA) }
    }
}

/// The store and the model, doing the same.
struct Pair<'p> {
    /// Nodes over one engine; each operation is done by the next.
    nodes: Vec<Namespace>,
    turn: usize,
    /// Where the store is, if it can be closed and opened again.
    path: Option<&'p Path>,
    model: Model,
}

fn answer<T>(result: Result<T, Error>) -> Answer {
    result.map(|_| ()).map_err(|error| error.errno())
}

impl Pair<'_> {
    fn ns(&self) -> &Namespace {
        &self.nodes[self.turn % self.nodes.len()]
    }

    fn step(&mut self, op: &Op, time: i64) {
        // Neither in turns nor foreseen, but the same in each run of one history.
        self.turn = time.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> 32;
        let now = at(time);
        let pick = |model: &Model, n: usize| model.pick(n);
        let (real, expected) = match *op {
            Op::Create { parent, name: n, is_dir } => {
                let parent = pick(&self.model, parent);
                let new = if is_dir { dir() } else { file() };
                let made = self.ns().create(parent, &name(n), new, now);
                let expected = self.model.may_create(parent, &name(n));
                if let (Ok(made), Ok(())) = (&made, expected) {
                    self.model.create(parent, &name(n), made.ino, is_dir);
                }
                (answer(made), expected)
            }
            Op::Link { ino, parent, name: n } => {
                let (ino, parent) = (pick(&self.model, ino), pick(&self.model, parent));
                let real = answer(self.ns().link(ino, parent, &name(n), now));
                (real, self.model.link(ino, parent, &name(n)))
            }
            Op::Unlink { parent, name: n, keep } => {
                let parent = pick(&self.model, parent);
                let real = answer(self.ns().unlink(parent, &name(n), |_| keep, now));
                (real, self.model.unlink(parent, &name(n), keep))
            }
            Op::Rmdir { parent, name: n } => {
                let parent = pick(&self.model, parent);
                let real = answer(self.ns().rmdir(parent, &name(n), now));
                (real, self.model.rmdir(parent, &name(n)))
            }
            Op::Rename { parent, name: n, new_parent, new_name: m, mode } => {
                let (from, to) = (pick(&self.model, parent), pick(&self.model, new_parent));
                let (n, m) = (name(n), name(m));
                let real = answer(self.ns().rename(from, &n, to, &m, mode, |_| false, now));
                (real, self.model.rename((from, &n), (to, &m), mode))
            }
            Op::SetXattr { ino, name: n, mode } => {
                let ino = pick(&self.model, ino);
                let real = answer(self.ns().set_xattr(ino, &attribute(n), b"value", mode, now));
                (real, self.model.set_xattr(ino, &attribute(n), mode))
            }
            Op::RemoveXattr { ino, name: n } => {
                let ino = pick(&self.model, ino);
                let real = answer(self.ns().remove_xattr(ino, &attribute(n), now));
                (real, self.model.remove_xattr(ino, &attribute(n)))
            }
            Op::Reap { ino } => {
                let ino = pick(&self.model, ino);
                if matches!(self.model.nodes.get(&ino), Some(Node::File(0))) {
                    self.ns().reap(ino).unwrap();
                    self.model.forget(ino);
                }
                return;
            }
            Op::Reopen => {
                if let Some(path) = self.path {
                    self.nodes.clear();
                    self.nodes.push(namespace(Arc::new(embedded(path))));
                }
                return;
            }
        };
        assert_eq!(real, expected, "{op:?}");
    }

    /// Everything that can be seen of the store is what the model says.
    fn compare(&self) {
        let ns = self.ns();
        for (&ino, node) in &self.model.nodes {
            let inode = ns.get(ino).unwrap();
            match node {
                Node::File(names) => assert_eq!(inode.nlink, *names),
                Node::Dir(names) => self.compare_dir(ino, names),
            }
            let xattrs = self.model.xattrs.iter().filter(|(owner, _)| *owner == ino);
            let xattrs: Vec<_> = xattrs.map(|(_, name)| name.clone()).collect();
            assert_eq!(ns.list_xattr(ino).unwrap(), xattrs);
            assert_eq!(inode.has_xattrs, !xattrs.is_empty());
            let mut hints = RecordedHints::default();
            xattrs.iter().for_each(|name| _ = hints.set_attribute(name, b"value"));
            assert_eq!(inode.hints, Some(hints));
        }
        for ino in &self.model.all {
            assert_eq!(ns.get(*ino).is_ok(), self.model.nodes.contains_key(ino));
        }
        let orphans = self.model.nodes.iter().filter(|(_, node)| matches!(node, Node::File(0)));
        let orphans: Vec<_> = orphans.map(|(ino, _)| *ino).collect();
        assert_eq!(ns.orphans(None, 1000).unwrap(), orphans);
        assert_eq!(ns.counts().unwrap().inodes, self.model.nodes.len() as u64);
        assert_eq!(ns.check(false, &mut |_| {}).unwrap().findings, []);
    }

    fn compare_dir(&self, ino: InodeId, names: &BTreeMap<Vec<u8>, InodeId>) {
        let inode = self.ns().get(ino).unwrap();
        let listed = self.ns().list_plus(ino, 0, 100, |_| ()).unwrap();
        let listed: BTreeMap<_, _> =
            listed.into_iter().map(|(entry, inode, ())| (entry.name, inode.ino)).collect();
        assert_eq!(listed, *names);
        let subdirs: Vec<_> =
            names.values().copied().filter(|&child| self.model.is_dir(child)).collect();
        assert_eq!(inode.nlink as usize, 2 + subdirs.len());
        assert_eq!(inode.entries as usize, names.len());
        for child in subdirs {
            assert_eq!(self.ns().lookup(child, b"..").unwrap().ino, ino);
            let path = self.ns().path_of(child).unwrap();
            assert_eq!(self.ns().resolve(&path).unwrap().ino, child);
        }
    }

    fn run(mut self, ops: &[Op]) {
        for (time, op) in (1..).zip(ops) {
            self.step(op, time);
        }
        self.compare();
        self.step(&Op::Reopen, 0);
        self.compare();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn the_memory_engine_keeps_to_the_model(ops in prop::collection::vec(op(), 1..120)) {
        let nodes = vec![namespace(Arc::new(MemoryEngine::default()))];
        Pair { nodes, turn: 0, path: None, model: Model::new() }.run(&ops);
    }

    #[test]
    fn nodes_over_partitions_keep_to_the_model(
        ops in prop::collection::vec(op(), 1..120),
        partitions in prop_oneof![Just(1_u16), Just(2), Just(5)],
        nodes in 1..4_usize,
    ) {
        let engine: Arc<dyn MetaEngine> = Arc::new(MemoryEngine::new(partitions));
        let nodes = (0..nodes).map(|_| namespace(Arc::clone(&engine))).collect();
        Pair { nodes, turn: 0, path: None, model: Model::new() }.run(&ops);
        for partition in (0..partitions).map(PartitionId) {
            prop_assert_eq!(engine.scan(partition, &[keys::TRANSACTION], None, 1).unwrap(), []);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn the_embedded_engine_keeps_to_the_model(ops in prop::collection::vec(op(), 1..120)) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("meta");
        let nodes = vec![namespace(Arc::new(embedded(&path)))];
        Pair { nodes, turn: 0, path: Some(&path), model: Model::new() }.run(&ops);
    }
}
