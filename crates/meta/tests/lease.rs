//! The right to write, between namespaces of several hosts over one engine.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::sync::Arc;

use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{
    Extra, FreeFile, MetaEngine, Namespace, NewInode, Owner, RootSpec, WriteLease,
};
use intarsia_types::{
    BackingFileId, BackingRef, Error, FileKind, InodeId, Layout, NodeId, TierId, Timestamp,
};

const NOW: Timestamp = Timestamp { secs: 1, nanos: 0 };

fn host(engine: &Arc<dyn MetaEngine>, name: &str) -> Namespace {
    let root = RootSpec { perm: 0o755, uid: 0, gid: 0 };
    Namespace::open(Arc::clone(engine), root, NOW).unwrap().with_owner(Owner::new(name, 1))
}

fn grow(host: &Namespace, ino: InodeId) -> intarsia_types::Result<u64> {
    let grown = host.update_with(ino, &[Extra::HoldWritable], |inode| {
        inode.size_bytes += 1;
        Ok(())
    });
    grown.map(|inode| inode.size_bytes)
}

#[test]
fn one_host_at_a_time_may_write_and_who_lost_the_right_is_fenced_off() {
    for partitions in [1, 5] {
        let engine: Arc<dyn MetaEngine> = Arc::new(MemoryEngine::new(partitions));
        let (a, b) = (host(&engine, "a"), host(&engine, "b"));
        let new = NewInode::new(FileKind::Regular, 0o644, 0, 0);
        let ino = a.create(InodeId::ROOT, b"f", new, NOW).unwrap().ino;
        let refused = grow(&a, ino);
        assert!(matches!(refused, Err(Error::Engine(_))), "nobody has asked yet: {refused:?}");

        assert!(matches!(a.acquire_write(ino).unwrap(), WriteLease::Held(_)));
        assert!(matches!(a.acquire_write(ino).unwrap(), WriteLease::Held(_)), "again");
        assert_eq!(b.acquire_write(ino).unwrap(), WriteLease::HeldBy(Owner::new("a", 1)));
        assert_eq!(grow(&a, ino).unwrap(), 1);
        assert!(matches!(grow(&b, ino), Err(Error::Engine(_))));
        let marked = |node: &str| a.writable_inodes(&NodeId(node.into()), None, 10).unwrap();
        assert_eq!(marked("a"), [(ino, Owner::new("a", 1))]);
        assert_eq!(marked("b"), [], "each finds its own");

        let (found, writer) = b.get_with_writer(ino).unwrap();
        assert_eq!((found, writer), (b.get(ino).unwrap(), Some(Owner::new("a", 1))));

        // The holder is known to be dead; should it wake up, it has lost.
        let take = |owner| b.take_over_write(ino, &owner, |_| true).unwrap();
        assert_eq!(take(Owner::new("c", 1)), None, "not whose it was");
        assert_eq!(take(Owner::new("a", 2)), None, "not in this life");
        assert_eq!(take(Owner::new("a", 1)), Some(Vec::new()));
        assert_eq!(grow(&b, ino).unwrap(), 2);
        assert!(matches!(grow(&a, ino), Err(Error::Engine(_))));

        b.update_with(ino, &[Extra::HoldWritable, Extra::ClearWritable], |_| Ok(())).unwrap();
        assert_eq!(b.writer(ino).unwrap(), None);
        assert_eq!(b.get_with_writer(ino).unwrap().1, None);
        assert!(matches!(a.acquire_write(ino).unwrap(), WriteLease::Held(_)));
        a.unlink(InodeId::ROOT, b"f", |_| false, NOW).unwrap();
        assert!(matches!(a.acquire_write(ino), Err(Error::NotFound)));
    }
}

#[test]
fn a_host_claims_what_an_earlier_life_of_it_held_unless_others_were_faster() {
    let engine: Arc<dyn MetaEngine> = Arc::new(MemoryEngine::new(5));
    let (a, b) = (host(&engine, "a"), host(&engine, "b"));
    let make = |name: &[u8]| {
        let new = NewInode::new(FileKind::Regular, 0o644, 0, 0);
        let ino = a.create(InodeId::ROOT, name, new, NOW).unwrap().ino;
        assert!(matches!(a.acquire_write(ino).unwrap(), WriteLease::Held(_)));
        ino
    };
    let (kept, taken) = (make(b"kept"), make(b"taken"));
    let (old, new) = (a.owner(), Owner::new("a", 2));
    a.set_owner(new.clone());
    assert!(matches!(grow(&a, kept), Err(Error::Engine(_))), "the lease is of another life");
    assert!(b.take_over_write(taken, &old, |_| true).unwrap().is_some());
    assert!(a.hand_over_write(kept, &old, &new).unwrap());
    assert!(!a.hand_over_write(taken, &old, &new).unwrap());
    assert_eq!(grow(&a, kept).unwrap(), 1);
    assert!(matches!(grow(&a, taken), Err(Error::Engine(_))));
    assert_eq!(a.writer(taken).unwrap(), Some(b.owner()));
}

