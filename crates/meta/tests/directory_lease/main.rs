//! Leases on directories, between namespaces of several hosts over one engine: what one host keeps is
//! never anything but what the engine says.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/hooked.rs"]
mod hooked;
mod listings;
mod shared;
mod world;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use common::{at, dir, file, namespace};
use hooked::Hooked;
use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{Inode, Namespace, NewInode, Owner, RenameMode, SetMode};
use intarsia_types::{Error, InodeId, TierClass};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use world::{NAMES, Neighbours, Pauses, World, make, write};

/// A hint, which the record tells.
const TIER: &[u8] = b"user.intarsia.tier";

/// One change at random; refusals are as good as changes.
fn change(host: &Namespace, dirs: &[InodeId], random: &mut Xoshiro256PlusPlus, now: i64) {
    let (from, to) = (*dirs.choose(random).unwrap(), *dirs.choose(random).unwrap());
    let (name, new_name) = (NAMES.choose(random).unwrap(), NAMES.choose(random).unwrap());
    let now = at(now);
    let keep = |_| false;
    let outcome = match random.random_range(0..17) {
        0..=2 => host.create(from, name, file(), now).map(|_| ()),
        14..=16 => make(host, from, name, now).map(|_| ()),
        3 => host.create(from, name, dir(), now).map(|_| ()),
        4 => host.unlink(from, name, keep, now).map(|_| ()),
        5 => host.rmdir(from, name, now).map(|_| ()),
        6 => host.rename(from, name, to, new_name, RenameMode::Replace, keep, now).map(|_| ()),
        7 => host.rename(from, name, to, new_name, RenameMode::Exchange, keep, now).map(|_| ()),
        8 => host
            .lookup(from, name)
            .and_then(|inode| host.link(inode.ino, to, new_name, now))
            .map(|_| ()),
        9 => host
            .lookup(from, name)
            .and_then(|inode| host.set_xattr(inode.ino, TIER, b"disk", SetMode::Either, now)),
        12 => host.lookup(from, name).and_then(|inode| host.remove_xattr(inode.ino, TIER, now)),
        10 => host.lookup(from, name).and_then(|inode| {
            let change = |inode: &mut Inode| {
                inode.perm ^= 0o111;
                Ok(())
            };
            host.update(inode.ino, change).map(|_| ())
        }),
        11 => host.lookup(from, name).and_then(|inode| write(host, &inode, now.secs)),
        _ => host.lease_directory(from).and_then(|_| host.fetch_directory(from)),
    };
    if let Err(error) = outcome {
        assert!(!matches!(error, Error::Corrupt { .. } | Error::Engine(_)), "{error}");
    }
}

#[test]
fn after_each_change_all_hosts_see_what_the_engine_says() {
    for (seed, partitions) in [(1, 1), (2, 2), (3, 5), (4, 5), (5, 64)] {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut world = World::new(3, partitions);
        if seed % 2 == 0 {
            world = world.unreliable();
        }
        let mut promised = 0;
        for round in 0..250 {
            let dirs = world.dirs();
            let host = world.at(random.random_range(0..3));
            for _ in 0..random.random_range(1..=4) {
                change(host, &dirs, &mut random, round);
            }
            promised += u32::from(host.has_promises());
            if random.random_range(0..3) == 0 {
                change(world.at(random.random_range(0..3)), &dirs, &mut random, round);
            } else {
                // What is promised shows on its host as it will be.
                let shown = World::tree(host);
                host.keep_promises_older_than(Duration::ZERO);
                let truth = World::tree(&world.truth);
                for (shown, truth) in shown.iter().zip(&truth) {
                    assert_eq!(shown, truth, "seed {seed}, round {round}");
                }
                assert_eq!(shown.len(), truth.len());
            }
            world.keep_promises();
            if round % 3 == 0 {
                let host = world.at(random.random_range(0..3));
                host.lease_directory(*dirs.choose(&mut random).unwrap()).ok();
            }
            world.check();
        }
        assert!(world.told.load(Ordering::Relaxed) > 50, "holders were told of changes");
        assert!(
            partitions == 1 || world.asked.load(Ordering::Relaxed) > 0,
            "leases were asked back"
        );
        assert!(promised > 5, "{promised} rounds with promises");
    }
}

