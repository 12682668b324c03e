//! By which names files are known, and which directories the log tells already.

use std::collections::{HashMap, HashSet};

use intarsia_sync::Mutex;
use intarsia_types::InodeId;

/// Names kept in each of two generations; the older one goes when the younger is full.
const GENERATION: usize = 1 << 17;

type Name = (InodeId, Box<[u8]>);

/// Names of files as programs last used them, the latest of many; the kernel says them once only.
#[derive(Default)]
pub(crate) struct Names {
    known: Mutex<[HashMap<InodeId, Name>; 2]>,
    told: Mutex<HashSet<InodeId>>,
}

impl Names {
    pub(crate) fn learn(&self, ino: InodeId, directory: InodeId, name: &[u8]) {
        let mut known = self.known.lock();
        let [young, old] = &mut *known;
        let is_known = young.get(&ino).is_some_and(|(d, n)| *d == directory && **n == *name);
        if is_known {
            return;
        }
        if young.len() >= GENERATION {
            *old = std::mem::take(young);
        }
        young.insert(ino, (directory, name.into()));
    }

    /// The directory and the name of a file.
    pub(crate) fn of(&self, ino: InodeId) -> Option<Name> {
        let known = self.known.lock();
        known.iter().find_map(|generation| generation.get(&ino)).cloned()
    }

    /// Whether the path of a directory is not in the log yet. It counts as logged from now on.
    pub(crate) fn is_news(&self, directory: InodeId) -> bool {
        let mut told = self.told.lock();
        if told.len() >= GENERATION {
            told.clear();
        }
        told.insert(directory)
    }

    /// Directories have moved: the paths of all are logged again.
    pub(crate) fn forget_directories(&self) {
        self.told.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_counts_and_the_oldest_of_too_many_goes() {
        let names = Names::default();
        let root = InodeId(1);
        names.learn(InodeId(7), root, b"a");
        names.learn(InodeId(7), root, b"b");
        assert_eq!(names.of(InodeId(7)).unwrap().1.as_ref(), b"b");
        for ino in 0..2 * GENERATION as u64 + 1 {
            names.learn(InodeId(100 + ino), root, b"x");
        }
        assert!(names.of(InodeId(7)).is_none());
        assert!(names.of(InodeId(100 + GENERATION as u64 * 2)).is_some());
    }

    #[test]
    fn a_directory_is_told_once_until_directories_move() {
        let names = Names::default();
        assert!(names.is_news(InodeId(1)));
        assert!(!names.is_news(InodeId(1)));
        names.forget_directories();
        assert!(names.is_news(InodeId(1)));
    }
}
