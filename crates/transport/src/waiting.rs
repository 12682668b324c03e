//! Waiting for an answer: until when, and where it is put.

use std::time::Duration;

use intarsia_sync::{Condvar, Instant, Mutex};

use crate::PeerFailure;

/// When a wait ends.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    /// At the earliest.
    pub(crate) usual: Instant,
    /// At the latest. In between it goes on while the caller finds that the peer is merely slow.
    pub(crate) last: Instant,
}

/// Between two looks whether a peer is merely slow.
const STEP: Duration = Duration::from_millis(250);

impl Deadline {
    pub(crate) const fn at(usual: Instant) -> Self {
        Self { usual, last: usual }
    }

    /// The end of the next part of the wait; none when it is over.
    pub(crate) fn next(self, is_slow: &dyn Fn() -> bool) -> Option<Instant> {
        let now = Instant::now();
        if now < self.usual {
            return Some(self.usual);
        }
        (now < self.last && is_slow()).then(|| self.last.min(now + STEP))
    }
}

/// A caller that does not wait for slow peers.
pub(crate) const fn never() -> bool {
    false
}

/// Where one caller waits for what comes of his request.
pub(crate) struct Slot<T> {
    outcome: Mutex<Option<Result<T, PeerFailure>>>,
    filled: Condvar,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { outcome: Mutex::default(), filled: Condvar::new() }
    }
}

impl<T> Slot<T> {
    pub(crate) fn fill(&self, outcome: Result<T, PeerFailure>) {
        *self.outcome.lock() = Some(outcome);
        self.filled.notify_one();
    }

    /// What came, if nobody has taken it.
    pub(crate) fn take(&self) -> Option<Result<T, PeerFailure>> {
        self.outcome.lock().take()
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.outcome.lock().is_some()
    }

    /// Waits for what was asked at `begun`.
    pub(crate) fn wait(
        &self,
        begun: Instant,
        deadline: Deadline,
        is_slow: &dyn Fn() -> bool,
    ) -> Result<T, PeerFailure> {
        let mut outcome = self.outcome.lock();
        loop {
            if let Some(outcome) = outcome.take() {
                return outcome;
            }
            let Some(until) = deadline.next(is_slow) else {
                return Err(PeerFailure::Timeout { waited_ms: millis(begun.elapsed()) });
            };
            self.filled.wait_until(&mut outcome, until);
        }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
