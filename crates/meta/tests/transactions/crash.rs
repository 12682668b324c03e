//! One node dies, or loses an answer, at each commit of an operation; another finds the store as it was
//! before the operation or as it is after it, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{MetaEngine, Namespace, RenameMode};

use crate::common::at;
use crate::faults::{Fault, Faulty, Primaries};
use crate::world::{Name, Op, View, World, assert_sound, copy, node, replace, traces};

const X: Name = ("a", "x");
const Y: Name = ("b", "y");

/// All ways to put `roles` things into partitions that differ in what is equal and what comes first.
fn placements(roles: usize) -> Vec<Vec<u16>> {
    let mut all: Vec<Vec<u16>> = vec![vec![]];
    for _ in 0..roles {
        let longer = all.iter().flat_map(|p| (0..roles as u16).map(|n| [&p[..], &[n]].concat()));
        all = longer.collect();
    }
    // Only those whose ranks have no gap, so that each order comes once.
    all.retain(|placement| (0..*placement.iter().max().unwrap()).all(|n| placement.contains(&n)));
    all
}

/// A world and the operation that is tried in it.
struct Case {
    world: World,
    op: Op,
}

struct Outcomes {
    before: View,
    after: View,
}

/// A node that removes what is left of a change when it is told to.
fn tidy(engine: Arc<dyn MetaEngine>) -> Namespace {
    node(engine).with_remains(|| ())
}

impl Case {
    fn outcomes(&self) -> Outcomes {
        let view = |engine: &Arc<MemoryEngine>| {
            let ns = node(Arc::clone(engine) as Arc<dyn MetaEngine>);
            self.world.view(&ns)
        };
        let engine = self.world.fork();
        let before = view(&engine);
        let ns = node(Arc::clone(&engine) as Arc<dyn MetaEngine>);
        self.world.run(&ns, &self.op, at(9)).unwrap_or_else(|e| panic!("{:?}: {e}", self.op));
        let after = view(&engine);
        assert_ne!(before, after, "{:?}", self.op);
        assert_sound(Arc::clone(&engine) as Arc<dyn MetaEngine>, &format!("{:?}", self.op));
        Outcomes { before, after }
    }

    /// Runs the operation with a fault, in it or when what is left of it is removed; `None` when all ended before the fault.
    fn fail(&self, fault: Fault) -> Option<(Arc<MemoryEngine>, bool)> {
        let engine = self.world.fork();
        let faulty = Faulty::new(Arc::clone(&engine) as Arc<dyn MetaEngine>, fault);
        let ns = tidy(Arc::clone(&faulty) as Arc<dyn MetaEngine>);
        let answer = self.world.run(&ns, &self.op, at(9));
        ns.remove_remains();
        faulty.was_met().then_some((engine, answer.is_ok()))
    }

    /// What another node sees by use alone; then the rest goes by the sweep.
    fn seen_by_use(&self, engine: &Arc<MemoryEngine>, context: &str) -> View {
        let ns = node(Arc::clone(engine) as Arc<dyn MetaEngine>);
        let first = self.world.view(&ns);
        let seen = self.world.view(&ns);
        assert_eq!(first.without_merges(), seen.clone().without_merges(), "{context}");
        // Records of decisions can be left, and the counter of moves, which nothing reads but moves.
        let held = |trace: &String| !(trace.starts_with("b\"T") || trace.contains("Smoves"));
        assert!(!traces(&**engine).iter().any(held), "{context}: {:?}", traces(&**engine));
        let done = ns.recover_transactions(Duration::ZERO).unwrap();
        assert_sound(Arc::clone(engine) as Arc<dyn MetaEngine>, context);
        // Nobody knows the number of a directory that never came to be, so nobody but the sweep meets it.
        let unknown = u64::from(matches!(self.op, Op::Mkdir { .. }) && done.undone > 0);
        let seen = seen.with_inodes_less(unknown);
        assert_eq!(self.world.view(&ns), seen, "{context}");
        seen
    }

