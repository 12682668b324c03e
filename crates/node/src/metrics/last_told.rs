//! When the log last said something that happens often.

use std::time::Duration;

use intarsia_sync::{Instant, Mutex};

/// One thing that the log says now and then.
#[derive(Default)]
pub(crate) struct LastTold(Mutex<Option<Instant>>);

impl LastTold {
    /// Whether the log is to say it again, `every` so long; then it counts as told.
    pub(crate) fn is_due(&self, every: Duration) -> bool {
        let mut told = self.0.lock();
        let is_due = told.is_none_or(|told| told.elapsed() >= every);
        if is_due {
            *told = Some(Instant::now());
        }
        is_due
    }
}
