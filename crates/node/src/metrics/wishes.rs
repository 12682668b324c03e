//! How often the wishes of hints could be met.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::metrics::last_told::LastTold;

/// Between two lines in the log about wishes of one kind that are not met.
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

    /// One was not met. Returns how many were not met so far when it is time for a line in the log.
    pub(super) fn note_unmet(&self) -> Option<u64> {
        let so_far = self.unmet.fetch_add(1, Ordering::Relaxed) + 1;
        self.told.is_due(UNMET_TOLD_EVERY).then_some(so_far)
    }

    /// How many were met, and how many were not.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.met.load(Ordering::Relaxed), self.unmet.load(Ordering::Relaxed))
    }
}
