//! Pages that the kernel has cached of an open file, and that are outdated because another host has changed the file.
//!
//! The kernel zeroes the last page behind the end of the file. When it is sent a greater length it would show these zeros as
//! content. So before a greater length is sent, the pages from before are dropped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use intarsia_sync::Mutex;
use intarsia_types::InodeId;

/// The files with such pages.
#[derive(Default)]
pub(crate) struct OldPages {
    files: Mutex<HashMap<InodeId, Age>>,
    /// How many there are, for a look without the lock.
    count: AtomicUsize,
}

/// How often a file has changed under the kernel's pages, and how many are changing it now.
#[derive(Clone, Copy, Default)]
struct Age {
    changes: u64,
    writers: u32,
}

impl OldPages {
    /// The file has changed.
    pub(crate) fn note(&self, ino: InodeId) {
        self.change(ino, |age| age.changes += 1);
    }

    /// The file is being changed until [`end`](Self::end).
    pub(crate) fn begin(&self, ino: InodeId) {
        self.change(ino, |age| age.writers += 1);
    }

    pub(crate) fn end(&self, ino: InodeId) {
        self.change(ino, |age| {
            age.changes += 1;
            age.writers = age.writers.saturating_sub(1);
        });
    }

    /// The file is open for nobody here any more; the next open drops its pages.
    pub(crate) fn forget(&self, ino: InodeId) {
        if self.is_any() {
            self.remove_if(ino, |age| age.writers == 0);
        }
    }

    /// Whether the kernel may have pages of a file that are older than what the node says of it.
    pub(crate) fn has(&self, ino: InodeId) -> bool {
        self.age(ino).is_some()
    }

    /// Has `drop_pages` drop the kernel's pages of a file if they are outdated. Whether they were.
    pub(crate) fn drop_with(&self, ino: InodeId, drop_pages: impl FnOnce()) -> bool {
        let Some(before) = self.age(ino) else { return false };
        drop_pages();
        // Only now: others that are about to tell the kernel a length drop the pages too, or wait for us.
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
