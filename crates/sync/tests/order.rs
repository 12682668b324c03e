//! All locks are waited for in one order, which is seen as they are taken.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]
#![cfg(debug_assertions)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use intarsia_sync::{Condvar, Instant, Mutex, MutexGuard, RwLock};

/// What a panic of `work` says, if there is one.
fn refusal(work: impl FnOnce()) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(work)).err()?;
    Some(panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[test]
fn two_locks_are_not_waited_for_in_both_orders() {
    let (first, second) = (Mutex::new(1), Mutex::new(2));
    let held = first.lock();
    drop(second.lock());
    drop(held);
    let held = second.lock();
    let told = refusal(|| drop(first.lock())).unwrap();
    assert!(told.contains("the other way round was seen before"), "{told}");
    assert_eq!(told.matches("the lock of i32 that is made at").count(), 4, "{told}");
    assert!(first.try_lock().is_some(), "nobody waits");
    drop(held);
    drop(first.lock());
}

#[test]
fn nor_in_a_circle_of_three() {
    let (first, second, third) = (Mutex::new('1'), Mutex::new('2'), RwLock::new('3'));
    let held = first.lock();
    drop(second.lock());
    drop(held);
    let held = second.lock();
    drop(third.read());
    drop(held);
    let held = third.read();
    let told = refusal(|| drop(first.lock())).unwrap();
    assert_eq!(told.lines().count(), 3, "one line for each step: {told}");
    drop(held);
}

#[test]
fn what_a_lock_that_was_only_tried_comes_before_counts() {
    let (first, second) = (Mutex::new(1_u8), Mutex::new(2_u8));
    let held = first.try_lock().unwrap();
    drop(second.lock());
    drop(held);
    let held = second.lock();
    assert!(refusal(|| drop(first.lock())).is_some());
    drop(held);
}

#[test]
fn locks_that_one_line_makes_are_not_held_together() {
    let locks: Vec<_> = (0..2).map(|n: u16| Mutex::new(n)).collect();
    let held = locks.first().unwrap().lock();
    let told = refusal(|| drop(locks.last().unwrap().lock())).unwrap();
    assert!(told.contains("another of them"), "{told}");
    drop(held);
    drop(locks.last().unwrap().lock());
}

#[test]
fn who_reads_does_not_wait_to_read_once_more() {
    let lock = RwLock::new(1_u32);
    let held = lock.read();
    assert!(refusal(|| drop(lock.read())).is_some());
    drop(held);
    drop(lock.write());
}

#[test]
fn a_lock_that_is_let_go_for_a_while_is_waited_for_again() {
    let (first, second) = (Mutex::new(1_u64), Mutex::new(2_u64));
    let held = first.lock();
    drop(second.lock());
    drop(held);
    let mut outer = first.lock();
    let held = second.lock();
    let again = refusal(|| MutexGuard::unlocked(&mut outer, || ()));
    assert!(again.is_some(), "the second is held while the first is waited for");
    drop(held);
}

#[test]
fn locks_made_by_default_are_told_apart_by_what_they_guard() {
    #[derive(Default)]
    struct Both {
        numbers: Mutex<Vec<u8>>,
        names: RwLock<Vec<String>>,
    }
    let both = Both::default();
    let held = both.numbers.lock();
    drop(both.names.read());
    drop(held);
    let held = both.names.write();
    assert!(refusal(|| drop(both.numbers.lock())).is_some());
    drop(held);
}

#[test]
fn who_waits_for_a_condition_lets_go_of_the_lock_in_order() {
    let (first, second, changed) = (Mutex::new(1_i8), Mutex::new(2_i8), Condvar::new());
    let mut held = first.lock();
    assert!(changed.wait_until(&mut held, Instant::now()).timed_out());
    drop(second.lock());
    drop(held);
    let held = second.lock();
    assert!(refusal(|| drop(first.lock())).is_some());
    drop(held);
}
