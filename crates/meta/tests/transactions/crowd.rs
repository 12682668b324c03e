//! Several nodes that live, at full speed: nobody is taken for dead, nobody waits long, nothing is lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use intarsia_meta::{MetaEngine, Namespace, RenameMode};

use crate::common::{ROOT_SPEC, at};
use crate::world::{Op, World, assert_sound};

const NODES: u64 = 4;
const OPERATIONS: u32 = 10_000;
const DIRS: [&str; 4] = ["a", "b", "x", "y"];
const NAMES: [&str; 3] = ["1", "2", "3"];

/// A number below `end`, by SplitMix64 (Steele, Lea and Flood 2014).
fn below(end: usize, state: &mut u64) -> usize {
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

#[test]
fn a_crowd_of_nodes_leaves_a_sound_store() {
    let world = World::new()
        .dir("a", 0, ("root", "a"))
        .dir("b", 3, ("root", "b"))
        .dir("x", 2, ("a", "x"))
        .dir("y", 1, ("b", "y"))
        .file("f", 4, ("root", "f"));
    let engine = world.fork();
    let errors: BTreeSet<i32> = std::thread::scope(|scope| {
        let nodes: Vec<_> = (0..NODES)
            .map(|seed| {
                let (world, engine) = (&world, Arc::clone(&engine) as Arc<dyn MetaEngine>);
                scope.spawn(move || {
                    let mut random = seed;
                    let ns = Namespace::open(engine, ROOT_SPEC, at(0)).unwrap();
                    let mut errors = BTreeSet::new();
                    for _ in 0..OPERATIONS {
                        let op = operation(&mut random);
                        let start = Instant::now();
                        errors.extend(world.run(&ns, &op, at(9)).err());
                        assert!(start.elapsed() < Duration::from_secs(10), "{op:?}");
                    }
                    errors
                })
            })
            .collect();
        nodes.into_iter().flat_map(|node| node.join().unwrap()).collect()
    });
    // ENOENT, EEXIST, ENOTDIR, EISDIR, EINVAL, ENOTEMPTY: what a program expects.
    assert!(errors.is_subset(&[2, 17, 20, 21, 22, 39].into()), "{errors:?}");
    assert_sound(&engine, "after the crowd");
}
