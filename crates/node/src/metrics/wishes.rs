//! How often what hints wish could be done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::metrics::last_told::LastTold;

/// Between two words in the log about wishes of one kind that are not met.
const UNMET_TOLD_EVERY: Duration = Duration::from_secs(10);

/// How often wishes of one kind were met.
#[derive(Default)]
pub(crate) struct Wishes {
    met: AtomicU64,
    unmet: AtomicU64,
    told: LastTold,
}

impl Wishes {
    /// One was met.
    pub(super) fn note_met(&self) {
        self.met.fetch_add(1, Ordering::Relaxed);
    }

    /// One was not. How many were not so far, if the log is to say so now to whoever does not look closely.
    pub(super) fn note_unmet(&self) -> Option<u64> {
        let so_far = self.unmet.fetch_add(1, Ordering::Relaxed) + 1;
        self.told.is_due(UNMET_TOLD_EVERY).then_some(so_far)
    }

    /// How many were met, and how many were not.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.met.load(Ordering::Relaxed), self.unmet.load(Ordering::Relaxed))
    }
}
