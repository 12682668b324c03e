//! What a simulation promises: the same seed does the same, only one thread runs, and time passes only when all wait.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use intarsia_sync::simulation::{self, Failure, Finished, Settings};
use intarsia_sync::{Condvar, Instant, Mutex, RwLock, Simulation, thread};

fn settings(seed: u64) -> Settings {
    Settings { seed, switch_one_in: 3, end: Duration::from_secs(3600), on_failure: |_| () }
}

/// Five threads add to a list in an order that the seed says.
fn shuffled(seed: u64) -> (Vec<u64>, Finished) {
    let run = Simulation::run(settings(seed), |_| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let add = |number: u64| {
            let order = Arc::clone(&order);
            thread::spawn(move || {
                for _ in 0..20 {
                    order.lock().push(number);
                    thread::sleep(Duration::from_millis(simulation::below(3)));
                }
            })
        };
        let threads: Vec<_> = (0..5).map(add).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        order.lock().clone()
    });
    run.unwrap()
}

#[test]
fn the_same_seed_does_the_same_and_another_something_else() {
    let first = shuffled(7);
    assert_eq!(first, shuffled(7));
    assert_eq!(first.0.len(), 100);
    let others: Vec<_> = (8..12).map(shuffled).collect();
    assert!(others.iter().all(|other| other.0 != first.0 && other.1 != first.1));
}

#[test]
fn an_hour_that_all_wait_through_takes_no_time() {
    let begun = std::time::Instant::now();
    let ((), finished) = Simulation::run(settings(1), |_| {
        let before = Instant::now();
        thread::sleep(Duration::from_secs(1800));
        let lock = Mutex::new(());
        let waited = Condvar::new().wait_for(&mut lock.lock(), Duration::from_secs(600));
        assert!(waited.timed_out());
        let passed = before.elapsed();
        assert!(passed >= Duration::from_secs(2400) && passed < Duration::from_secs(2401));
    })
    .unwrap();
    assert!(finished.took >= Duration::from_secs(2400));
    assert!(begun.elapsed() < Duration::from_secs(600));
}

#[test]
fn a_lock_is_held_by_one_at_a_time_and_a_condition_wakes_who_waits() {
    for seed in 0..20 {
        let run = Simulation::run(settings(seed), |_| {
            let (total, changed) = (Mutex::new(0_u64), Condvar::new());
            let (shared, inside) = (RwLock::new(0_u64), AtomicU64::new(0));
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..10 {
                            let mut held = total.lock();
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            simulation::pass();
                            *held += 1;
                            inside.fetch_sub(1, Ordering::SeqCst);
                            *shared.write() += 1;
                            drop(held);
                            changed.notify_all();
                        }
                    });
                }
                let mut held = total.lock();
                while *held < 40 {
                    changed.wait(&mut held);
                }
            });
            *shared.read()
        });
        assert_eq!(run.unwrap().0, 40, "seed {seed}");
    }
}

#[test]
fn who_waits_for_a_lock_in_vain_gives_up_at_its_deadline() {
    let run = Simulation::run(settings(3), |_| {
        let lock = Arc::new(Mutex::new(()));
        let holder = Arc::clone(&lock);
        let holding = thread::spawn(move || {
            let _held = holder.lock();
            thread::sleep(Duration::from_secs(10));
        });
        thread::sleep(Duration::from_secs(1));
        let before = Instant::now();
        assert!(lock.try_lock().is_none());
        assert!(lock.try_lock_for(Duration::from_secs(2)).is_none());
        assert!(before.elapsed() >= Duration::from_secs(2));
        holding.join().unwrap();
        assert!(lock.try_lock().is_some());
    });
    run.unwrap();
}

#[test]
fn a_frozen_machine_goes_on_later_and_a_dead_one_never() {
    let run = Simulation::run(settings(5), |simulation| {
        let ticks = |group: &simulation::Group| {
            let (count, counted) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
            let shared = Arc::clone(&count);
            let tick = move || loop {
                thread::sleep(Duration::from_secs(1));
                shared.fetch_add(1, Ordering::SeqCst);
            };
            group.spawn("ticks", tick).unwrap();
            move || {
                count.load(Ordering::SeqCst)
                    - counted.swap(count.load(Ordering::SeqCst), Ordering::SeqCst)
            }
        };
        let (frozen, dead) = (simulation.group("frozen"), simulation.group("dead"));
        let (of_frozen, of_dead) = (ticks(&frozen), ticks(&dead));
        let nap = || thread::sleep(Duration::from_millis(9500));
        nap();
        assert_eq!((of_frozen(), of_dead()), (9, 9));
        frozen.freeze(Duration::from_millis(9900));
        dead.kill();
        nap();
        assert_eq!((of_frozen(), of_dead()), (0, 0));
        nap();
        assert!(of_frozen() >= 8 && of_dead() == 0);
    });
    run.unwrap();
}

#[test]
fn a_deadlock_and_a_panic_are_named() {
    let deadlock: Failure = Simulation::run(settings(1), |_| {
        let shared = Arc::new((Mutex::new(()), Condvar::new()));
        let other = Arc::clone(&shared);
        let thread = thread::Builder::new().name("other".into()).spawn(move || {
            // Nobody notifies.
            other.1.wait(&mut other.0.lock());
        });
        drop(thread.unwrap().join());
    })
    .unwrap_err();
    assert_eq!(deadlock.what, "all threads wait for ever");
    assert!(deadlock.threads.len() == 2 && deadlock.threads[1].starts_with("world/other"));

    let panic = Simulation::run(settings(1), |_| {
        let thread = thread::Builder::new().name("bad".into()).spawn(|| panic!("no way"));
        drop(thread.unwrap().join());
    })
    .unwrap_err();
    assert!(panic.what.contains("world/bad") && panic.what.contains("no way"), "{}", panic.what);

    let endless = Simulation::run(settings(1), |_| thread::sleep(Duration::from_secs(7200)));
    assert_eq!(endless.unwrap_err().what, "it takes longer than it may");
}

#[test]
fn outside_a_simulation_all_is_the_system_s() {
    assert!(!simulation::is_running() && simulation::whereabouts().is_none());
    let (lock, told) = (Arc::new(Mutex::new(false)), Arc::new(Condvar::new()));
    let (theirs, tell) = (Arc::clone(&lock), Arc::clone(&told));
    let thread = thread::spawn(move || {
        *theirs.lock() = true;
        tell.notify_all();
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut held = lock.lock();
    while !*held {
        assert!(!told.wait_until(&mut held, deadline).timed_out());
    }
    drop(held);
    thread.join().unwrap();
    assert!(lock.try_lock_for(Duration::from_secs(60)).is_some());
}