#[test]
fn the_right_is_passed_on_only_with_the_record_that_the_heir_knows() {
    let engine: Arc<dyn MetaEngine> = Arc::new(MemoryEngine::new(5));
    let (a, b) = (host(&engine, "a"), host(&engine, "b"));
    let new = NewInode::new(FileKind::Regular, 0o644, 0, 0);
    let ino = a.create(InodeId::ROOT, b"f", new, NOW).unwrap().ino;
    assert!(matches!(a.acquire_write(ino).unwrap(), WriteLease::Held(_)));
    let known = b.get(ino).unwrap();
    assert_eq!(grow(&a, ino).unwrap(), 1);
    assert!(!b.hand_over_unchanged(&known, &a.owner(), &b.owner()).unwrap());
    assert_eq!(grow(&a, ino).unwrap(), 2);
    let known = b.get(ino).unwrap();
    assert!(b.hand_over_unchanged(&known, &a.owner(), &b.owner()).unwrap());
    assert!(!b.hand_over_unchanged(&known, &a.owner(), &b.owner()).unwrap(), "it has gone");
    assert_eq!(grow(&b, ino).unwrap(), 3);
}

#[test]
fn with_the_right_to_write_goes_what_a_dead_holder_may_have_changed() {
    for partitions in [1, 5] {
        let engine: Arc<dyn MetaEngine> = Arc::new(MemoryEngine::new(partitions));
        let (a, b) = (host(&engine, "a"), host(&engine, "b"));
        let [his, other] = [7, 8].map(TierId);
        let files = |tier| a.reserve_files(tier, 2).unwrap();
        let (at_his, at_other) = (files(his), files(other));
        let backing = |tier, file| BackingRef { tier, file };
        let make = |name: &[u8], copies: Vec<BackingRef>| {
            let new = NewInode {
                layout: Layout::of_copies(copies),
                ..NewInode::new(FileKind::Regular, 0o644, 0, 0)
            };
            let ino = a.create(InodeId::ROOT, name, new, NOW).unwrap().ino;
            assert!(matches!(a.acquire_write(ino).unwrap(), WriteLease::Held(_)));
            ino
        };
        let (home, copy) = (backing(his, at_his[0]), backing(other, at_other[0]));
        let two = make(b"two", vec![home, copy]);
        let one = make(b"one", vec![backing(his, at_his[1])]);
        let take = |ino| b.take_over_write(ino, &a.owner(), |copy| copy.tier == his).unwrap();
        assert_eq!(take(two), Some(vec![home]));
        assert_eq!(b.get(two).unwrap().layout, Layout::Local(copy));
        assert_eq!(b.writer(two).unwrap(), Some(b.owner()));
        assert_eq!(take(two), None);
        // What nobody else has stays.
        assert_eq!(take(one), Some(Vec::new()));
        assert_eq!(b.get(one).unwrap().layout, Layout::Local(backing(his, at_his[1])));
        assert!(matches!(grow(&a, two), Err(Error::Engine(_))));
    }
}

#[test]
fn a_copy_is_claimed_by_its_inode_or_collected_by_its_host_and_never_both() {
    for partitions in [1, 5] {
        let engine: Arc<dyn MetaEngine> = Arc::new(MemoryEngine::new(partitions));
        let (a, b) = (host(&engine, "a"), host(&engine, "b"));
        let tier = TierId(7);
        let files = b.reserve_files(tier, 3).unwrap();
        let [home, taken, collected] = [0, 1, 2].map(|n| BackingRef { tier, file: files[n] });
        let new = NewInode {
            layout: Layout::Local(home),
            ..NewInode::new(FileKind::Regular, 0o644, 0, 0)
        };
        let ino = a.create(InodeId::ROOT, b"f", new, NOW).unwrap().ino;
        for copy in [taken, collected] {
            b.offer_file(ino, copy).unwrap();
        }
        let free = |copy: BackingRef| FreeFile::of(ino, copy.file);
        let name = |copies: Vec<BackingRef>, claimed| {
            a.update_with(ino, &[Extra::HoldUnwritten, Extra::ClaimFree(claimed)], |inode| {
                inode.layout = Layout::of_copies(copies.clone());
                Ok(())
            })
        };
        name(vec![home, taken], taken).unwrap();
        // What was claimed is not collected, whatever was listed before; the rest of the list is.
        let listed = [free(taken), free(collected)];
        assert_eq!(b.take_free_files(tier, &listed).unwrap(), [free(collected)]);
        let refused = name(vec![home, collected], collected);
        assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
        assert_eq!(a.get(ino).unwrap().layout.copies(), [home, taken]);
        let mut known = Vec::new();
        a.each_known_file(|backing| known.push(backing)).unwrap();
        assert!(known.contains(&taken) && !known.contains(&collected), "{known:?}");

        // Nobody may be writing while copies are named that were made without the right to write.
        assert!(matches!(b.acquire_write(ino).unwrap(), WriteLease::Held(_)));
        b.offer_file(ino, collected).unwrap();
        assert!(matches!(name(vec![home, collected], collected), Err(Error::Busy(_))));
        b.update_with(ino, &[Extra::ClearWritable], |_| Ok(())).unwrap();

        // Every copy goes with the inode.
        let absent = BackingRef { tier: TierId(9), file: BackingFileId(9) };
        assert!(!a.take_free_file(absent.tier, free(absent)).unwrap());
        a.unlink(InodeId::ROOT, b"f", |_| false, NOW).unwrap();
        let left = a.free_files(tier).unwrap();
        assert!(listed.iter().chain([&free(home)]).all(|file| left.contains(file)), "{left:?}");
        assert_eq!(a.check(false, &mut |_| {}).unwrap().findings, []);
    }
}
