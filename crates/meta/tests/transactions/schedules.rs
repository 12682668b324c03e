//! Several nodes at once: whatever the order of their steps, what they are told and what is left is what
//! some order of whole operations gives.

use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::MetaEngine;
use intarsia_meta::RenameMode;

use crate::common::at;
use crate::crowd::below;
use crate::turnstile::each_schedule;
use crate::world::{Answer, Name, Op, Outline, World, assert_sound, node, replace};

const X: Name = ("a", "x");
const Y: Name = ("b", "y");
/// Sets of operations that are made up.
const ROUNDS: u32 = 300;

/// What the nodes were told, each for its operations, and what is left.
type Outcome = (Vec<Vec<Answer>>, Outline);

/// Every outcome of doing whole operations one after the other, keeping the order of each node's own.
fn serial_outcomes(world: &World, nodes: &[Vec<Op>]) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut orders = vec![Vec::new()];
    while let Some(order) = orders.pop() {
        let mut is_whole = true;
        for (n, ops) in nodes.iter().enumerate() {
            if order.iter().filter(|m| **m == n).count() < ops.len() {
                is_whole = false;
                orders.push([&order[..], &[n]].concat());
            }
        }
        if is_whole {
            let outcome = serial_outcome(world, nodes, &order);
            if !outcomes.contains(&outcome) {
                outcomes.push(outcome);
            }
        }
    }
    outcomes
}

fn serial_outcome(world: &World, nodes: &[Vec<Op>], order: &[usize]) -> Outcome {
    let ns = node(world.fork() as Arc<dyn MetaEngine>);
    let mut answers = vec![Vec::new(); nodes.len()];
    for &n in order {
        let answer = world.run(&ns, &nodes[n][answers[n].len()], at(9));
        answers[n].push(answer);
    }
    (answers, world.outline(&ns))
}

/// Tries every order of steps with so many interruptions.
fn explore(world: &World, interruptions: usize, nodes: &[Vec<Op>]) {
    let expected = serial_outcomes(world, nodes);
    let bodies: Vec<_> = nodes
        .iter()
        .map(|ops| {
            move |engine: Arc<dyn MetaEngine>| -> Vec<Answer> {
                let ns = node(engine);
                ops.iter().map(|op| world.run(&ns, op, at(9))).collect()
            }
        })
        .collect();
    let bodies: Vec<_> = bodies
        .iter()
        .map(|body| body as &(dyn Fn(Arc<dyn MetaEngine>) -> Vec<Answer> + Sync))
        .collect();
    let mut met = vec![false; expected.len()];
    let orders = each_schedule(
        interruptions,
        || world.fork(),
        &bodies,
        |engine, answers, order| {
            let ns = node(Arc::clone(&engine) as Arc<dyn MetaEngine>);
            let context = format!("{nodes:?} in the order {order:?}");
            ns.recover_transactions(Duration::ZERO).unwrap();
            assert_sound(engine, &context);
            let outcome = (answers, world.outline(&ns));
            match expected.iter().position(|expected| *expected == outcome) {
                Some(n) => met[n] = true,
                None => panic!("{context}: {outcome:#?} is none of {expected:#?}"),
            }
        },
    );
    assert!(met.contains(&true) && orders > 1, "{orders} orders of {nodes:?}");
}

/// Partitions of the directories and of the inodes, so that each is once before and once behind the
/// others, and all together once.
const PLACEMENTS: [[u16; 4]; 5] =
    [[1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3], [3, 3, 1, 4], [1, 1, 1, 1]];

fn dirs(p: &[u16; 4]) -> World {
    World::new().dir("a", p[0], ("root", "a")).dir("b", p[1], ("root", "b"))
}

fn everywhere(world: impl Fn(&[u16; 4]) -> World + Sync, interruptions: usize, nodes: &[Vec<Op>]) {
    std::thread::scope(|scope| {
        for some in PLACEMENTS.chunks(PLACEMENTS.len().div_ceil(2)) {
            let world = &world;
            scope.spawn(move || {
                some.iter().for_each(|p| explore(&world(p), interruptions, nodes));
            });
        }
    });
}

fn unlink(name: Name) -> Op {
    Op::Unlink { name, keep: false }
}

fn two_files(p: &[u16; 4]) -> World {
    dirs(p).file("x", p[2], X).file("y", p[3], Y)
}

fn two_dirs(p: &[u16; 4]) -> World {
    dirs(p).dir("x", p[2], X).dir("y", p[3], Y)
}

#[test]
fn one_name_moves_to_two_places() {
    let nodes = [vec![replace(X, ("b", "1"))], vec![replace(X, ("b", "2"))]];
    everywhere(two_files, 2, &nodes);
    everywhere(two_dirs, 2, &nodes);
}

