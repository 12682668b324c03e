//! One at a time, for each inode.

use std::collections::HashSet;

use intarsia_types::InodeId;
use parking_lot::{Condvar, Mutex};

/// Locks by inode number, for work that is too long to be done under an entry's own lock.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    busy: Mutex<HashSet<InodeId>>,
    done: Condvar,
}

/// Somebody's turn; it ends when this goes.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    ino: InodeId,
}

impl Turns {
    /// Waits for the turn of `ino`.
    pub(crate) fn lock(&self, ino: InodeId) -> Turn<'_> {
        let mut busy = self.busy.lock();
        while !busy.insert(ino) {
            self.done.wait(&mut busy);
        }
        Turn { turns: self, ino }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.busy.lock().remove(&self.ino);
        self.turns.done.notify_all();
    }
}
