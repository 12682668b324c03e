//! An engine that lets one thread at a time take one step, in an order that is chosen from outside; and
//! the choice of every order.

use std::sync::Arc;

use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{
    CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value,
};
use intarsia_types::{PartitionId, Result};
use parking_lot::{Condvar, Mutex};

/// More steps than any run can need: a run that takes more never ends.
const STEPS_MAX: usize = 5000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Thread {
    Runs,
    Waits,
    Ended,
}

struct State {
    threads: Vec<Thread>,
    /// Who may take a step.
    turn: Option<usize>,
    /// Whether everybody may: the run is over, or has failed.
    is_open: bool,
}

/// Where threads wait for their turn.
pub(crate) struct Turnstile {
    state: Mutex<State>,
    changed: Condvar,
}

impl Turnstile {
    fn new(threads: usize) -> Arc<Self> {
        let state = State { threads: vec![Thread::Runs; threads], turn: None, is_open: false };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    fn wait_for_turn(&self, thread: usize) {
        let mut state = self.state.lock();
        state.threads[thread] = Thread::Waits;
        self.changed.notify_all();
        while state.turn != Some(thread) && !state.is_open {
            self.changed.wait(&mut state);
        }
        state.turn = None;
        state.threads[thread] = Thread::Runs;
    }

    /// The threads that wait for a step, once none runs.
    fn waiting(&self) -> Vec<usize> {
        let mut state = self.state.lock();
        while state.turn.is_some() || state.threads.contains(&Thread::Runs) {
            self.changed.wait(&mut state);
        }
        let waits = state.threads.iter().enumerate().filter(|(_, t)| **t == Thread::Waits);
        waits.map(|(thread, _)| thread).collect()
    }

    fn let_go(&self, thread: usize) {
        self.state.lock().turn = Some(thread);
        self.changed.notify_all();
    }
}

/// Lets everybody through at the end of a run, so that a failed one ends too.
struct Open(Arc<Turnstile>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.state.lock().is_open = true;
        self.0.changed.notify_all();
    }
}

/// Says that a thread has ended, also when it fails.
struct End(Arc<Turnstile>, usize);

impl Drop for End {
    fn drop(&mut self) {
        self.0.state.lock().threads[self.1] = Thread::Ended;
        self.0.changed.notify_all();
    }
}

/// The engine as one thread sees it: each request is a step.
pub(crate) struct Gate {
    engine: Arc<MemoryEngine>,
    turnstile: Arc<Turnstile>,
    thread: usize,
}

/// One decision: who could go on, first the one that went last, and who did.
struct Choice {
    threads: Vec<usize>,
    chosen: usize,
    /// Whether any but the first choice takes the turn from a thread that could go on.
    can_interrupt: bool,
}

/// Runs `bodies` in every order of their steps that interrupts a thread at most `interruptions` times,
/// each on the engine that `fork` makes. Returns the number of orders.
pub(crate) fn each_schedule<T: Send>(
    interruptions: usize,
    fork: impl Fn() -> Arc<MemoryEngine>,
    bodies: &[&(dyn Fn(Arc<dyn MetaEngine>) -> T + Sync)],
    mut check: impl FnMut(Arc<MemoryEngine>, Vec<T>, &[usize]),
) -> usize {
    let mut path: Vec<Choice> = Vec::new();
    let mut orders = 0;
    loop {
        let engine = fork();
        let results = run(&engine, bodies, &mut path);
        let order: Vec<usize> = path.iter().map(|c| c.threads[c.chosen]).collect();
        check(engine, results, &order);
        orders += 1;
        if !advance(&mut path, interruptions) {
            return orders;
        }
    }
}

/// Turns to the next order, depth first; `false` after the last.
fn advance(path: &mut Vec<Choice>, interruptions: usize) -> bool {
    while let Some(last) = path.pop() {
        let used = path.iter().filter(|c| c.can_interrupt && c.chosen > 0).count();
        let chosen = last.chosen + 1;
        let is_allowed = !last.can_interrupt || used < interruptions;
        if chosen < last.threads.len() && is_allowed {
            path.push(Choice { chosen, ..last });
            return true;
        }
    }
    false
}

fn run<T: Send>(
    engine: &Arc<MemoryEngine>,
    bodies: &[&(dyn Fn(Arc<dyn MetaEngine>) -> T + Sync)],
    path: &mut Vec<Choice>,
) -> Vec<T> {
    let turnstile = Turnstile::new(bodies.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(bodies)
            .map(|(thread, body)| {
                let (engine, turnstile) = (Arc::clone(engine), Arc::clone(&turnstile));
                scope.spawn(move || {
                    let _end = End(Arc::clone(&turnstile), thread);
                    body(Arc::new(Gate { engine, turnstile, thread }))
                })
            })
            .collect();
        let _open = Open(Arc::clone(&turnstile));
        let mut last = None;
        for step in 0..STEPS_MAX {
            let mut waiting = turnstile.waiting();
            if waiting.is_empty() {
                return threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            }
            // Who went last comes first, so that going on is no interruption.
            let can_interrupt = last.is_some_and(|last| waiting.contains(&last));
            waiting.sort_by_key(|thread| Some(*thread) != last);
            if step == path.len() {
                path.push(Choice { threads: waiting, chosen: 0, can_interrupt });
            } else {
                assert_eq!(path[step].threads, waiting, "a run is not a function of its order");
            }
            let thread = path[step].threads[path[step].chosen];
            last = Some(thread);
            turnstile.let_go(thread);
        }
        panic!("{STEPS_MAX} steps and no end");
    })
}

impl Gate {
    fn engine(&self) -> &MemoryEngine {
        self.turnstile.wait_for_turn(self.thread);
        &self.engine
    }
}

impl MetaEngine for Gate {
    fn partitions(&self) -> u16 {
        self.engine.partitions()
    }

    fn get(&self, partition: PartitionId, key: &[u8]) -> Result<Option<Value>> {
        self.engine().get(partition, key)
    }

    fn get_follow(
        &self,
        partition: PartitionId,
        key: &[u8],
        follow: fn(&[u8]) -> Option<Key>,
    ) -> Result<Option<(Value, Option<Value>)>> {
        self.engine().get_follow(partition, key, follow)
    }

    fn scan(
        &self,
        partition: PartitionId,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>> {
        self.engine().scan(partition, prefix, after, limit)
    }

    fn commit(
        &self,
        partition: PartitionId,
        op: OpId,
        conditions: &[Condition],
        mutations: Vec<Mutation>,
    ) -> Result<CommitOutcome> {
        self.engine().commit(partition, op, conditions, mutations)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}
