//! How many directory entries to fetch for one request.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const FIRST_GUESS: usize = 128;

/// As many entries as the kernel's buffer held last time. How large that buffer is (4 KiB to 1 MiB, by
/// kernel and caller) and how long the names are is not known before.
pub(crate) struct PageSize(AtomicUsize);

impl Default for PageSize {
    fn default() -> Self {
        Self(AtomicUsize::new(FIRST_GUESS))
    }
}

impl PageSize {
    pub(crate) fn entries(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// After a reply: a full one shows how much fits, the entry that found no room included.
    pub(crate) fn note(&self, is_full: bool, entries: usize) {
        if is_full {
            self.0.store(entries, Relaxed);
        }
    }
}
