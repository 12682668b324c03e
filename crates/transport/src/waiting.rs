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
    outcome: Mutex<Outcome<T>>,
    filled: Condvar,
}

enum Outcome<T> {
    Awaited,
    Here(Result<T, PeerFailure>),
    /// The caller has it, or has given it up.
    Done,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { outcome: Mutex::new(Outcome::Awaited), filled: Condvar::new() }
    }
}

impl<T> Slot<T> {
    /// Gives the outcome to the caller; gives it back if he has given it up.
    pub(crate) fn fill(&self, outcome: Result<T, PeerFailure>) -> Option<T> {
        let mut place = self.outcome.lock();
        if matches!(*place, Outcome::Done) {
            return outcome.ok();
        }
        *place = Outcome::Here(outcome);
        self.filled.notify_one();
        None
    }

    /// The caller waits no longer. What came and was not taken.
    pub(crate) fn give_up(&self) -> Option<T> {
        match std::mem::replace(&mut *self.outcome.lock(), Outcome::Done) {
            Outcome::Here(outcome) => outcome.ok(),
            Outcome::Awaited | Outcome::Done => None,
        }
    }

    pub(crate) fn is_filled(&self) -> bool {
        matches!(*self.outcome.lock(), Outcome::Here(_))
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
            if matches!(*outcome, Outcome::Here(_))
                && let Outcome::Here(came) = std::mem::replace(&mut *outcome, Outcome::Done)
            {
                return came;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_gives_up_comes_back_whether_it_came_before_or_comes_after() {
        let before = Slot::default();
        assert_eq!(before.fill(Ok(1)), None);
        assert_eq!((before.give_up(), before.give_up()), (Some(1), None));
        let after = Slot::default();
        assert_eq!(after.give_up(), None);
        assert_eq!(after.fill(Ok(2)), Some(2));
    }

    #[test]
    fn what_a_caller_has_taken_is_not_given_up() {
        let slot = Slot::default();
        slot.fill(Ok(1));
        let now = Instant::now();
        assert_eq!(slot.wait(now, Deadline::at(now), &never).ok(), Some(1));
        assert_eq!(slot.give_up(), None);
    }
}
