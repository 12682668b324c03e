//! How long a node waits for another that holds what it wants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use intarsia_meta::{MetaEngine, Namespace};
use intarsia_types::{PartitionId, Result};
use parking_lot::{Condvar, Mutex};

use crate::common::{ROOT_SPEC, at};
use crate::faults::{Fault, Faulty};
use crate::hooked::{Hook, Hooked};
use crate::world::{Op, World, node, replace};

const PATIENCE: Duration = Duration::from_millis(300);

fn world() -> World {
    World::new()
        .dir("a", 1, ("root", "a"))
        .dir("b", 2, ("root", "b"))
        .file("x", 3, ("a", "x"))
        .file("y", 3, ("a", "y"))
}

fn patient(engine: Arc<dyn MetaEngine>, patience: Duration) -> Namespace {
    Namespace::open(engine, ROOT_SPEC, at(0)).unwrap().with_patience(patience)
}

#[test]
fn all_that_a_dead_node_left_costs_one_wait() {
    let world = world();
    let engine = world.fork() as Arc<dyn MetaEngine>;
    // Both operations get as far as their first commit; then the node is dead.
    let faulty = Faulty::new(Arc::clone(&engine), Fault::DiesAfter(1));
    let dead = node(faulty as Arc<dyn MetaEngine>);
    assert!(world.run(&dead, &replace(("a", "x"), ("b", "x")), at(9)).is_err());
    let faulty = Faulty::new(Arc::clone(&engine), Fault::DiesAfter(1));
    let other = node(faulty as Arc<dyn MetaEngine>);
    assert!(world.run(&other, &replace(("a", "y"), ("b", "y")), at(9)).is_err());

    let ns = patient(engine, PATIENCE);
    let look = |name| {
        let start = Instant::now();
        assert_eq!(world.run(&ns, &Op::Lookup { name: ("a", name) }, at(9)), Ok(name.into()));
        start.elapsed()
    };
    let first = look("x");
    assert!(first >= PATIENCE && first < PATIENCE * 10, "{first:?}");
    assert!(look("x") < PATIENCE);
    // The other was another session's.
    assert!(look("y") >= PATIENCE);
}

#[test]
fn two_changes_of_one_dead_node_cost_one_wait() {
    let world = world();
    let engine = world.fork();
    // One node with two operations under way: each is stopped before it decides.
    let held = Held::over(Arc::clone(&engine) as Arc<dyn MetaEngine>, 2);
    let busy = node(Arc::clone(&held) as Arc<dyn MetaEngine>);
    std::thread::scope(|scope| {
        for name in ["x", "y"] {
            let (world, busy) = (&world, &busy);
            scope.spawn(move || world.run(busy, &replace(("a", name), ("b", name)), at(9)));
        }
        held.hook.wait_until_held(2);
        let ns = patient(Arc::clone(&engine) as Arc<dyn MetaEngine>, PATIENCE);
        let start = Instant::now();
        world.run(&ns, &Op::Lookup { name: ("a", "x") }, at(9)).unwrap();
        assert!(start.elapsed() >= PATIENCE);
        let start = Instant::now();
        world.run(&ns, &Op::Lookup { name: ("a", "y") }, at(9)).unwrap();
        assert!(start.elapsed() < PATIENCE);
        held.hook.let_go();
    });
    // The node was alive after all, and tried again.
    let ns = node(engine as Arc<dyn MetaEngine>);
    assert_eq!(world.run(&ns, &Op::List { dir: "b" }, at(9)), Ok("x=x y=y".into()));
}

