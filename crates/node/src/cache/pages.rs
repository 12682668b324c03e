//! Pages that the kernel has cached of an open file, and that another host has made old.
//!
//! The kernel keeps the page in which a file ended with zeros behind the end. When it is told of a greater length it shows
//! them as the file's. So whoever tells it a length has it drop the pages first that are older than that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use intarsia_policy::IoMode;
use intarsia_sync::Mutex;
use intarsia_types::InodeId;

use crate::inode::live::LiveState;
use crate::node::Node;

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
    fn begin(&self, ino: InodeId) {
        self.change(ino, |age| age.writers += 1);
    }

    fn end(&self, ino: InodeId) {
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

impl LiveState {
    /// Whether it is open here and its reads come to us, but for what the kernel keeps in its pages.
    pub(crate) fn is_served_by_us(&self) -> bool {
        self.handles > 0 && self.mode == IoMode::Cached
    }
}

impl Node {
    /// Whether the kernel may have pages of a file that are older than what the node says of it.
    #[must_use]
    pub fn has_old_pages(&self, ino: InodeId) -> bool {
        self.old_pages.age(ino).is_some()
    }

    /// Takes note that it may.
    pub fn note_old_pages(&self, ino: InodeId) {
        self.old_pages.note(ino);
    }

    /// Has `drop_pages` drop what the kernel has of a file if that is old. To be called with no lock held: it waits
    /// for reads under way.
    pub fn drop_old_pages(&self, ino: InodeId, drop_pages: impl FnOnce()) {
        let Some(before) = self.old_pages.age(ino) else { return };
        let dropping = self.dropping_pages(ino);
        drop_pages();
        drop(dropping);
        // Only now: others that are about to tell the kernel a length drop the pages too, or wait for us.
        self.old_pages.remove_if(ino, |age| age.writers == 0 && age.changes == before.changes);
    }

    /// To be held while another host changes a file through this one.
    pub(crate) fn outdating(&self, ino: InodeId) -> Outdating<'_> {
        self.old_pages.begin(ino);
        Outdating { node: self, ino }
    }
}

/// See [`Node::outdating`].
pub(crate) struct Outdating<'a> {
    node: &'a Node,
    ino: InodeId,
}

impl Drop for Outdating<'_> {
    fn drop(&mut self) {
        self.node.old_pages.end(self.ino);
        self.node.directory_leases.told.outdate_attributes(self.ino);
        let is_cached = self.node.live.with_existing(self.ino, |state| state.is_served_by_us());
        if !is_cached.unwrap_or(false) {
            self.node.old_pages.forget(self.ino);
        }
    }
}
