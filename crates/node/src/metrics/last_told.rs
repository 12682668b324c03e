//! When a frequent message was last logged, so that it is repeated only now and then.

use std::time::Duration;

use intarsia_sync::{Instant, Mutex};

/// When one kind of message was last logged.
#[derive(Default)]
pub(crate) struct LastTold(Mutex<Option<Instant>>);

impl LastTold {
    /// Whether the message is due, at most once in `every`; if so, it counts as logged now.
    pub(crate) fn is_due(&self, every: Duration) -> bool {
        let mut told = self.0.lock();
        let is_due = told.is_none_or(|told| told.elapsed() >= every);
        if is_due {
            *told = Some(Instant::now());
        }
        is_due
    }
}
