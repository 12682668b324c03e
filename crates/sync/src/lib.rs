//! Clock, locks and threads of everything that a node does.
//!
//! Usually they are the system's: [`Mutex`], [`RwLock`] and [`Condvar`] those of `parking_lot`, [`thread`] and
//! [`Instant`] those of the standard library. Inside a [`Simulation`] they are the simulation's: of all threads one
//! runs at a time, which of them is drawn from a seed, and time passes only when all of them wait. The same code then
//! does the same thing again for the same seed, and a minute that everybody waits through takes no time.
//!
//! Code that is to run in a simulation takes clock, locks and threads from here alone, and waits for nothing else.

pub mod channel;
mod clock;
mod condvar;
mod mutex;
#[cfg(debug_assertions)]
mod order;
mod rank;
mod relapse;
mod rwlock;
pub mod simulation;
pub mod thread;

pub use clock::{Instant, coarse_simulated_now, system_now};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
pub use rank::{Rank, may_ask_others, may_wait_long};
pub use relapse::Relapse;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use simulation::Simulation;