#[test]
fn a_name_that_was_looked_up_goes_while_others_change_it() {
    let look_and_remove = || vec![Op::Lookup { name: X }, unlink(X)];
    let create = Op::Create { name: X };
    for others in [
        vec![replace(X, ("b", "1"))],
        vec![replace(Y, X)],
        vec![unlink(X), create],
        vec![Op::Link { ino: "x", to: ("b", "1") }],
    ] {
        everywhere(two_files, 2, &[look_and_remove(), others]);
    }
    let look_and_remove = vec![Op::Lookup { name: X }, Op::Rmdir { name: X }];
    for others in [vec![replace(X, ("b", "1"))], vec![Op::Create { name: ("x", "in") }]] {
        everywhere(two_dirs, 2, &[look_and_remove.clone(), others]);
    }
}

#[test]
fn a_directory_comes_while_others_look_and_make_it_too() {
    for name in ["1", "2", "3"] {
        let name = ("a", name);
        let mkdir = || Op::Mkdir { name };
        everywhere(dirs, 2, &[vec![mkdir()], vec![mkdir()]]);
        everywhere(dirs, 2, &[vec![mkdir()], vec![Op::Lookup { name }, Op::List { dir: "a" }]]);
        everywhere(dirs, 2, &[vec![mkdir()], vec![Op::Rmdir { name: ("root", "a") }]]);
        everywhere(dirs, 2, &[vec![mkdir()], vec![Op::Rmdir { name }, Op::Sweep]]);
    }
}

#[test]
fn two_names_move_to_one_place() {
    let nodes = [vec![replace(X, ("b", "1"))], vec![replace(Y, ("b", "1"))]];
    everywhere(two_files, 2, &nodes);
    everywhere(two_dirs, 2, &nodes);
}

#[test]
fn two_names_replace_each_other() {
    everywhere(two_files, 2, &[vec![replace(X, Y)], vec![replace(Y, X)]]);
    everywhere(two_dirs, 2, &[vec![replace(X, Y)], vec![replace(Y, X)]]);
}

#[test]
fn directories_never_move_below_each_other() {
    let nodes = [vec![replace(X, ("y", "in"))], vec![replace(Y, ("x", "in"))]];
    everywhere(two_dirs, 2, &nodes);
    let swap = |from, to| Op::Rename { from, to, mode: RenameMode::Exchange, keep: false };
    let world = |p: &[u16; 4]| two_dirs(p).dir("in", p[0], ("x", "in"));
    everywhere(world, 2, &[vec![swap(Y, ("x", "in"))], vec![replace(X, ("y", "in"))]]);
}

#[test]
fn a_directory_is_renamed_while_something_moves_into_it() {
    let nodes = [vec![replace(Y, ("b", "z"))], vec![replace(X, ("y", "in"))]];
    everywhere(two_dirs, 2, &nodes);
    everywhere(|p| dirs(p).file("x", p[2], X).dir("y", p[3], Y), 2, &nodes);
    // The second may have handed its merge to the first, and then takes it for dead.
    let [renames, mut moves] = nodes;
    moves.push(Op::Lookup { name: Y });
    everywhere(two_dirs, 2, &[renames, moves]);
}

#[test]
fn a_directory_moves_while_one_moves_out_of_it() {
    let world = |p: &[u16; 4]| dirs(p).dir("x", p[2], X).dir("in", p[3], ("x", "in"));
    everywhere(world, 2, &[vec![replace(X, Y)], vec![replace(("x", "in"), ("b", "in"))]]);
    everywhere(world, 2, &[vec![replace(X, ("a", "z"))], vec![replace(("x", "in"), ("b", "in"))]]);
}

#[test]
fn something_moves_into_a_directory_that_goes() {
    let rmdir = vec![Op::Rmdir { name: Y }];
    let world = |p: &[u16; 4]| dirs(p).file("x", p[2], X).dir("y", p[3], Y);
    everywhere(world, 2, &[vec![replace(X, ("y", "in"))], rmdir.clone()]);
    everywhere(world, 2, &[vec![Op::Link { ino: "x", to: ("y", "in") }], rmdir.clone()]);
    everywhere(world, 2, &[vec![Op::Create { name: ("y", "in") }], rmdir.clone()]);
    everywhere(world, 2, &[vec![Op::Mkdir { name: ("y", "in") }], rmdir]);
}

#[test]
fn something_comes_into_a_directory_that_is_replaced() {
    let moved = vec![replace(X, Y)];
    everywhere(two_dirs, 2, &[moved.clone(), vec![Op::Create { name: ("y", "in") }]]);
    everywhere(two_dirs, 2, &[moved.clone(), vec![Op::Mkdir { name: ("y", "in") }]]);
    everywhere(two_dirs, 2, &[moved, vec![Op::Rmdir { name: Y }]]);
}

#[test]
fn an_error_is_the_answer_of_one_moment() {
    // There is never both something to move and something in the way of it.
    let clears = vec![Op::Rmdir { name: X }, Op::Create { name: ("y", "in") }];
    everywhere(two_dirs, 2, &[vec![replace(X, Y)], clears]);
}

#[test]
fn a_name_goes_while_its_file_gets_another() {
    let nodes = [vec![unlink(X)], vec![Op::Link { ino: "x", to: ("b", "z") }]];
    everywhere(two_files, 3, &nodes);
    everywhere(|p| two_files(p).link("x", ("b", "other")), 2, &nodes);
}