#[test]
fn hosts_that_work_at_the_same_time_agree_in_the_end() {
    let rounds = std::env::var("ROUNDS").map_or(6, |n| n.parse().unwrap());
    for round in 0..rounds {
        let engine = Hooked::new(Arc::new(MemoryEngine::new(5)), Pauses::new(round));
        let world = World::over(3, engine).unreliable();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(round);
        for n in 0..30 {
            change(world.at(0), &world.dirs(), &mut random, n);
        }
        let dirs = world.dirs();
        thread::scope(|scope| {
            for n in 0..6 {
                let (host, dirs) = (world.at(n % 3), &dirs);
                scope.spawn(move || {
                    let seed = round * 100 + n as u64;
                    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                    for now in 0..150 {
                        change(host, dirs, &mut random, now);
                        let dir = dirs.choose(&mut random).unwrap();
                        if now % 5 == 0 {
                            host.lease_directory(*dir).ok();
                        }
                        host.list_plus(*dir, 0, 10, |_| ()).ok();
                    }
                });
            }
        });
        world.keep_promises();
        world.check();
    }
}

#[test]
fn a_leased_directory_is_read_once() {
    let world = World::new(2, 5);
    let d = world.at(0).create(InodeId::ROOT, b"a", dir(), at(1)).unwrap().ino;
    for name in NAMES {
        let ino = world.at(0).create(d, name, file(), at(2)).unwrap();
        write(world.at(0), &ino, 3).unwrap();
    }
    let reader = world.at(1);
    assert!(reader.lease_directory(d).unwrap() && reader.holds_directory(d));
    reader.fetch_directory(d).unwrap();
    let before = world.engine.stats();
    for name in NAMES {
        let inode = reader.lookup(d, name).unwrap();
        assert_eq!(inode.covered_by(), Some(d));
        assert_eq!(reader.get(inode.ino).unwrap(), inode);
        assert_eq!(*reader.get_body(inode.ino).unwrap().unwrap(), 3_i64.to_be_bytes());
        assert!(matches!(reader.lookup(d, &[name, b"-absent"].concat()), Err(Error::NotFound)));
    }
    assert_eq!(reader.list(d, 0, 100).unwrap().len(), NAMES.len());
    let after = world.engine.stats();
    assert_eq!((after.gets, after.scans), (before.gets, before.scans));

    // Whoever changes something tells it what, and it goes on to keep the rest.
    assert_eq!(world.told.load(Ordering::Relaxed), 0);
    world.at(0).unlink(d, NAMES[0], |_| false, at(9)).unwrap();
    world.at(0).unlink(d, NAMES[1], |_| false, at(9)).unwrap();
    assert_eq!(world.told.load(Ordering::Relaxed), 2);
    assert!(reader.holds_directory(d) && !reader.is_changed_elsewhere(d));
    assert!(matches!(reader.lookup(d, NAMES[0]), Err(Error::NotFound)));
    let before = world.engine.stats();
    for name in &NAMES[2..] {
        let inode = reader.lookup(d, name).unwrap();
        assert_eq!(*reader.get_body(inode.ino).unwrap().unwrap(), 3_i64.to_be_bytes());
    }
    assert_eq!(world.engine.stats().gets, before.gets);
    assert_eq!(reader.list(d, 0, 100).unwrap().len(), NAMES.len() - 2);
    // Its holder changes it without asking anybody, once it is the only one.
    reader.release_directory(d).unwrap();
    assert!(world.at(0).lease_directory(d).unwrap());
    world.at(0).unlink(d, NAMES[2], |_| false, at(9)).unwrap();
    assert!(world.at(0).holds_directory(d));
    assert_eq!(world.told.load(Ordering::Relaxed), 2);
    assert_eq!(world.asked.load(Ordering::Relaxed), 0);
    assert_eq!(world.at(0).leased_directories(), [d]);
}

#[test]
fn hints_are_leased_with_the_record_until_another_host_changes_them() {
    let world = World::new(2, 5);
    let (setter, reader) = (world.at(0), world.at(1));
    let xattrs = vec![(TIER.to_vec(), b"disk".to_vec())];
    let new = NewInode { xattrs: xattrs.clone(), ..dir() };
    let d = setter.create(InodeId::ROOT, b"d", new, at(1)).unwrap().ino;
    let f = setter.create(d, b"f", NewInode { xattrs, ..file() }, at(1)).unwrap().ino;
    let tiers = |host: &Namespace| {
        [d, f].map(|ino| host.hints_of(&host.get(ino).unwrap()).unwrap().hints().tier())
    };
    assert!(reader.lease_directory(d).unwrap());
    reader.fetch_directory(d).unwrap();
    let before = world.engine.stats();
    assert_eq!(tiers(reader), [Some(TierClass::Disk); 2]);
    let after = world.engine.stats();
    assert_eq!((after.gets, after.scans), (before.gets, before.scans));

    for (told, (ino, value, expected)) in [
        (d, Some("ssd"), [Some(TierClass::Ssd), Some(TierClass::Disk)]),
        (f, Some("memory"), [Some(TierClass::Ssd), Some(TierClass::Memory)]),
        (f, None, [Some(TierClass::Ssd), None]),
    ]
    .into_iter()
    .enumerate()
    {
        match value {
            Some(value) => setter.set_xattr(ino, TIER, value.as_bytes(), SetMode::Either, at(2)),
            None => setter.remove_xattr(ino, TIER, at(2)),
        }
        .unwrap();
        assert_eq!(world.told.load(Ordering::Relaxed) as usize, told + 1);
        assert_eq!(tiers(reader), expected);
        assert!(reader.holds_directory(d));
        assert_eq!(tiers(reader), expected);
    }
    world.check();
}

