//! A lock for one.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::rank::{Rank, Slot};
use crate::simulation::{self, Task};
use crate::{Instant, simulation::Place};

/// A lock, as [`parking_lot::Mutex`].
pub struct Mutex<T: ?Sized> {
    slot: Slot,
    lock: parking_lot::Mutex<T>,
}

/// Holds a [`Mutex`] until it is dropped.
pub struct MutexGuard<'a, T: ?Sized> {
    pub(crate) inner: parking_lot::MutexGuard<'a, T>,
    of: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// A lock around `value`.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self { slot: Slot::new(None), lock: parking_lot::Mutex::new(value) }
    }

    /// A lock around `value` that has a place in the order of locks.
    #[track_caller]
    pub const fn ranked(rank: Rank, value: T) -> Self {
        Self { slot: Slot::new(Some(rank)), lock: parking_lot::Mutex::new(value) }
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
        self.slot.await_turn::<T>();
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
        self.slot.await_turn::<T>();
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
        self.slot.take::<T>();
        MutexGuard { inner, of: self }
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

impl<T: Default> Default for Mutex<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized> MutexGuard<'_, T> {
    /// Lets go while `work` runs.
    ///
    /// # Panics
    /// In debug builds, where it is waited for again out of the [order](Rank) of locks.
    #[track_caller]
    pub fn unlocked<U>(guard: &mut Self, work: impl FnOnce() -> U) -> U {
        let of = guard.of;
        of.slot.let_go::<T>();
        of.slot.await_turn::<T>();
        let outcome = parking_lot::MutexGuard::unlocked(&mut guard.inner, || {
            let Some(task) = simulation::current() else { return work() };
            task.wake(Place::of(&of.lock));
            let outcome = work();
            await_free(&task, &of.lock);
            outcome
        });
        of.slot.take::<T>();
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
        self.of.slot.let_go::<T>();
        // Whoever is told runs only after this thread has let go.
        if let Some(task) = simulation::current() {
            task.wake(Place::of(&self.of.lock));
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