#[test]
fn two_names_of_a_file_go() {
    let world = |p: &[u16; 4]| dirs(p).file("x", p[2], X).link("x", Y);
    everywhere(world, 3, &[vec![unlink(X)], vec![unlink(Y)]]);
}

#[test]
fn a_name_goes_while_it_moves() {
    everywhere(two_files, 2, &[vec![replace(X, Y)], vec![unlink(X)]]);
    everywhere(two_files, 2, &[vec![replace(X, Y)], vec![unlink(Y)]]);
}

#[test]
fn one_name_comes_twice() {
    let mkdir = || vec![Op::Mkdir { name: ("a", "new") }];
    everywhere(dirs, 3, &[mkdir(), mkdir()]);
    everywhere(two_files, 2, &[mkdir(), vec![replace(X, ("a", "new"))]]);
}

#[test]
fn observers_see_a_name_before_or_after_its_replacement() {
    let moved = vec![replace(X, Y)];
    let lookups = vec![Op::Lookup { name: Y }, Op::Lookup { name: X }];
    let reversed = vec![Op::Lookup { name: X }, Op::Lookup { name: Y }];
    let stats = vec![Op::Stat { ino: "x" }, Op::Stat { ino: "y" }];
    let lists = vec![Op::List { dir: "b" }, Op::List { dir: "a" }];
    for seen in [lookups, reversed, stats, lists] {
        everywhere(two_files, 2, &[moved.clone(), seen.clone()]);
    }
    let dir_lookups = vec![Op::Lookup { name: Y }, Op::List { dir: "b" }];
    everywhere(two_dirs, 2, &[moved, dir_lookups]);
}

#[test]
fn observers_see_an_exchange_at_once() {
    let swap = vec![Op::Rename { from: X, to: Y, mode: RenameMode::Exchange, keep: false }];
    let lookups = vec![Op::Lookup { name: Y }, Op::Lookup { name: X }, Op::Lookup { name: Y }];
    everywhere(two_files, 2, &[swap.clone(), lookups.clone()]);
    everywhere(|p| dirs(p).file("x", p[2], X).dir("y", p[3], Y), 2, &[swap, lookups]);
}

#[test]
fn observers_see_links_come_and_go() {
    let seen = vec![Op::Lookup { name: Y }, Op::Stat { ino: "x" }, Op::Lookup { name: Y }];
    let world = |p: &[u16; 4]| dirs(p).file("x", p[2], X);
    everywhere(world, 2, &[vec![Op::Link { ino: "x", to: Y }], seen.clone()]);
    everywhere(|p| world(p).link("x", Y), 2, &[vec![unlink(Y)], seen]);
}

#[test]
fn a_sweep_disturbs_nobody() {
    let sweeps = vec![Op::Sweep];
    everywhere(two_dirs, 2, &[vec![replace(X, Y)], sweeps.clone()]);
    everywhere(two_files, 2, &[vec![replace(X, Y)], sweeps]);
}

#[test]
fn three_nodes_at_once() {
    let p = &PLACEMENTS[2];
    explore(&two_files(p), 1, &[vec![replace(X, Y)], vec![unlink(Y)], vec![unlink(X)]]);
    let lookups = vec![Op::Lookup { name: Y }, Op::Lookup { name: X }];
    explore(&two_files(p), 1, &[vec![replace(X, Y)], vec![replace(Y, X)], lookups]);
    let into = |from| vec![replace(from, ("y", "in"))];
    explore(&two_dirs(p), 1, &[into(X), vec![Op::Rmdir { name: Y }], vec![Op::List { dir: "b" }]]);
}

/// Operations on few names, so that they get in each other's way.
fn any_op(random: &mut u64) -> Op {
    let mut name = || [X, Y, ("y", "in"), ("a", "new"), ("b", "new")][below(5, random)];
    let (one, other) = (name(), name());
    let rename = |mode| Op::Rename { from: one, to: other, mode, keep: false };
    match below(12, random) {
        0 => Op::Create { name: one },
        1 => Op::Mkdir { name: one },
        2 => Op::Unlink { name: one, keep: below(2, random) == 0 },
        3 => Op::Rmdir { name: one },
        4 => Op::Link { ino: "x", to: one },
        5 => rename(RenameMode::Exchange),
        6 => rename(RenameMode::NoReplace),
        7 | 8 => rename(RenameMode::Replace),
        9 => Op::List { dir: if below(2, random) == 0 { "a" } else { "b" } },
        _ => Op::Lookup { name: one },
    }
}

#[test]
fn any_operations_at_once() {
    let random = &mut 4711;
    for round in 0..ROUNDS {
        let p = &PLACEMENTS[below(PLACEMENTS.len(), random)];
        let world = match below(3, random) {
            0 => two_dirs(p),
            1 => two_files(p),
            _ => dirs(p).file("x", p[2], X).dir("y", p[3], Y),
        };
        let nodes: Vec<Vec<Op>> =
            (0..2).map(|_| (0..2).map(|_| any_op(random)).collect()).collect();
        explore(&world, 1 + usize::from(round % 4 == 0), &nodes);
    }
}