#[test]
fn a_node_that_was_slow_once_gets_on_while_others_look_at_what_it_changes() {
    let world = world();
    let engine = world.fork() as Arc<dyn MetaEngine>;
    let decides_in_ms = Arc::new(AtomicU64::new(400));
    let (pause_ms, attempts) = (Arc::clone(&decides_in_ms), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&attempts);
    let slow = node(Hooked::new(Arc::clone(&engine), move |partition| {
        if partition == PartitionId(3) {
            counted.fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_millis(pause_ms.load(SeqCst)));
        }
        Ok(())
    }));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let patience = Duration::from_millis(50);
            let ns = patient(engine, patience);
            while !is_done.load(SeqCst) {
                let start = Instant::now();
                let found = world.run(&ns, &Op::Lookup { name: ("a", "x") }, at(9));
                if start.elapsed() >= patience {
                    decides_in_ms.store(8, SeqCst);
                }
                assert!(found == Ok("x".into()) || found == Err(2), "{found:?}");
            }
        });
        let renamed = world.run(&slow, &replace(("a", "x"), ("b", "x")), at(9));
        is_done.store(true, SeqCst);
        looker.join().unwrap();
        renamed.unwrap();
        let attempts = attempts.load(SeqCst);
        assert!(attempts < 30, "{attempts} attempts");
    });
}

#[test]
fn a_change_that_is_decided_meanwhile_is_seen_at_once() {
    let world = world();
    let engine = world.fork();
    let held = Held::over(Arc::clone(&engine) as Arc<dyn MetaEngine>, 1);
    let busy = node(Arc::clone(&held) as Arc<dyn MetaEngine>);
    std::thread::scope(|scope| {
        let (world, busy) = (&world, &busy);
        scope.spawn(move || world.run(busy, &replace(("a", "x"), ("b", "x")), at(9)).unwrap());
        held.hook.wait_until_held(1);
        let counted = Held::over(Arc::clone(&engine) as Arc<dyn MetaEngine>, 0);
        let ns = patient(Arc::clone(&counted) as Arc<dyn MetaEngine>, Duration::from_secs(60));
        let start = Instant::now();
        let reader = scope.spawn(move || world.run(&ns, &Op::Lookup { name: ("a", "x") }, at(9)));
        // The reader has met the change and asks again and again.
        while counted.hook.reads.load(SeqCst) < 20 {
            assert!(start.elapsed() < Duration::from_secs(30));
            std::thread::yield_now();
        }
        held.hook.let_go();
        assert_eq!(reader.join().unwrap(), Err(2));
        assert!(start.elapsed() < Duration::from_secs(50));
    });
}

/// Holds back the decisions of a node until it is told otherwise.
struct Held {
    reads: AtomicU64,
    /// Decisions still to be held back, and those that are.
    state: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Held {
    fn over(engine: Arc<dyn MetaEngine>, decisions: usize) -> Arc<Hooked<Self>> {
        let state = Mutex::new((decisions, 0));
        Hooked::new(engine, Self { reads: AtomicU64::new(0), state, changed: Condvar::new() })
    }

    fn wait_until_held(&self, decisions: usize) {
        let mut state = self.state.lock();
        while state.1 < decisions {
            let waited = self.changed.wait_for(&mut state, Duration::from_secs(30));
            assert!(!waited.timed_out(), "nothing was decided");
        }
    }

    fn let_go(&self) {
        *self.state.lock() = (0, 0);
        self.changed.notify_all();
    }

    fn hold(&self) {
        let mut state = self.state.lock();
        if state.0 == 0 {
            return;
        }
        state.0 -= 1;
        state.1 += 1;
        self.changed.notify_all();
        while state.1 > 0 {
            let waited = self.changed.wait_for(&mut state, Duration::from_secs(30));
            assert!(!waited.timed_out(), "held back for ever");
        }
    }
}

impl Hook for Held {
    fn before_get(&self) -> Result<()> {
        self.reads.fetch_add(1, SeqCst);
        Ok(())
    }

    fn before_commit(&self, partition: PartitionId) -> Result<()> {
        // The files' inodes are in the last partition, so that there it is decided.
        if partition == PartitionId(3) {
            self.hold();
        }
        Ok(())
    }
}
