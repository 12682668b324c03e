//! Tests of bodies without a node: making backing files, naming them in records, and reading the lower file system.

#![cfg(test)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use intarsia_meta::{Inode, Namespace, NewInode};
use intarsia_sync::Mutex;
use intarsia_types::{
    BackingRef, Error, FileKind, HintSet, InodeId, Layout, NodeId, Result, TierId,
};

use super::changing::{KernelReach, MovesFrom};
use super::lower::{Lower, LowerBody, LowerEvents, open_tree};
use super::parts::Parts;
use super::recording::Standing;
use super::seam::Source;
use super::{Bodies, Body, BodyParts, LocalBody, OpensCopies};
use crate::background::queue::Queue;
use crate::clock::now;
use crate::membership::cluster::lone::lone;
use crate::metrics::hinted::Hinted;
use crate::options::NodeOptions;
use crate::space::ledger::{FileEvents, Ledger};
use crate::space::placing::Placing;
use crate::space::tiers::{MakesRoom, Tiers, one_tier};

/// Remembers which files have changed in the lower file system.
#[derive(Default)]
struct Changed(Mutex<Vec<InodeId>>);

impl LowerEvents for Changed {
    fn note_changed(&self, ino: InodeId) {
        self.0.lock().push(ino);
    }
}

/// Opens the file that the record names first.
struct First(Arc<Tiers>);

impl OpensCopies for First {
    fn open_copy(&self, inode: &Inode, _: &HintSet) -> Result<Body> {
        let backing = inode.layout.backing().ok_or(Error::NotFound)?;
        let file = self.0.get(backing.tier)?.open_file(backing.file, false)?;
        Ok(Body::local(LocalBody::new(backing, file)))
    }
}

struct NothingToClear;

impl MakesRoom for NothingToClear {
    fn make_room(&self) {}
}

/// Bodies over one tier and a lower file system, in a directory that goes with them.
struct Alone {
    dir: tempfile::TempDir,
    namespace: Arc<Namespace>,
    tiers: Arc<Tiers>,
    changed: Arc<Changed>,
    bodies: Bodies,
}

impl Alone {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("below");
        std::fs::create_dir(&below).unwrap();
        let tiers = Arc::new(one_tier(&dir.path().join("tier")));
        let (_, namespace) = lone();
        let tree = open_tree(Some(&below), &namespace).unwrap();
        let namespace = Arc::new(namespace);
        let options = NodeOptions { name: NodeId("a".into()), ..NodeOptions::new("/nowhere") };
        let placing = Placing::new(&options, Arc::clone(&tiers), Arc::clone(&namespace), None);
        let makes_room: Arc<dyn MakesRoom> = Arc::new(NothingToClear);
        let parts = Arc::new(Parts::new(&tiers, &namespace, &makes_room));
        let (names, queue) = (Arc::clone(&namespace), Arc::new(Queue::new(1024)));
        let events = Arc::clone(&parts) as Arc<dyn FileEvents>;
        let ledger = Arc::new(Ledger::new(Arc::clone(&tiers), names, queue, events, false));
        let changed = Arc::new(Changed::default());
        let lower = Lower::new(tree, &namespace, Arc::clone(&changed) as Arc<dyn LowerEvents>);
        let bodies = Bodies::new(
            &options,
            BodyParts {
                namespace: &namespace,
                tiers: &tiers,
                placing: &Arc::new(placing),
                ledger: &ledger,
                parts: &parts,
                hinted: &Arc::new(Hinted::default()),
                cluster: None,
                makes_room,
                copies: Arc::new(First(Arc::clone(&tiers))),
                lower,
            },
        );
        Self { dir, namespace, tiers, changed, bodies }
    }

    fn below(&self, name: &str) -> PathBuf {
        self.dir.path().join("below").join(name)
    }

    fn create(&self, name: &[u8]) -> Inode {
        let new = NewInode::new(FileKind::Regular, 0o644, 0, 0);
        self.namespace.create(InodeId::ROOT, name, new, now()).unwrap()
    }

    fn load(&self, inode: &Inode) -> Result<Body> {
        self.bodies.load(inode, &HintSet::default()).map(|loaded| loaded.body)
    }

    fn holds(&self, backing: BackingRef) -> bool {
        self.tiers.get(backing.tier).unwrap().open_file(backing.file, false).is_ok()
    }
}