#[test]
fn a_host_that_is_gone_for_good_is_not_waited_for() {
    let world = World::new(1, 5);
    let dead = world.host(Owner::new("dead", 1));
    assert!(dead.lease_directory(InodeId::ROOT).unwrap());
    world.at(0).create(InodeId::ROOT, b"a", file(), at(1)).unwrap();
    assert!(world.at(0).lease_directory(InodeId::ROOT).unwrap());
    world.at(0).create(InodeId::ROOT, b"b", file(), at(1)).unwrap();
    assert_eq!(
        world.asked.load(Ordering::Relaxed),
        0,
        "it was found to be gone, and left the record"
    );
}

/// A leased directory of a host, and what its first names mean, which is known there.
fn leased(world: &World, n: usize) -> InodeId {
    let d = world.at(n).create(InodeId::ROOT, b"dir", dir(), at(1)).unwrap().ino;
    assert!(world.at(n).lease_directory(d).unwrap());
    world.at(n).get(d).unwrap();
    d
}

#[test]
fn a_file_that_is_closed_at_once_costs_one_commit() {
    let world = World::new(2, 5);
    let (host, other) = (world.at(0), world.at(1));
    let d = leased(&world, 0);
    let before = world.engine.stats().commits;
    let inode = make(host, d, b"new", at(2)).unwrap();
    assert_eq!(world.engine.stats().commits, before, "nothing is committed yet");
    assert_eq!(host.lookup(d, b"new").unwrap(), inode);
    assert_eq!(host.list(d, 0, 10).unwrap().len(), 1);
    assert_eq!(host.get(d).unwrap().entries, 1);
    assert!(host.is_marked_writable(inode.ino).unwrap());
    write(host, &inode, 3).unwrap();
    host.keep_promise(inode.ino).unwrap();
    assert!(!host.has_promises());
    assert_eq!(world.engine.stats().commits, before + 1);
    assert_eq!(*other.get_body(inode.ino).unwrap().unwrap(), 3_i64.to_be_bytes());
    world.check();

    // One that is closed as it was made, too, and one that is gone before.
    let inode = make(host, d, b"empty", at(4)).unwrap();
    host.keep_promise(inode.ino).unwrap();
    make(host, d, b"gone", at(5)).unwrap();
    host.unlink(d, b"gone", |_| false, at(6)).unwrap();
    assert_eq!(world.engine.stats().commits, before + 3);
    world.check();
    assert_eq!(world.asked.load(Ordering::Relaxed), 0);
}

#[test]
fn what_is_promised_is_there_before_another_host_makes_the_same_name() {
    let world = World::new(2, 5);
    let (host, other) = (world.at(0), world.at(1));
    let d = leased(&world, 0);
    let inode = make(host, d, b"new", at(2)).unwrap();
    assert!(matches!(other.create(d, b"new", file(), at(3)), Err(Error::Exists)));
    assert_eq!(other.lookup(d, b"new").unwrap(), inode);
    host.keep_promise(inode.ino).unwrap();
    world.check();
    // Without the lease nothing is promised.
    host.create(d, b"second", NewInode { may_wait: true, ..file() }, at(4)).unwrap();
    assert!(!host.has_promises());
}

