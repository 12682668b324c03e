//! Leases that several hosts keep while one of them changes the directory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{Inode, Invalidation, Mutation, Namespace, Owner, keys};
use intarsia_types::{Error, InodeId, PartitionId, Result};

use super::common::{at, dir, file};
use super::hooked::{Hook, Hooked};
use super::world::{World, write};

type Job = Box<dyn FnOnce() + Send>;

/// Does something once at a certain moment, or loses the answer to a commit.
#[derive(Default)]
struct Moments {
    before_lease_is_read: Mutex<Option<Job>>,
    before_commit: Mutex<Option<Job>>,
    loses_answer: AtomicBool,
}

fn run(job: &Mutex<Option<Job>>) {
    let job = job.lock().unwrap().take();
    job.into_iter().for_each(|job| job());
}

impl Hook for Arc<Moments> {
    fn before_request(&self, _: &str, asked: &mut dyn Iterator<Item = &[u8]>) {
        let mut asked = asked;
        if Iterator::any(&mut asked, |key| key.first() == Some(&keys::LEASE)) {
            run(&self.before_lease_is_read);
        }
    }

    fn before_commit(&self, _: PartitionId) -> Result<()> {
        run(&self.before_commit);
        match self.loses_answer.swap(false, Ordering::Relaxed) {
            true => Err(Error::Engine("no answer".into())),
            false => Ok(()),
        }
    }

    fn after_commit(&self, _: &[Mutation]) {}
}

/// Two hosts with the lease on a directory, and a file in it.
fn shared(moments: &Arc<Moments>) -> (World, InodeId, Inode) {
    let engine = Hooked::new(Arc::new(MemoryEngine::new(5)), Arc::clone(moments));
    let world = World::over(2, engine);
    let d = world.at(0).create(InodeId::ROOT, b"d", dir(), at(1)).unwrap().ino;
    let made = world.at(0).create(d, b"file", file(), at(1)).unwrap();
    for n in 0..2 {
        assert!(world.at(n).lease_directory(d).unwrap());
        world.at(n).fetch_directory(d).unwrap();
    }
    (world, d, made)
}

fn host(world: &World, n: usize) -> Arc<Namespace> {
    Arc::clone(world.hosts[n].1.get().unwrap())
}

#[test]
fn a_host_that_comes_back_to_a_lease_after_it_was_told_of_a_change_sees_that_change() {
    let moments = Arc::new(Moments::default());
    let (world, d, made) = shared(&moments);
    // The writer knows with whom it shares the lease.
    write(world.at(0), &made, 1).unwrap();
    let reader = host(&world, 1);
    *moments.before_commit.lock().unwrap() = Some(Box::new(move || {
        reader.release_directory(d).unwrap();
        assert!(reader.lease_directory(d).unwrap());
        reader.fetch_directory(d).unwrap();
    }));
    write(world.at(0), &made, 2).unwrap();
    assert!(moments.before_commit.lock().unwrap().is_none());
    assert_eq!(*world.at(1).get_body(made.ino).unwrap().unwrap(), 2_i64.to_be_bytes());
    world.check();
}

