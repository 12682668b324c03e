//! Event loops that help out while the regular ones are held up
//!
//! A request that waits - for a disk, for another machine - holds up the loop that dispatches it.
//! More regular loops would help, but cost processor time whenever nothing waits, since the kernel
//! hands requests to loops in turn. So spare loops exist only while all others are held up.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Condvar;
use parking_lot::Mutex;

/// Loops that took nothing for so long although all of them are busy are held up.
const HELD_UP_AFTER: Duration = Duration::from_millis(50);

/// What the event loops of a session do.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    regular_loops: usize,
    regular_busy: AtomicUsize,
    spare_busy: AtomicUsize,
    /// Requests taken since the start; wraps.
    taken: AtomicUsize,
    /// Whether the watch sleeps until all regular loops are busy.
    is_parked: AtomicBool,
    has_ended: Mutex<bool>,
    ending: Condvar,
}

/// Whether a loop belongs to the regular ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    Regular,
    Spare,
}

/// A loop is busy as long as it holds this.
pub(crate) struct Busy<'a>(&'a AtomicUsize);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Progress {
    pub(crate) fn new(regular_loops: usize) -> Self {
        Progress {
            regular_loops,
            ..Progress::default()
        }
    }

    /// A loop has taken a request.
    pub(crate) fn take(&self, role: Role) -> Busy<'_> {
        self.taken.fetch_add(1, Relaxed);
        match role {
            Role::Regular => {
                let busy = self.regular_busy.fetch_add(1, SeqCst) + 1;
                // Either this sees that the watch sleeps, or the watch sees that all are busy.
                if busy == self.regular_loops && self.is_parked.load(SeqCst) {
                    let _has_ended = self.has_ended.lock();
                    self.ending.notify_all();
                }
                Busy(&self.regular_busy)
            }
            Role::Spare => {
                self.spare_busy.fetch_add(1, Relaxed);
                Busy(&self.spare_busy)
            }
        }
    }

    fn all_busy(&self) -> bool {
        self.regular_busy.load(SeqCst) == self.regular_loops
    }

    /// Waits until all regular loops are busy or the session ends: a session that nobody uses costs nothing.
    fn park(&self) {
        let mut has_ended = self.has_ended.lock();
        self.is_parked.store(true, SeqCst);
        while !*has_ended && !self.all_busy() {
            self.ending.wait(&mut has_ended);
        }
        self.is_parked.store(false, SeqCst);
    }

    /// Whether a loop is to take another request.
    pub(crate) fn goes_on(&self, role: Role) -> bool {
        role == Role::Regular || self.regular_busy.load(Relaxed) == self.regular_loops
    }

    /// The session ends; no more spare loops.
    pub(crate) fn end(&self) {
        *self.has_ended.lock() = true;
        self.ending.notify_all();
    }

    /// Waits; false when the session has ended.
    fn tick(&self) -> bool {
        let mut has_ended = self.has_ended.lock();
        if !*has_ended {
            self.ending.wait_for(&mut has_ended, HELD_UP_AFTER);
        }
        !*has_ended
    }

    /// Until the session ends, calls `start` for each spare loop that is needed, and joins those
    /// that have ended. At most `spares` run at the same time. It doubles the loops each time, so
    /// that many requests that wait are soon all taken.
    pub(crate) fn watch<T>(
        &self,
        spares: usize,
        mut start: impl FnMut(usize) -> std::io::Result<JoinHandle<T>>,
    ) {
        let mut running: Vec<JoinHandle<T>> = Vec::new();
        let mut seen = self.taken.load(Relaxed);
        loop {
            if running.is_empty() {
                self.park();
                seen = self.taken.load(Relaxed);
            }
            if !self.tick() {
                break;
            }
            let taken = self.taken.load(Relaxed);
            let is_still = std::mem::replace(&mut seen, taken) == taken;
            running.retain(|spare| !spare.is_finished());
            let are_busy = self.all_busy() && self.spare_busy.load(Relaxed) >= running.len();
            if !(is_still && are_busy) {
                continue;
            }
            let loops = self.regular_loops + running.len();
            for _ in 0..loops.min(spares - running.len()) {
                match start(running.len()) {
                    Ok(spare) => running.push(spare),
                    Err(error) => {
                        log::warn!("Failed to start a spare event loop: {error}");
                        break;
                    }
                }
            }
        }
        for spare in running {
            let _ = spare.join();
        }
    }
}
