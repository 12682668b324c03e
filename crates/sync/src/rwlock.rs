//! A lock for many who read or one who writes.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::rank::Slot;
use crate::simulation::{self, Place};

/// A lock, as [`parking_lot::RwLock`].
pub struct RwLock<T: ?Sized> {
    slot: Slot,
    lock: parking_lot::RwLock<T>,
}

/// Holds a [`RwLock`] to read.
pub struct RwLockReadGuard<'a, T: ?Sized> {
    inner: parking_lot::RwLockReadGuard<'a, T>,
    of: &'a RwLock<T>,
}

/// Holds a [`RwLock`] to write.
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    inner: parking_lot::RwLockWriteGuard<'a, T>,
    of: &'a RwLock<T>,
}

impl<T> RwLock<T> {
    /// A lock around `value`.
    #[track_caller]
    pub const fn new(value: T) -> Self {
        Self { slot: Slot::new(None), lock: parking_lot::RwLock::new(value) }
    }

    /// What was in it.
    pub fn into_inner(self) -> T {
        self.lock.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes. A thread that reads does not wait to read once more: it would never end if somebody
    /// began to wait to write in between.
    ///
    /// # Panics
    /// In debug builds, out of the [order](crate::Rank) of locks.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.slot.await_turn::<T>();
        let inner = simulation::until(Place::of(&self.lock), || self.lock.try_read());
        let inner = inner.unwrap_or_else(|| self.lock.read());
        self.slot.take::<T>();
        RwLockReadGuard { inner, of: self }
    }

    /// Waits until nobody else holds it.
    ///
    /// # Panics
    /// In debug builds, out of the [order](crate::Rank) of locks.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.slot.await_turn::<T>();
        let inner = simulation::until(Place::of(&self.lock), || self.lock.try_write());
        let inner = inner.unwrap_or_else(|| self.lock.write());
        self.slot.take::<T>();
        RwLockWriteGuard { inner, of: self }
    }

    /// What is in it; nobody else can hold it.
    pub fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut()
    }
}

impl<T: Default> Default for RwLock<T> {
    #[track_caller]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.of.slot.let_go::<T>();
        simulation::wake(Place::of(&self.of.lock));
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.of.slot.let_go::<T>();
        simulation::wake(Place::of(&self.of.lock));
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}
