//! Which files a safe close has acknowledged: they outlive any one host.

use std::collections::BTreeMap;

use intarsia_types::InodeId;
use parking_lot::Mutex;

#[derive(Clone, Copy, Debug, Default)]
struct Promise {
    /// Programs that have the file open to write. Those that were killed stay among them: nobody knows what they did last.
    writers: u32,
    /// Programs that are about to cut it.
    cutting: u32,
    is_kept: bool,
}

/// The files of all programs, by inode.
#[derive(Debug, Default)]
pub(crate) struct Promises(Mutex<BTreeMap<InodeId, Promise>>);

impl Promises {
    fn change(&self, ino: InodeId, change: impl FnOnce(&mut Promise)) {
        change(self.0.lock().entry(ino).or_default());
    }

    /// A program is about to cut the file to nothing: that is seen at once, before there are copies of it.
    pub(crate) fn begin_cut(&self, ino: InodeId) {
        self.change(ino, |promise| {
            promise.cutting += 1;
            promise.is_kept = false;
        });
    }

    /// It has opened the file, or was told that it has not.
    pub(crate) fn end_cut(&self, ino: InodeId) {
        self.change(ino, |promise| promise.cutting = promise.cutting.saturating_sub(1));
    }

    /// A program has it open to write. What was acknowledged stays until the close.
    pub(crate) fn open(&self, ino: InodeId) {
        self.change(ino, |promise| promise.writers += 1);
    }

    /// A program has closed it, and was told whether all is well.
    pub(crate) fn close(&self, ino: InodeId, is_well: bool) {
        self.change(ino, |promise| {
            promise.is_kept |= is_well && promise.writers == 1 && promise.cutting == 0;
            promise.writers = promise.writers.saturating_sub(1);
        });
    }

    /// Whether the file can be read, whichever host is lost.
    pub(crate) fn holds(&self, ino: InodeId) -> bool {
        self.0.lock().get(&ino).is_some_and(|promise| promise.is_kept)
    }
}
