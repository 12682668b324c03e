//! The programs of a host, in one life of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use intarsia_sync::{Instant, thread};

use crate::promises::Promises;

/// Between two looks whether programs are at rest, or may go on.
const LOOK: Duration = Duration::from_millis(100);

/// The programs of a host, which can be asked to be at nothing for a while: a store in use is not taken down.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    are_called_off: AtomicBool,
    /// Programs, and files that they have closed and the kernel has not let go yet.
    at_work: AtomicUsize,
    promises: Arc<Promises>,
}

impl Programs {
    /// Those whose closes promise something.
    pub(crate) fn promised(promises: &Arc<Promises>) -> Self {
        Self { promises: Arc::clone(promises), ..Self::default() }
    }

    /// What their closes have acknowledged.
    pub(crate) const fn promises(&self) -> &Arc<Promises> {
        &self.promises
    }

    /// Whether all come to rest before the deadline; else they go on.
    pub(crate) fn call_off(&self, deadline: Instant) -> bool {
        self.are_called_off.store(true, Ordering::SeqCst);
        while self.are_at_work() {
            if Instant::now() > deadline {
                self.are_called_off.store(false, Ordering::SeqCst);
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    /// Whether any of them is at something, or a file of theirs is still to be let go.
    pub(crate) fn are_at_work(&self) -> bool {
        self.at_work.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn begin(&self) {
        self.at_work.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        self.at_work.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn wait_while_called_off(&self) {
        if self.are_called_off.load(Ordering::SeqCst) {
            self.end();
            while self.are_called_off.load(Ordering::SeqCst) {
                thread::sleep(LOOK);
            }
            self.begin();
        }
    }
}