fn bytes_of(body: &Body) -> Vec<u8> {
    let mut buffer = vec![0; usize::try_from(body.size_bytes().unwrap()).unwrap() + 1];
    let n = match body.source(0, &mut buffer) {
        Source::Done(n) => n,
        Source::File(file) => file.read_at(&mut buffer, 0).unwrap(),
        Source::Far(_) => panic!("there are no other hosts"),
    };
    buffer.truncate(n);
    buffer
}

fn below(body: &Body) -> &LowerBody {
    match body {
        Body::Lower(lower) => lower,
        _ => panic!("it is not in the lower file system"),
    }
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn a_record_names_a_file_once_the_bytes_are_in_it() {
    let alone = Alone::new();
    let inode = alone.create(b"f");
    assert_eq!(bytes_of(&alone.load(&inode).unwrap()), b"");
    let new = alone.bodies.write_out(inode.ino, b"some bytes", TierId(0), None).unwrap();
    assert_eq!(alone.bodies.record(inode.ino).unwrap().layout, Layout::Empty);
    let named = alone.bodies.name(inode.ino, new, 10, Vec::new()).unwrap();
    let inode = alone.bodies.record(inode.ino).unwrap();
    assert_eq!(inode.layout, Layout::Local(named.backing));
    assert_eq!(bytes_of(&alone.load(&inode).unwrap()), b"some bytes");
}

#[test]
fn a_file_that_no_record_can_name_is_given_back() {
    let alone = Alone::new();
    let inode = alone.create(b"f");
    let new = alone.bodies.write_out(inode.ino, b"some bytes", TierId(0), None).unwrap();
    let backing = new.backing;
    assert!(alone.holds(backing));
    alone.namespace.unlink(InodeId::ROOT, b"f", |_| false, now()).unwrap();
    let named = alone.bodies.name(inode.ino, new, 10, Vec::new());
    assert!(matches!(named, Err(Error::NotFound)));
    assert!(!alone.holds(backing));
}

#[test]
fn a_record_that_has_changed_is_no_damage() {
    let alone = Alone::new();
    let inode = alone.create(b"f");
    let new = alone.bodies.write_out(inode.ino, b"some bytes", TierId(0), None).unwrap();
    let backing = alone.bodies.name(inode.ino, new, 10, Vec::new()).unwrap().backing;
    let before = alone.bodies.record(inode.ino).unwrap();
    alone.tiers.get(backing.tier).unwrap().remove(backing.file).unwrap();
    assert!(matches!(alone.load(&before), Err(Error::Io { .. })), "its file is missing");
    let emptied = |inode: &mut Inode| {
        inode.layout = Layout::Empty;
        inode.size_bytes = 0;
        Ok(())
    };
    let now = alone.namespace.update(inode.ino, emptied).unwrap();
    assert!(matches!(alone.load(&before), Err(Error::Busy(_))), "it is to be asked for anew");
    assert_eq!(bytes_of(&alone.load(&now).unwrap()), b"");
}

#[test]
fn a_lower_file_is_read_where_it_is_and_copied_before_it_is_written() {
    let alone = Alone::new();
    let (lower, path) = (&alone.bodies.lower, alone.below("f"));
    std::fs::write(&path, b"as it was").unwrap();
    assert!(lower.adopt_name(InodeId::ROOT, b"f").unwrap());
    assert!(!lower.adopt_name(InodeId::ROOT, b"g").unwrap());
    let inode = alone.namespace.lookup(InodeId::ROOT, b"f").unwrap();
    let old = alone.load(&inode).unwrap();
    assert_eq!(bytes_of(&old), b"as it was");
    assert!(!old.is_stale(&inode) && !lower.take_outdated(inode.ino));

    std::fs::write(&path, b"as it has become").unwrap();
    let renewed = lower.renewed(inode.clone()).unwrap();
    assert_eq!(renewed.size_bytes, 16);
    assert_eq!(*alone.changed.0.lock(), [inode.ino]);
    assert!(lower.take_outdated(inode.ino) && !lower.take_outdated(inode.ino));
    assert!(old.is_stale(&renewed), "what is open is of the file before");
    let (none, ino) = (HintSet::default(), inode.ino);
    let refused = alone.bodies.copy_up(ino, below(&old), &none, None, Vec::new());
    assert!(matches!(refused, Err(Error::Busy(_))));
    assert_eq!(alone.bodies.record(ino).unwrap().layout, renewed.layout);

    let present = alone.load(&renewed).unwrap();
    let (copy, recorded) =
        alone.bodies.copy_up(ino, below(&present), &none, None, Vec::new()).unwrap();
    assert_eq!(recorded.layout, Layout::Local(copy.backing));
    let mut copy = Body::local(copy);
    let writer = copy.writer(&alone.tiers).unwrap();
    writer.write_all_at(b"AS", 0).unwrap();
    assert_eq!(bytes_of(&copy), b"AS it has become");
    assert_eq!(read(&path), b"as it has become", "nothing is written there");
}

#[test]
fn a_striped_file_needs_other_hosts() {
    let alone = Alone::new();
    let inode = alone.create(b"f");
    let part = BackingRef {
        tier: TierId(9),
        file: alone.tiers.take_file(TierId(0), &alone.namespace).unwrap().0.file,
    };
    let striped = Layout::Striped { parts: vec![part; 2], chunk_bytes: 4096, cuts: 0 };
    let deal = |inode: &mut Inode| {
        inode.layout = striped.clone();
        Ok(())
    };
    let inode = alone.namespace.update(inode.ino, deal).unwrap();
    assert!(matches!(alone.load(&inode), Err(Error::Corrupt { .. })));
    assert!(alone.bodies.stripes.wanted(&HintSet::default()).unwrap().is_none());
}

#[test]
fn bytes_beside_the_inode_are_changed_in_memory_while_they_are_few() {
    let mut beside = Body::empty();
    assert!(beside.write_beside(b"abc", 2, 5));
    assert!(!beside.write_beside(b"d", 5, 5), "that would be six");
    assert!(!beside.write_beside(b"d", u64::MAX, u64::MAX));
    assert!(!beside.resize_beside(6, 5));
    assert_eq!(bytes_of(&beside), b"\0\0abc");
    assert!(beside.resize_beside(3, 5) && beside.write_beside(b"x", 0, 5));
    assert_eq!(bytes_of(&beside), b"x\0a");
    assert_eq!(beside.kernel_reach(), KernelReach::OnceMoved);
    assert!(beside.own_file().is_none() && beside.kernels_file().is_none());
}

#[test]
fn bytes_in_a_file_are_changed_there() {
    let alone = Alone::new();
    let new = alone.bodies.write_out(InodeId(7), b"some bytes", TierId(0), None).unwrap();
    let mut own = Body::local(new);
    assert!(!own.write_beside(b"x", 0, 100) && !own.resize_beside(0, 100));
    own.drop_lower();
    assert_eq!(bytes_of(&own), b"some bytes");
    assert_eq!(own.kernel_reach(), KernelReach::Tier(TierId(0)));
    assert!(own.own_file().is_some() && own.kernels_file().is_some());
    let kept = Body::kept(own.into_own().unwrap());
    assert_eq!(kept.kernel_reach(), KernelReach::Tier(TierId(0)));
    assert!(kept.own_file().is_none(), "a copy is only read");
    assert!(kept.kernels_file().is_some());
}

#[test]
fn an_own_file_is_told_as_it_is_now() {
    let alone = Alone::new();
    let new = alone.bodies.write_out(InodeId(7), b"some bytes", TierId(0), None).unwrap();
    let backing = new.backing;
    let mut own = Body::local(new);
    assert_eq!((own.own_backing(), own.own_tier()), (Some(backing), Some(TierId(0))));
    assert!(own.is_unwritten().unwrap() && !own.may_be_held_by_others());
    own.writer(&alone.tiers).unwrap().write_all_at(b"!", 10).unwrap();
    assert!(!own.is_unwritten().unwrap() && own.may_be_held_by_others());
    own.close_writer();
    assert!(own.is_unwritten().unwrap());
    let now = own.own_now().unwrap().unwrap();
    assert_eq!((now.backing, now.stat.size_bytes), (backing, 11));
    assert_eq!(own.own_content(11).unwrap().unwrap(), b"some bytes!");
    assert!(own.own_content(10).unwrap().is_none(), "it is longer");
    assert_eq!(own.account(&alone.tiers, 0).unwrap(), now.stat.blocks_512);

    let mut kept = Body::kept(own.into_own().unwrap());
    assert_eq!((kept.own_backing(), kept.copy_backing()), (None, Some(backing)));
    assert!(kept.own_now().unwrap().is_none() && kept.writer(&alone.tiers).is_err());
    assert!(kept.is_unwritten().unwrap() && !kept.may_be_held_by_others());
    assert_eq!(kept.account(&alone.tiers, 3).unwrap(), 3);
}

#[test]
fn a_body_says_what_it_is_to_a_changed_record() {
    let alone = Alone::new();
    let mut inode = alone.create(b"f");
    let new = alone.bodies.write_out(inode.ino, b"bytes", TierId(0), None).unwrap();
    let backing = new.backing;
    let own = Body::local(new);
    assert!(matches!(own.standing(&inode), Standing::Dropped(local) if local.backing == backing));
    assert!(own.publication_waits(true, true));
    assert!(!own.publication_waits(true, false) && !own.publication_waits(false, true));
    inode.layout = Layout::Local(backing);
    assert!(matches!(own.standing(&inode), Standing::Named));
    let kept = Body::kept(own.into_own().unwrap());
    assert!(matches!(kept.standing(&inode), Standing::Cached(copy) if copy.backing == backing));
    let mut beside = Body::empty();
    assert!(matches!(beside.standing(&inode), Standing::Unknown));
    assert_eq!(
        (beside.replace_beside(b"new"), beside.to_record()),
        (Some(true), Some(&b"new"[..]))
    );
    assert_eq!(beside.replace_beside(b"new"), Some(false));
    for body in [&kept, &beside] {
        assert!(body.needs_right() && !body.publishes_itself() && !body.writes_without_right());
        assert!(!body.learn_record(&inode) && !body.publication_waits(true, true));
        assert!(!body.may_be_longer_than(u64::MAX) && !body.lay_over(&mut inode.attr()));
    }
}

#[test]
fn a_lower_file_that_is_cut_to_nothing_is_not_copied() {
    let alone = Alone::new();
    std::fs::write(alone.below("f"), b"below").unwrap();
    assert!(alone.bodies.lower.adopt_name(InodeId::ROOT, b"f").unwrap());
    let inode = alone.namespace.lookup(InodeId::ROOT, b"f").unwrap();
    let mut body = alone.load(&inode).unwrap();
    assert!(!body.write_beside(b"x", 0, 100) && !body.resize_beside(3, 100));
    assert!(matches!(body.moves_from(), Some(MovesFrom::Below(_))));
    assert!(body.is_dropped_when_cut() && !body.is_summed());
    assert_eq!((bytes_of(&body), body.kernel_reach()), (b"below".to_vec(), KernelReach::OnceMoved));
    assert!(body.resize_beside(0, 100) && body.write_beside(b"new", 0, 100));
    assert_eq!((bytes_of(&body), read(&alone.below("f"))), (b"new".to_vec(), b"below".to_vec()));
}