#[test]
fn a_host_that_was_given_up_says_that_it_did_not_keep_what_it_promised() {
    let world = World::new(2, 5);
    let (host, other) = (world.at(0), world.at(1));
    let d = leased(&world, 0);
    let lost = make(host, d, b"lost", at(2)).unwrap();
    let kept = make(host, d, b"kept", at(2)).unwrap();
    host.keep_promise(kept.ino).unwrap();
    // Before it comes back it claims what it writes; that must ask nobody.
    assert!(other.lease_directory(d).unwrap());
    let (asked, before, next) =
        (world.asked.load(Ordering::Relaxed), host.owner(), Owner::new("host0", 2));
    host.break_promises();
    assert!(host.hand_over_write(kept.ino, &before, &next).unwrap());
    assert!(!host.hand_over_write(lost.ino, &before, &next).unwrap());
    host.set_owner(next);
    assert_eq!(world.asked.load(Ordering::Relaxed), asked);
    for _ in 0..2 {
        assert!(matches!(host.keep_promise(lost.ino), Err(Error::Engine(_))));
    }
    host.keep_promise(kept.ino).unwrap();
    assert!(matches!(host.lookup(d, b"lost"), Err(Error::NotFound)));
    assert!(matches!(other.lookup(d, b"lost"), Err(Error::NotFound)));
    assert!(matches!(write(host, &lost, 3), Err(Error::NotFound)));
    world.check();
}

#[test]
fn a_host_that_comes_back_does_not_wait_for_what_it_was() {
    let world = World::new(1, 5);
    let host = world.at(0);
    assert!(host.lease_directory(InodeId::ROOT).unwrap());
    host.set_owner(Owner::new("host0", 2));
    host.create(InodeId::ROOT, b"a", file(), at(1)).unwrap();
    assert_eq!(world.asked.load(Ordering::Relaxed), 0, "nobody is asked");
    assert!(host.lease_directory(InodeId::ROOT).unwrap());
    world.check();
}

#[test]
fn a_lease_that_is_long_in_coming_holds_up_no_other() {
    let world = World::new(1, 8);
    let dirs: Vec<InodeId> = (0..20)
        .map(|n| world.at(0).create(InodeId::ROOT, format!("d{n}").as_bytes(), dir(), at(1)))
        .map(|made| made.unwrap().ino)
        .collect();
    let slow = *dirs.iter().find(|dir| dir.partition() != InodeId::ROOT.partition()).unwrap();
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let (slow_partition, for_engine) = (slow.partition(), Arc::clone(&gate));
    let engine = Hooked::new(Arc::clone(&world.engine), move |partition| {
        if partition == slow_partition {
            let (is_open, changed) = &*for_engine;
            drop(changed.wait_while(is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
        }
        Ok(())
    });
    let hosts = Arc::downgrade(&world.hosts);
    let recall = Neighbours {
        hosts,
        me: Owner::new("patient", 1),
        asked: Arc::default(),
        told: Arc::default(),
        is_unreliable: Arc::default(),
        silent: Arc::default(),
    };
    let host = namespace(engine).with_owner(Owner::new("patient", 1)).with_leases(Arc::new(recall));
    thread::scope(|scope| {
        let asking = scope.spawn(|| host.lease_directory(slow));
        let others = dirs.iter().filter(|dir| dir.partition() != slow.partition());
        let granted = others.filter(|dir| host.lease_directory(**dir).is_ok_and(|is| is)).count();
        let is_waiting = !asking.is_finished();
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        assert!(asking.join().unwrap().unwrap());
        assert!(is_waiting && granted > 10, "{granted} granted meanwhile");
    });
}

/// The lease goes and is had again while a promised file is being recorded: what was read then lacks the file.
#[test]
fn a_promised_file_is_there_when_it_was_recorded_under_a_later_lease() {
    type Job = Box<dyn FnOnce() + Send>;
    let before_commit: Arc<Mutex<Option<Job>>> = Arc::default();
    let next = Arc::clone(&before_commit);
    let engine = Hooked::new(Arc::new(MemoryEngine::new(5)), move |_| {
        let job = next.lock().unwrap().take();
        job.into_iter().for_each(|job| job());
        Ok(())
    });
    let world = World::over(1, engine);
    let host = world.at(0);
    let d = host.create(InodeId::ROOT, b"d", dir(), at(1)).unwrap().ino;
    make(host, d, b"a", at(2)).unwrap();
    assert!(host.has_promises());
    let hosts = Arc::clone(&world.hosts);
    *before_commit.lock().unwrap() = Some(Box::new(move || {
        let host = hosts[0].1.get().unwrap();
        assert!(host.lease_directory(d).unwrap());
        host.fetch_directory(d).unwrap();
    }));
    host.forget_directory(d);
    assert!(!host.has_promises() && before_commit.lock().unwrap().is_none());
    assert_eq!(host.lookup(d, b"a").unwrap(), world.truth.lookup(d, b"a").unwrap());
    world.check();
}
