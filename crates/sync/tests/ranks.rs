//! The order of locks is asserted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]
#![cfg(debug_assertions)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use intarsia_sync::{
    Condvar, Instant, Mutex, MutexGuard, Rank, RwLock, may_ask_others, may_wait_long,
};

const FILE: Rank = Rank::held_while_asking(1, "a file");
const TURN: Rank = Rank::held_while_asking(3, "a turn").of_several();
const TABLE: Rank = Rank::held_briefly(2, "the table");

fn is_refused(work: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

#[test]
fn locks_are_waited_for_in_the_order_of_their_ranks() {
    let (file, other) = (Mutex::ranked(FILE, 1), Mutex::ranked(FILE, 2));
    let (table, free) = (Mutex::ranked(TABLE, 3), Mutex::new(4));
    let held = file.lock();
    assert_eq!((*held, *table.lock(), *free.lock()), (1, 3, 4));
    assert!(is_refused(|| drop(other.lock())), "a second file");
    assert!(is_refused(|| drop(other.try_lock_until(Instant::now()))));
    assert!(other.try_lock().is_some(), "nobody waits");
    drop(held);
    let held = table.lock();
    assert!(is_refused(|| drop(file.lock())), "a file after the table");
    drop(held);
    assert_eq!(*file.lock(), 1, "what was let go of does not count");
}

#[test]
fn no_other_host_is_asked_under_a_lock_that_its_answer_may_need() {
    let (file, table) = (Mutex::ranked(FILE, ()), Mutex::ranked(TABLE, ()));
    let held = file.lock();
    may_ask_others();
    let mut brief = table.lock();
    assert!(is_refused(may_ask_others));
    MutexGuard::unlocked(&mut brief, may_ask_others);
    assert!(is_refused(may_ask_others), "it is held again");
    drop(brief);
    may_ask_others();
    drop(held);
}

#[test]
fn nobody_is_asked_under_a_lock_without_a_rank() {
    let (free, shared, other) = (Mutex::new(()), RwLock::new(()), RwLock::new(()));
    let held = free.lock();
    assert!(is_refused(may_ask_others));
    drop(held);
    may_ask_others();
    let (first, second) = (shared.read(), other.read());
    drop(first);
    assert!(is_refused(may_ask_others), "one is still held");
    drop(second);
    may_ask_others();
    let held = shared.write();
    assert!(is_refused(may_ask_others));
    drop(held);
    may_ask_others();
}

#[test]
fn nobody_waits_long_under_any_lock() {
    let file = Mutex::ranked(FILE, ());
    may_wait_long();
    let held = file.lock();
    may_ask_others();
    assert!(is_refused(may_wait_long));
    drop(held);
    may_wait_long();
}

#[test]
fn several_of_a_rank_can_be_held_where_it_says_so() {
    let turns: Vec<_> = (0..3).map(|_| Mutex::ranked(TURN, ())).collect();
    let file = Mutex::ranked(FILE, ());
    let held: Vec<_> = turns.iter().map(Mutex::lock).collect();
    may_ask_others();
    assert!(is_refused(|| drop(file.lock())), "a file after the turns");
    drop(held);
    drop(file.lock());
}

#[test]
fn who_waits_for_a_condition_has_the_lock_afterwards() {
    let (table, changed) = (Mutex::ranked(TABLE, 0), Condvar::new());
    let mut held = table.lock();
    assert!(changed.wait_until(&mut held, Instant::now()).timed_out());
    assert!(is_refused(may_ask_others));
    drop(held);
    may_ask_others();
}

#[test]
fn each_thread_has_locks_of_its_own() {
    let table = Mutex::ranked(TABLE, ());
    let held = table.lock();
    intarsia_sync::thread::scope(|scope| {
        scope.spawn(may_ask_others).join().unwrap();
    });
    drop(held);
}
