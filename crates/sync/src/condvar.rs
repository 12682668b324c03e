//! Waiting for a change of what a lock guards.

use std::time::Duration;

use crate::simulation::{self, Place};
use crate::{Instant, MutexGuard};

/// A condition, as [`parking_lot::Condvar`].
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

/// Whether a wait ended because of its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult {
    is_over: bool,
}

impl WaitTimeoutResult {
    /// Whether the deadline passed.
    #[must_use]
    pub const fn timed_out(self) -> bool {
        self.is_over
    }
}

impl Condvar {
    /// A condition that nobody waits for.
    #[must_use]
    pub const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    /// Lets go of the lock until somebody notifies.
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        if simulation::current().is_some() {
            self.wait_in_turn(guard, None);
        } else {
            self.0.wait(&mut guard.inner);
        }
    }

    /// As [`Self::wait`], until `deadline` at the latest.
    #[track_caller]
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        let is_over = if simulation::current().is_some() {
            !self.wait_in_turn(guard, Some(deadline))
        } else {
            self.0.wait_until(&mut guard.inner, deadline.of_system()).timed_out()
        };
        WaitTimeoutResult { is_over }
    }

    /// As [`Self::wait`], so long at most.
    #[track_caller]
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        patience: Duration,
    ) -> WaitTimeoutResult {
        self.wait_until(guard, Instant::now() + patience)
    }

    /// Waits while `holds` of what is guarded, so long at most.
    #[track_caller]
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut holds: impl FnMut(&mut T) -> bool,
        patience: Duration,
    ) -> WaitTimeoutResult {
        let deadline = Instant::now() + patience;
        let mut is_over = false;
        while !is_over && holds(guard) {
            is_over = self.wait_until(guard, deadline).timed_out();
        }
        WaitTimeoutResult { is_over: is_over && holds(guard) }
    }

    /// Wakes one of those who wait.
    pub fn notify_one(&self) {
        match simulation::current() {
            Some(task) => task.wake_one(Place::of(self)),
            None => drop(self.0.notify_one()),
        }
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        match simulation::current() {
            Some(task) => task.wake(Place::of(self)),
            None => drop(self.0.notify_all()),
        }
    }

    /// Whether it was notified.
    #[track_caller]
    fn wait_in_turn<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Instant>,
    ) -> bool {
        MutexGuard::unlocked(guard, || {
            simulation::current().is_none_or(|task| task.wait(Place::of(self), deadline))
        })
    }
}