    /// What another node sees after a sweep alone.
    fn seen_after_sweep(&self, engine: &Arc<MemoryEngine>, context: &str) -> View {
        let ns = node(Arc::clone(engine) as Arc<dyn MetaEngine>);
        ns.recover_transactions(Duration::ZERO).unwrap();
        assert_sound(Arc::clone(engine) as Arc<dyn MetaEngine>, context);
        self.world.view(&ns)
    }

    /// What is there after a repair alone.
    fn seen_after_repair(&self, engine: &Arc<MemoryEngine>, context: &str) -> View {
        let ns = node(Arc::clone(engine) as Arc<dyn MetaEngine>);
        // Who made a directory that has no name yet may have died before it knew of anything else.
        let undone = {
            let ns = node(copy(engine) as Arc<dyn MetaEngine>);
            ns.recover_transactions(Duration::ZERO).unwrap().undone
        };
        let was_pending =
            undone > 0 || traces(&**engine).iter().any(|trace| !trace.starts_with("b\"T"));
        let report = ns.check(false, &mut |_| {}).unwrap();
        assert_eq!(was_pending, !report.findings.is_empty(), "{context}: {report:?}");
        assert!(ns.check(true, &mut |_| {}).unwrap().is_clean(), "{context}");
        ns.recover_transactions(Duration::ZERO).unwrap();
        assert_sound(Arc::clone(engine) as Arc<dyn MetaEngine>, context);
        self.world.view(&ns)
    }

    /// Every fault, and whatever others do afterwards.
    fn survive_everything(&self) {
        let Outcomes { before, after } = self.outcomes();
        let mut seen_both = (false, false);
        for n in 0.. {
            let mut is_past_the_end = true;
            for fault in [Fault::DiesAfter(n), Fault::LosesAnswer(n), Fault::LosesRequest(n)] {
                let Some((engine, was_ok)) = self.fail(fault) else { continue };
                is_past_the_end = false;
                let context = format!("{:?} {fault:?}", self.op);
                let seen = self.seen_in_all_ways(&engine, &after, &context);
                assert!(seen == before || seen == after, "{context}: {seen:#?}");
                assert!(!was_ok || seen == after, "{context}: said to be done");
                seen_both.0 |= seen == before;
                seen_both.1 |= seen == after;
            }
            if is_past_the_end {
                break;
            }
        }
        assert_eq!(seen_both, (true, true), "{:?}", self.op);
        // It was answered, and the node dies before it tidies up.
        let engine = self.world.fork();
        let ns = tidy(Arc::clone(&engine) as Arc<dyn MetaEngine>);
        self.world.run(&ns, &self.op, at(9)).unwrap();
        let context = format!("{:?} with what is left of it", self.op);
        assert_eq!(self.seen_in_all_ways(&engine, &after, &context), after, "{context}");
    }

    /// What is seen by use, which is what is seen after a sweep and after a repair; and the operation can be repeated.
    fn seen_in_all_ways(&self, engine: &Arc<MemoryEngine>, after: &View, context: &str) -> View {
        let (again, repaired, repeated) = (copy(engine), copy(engine), copy(engine));
        let seen = self.seen_by_use(engine, context);
        assert_eq!(self.seen_after_sweep(&again, context), seen, "{context}");
        assert_eq!(self.seen_after_repair(&repaired, context), seen, "{context}");
        self.repeat(&repeated, seen == *after, context);
        seen
    }

    /// Another node does the same, as if the first had never been, or had done it before.
    fn repeat(&self, engine: &Arc<MemoryEngine>, was_done: bool, context: &str) {
        let expected = self.world.fork();
        let mut answer = Ok(String::new());
        for _ in 0..1 + u32::from(was_done) {
            let ns = node(Arc::clone(&expected) as Arc<dyn MetaEngine>);
            answer = self.world.run(&ns, &self.op, at(9));
        }
        let ns = node(Arc::clone(engine) as Arc<dyn MetaEngine>);
        assert_eq!(self.world.run(&ns, &self.op, at(9)), answer, "{context}");
        ns.recover_transactions(Duration::ZERO).unwrap();
        assert_sound(Arc::clone(engine) as Arc<dyn MetaEngine>, context);
        let there = node(Arc::clone(&expected) as Arc<dyn MetaEngine>);
        assert_eq!(self.world.outline(&ns), self.world.outline(&there), "{context}");
    }

