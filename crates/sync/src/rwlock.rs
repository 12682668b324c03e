//! A lock for many who read or one who writes.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::rank::Slot;
use crate::simulation::{self, Place};

/// A lock, as [`parking_lot::RwLock`].
#[derive(Default)]
pub struct RwLock<T: ?Sized>(parking_lot::RwLock<T>);

/// Holds a [`RwLock`] to read.
pub struct RwLockReadGuard<'a, T: ?Sized> {
    inner: parking_lot::RwLockReadGuard<'a, T>,
    lock: &'a parking_lot::RwLock<T>,
}

/// Holds a [`RwLock`] to write.
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    inner: parking_lot::RwLockWriteGuard<'a, T>,
    lock: &'a parking_lot::RwLock<T>,
}

impl<T> RwLock<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    /// What was in it.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let inner = simulation::until(Place::of(&self.0), || self.0.try_read());
        Slot::NONE.take();
        RwLockReadGuard { inner: inner.unwrap_or_else(|| self.0.read()), lock: &self.0 }
    }

    /// Waits until nobody else holds it.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let inner = simulation::until(Place::of(&self.0), || self.0.try_write());
        Slot::NONE.take();
        RwLockWriteGuard { inner: inner.unwrap_or_else(|| self.0.write()), lock: &self.0 }
    }

    /// What is in it; nobody else can hold it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
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
        Slot::NONE.let_go();
        simulation::wake(Place::of(self.lock));
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        Slot::NONE.let_go();
        simulation::wake(Place::of(self.lock));
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
