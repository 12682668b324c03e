//! A lock for one.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::rank::{Rank, Slot};
use crate::simulation::{self, Task};
use crate::{Instant, simulation::Place};

/// A lock, as [`parking_lot::Mutex`].
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    rank: Slot,
    lock: parking_lot::Mutex<T>,
}

/// Holds a [`Mutex`] until it is dropped.
pub struct MutexGuard<'a, T: ?Sized> {
    pub(crate) inner: parking_lot::MutexGuard<'a, T>,
    lock: &'a parking_lot::Mutex<T>,
    rank: Slot,
}

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { rank: Slot::NONE, lock: parking_lot::Mutex::new(value) }
    }

    /// A lock around `value` that has a place in the order of locks.
    pub const fn ranked(rank: Rank, value: T) -> Self {
        Self { rank: Slot::new(rank), lock: parking_lot::Mutex::new(value) }
    }

    /// What was in it.
    pub fn into_inner(self) -> T {
        self.lock.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until nobody else holds it.
    ///
    /// # Panics
    /// In debug builds, out of the [order](Rank) of locks.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.rank.await_turn();
        match simulation::current() {
            Some(task) => match self.take_in_turn(&task, None) {
                Some(guard) => guard,
                None => self.held(self.lock.lock()),
            },
            None => self.held(self.lock.lock()),
        }
    }

    /// Takes it if nobody holds it.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        simulation::pass();
        Some(self.held(self.lock.try_lock()?))
    }

    /// As [`Self::lock`], until `deadline` at the latest.
    ///
    /// # Panics
    /// As [`Self::lock`].
    #[track_caller]
    pub fn try_lock_until(&self, deadline: Instant) -> Option<MutexGuard<'_, T>> {
        self.rank.await_turn();
        match simulation::current() {
            Some(task) => self.take_in_turn(&task, Some(deadline)),
            None => Some(self.held(self.lock.try_lock_until(deadline.of_system())?)),
        }
    }

    /// As [`Self::lock`], so long at most.
    #[track_caller]
    pub fn try_lock_for(&self, patience: Duration) -> Option<MutexGuard<'_, T>> {
        self.try_lock_until(Instant::now() + patience)
    }

    /// Whether somebody holds it.
    pub fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }

    /// What is in it; nobody else can hold it.
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }

    #[track_caller]
    fn held<'a>(&'a self, inner: parking_lot::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.rank.take();
        MutexGuard { inner, lock: &self.lock, rank: self.rank }
    }

    #[track_caller]
    fn take_in_turn(&self, task: &Task, deadline: Option<Instant>) -> Option<MutexGuard<'_, T>> {
        task.pass();
        loop {
            if let Some(inner) = self.lock.try_lock() {
                return Some(self.held(inner));
            }
            if !task.wait(Place::of(&self.lock), deadline) {
                return None;
            }
        }
    }
}

impl<T: ?Sized> MutexGuard<'_, T> {
    /// Lets go while `work` runs.
    pub fn unlocked<U>(guard: &mut Self, work: impl FnOnce() -> U) -> U {
        let (lock, rank) = (guard.lock, guard.rank);
        rank.let_go();
        let outcome = parking_lot::MutexGuard::unlocked(&mut guard.inner, || {
            let Some(task) = simulation::current() else { return work() };
            task.wake(Place::of(lock));
            let outcome = work();
            await_free(&task, lock);
            outcome
        });
        rank.take();
        outcome
    }
}

/// Waits until nobody holds `lock`, so that it can be taken at once.
fn await_free<T: ?Sized>(task: &Task, lock: &parking_lot::Mutex<T>) {
    while lock.is_locked() {
        task.wait(Place::of(lock), None);
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.rank.let_go();
        // Whoever is told runs only after this thread has let go.
        if let Some(task) = simulation::current() {
            task.wake(Place::of(self.lock));
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.lock, f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
