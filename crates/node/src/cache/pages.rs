//! Pages that the kernel has cached of an open file, and that are outdated because the file was changed on another host, or in
//! the lower file system.
//!
//! The kernel zeroes the last page behind the end of the file. When it is sent a greater length it would show these zeros as
//! content. So before a greater length is sent, the pages from before are dropped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use intarsia_sync::Mutex;
use intarsia_types::InodeId;

/// The files of which the kernel may have outdated pages.
#[derive(Default)]
pub(crate) struct OldPages {
    files: Mutex<HashMap<InodeId, Age>>,
    /// How many such files there are; read without the lock, because most calls find none.
    count: AtomicUsize,
}

/// How often a file has changed under the kernel's pages, and how many are changing it now.
#[derive(Clone, Copy, Default)]
struct Age {
    changes: u64,
    writers: u32,
}

impl OldPages {
    /// Notes that the file has changed, so that the kernel's pages of it are outdated.
    pub(crate) fn note(&self, ino: InodeId) {
        self.change(ino, |age| age.changes += 1);
    }

    /// Another host begins to change the file, until [`end`](Self::end). Meanwhile its pages count as outdated however often they
    /// are dropped.
    pub(crate) fn begin(&self, ino: InodeId) {
        self.change(ino, |age| age.writers += 1);
    }

    pub(crate) fn end(&self, ino: InodeId) {
        self.change(ino, |age| {
            age.changes += 1;
            age.writers = age.writers.saturating_sub(1);
        });
    }

    /// No program here has the file open any more. It need not be remembered, unless it is being changed: the next open drops its
    /// pages.
    pub(crate) fn forget(&self, ino: InodeId) {
        if self.is_any() {
            self.remove_if(ino, |age| age.writers == 0);
        }
    }

    /// Whether the kernel may have pages of a file that are older than what the node says of it.
    pub(crate) fn has(&self, ino: InodeId) -> bool {
        self.age(ino).is_some()
    }

    /// Calls `drop_pages`, which drops the kernel's pages of a file, if they are outdated. Returns whether they were.
    pub(crate) fn drop_with(&self, ino: InodeId, drop_pages: impl FnOnce()) -> bool {
        let Some(before) = self.age(ino) else { return false };
        drop_pages();
        // Forgotten only after the drop: another thread that is about to send the kernel a length meanwhile drops the pages too.
        // It stays outdated if it was changed during the drop.
        self.remove_if(ino, |age| age.writers == 0 && age.changes == before.changes);
        true
    }

    fn is_any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    fn age(&self, ino: InodeId) -> Option<Age> {
        if self.is_any() { self.files.lock().get(&ino).copied() } else { None }
    }

    fn change(&self, ino: InodeId, change: impl FnOnce(&mut Age)) {
        let mut files = self.files.lock();
        change(files.entry(ino).or_default());
        self.count.store(files.len(), Ordering::SeqCst);
    }

    fn remove_if(&self, ino: InodeId, condition: impl FnOnce(&Age) -> bool) {
        let mut files = self.files.lock();
        if files.get(&ino).is_some_and(condition) {
            files.remove(&ino);
        }
        self.count.store(files.len(), Ordering::SeqCst);
    }
}
