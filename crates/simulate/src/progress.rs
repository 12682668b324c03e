//! How far a run has come, for whoever watches it from another thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that a run advances and a watcher reads. They never influence the run.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    done: AtomicU64,
    events: AtomicU64,
}

impl Progress {
    /// Says how much there is to do, in a unit of the run's choice (such as simulated seconds).
    pub fn expect(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Adds to what is done and to the events that were handled.
    pub fn advance(&self, done: u64, events: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
        self.events.fetch_add(events, Ordering::Relaxed);
    }

    /// The share that is done, from 0 to 1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    pub fn share(&self) -> f64 {
        let total = self.total.load(Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed).min(total);
        if total == 0 { 0.0 } else { done as f64 / total as f64 }
    }

    /// Events handled so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }
}
