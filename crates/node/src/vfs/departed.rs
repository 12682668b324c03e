//! What is still told of inodes that are gone.

use std::collections::{HashMap, VecDeque};

use intarsia_meta::Inode;
use intarsia_sync::Mutex;
use intarsia_types::{Attr, InodeId};

/// Removed inodes whose last attributes are still told, to whoever holds them without an open handle
/// (a working directory, an `O_PATH` descriptor).
const DEPARTED_KEPT: usize = 1024;

/// The last attributes of inodes that are gone.
#[derive(Debug)]
pub(crate) struct Departed(Mutex<(VecDeque<InodeId>, HashMap<InodeId, Attr>)>);

impl Departed {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    /// The record of a file that was just written may not know its length yet.
    pub(super) fn add(&self, inode: &Inode, size_bytes: u64) {
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
