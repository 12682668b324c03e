//! Creates that are under way.
//!
//! The commit of a create marks the new file as being written here, and other hosts can see that before this host has the
//! answer. A host that asks for the file in between must not be told that it is unknown here.

use std::collections::{BTreeSet, HashMap};

use intarsia_sync::Mutex;
use intarsia_types::InodeId;

/// Most questions that are remembered. There are few at a time: a host waits for each.
const QUESTIONS_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct Creations(Mutex<UnderWay>);

#[derive(Default)]
struct UnderWay {
    next: u64,
    numbers: BTreeSet<u64>,
    /// For each inode that a host asked for: the number of the create that was to begin next at the first question.
    asked: HashMap<InodeId, u64>,
}

/// A create that is under way; dropped once the new file is in the table of live inodes.
pub(crate) struct Creation<'a> {
    all: &'a Creations,
    number: u64,
}

impl Drop for Creation<'_> {
    fn drop(&mut self) {
        self.all.0.lock().numbers.remove(&self.number);
    }
}

impl Creations {
    pub(crate) fn begin(&self) -> Creation<'_> {
        let mut under_way = self.0.lock();
        let number = under_way.next;
        under_way.next += 1;
        under_way.numbers.insert(number);
        Creation { all: self, number }
    }

    /// Whether an inode that is unknown here comes of no create under way: all creates that were under way at the first
    /// question for it are over.
    pub(crate) fn is_stranger(&self, ino: InodeId) -> bool {
        let mut under_way = self.0.lock();
        let next = under_way.next;
        if under_way.asked.len() >= QUESTIONS_MAX {
            under_way.asked.clear();
        }
        let asked = *under_way.asked.entry(ino).or_insert(next);
        let is_over = under_way.numbers.first().is_none_or(|oldest| *oldest >= asked);
        if is_over {
            under_way.asked.remove(&ino);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_is_a_stranger_once_the_creates_of_its_first_question_are_over() {
        let creations = Creations::default();
        let (a, b) = (InodeId(10), InodeId(11));
        assert!(creations.is_stranger(a));
        let first = creations.begin();
        assert!(!creations.is_stranger(a));
        let second = creations.begin();
        assert!(!creations.is_stranger(b));
        drop(first);
        assert!(creations.is_stranger(a), "the other one began later");
        assert!(!creations.is_stranger(b));
        drop(second);
        assert!(creations.is_stranger(b));
    }
}
