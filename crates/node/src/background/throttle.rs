//! A bound on how fast background work moves bytes. Work that is held back ends when another thread waits for its file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Error, Result};

use crate::background::turns::Turn;

/// How far the bytes moved may run ahead of the bounded rate, so that short pauses are made up for.
const BURST: Duration = Duration::from_millis(100);
/// How often a thread that waits looks whether another one wants the file.
const LOOK: Duration = Duration::from_millis(50);

/// Lets a number of bytes a second through, until it is stopped.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// 0 for no bound.
    bytes_per_s: u64,
    /// When all bytes that were let through so far would have passed at the bounded rate.
    paid: Mutex<Instant>,
    wake: Condvar,
    is_stopped: AtomicBool,
}

impl Throttle {
    /// A throttle for `bytes_per_s`; 0 for no bound.
    pub(crate) fn new(bytes_per_s: u64) -> Self {
        Self {
            bytes_per_s,
            paid: Mutex::new(Instant::now()),
            wake: Condvar::new(),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Waits until `bytes` more may be moved. `gives_way` says whether the work is to end instead.
    ///
    /// # Errors
    /// [`Error::Busy`] once the throttle is stopped, or when the work gives way: then the bytes do not count.
    pub(crate) fn spend(&self, bytes: u64, gives_way: impl Fn() -> bool) -> Result<()> {
        if let Some(cost_us) = bytes.saturating_mul(1_000_000).checked_div(self.bytes_per_s) {
            let cost = Duration::from_micros(cost_us);
            let mut paid = self.paid.lock();
            let now = Instant::now();
            *paid = (*paid).max(now) + cost;
            let due = *paid - BURST.min(*paid - now);
            while Instant::now() < due && !self.is_stopped.load(Ordering::Acquire) {
                if gives_way() {
                    *paid -= cost;
                    return Err(Error::Busy("somebody waits for the file".into()));
                }
                self.wake.wait_until(&mut paid, due.min(Instant::now() + LOOK));
            }
        }
        if self.is_stopped.load(Ordering::Acquire) {
            return Err(Error::Busy("the node is stopping".into()));
        }
        Ok(())
    }

    /// Ends all waits.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        // Under the lock, so that a thread that is about to wait sees it.
        let _paid = self.paid.lock();
        self.wake.notify_all();
    }
}

/// How urgently a content is moved.
#[derive(Clone, Copy)]
pub(crate) enum Pace<'a> {
    /// Somebody waits for it.
    Now,
    /// Nobody waits for it: it keeps to the throttle, and ends when another thread waits for the turn.
    Background(&'a Throttle, &'a Turn<'a>),
}

impl Pace<'_> {
    /// Waits until `bytes` more may be moved.
    ///
    /// # Errors
    /// [`Error::Busy`] when the throttle was stopped or another thread waits for the turn.
    pub(crate) fn spend(self, bytes: u64) -> Result<()> {
        match self {
            Self::Now => Ok(()),
            Self::Background(throttle, turn) => throttle.spend(bytes, || turn.is_wanted()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_bytes_take_so_long() {
        let throttle = Throttle::new(1_000_000);
        let begun = Instant::now();
        for _ in 0..10 {
            throttle.spend(50_000, || false).unwrap();
        }
        assert!(begun.elapsed() >= Duration::from_millis(380), "{:?}", begun.elapsed());
        let free = Throttle::new(0);
        free.spend(u64::MAX, || false).unwrap();
        free.stop();
        assert!(free.spend(1, || false).is_err());
    }

    #[test]
    fn stopping_ends_a_long_wait() {
        let throttle = Throttle::new(1);
        intarsia_sync::thread::scope(|scope| {
            let waiting = scope.spawn(|| throttle.spend(1 << 30, || false));
            throttle.stop();
            assert!(waiting.join().unwrap().is_err());
        });
    }

    #[test]
    fn who_gives_way_has_spent_nothing() {
        let throttle = Throttle::new(1);
        assert!(throttle.spend(1 << 30, || true).is_err());
        throttle.spend(0, || false).unwrap();
    }
}
