//! What is left of changes that have taken place goes later, many in one commit, or by the sweep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use intarsia_meta::{MetaEngine, Namespace};
use intarsia_types::{Error, InodeId, PartitionId};

use crate::common::{at, dir};
use crate::hooked::Hooked;
use crate::world::{PARTITIONS, World, assert_sound, node, traces};

/// Makes directories in one; how many of them are elsewhere.
fn make(ns: &Namespace, parent: InodeId, names: std::ops::Range<u32>) -> usize {
    let made = names.map(|n| ns.create(parent, n.to_string().as_bytes(), dir(), at(2)).unwrap());
    made.filter(|inode| inode.ino.partition() != parent.partition()).count()
}

#[test]
fn what_is_left_of_many_changes_goes_in_few_commits() {
    let world = World::new().dir("a", 2, ("root", "a"));
    let engine = world.fork();
    let woken = Arc::new(AtomicU32::new(0));
    let wake = Arc::clone(&woken);
    let ns = node(Arc::clone(&engine) as Arc<dyn MetaEngine>).with_remains(move || {
        wake.fetch_add(1, SeqCst);
    });
    // So that all numbers are reserved.
    make(&ns, world.ino("a"), 0..40);
    ns.remove_remains();
    assert!(!ns.has_remains());
    woken.store(0, SeqCst);

    let before = engine.stats().commits;
    let elsewhere = make(&ns, world.ino("a"), 40..80);
    let made = engine.stats().commits - before;
    assert_eq!(made, 40 + elsewhere as u64, "two commits for each that is elsewhere");
    assert_eq!(woken.load(SeqCst) as usize, elsewhere);
    assert_eq!(traces(&*engine).len(), 2 * elsewhere, "records, and no intents");
    assert!(ns.has_remains());
    // They are nobody's business, not even a check's.
    let other = node(Arc::clone(&engine) as Arc<dyn MetaEngine>);
    assert_eq!(other.check(false, &mut |_| {}).unwrap().findings, []);
    let made = other.lookup(world.ino("a"), b"50").unwrap().ino;
    make(&other, made, 0..1);
    other.rmdir(made, b"0", at(3)).unwrap();
    other.rmdir(world.ino("a"), b"50", at(3)).unwrap();

    let before = engine.stats().commits;
    ns.remove_remains();
    let removed = engine.stats().commits - before;
    assert!(removed <= u64::from(PARTITIONS), "{removed} commits");
    assert!(!ns.has_remains());
    ns.remove_remains();
    assert_sound(engine as Arc<dyn MetaEngine>, "after all is removed");
}

#[test]
fn not_too_much_is_left() {
    let world = World::new().dir("a", 2, ("root", "a"));
    let engine = world.fork();
    let ns = node(Arc::clone(&engine) as Arc<dyn MetaEngine>).with_remains(|| ());
    let mut most = 0;
    for n in 0..30 {
        make(&ns, world.ino("a"), n * 10..n * 10 + 10);
        most = most.max(traces(&*engine).len());
    }
    assert!((200..=256).contains(&most), "{most} records at a time");
}

#[test]
fn what_cannot_be_removed_is_left_to_the_sweep() {
    for down in (0..PARTITIONS).map(PartitionId) {
        let world = World::new().dir("a", 2, ("root", "a"));
        let engine = world.fork();
        let is_down = Arc::new(AtomicBool::new(false));
        let refuses = Arc::clone(&is_down);
        let half =
            Hooked::new(
                Arc::clone(&engine) as Arc<dyn MetaEngine>,
                move |partition| match partition == down && refuses.load(SeqCst) {
                    true => Err(Error::Engine("no server answers".into())),
                    false => Ok(()),
                },
            );
        let ns = node(half as Arc<dyn MetaEngine>).with_remains(|| ());
        make(&ns, world.ino("a"), 0..20);
        is_down.store(true, SeqCst);
        ns.remove_remains();
        assert!(!ns.has_remains());
        // No record is left whose decision is gone: it would be taken back, and the directory with it.
        let other = node(Arc::clone(&engine) as Arc<dyn MetaEngine>);
        assert_eq!(other.recover_transactions(Duration::ZERO).unwrap().undone, 0);
        assert_eq!(other.list(world.ino("a"), 0, 100).unwrap().len(), 20);
        assert_sound(engine as Arc<dyn MetaEngine>, &format!("{down:?} was down"));
    }
}

#[test]
fn nothing_is_left_of_a_directory_that_was_to_be_made_in_a_file() {
    let world = World::new().file("f", 2, ("root", "f"));
    let engine = world.fork();
    let ns = node(Arc::clone(&engine) as Arc<dyn MetaEngine>);
    for n in 0..10 {
        let made = ns.create(world.ino("f"), n.to_string().as_bytes(), dir(), at(2));
        assert!(matches!(made, Err(Error::NotDirectory)));
    }
    assert_sound(engine as Arc<dyn MetaEngine>, "after all were refused");
}
