//! Keyed turns: for each inode one thread at a time works on it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use intarsia_meta::allowance;
use intarsia_sync::{Condvar, Instant, Mutex};
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
    /// How many threads wait for the turn of an inode; only inodes for which some do.
    wanted: HashMap<InodeId, usize>,
}

/// A thread's turn; it ends when this is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    ino: InodeId,
}

impl Turns {
    /// Waits for the turn of `ino`: until the deadline of the thread's call (see [`allowance`]), or without a bound in a thread
    /// that works on no call. None when another thread still had the turn at the deadline.
    pub(crate) fn lock(&self, ino: InodeId) -> Option<Turn<'_>> {
        let mut inodes = self.inodes.lock();
        if !inodes.busy.insert(ino) {
            *inodes.wanted.entry(ino).or_default() += 1;
            let mut is_ours = false;
            let deadline =
                allowance::until().map(|_| Instant::now() + allowance::of(Duration::MAX));
            while !is_ours && deadline.is_none_or(|deadline| Instant::now() < deadline) {
                match deadline {
                    Some(deadline) => _ = self.done.wait_until(&mut inodes, deadline),
                    None => self.done.wait(&mut inodes),
                }
                is_ours = inodes.busy.insert(ino);
            }
            inodes.wants_no_more(ino);
            if !is_ours {
                return None;
            }
        }
        Some(Turn { turns: self, ino })
    }
}

impl Turns {
    /// The turn of `ino`, if no thread has it.
    pub(crate) fn try_lock(&self, ino: InodeId) -> Option<Turn<'_>> {
        let is_free = self.inodes.lock().busy.insert(ino);
        is_free.then(|| Turn { turns: self, ino })
    }

    /// Whether a thread has the turn of `ino`.
    pub(crate) fn is_taken(&self, ino: InodeId) -> bool {
        self.inodes.lock().busy.contains(&ino)
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

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: InodeId = InodeId(7);

    #[test]
    fn a_call_waits_no_longer_for_a_turn_than_it_may_take() {
        let turns = Turns::default();
        let turn = turns.lock(FILE).expect("it is free");
        assert!(turns.lock(InodeId(8)).is_some(), "another file");
        let limit = allowance::limit(Instant::now());
        assert!(turns.lock(FILE).is_none());
        assert!(!turn.is_wanted(), "nobody waits any more");
        drop(turn);
        assert!(turns.lock(FILE).is_some());
        drop(limit);
    }

    #[test]
    fn whoever_has_time_gets_the_turn_when_it_ends() {
        let turns = Turns::default();
        let turn = turns.lock(FILE).expect("it is free");
        intarsia_sync::thread::scope(|scope| {
            let waits = scope.spawn(|| turns.lock(FILE).is_some());
            while !turn.is_wanted() {
                intarsia_sync::thread::yield_now();
            }
            drop(turn);
            assert!(waits.join().expect("it does not panic"));
        });
    }
}
