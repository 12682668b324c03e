//! Attributes of inodes that were removed, for programs that ask for them a moment later.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use intarsia_meta::Inode;
use intarsia_sync::Mutex;
use intarsia_types::{Attr, Error, InodeId};
use rustix::io::Errno;

use crate::background::queue::LINGER;

/// Removed inodes whose last attributes are still told, to whoever holds them without an open handle
/// (a working directory, an `O_PATH` descriptor).
const DEPARTED_KEPT: usize = 1024;

/// What a call is told that looked its path up twice and found what it meant gone both times, so long after it looked
/// it up for the second time. A replaced file stays for [`LINGER`], so within that the name was removed: ENOENT. Later
/// the file may have been replaced meanwhile, while a host was waited for: ETIMEDOUT.
#[must_use]
pub fn gone_twice(after: Duration) -> Error {
    if after < LINGER {
        return Error::NotFound;
    }
    Error::io("what a path means changed while a host was waited for", Errno::TIMEDOUT.into())
}

/// The last attributes of inodes that are gone.
#[derive(Debug)]
pub(crate) struct Departed(Mutex<(VecDeque<InodeId>, HashMap<InodeId, Attr>)>);

impl Departed {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    /// The record of a file that was just written may not know its length yet.
    pub(crate) fn add(&self, inode: &Inode, size_bytes: u64) {
        let mut attr = inode.attr();
        attr.nlink = 0;
        attr.size_bytes = size_bytes;
        let mut guard = self.0.lock();
        let (order, attrs) = &mut *guard;
        if attrs.insert(inode.ino, attr).is_none() {
            order.push_back(inode.ino);
        }
        if order.len() > DEPARTED_KEPT
            && let Some(oldest) = order.pop_front()
        {
            attrs.remove(&oldest);
        }
    }

    pub(crate) fn get(&self, ino: InodeId) -> Option<Attr> {
        self.0.lock().1.get(&ino).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_says_that_a_name_is_absent_after_longer_than_what_is_replaced_stays() {
        let errno = |after: Duration| gone_twice(after).errno();
        assert_eq!(errno(Duration::ZERO), Errno::NOENT.raw_os_error());
        assert_eq!(errno(LINGER - Duration::from_millis(1)), Errno::NOENT.raw_os_error());
        assert_eq!(errno(LINGER), Errno::TIMEDOUT.raw_os_error());
    }
}