    /// The node dies after each of its commits. Another one sees that commit, and then it is lost with its server.
    fn survive_lost_commits(&self) {
        let Outcomes { before, after } = self.outcomes();
        let use_it = |ns: &Namespace| drop(self.world.view(ns));
        let sweep = |ns: &Namespace| drop(ns.recover_transactions(Duration::ZERO));
        for n in 1.. {
            let mut is_past_the_end = true;
            for look in [&use_it as &dyn Fn(&Namespace), &sweep] {
                let engine = self.world.fork();
                let primaries = Primaries::new(Arc::clone(&engine));
                let seen_by = |engine: &Arc<Primaries>| Arc::clone(engine) as Arc<dyn MetaEngine>;
                let faulty = Faulty::new(seen_by(&primaries), Fault::DiesAfter(n));
                let first = tidy(Arc::clone(&faulty) as Arc<dyn MetaEngine>);
                let _ = self.world.run(&first, &self.op, at(9));
                first.remove_remains();
                is_past_the_end &= !faulty.was_met();
                primaries.bury();
                look(&node(seen_by(&primaries)));
                primaries.fail_over();
                let context = format!("{:?}: commit {n} is lost", self.op);
                let seen = self.seen_in_all_ways(&engine, &after, &context);
                assert!(seen == before || seen == after, "{context}: {seen:#?}");
            }
            if is_past_the_end {
                break;
            }
        }
    }

    /// The first node dies at each step, the second dies at each step of putting that right.
    fn survive_two_deaths(&self) {
        let Outcomes { before, after } = self.outcomes();
        for n in 0.. {
            let Some((engine, _)) = self.fail(Fault::DiesAfter(n)) else { break };
            for m in 0.. {
                let engine = copy(&engine);
                let faulty =
                    Faulty::new(Arc::clone(&engine) as Arc<dyn MetaEngine>, Fault::DiesAfter(m));
                let second = node(Arc::clone(&faulty) as Arc<dyn MetaEngine>);
                let _ = second.recover_transactions(Duration::ZERO);
                let _ = self.world.run(&second, &Op::List { dir: "b" }, at(9));
                let context = format!("{:?} died after {n}, the next after {m}", self.op);
                let seen = self.seen_by_use(&engine, &context);
                assert!(seen == before || seen == after, "{context}: {seen:#?}");
                if !faulty.was_met() {
                    break;
                }
            }
        }
    }
}

/// Directories a and b in partitions of their own.
fn world(placement: &[u16], shift: u16) -> World {
    let world = World::new().dir("a", placement[0] + shift, ("root", "a"));
    match placement.len() {
        2 => world,
        _ => world.dir("b", placement[1] + shift, ("root", "b")),
    }
}

/// Runs a case in every placement, beside the partition of the root and in it.
fn everywhere(roles: usize, case: impl Fn(&[u16], u16) -> Case + Sync) {
    let placements = placements(roles);
    let half = placements.len().div_ceil(2);
    std::thread::scope(|scope| {
        for some in placements.chunks(half) {
            let case = &case;
            scope.spawn(move || {
                for (placement, shift) in some.iter().flat_map(|p| [(p, 0), (p, 1)]) {
                    case(placement, shift).survive_everything();
                    case(placement, shift).survive_lost_commits();
                }
            });
        }
    });
}

#[test]
fn each_order_of_partitions_comes_once() {
    // The ordered Bell numbers.
    assert_eq!([2, 3, 4].map(|roles| placements(roles).len()), [3, 13, 75]);
}

#[test]
fn a_file_is_moved() {
    everywhere(3, |p, shift| Case {
        world: world(p, shift).file("x", p[2] + shift, X),
        op: replace(X, Y),
    });
}

#[test]
fn a_file_is_moved_where_nothing_may_be_replaced() {
    everywhere(3, |p, shift| Case {
        world: world(p, shift).file("x", p[2] + shift, X).link("x", ("b", "other")),
        op: Op::Rename { from: X, to: Y, mode: RenameMode::NoReplace, keep: false },
    });
}

