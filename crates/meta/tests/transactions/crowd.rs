//! Several nodes that live, at full speed: nobody is taken for dead, nobody waits long, nothing is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use intarsia_meta::engines::{RedisEngine, RedisOptions};
use intarsia_meta::{MetaEngine, Namespace, RenameMode};

use crate::common::{ROOT_SPEC, at};
use crate::faults::{Fault, Faulty};
use crate::servers;
use crate::world::{Op, PARTITIONS, World, assert_sound};

const NODES: usize = 4;
const DIRS: [&str; 4] = ["a", "b", "x", "y"];
const NAMES: [&str; 3] = ["1", "2", "3"];

/// A number below `end`, by SplitMix64 (Steele, Lea and Flood 2014).
pub(crate) fn below(end: usize, state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as usize % end
}

fn operation(random: &mut u64) -> Op {
    let mut name = || (DIRS[below(DIRS.len(), random)], NAMES[below(NAMES.len(), random)]);
    let (one, other) = (name(), name());
    let rename = |mode| Op::Rename { from: one, to: other, mode, keep: false };
    match below(10, random) {
        0 | 1 => Op::Create { name: one },
        2 => Op::Mkdir { name: one },
        3 => Op::Unlink { name: one, keep: false },
        4 => Op::Rmdir { name: one },
        5 => Op::Link { ino: "f", to: one },
        6 => rename(RenameMode::Exchange),
        7 => rename(RenameMode::NoReplace),
        _ => rename(RenameMode::Replace),
    }
}

/// Directories and a file, each in another partition.
fn world() -> World {
    World::new()
        .dir("a", 0, ("root", "a"))
        .dir("b", 3, ("root", "b"))
        .dir("x", 2, ("a", "x"))
        .dir("y", 1, ("b", "y"))
        .file("f", 4, ("root", "f"))
}

/// Lets nodes loose on a store, each with an engine of its own that leads there.
fn let_loose(world: &World, engines: &[Arc<dyn MetaEngine>], operations: u32) {
    let errors: BTreeSet<i32> = std::thread::scope(|scope| {
        let nodes: Vec<_> = (0..)
            .zip(engines)
            .map(|(seed, engine)| scope.spawn(move || busy(world, engine, seed, operations)))
            .collect();
        nodes.into_iter().flat_map(|node| node.join().unwrap()).collect()
    });
    // ENOENT, EEXIST, ENOTDIR, EISDIR, EINVAL, ENOTEMPTY: what a program expects.
    assert!(errors.is_subset(&[2, 17, 20, 21, 22, 39].into()), "{errors:?}");
    assert_sound(Arc::clone(&engines[0]), "after the crowd");
}

fn busy(world: &World, engine: &Arc<dyn MetaEngine>, seed: u64, operations: u32) -> BTreeSet<i32> {
    let ns = Namespace::open(Arc::clone(engine), ROOT_SPEC, at(0)).unwrap();
    let mut random = seed;
    let mut errors = BTreeSet::new();
    for _ in 0..operations {
        let op = operation(&mut random);
        let start = Instant::now();
        errors.extend(world.run(&ns, &op, at(9)).err());
        assert!(start.elapsed() < Duration::from_secs(10), "{op:?}");
    }
    errors
}

#[test]
fn a_crowd_in_memory_leaves_a_sound_store() {
    let world = world();
    let engine = world.fork() as Arc<dyn MetaEngine>;
    let engines: Vec<_> = (0..NODES).map(|_| Arc::clone(&engine)).collect();
    let_loose(&world, &engines, 10_000);
}

#[test]
fn a_crowd_over_redis_leaves_a_sound_store() {
    if !servers::are_there() {
        return;
    }
    let world = world();
    for servers in [servers::single(), servers::cluster()] {
        let options = RedisOptions { partitions: Some(PARTITIONS), ..servers.options() };
        let open = || Arc::new(RedisEngine::open(&options).unwrap()) as Arc<dyn MetaEngine>;
        let engines: Vec<_> = (0..NODES).map(|_| open()).collect();
        world.copy_into(&*engines[0]);
        let_loose(&world, &engines, 200);
    }
}

/// A node that dies after some commits, over and over, each time with a new session.
fn mortal(world: &World, engine: &Arc<dyn MetaEngine>, seed: u64, lives: u32) {
    let mut random = seed;
    for _ in 0..lives {
        let fault = Fault::DiesAfter(3 + below(60, &mut random) as u64);
        let faulty = Faulty::new(Arc::clone(engine), fault);
        let patience = Duration::from_millis(2);
        let seen = Arc::clone(&faulty) as Arc<dyn MetaEngine>;
        let Ok(ns) = Namespace::open(seen, ROOT_SPEC, at(0)) else { continue };
        let ns = ns.with_patience(patience);
        while !faulty.was_met() {
            let error = world.run(&ns, &operation(&mut random), at(9)).err().unwrap_or(0);
            // As in life; and EIO from the moment of death.
            let expected = [0, 2, 17, 20, 21, 22, 39].contains(&error);
            assert!(expected || (error == 5 && faulty.was_met()), "errno {error}");
        }
    }
}

fn let_die(world: &World, engines: &[Arc<dyn MetaEngine>], lives: u32) {
    std::thread::scope(|scope| {
        for (seed, engine) in (100..).zip(engines) {
            scope.spawn(move || mortal(world, engine, seed, lives));
        }
    });
    let ns = Namespace::open(Arc::clone(&engines[0]), ROOT_SPEC, at(0)).unwrap();
    ns.recover_transactions(Duration::ZERO).unwrap();
    assert_sound(Arc::clone(&engines[0]), "after the crowd");
}

#[test]
fn a_crowd_that_dies_all_the_time_leaves_a_sound_store() {
    let world = world();
    let engine = world.fork() as Arc<dyn MetaEngine>;
    let engines: Vec<_> = (0..NODES).map(|_| Arc::clone(&engine)).collect();
    let_die(&world, &engines, 300);
}

#[test]
fn a_crowd_over_redis_that_dies_all_the_time_leaves_a_sound_store() {
    if !servers::are_there() {
        return;
    }
    let world = world();
    let options = RedisOptions { partitions: Some(PARTITIONS), ..servers::single().options() };
    let open = || Arc::new(RedisEngine::open(&options).unwrap()) as Arc<dyn MetaEngine>;
    let engines: Vec<_> = (0..NODES).map(|_| open()).collect();
    world.copy_into(&*engines[0]);
    let_die(&world, &engines, 20);
}