#[test]
fn what_changes_is_read_anew_until_the_change_is_over_or_the_lease_is_another_one() {
    let (world, d, made) = shared(&Arc::default());
    let (reader, writer) = (world.at(1), Owner::new("host0", 1));
    let is_kept = || {
        reader.get(made.ino).unwrap();
        let before = world.engine.stats().gets;
        reader.get(made.ino).unwrap();
        world.engine.stats().gets == before
    };
    assert!(is_kept());
    let told = |number| Invalidation { dir: d, number, keys: vec![keys::inode(made.ino)] };
    assert!(reader.invalidate(&writer, &told(7)) && reader.invalidate(&writer, &told(8)));
    assert!(reader.is_changed_elsewhere(d) && !is_kept());
    assert_eq!(reader.end_changes(&writer, &[7, 9]), [d]);
    assert!(reader.end_changes(&Owner::new("host0", 2), &[8]).is_empty(), "of another life");
    assert!(reader.is_changed_elsewhere(d) && !is_kept());
    // It never hears that this one is over.
    reader.release_directory(d).unwrap();
    assert!(!reader.invalidate(&writer, &told(10)), "it has no lease");
    assert!(reader.lease_directory(d).unwrap());
    assert!(!reader.is_changed_elsewhere(d) && is_kept());
    // A listing lacks a name that is being made: it does not say that there is none.
    let names = vec![keys::by_inode(keys::DENTRY, d).as_slice().into()];
    assert!(reader.invalidate(&writer, &Invalidation { dir: d, number: 11, keys: names }));
    reader.fetch_directory(d).unwrap();
    let before = world.engine.stats().gets;
    assert!(matches!(reader.lookup(d, b"new"), Err(Error::NotFound)));
    assert!(world.engine.stats().gets > before);
}

#[test]
fn a_host_that_keeps_nothing_for_a_while_stays_in_the_record_of_its_lease() {
    let moments = Arc::new(Moments::default());
    let (world, d, made) = shared(&moments);
    let (doubting, other) = (world.at(0), host(&world, 1));
    moments.loses_answer.store(true, Ordering::Relaxed);
    assert!(matches!(write(doubting, &made, 1), Err(Error::Engine(_))));
    assert!(!doubting.holds_directory(d) && doubting.leased_directories().contains(&d));
    // The other one is in its way, and leaves before it looks who that is.
    *moments.before_lease_is_read.lock().unwrap() =
        Some(Box::new(move || other.release_directory(d).unwrap()));
    doubting.create(d, b"new", file(), at(2)).unwrap();
    assert!(moments.before_lease_is_read.lock().unwrap().is_none());
    let told = world.told.load(Ordering::Relaxed) + world.asked.load(Ordering::Relaxed);
    world.at(1).create(d, b"newer", file(), at(3)).unwrap();
    assert!(!doubting.leased_directories().contains(&d), "it was told, and gave its lease back");
    assert_eq!(world.told.load(Ordering::Relaxed) + world.asked.load(Ordering::Relaxed), told);
    world.check();
}

#[test]
fn a_host_that_has_left_its_lease_is_not_waited_for() {
    let (world, d, made) = shared(&Arc::default());
    write(world.at(0), &made, 1).unwrap();
    *world.silent.lock().unwrap() = Some(world.hosts[1].0.clone());
    // It has the lease: as long as it does not say that it keeps nothing, nothing is changed.
    assert!(matches!(write(world.at(0), &made, 2), Err(Error::Engine(_))));
    *world.silent.lock().unwrap() = None;
    write(world.at(0), &made, 3).unwrap();
    assert!(world.at(1).lease_directory(d).unwrap());
    write(world.at(0), &made, 4).unwrap();
    // The writer believes that it is still there.
    world.at(1).release_directory(d).unwrap();
    *world.silent.lock().unwrap() = Some(world.hosts[1].0.clone());
    write(world.at(0), &made, 5).unwrap();
    assert_eq!(*world.at(1).get_body(made.ino).unwrap().unwrap(), 5_i64.to_be_bytes());
}

#[test]
fn a_lease_that_is_recorded_as_another_one_is_left() {
    let world = World::new(1, 5);
    let host = world.at(0);
    let d = host.create(InodeId::ROOT, b"d", dir(), at(1)).unwrap().ino;
    assert!(host.lease_directory(d).unwrap());
    // As a commit does that enters the record after all, though its answer was lost.
    let twin = world.host(Owner::new("host0", 1));
    assert!(twin.lease_directory(InodeId::ROOT).unwrap() && twin.lease_directory(d).unwrap());
    host.create(d, b"new", file(), at(2)).unwrap();
    assert!(!host.holds_directory(d));
    assert!(host.lease_directory(d).unwrap());
    host.create(d, b"newer", file(), at(3)).unwrap();
    assert!(host.holds_directory(d));
}
