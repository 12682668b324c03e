//! One at a time, for each inode.

use std::collections::{HashMap, HashSet};

use intarsia_sync::{Condvar, Mutex};
use intarsia_types::InodeId;

/// Locks by inode number, for work that is too long to be done under an entry's own lock.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    inodes: Mutex<Inodes>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct Inodes {
    busy: HashSet<InodeId>,
    /// How many wait for which.
    wanted: HashMap<InodeId, usize>,
}

/// Somebody's turn; it ends when this goes.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    ino: InodeId,
}

impl Turns {
    /// Waits for the turn of `ino`.
    pub(crate) fn lock(&self, ino: InodeId) -> Turn<'_> {
        let mut inodes = self.inodes.lock();
        if !inodes.busy.insert(ino) {
            *inodes.wanted.entry(ino).or_default() += 1;
            while !inodes.busy.insert(ino) {
                self.done.wait(&mut inodes);
            }
            inodes.wants_no_more(ino);
        }
        Turn { turns: self, ino }
    }
}

impl Inodes {
    fn wants_no_more(&mut self, ino: InodeId) {
        if let Some(count) = self.wanted.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                self.wanted.remove(&ino);
            }
        }
    }
}

impl Turn<'_> {
    /// Whether somebody waits for this turn to end.
    pub(crate) fn is_wanted(&self) -> bool {
        self.turns.inodes.lock().wanted.contains_key(&self.ino)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.inodes.lock().busy.remove(&self.ino);
        self.turns.done.notify_all();
    }
}