#[test]
fn a_directory_is_moved() {
    everywhere(3, |p, shift| Case {
        world: world(p, shift).dir("x", p[2] + shift, X).file("f", p[0] + shift, ("x", "f")),
        op: replace(X, Y),
    });
}

#[test]
fn a_file_replaces_another() {
    everywhere(4, |p, shift| Case {
        world: world(p, shift).file("x", p[2] + shift, X).file("y", p[3] + shift, Y),
        op: replace(X, Y),
    });
}

#[test]
fn a_file_replaces_one_that_is_open() {
    everywhere(4, |p, shift| Case {
        world: world(p, shift).file("x", p[2] + shift, X).file("y", p[3] + shift, Y),
        op: Op::Rename { from: X, to: Y, mode: RenameMode::Replace, keep: true },
    });
}

#[test]
fn a_directory_replaces_another() {
    everywhere(4, |p, shift| Case {
        world: world(p, shift).dir("x", p[2] + shift, X).dir("y", p[3] + shift, Y),
        op: replace(X, Y),
    });
}

#[test]
fn a_file_replaces_another_in_its_directory() {
    everywhere(3, |p, shift| Case {
        world: World::new()
            .dir("a", p[0] + shift, ("root", "a"))
            .file("x", p[1] + shift, X)
            .file("y", p[2] + shift, ("a", "y"))
            .link("y", ("root", "link")),
        op: replace(X, ("a", "y")),
    });
}

#[test]
fn a_file_and_a_directory_are_exchanged() {
    everywhere(4, |p, shift| Case {
        world: world(p, shift).file("x", p[2] + shift, X).dir("y", p[3] + shift, Y),
        op: Op::Rename { from: X, to: Y, mode: RenameMode::Exchange, keep: false },
    });
}

#[test]
fn two_directories_are_exchanged() {
    everywhere(4, |p, shift| Case {
        world: world(p, shift).dir("x", p[2] + shift, X).dir("y", p[3] + shift, Y),
        op: Op::Rename { from: X, to: Y, mode: RenameMode::Exchange, keep: false },
    });
}

#[test]
fn a_file_gets_another_name() {
    everywhere(3, |p, shift| Case {
        world: world(p, shift).file("x", p[2] + shift, X),
        op: Op::Link { ino: "x", to: Y },
    });
}

#[test]
fn names_of_files_go() {
    for (keep, is_last) in [(false, true), (true, true), (false, false)] {
        everywhere(2, |p, shift| {
            let world = world(p, shift).file("x", p[1] + shift, X);
            let world = if is_last { world } else { world.link("x", ("root", "link")) };
            Case { world, op: Op::Unlink { name: X, keep } }
        });
    }
}

#[test]
fn a_directory_goes() {
    everywhere(2, |p, shift| Case {
        world: world(p, shift).dir("x", p[1] + shift, X),
        op: Op::Rmdir { name: X },
    });
}

#[test]
fn a_directory_comes() {
    // Where it is born is for its name to say; some of these are born elsewhere.
    for name in ["1", "2", "3", "4", "5", "6", "7", "8"] {
        everywhere(2, |p, shift| Case {
            world: world(p, shift),
            op: Op::Mkdir { name: ("a", name) },
        });
    }
}

#[test]
fn a_file_comes() {
    everywhere(2, |p, shift| Case { world: world(p, shift), op: Op::Create { name: X } });
}

#[test]
fn the_next_node_may_die_as_well() {
    for p in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
        let dirs = || world(&p, 1).dir("x", p[2] + 1, X).dir("y", p[3] + 1, Y);
        Case { world: dirs(), op: replace(X, Y) }.survive_two_deaths();
        let op = Op::Rename { from: X, to: Y, mode: RenameMode::Exchange, keep: false };
        Case { world: dirs(), op }.survive_two_deaths();
        for name in ["1", "2", "3", "4"] {
            Case { world: dirs(), op: Op::Mkdir { name: ("b", name) } }.survive_two_deaths();
        }
        let files = world(&p, 1).file("x", p[2] + 1, X).file("y", p[3] + 1, Y);
        Case { world: files, op: replace(X, Y) }.survive_two_deaths();
    }
}
