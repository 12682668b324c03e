//! The record that a thread of a program has just looked up, kept for its next request.
//!
//! One call of a program is several requests of the kernel: after it looked up a name it asks for the attributes of what it
//! found, to check permissions, and then for what the call is about. Where no lease covers a record, each of them would be a
//! question to the metadata servers, and the second would ask what the first has just answered.
//!
//! The kernel does not say which requests belong to one call. A record is used for the next request of the same thread if
//! that request is about what the last one found, comes soon, and nothing was committed here since.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::{Inode, Namespace};
use intarsia_sync::Mutex;
use intarsia_types::{InodeId, Result};

use crate::vfs::attributes::Before;

/// How old a record may be that is used again.
const RECENT: Duration = Duration::from_micros(500);
/// Most threads of which something is remembered.
const THREADS_MAX: usize = 1024;

thread_local! {
    static ASKING: Cell<u32> = const { Cell::new(0) };
}

/// This thread answers a request of the program's thread `asking`, or of nobody in particular (0).
pub fn begin_answering(asking: u32) {
    ASKING.set(asking);
}

/// What each thread has looked up last.
pub(crate) struct Recollections {
    all: Mutex<HashMap<u32, Recollection>>,
    namespace: Arc<Namespace>,
}

#[derive(Clone)]
struct Recollection {
    inode: Inode,
    before: Before,
    /// The attributes were answered from the record: the next question belongs to another call.
    is_told: bool,
}

impl Recollections {
    pub(crate) fn new(namespace: &Arc<Namespace>) -> Self {
        Self { all: Mutex::default(), namespace: Arc::clone(namespace) }
    }

    /// What the asking thread remembers of an inode.
    fn find(&self, ino: InodeId, fits: impl Fn(&Recollection) -> bool) -> Option<Recollection> {
        let asking = ASKING.get();
        let all = self.all.lock();
        all.get(&asking).filter(|known| known.inode.ino == ino && fits(known)).cloned()
    }

    fn note(&self, inode: &Inode, before: Before, is_told: bool) {
        let asking = ASKING.get();
        if asking == 0 {
            return;
        }
        let mut all = self.all.lock();
        if all.len() >= THREADS_MAX {
            all.clear();
        }
        all.insert(asking, Recollection { inode: inode.clone(), before, is_told });
    }

    fn forget(&self) {
        self.all.lock().remove(&ASKING.get());
    }

    /// A name was found: the kernel asks for its inode next.
    pub(super) fn note_found(&self, inode: &Inode, before: Before) {
        self.note_asked(inode, before, false);
    }

    /// Its attributes were asked for: something in it or of it may be wanted next.
    pub(super) fn note_told(&self, inode: &Inode, before: Before) {
        self.note_asked(inode, before, true);
    }

    fn note_asked(&self, inode: &Inode, before: Before, is_told: bool) {
        let keeps =
            |dir| self.namespace.holds_directory(dir) && !self.namespace.is_changed_elsewhere(dir);
        let is_kept = || inode.covered_by().is_some_and(keeps);
        if before.commits.is_some() && !is_kept() {
            self.note(inode, before, is_told);
        }
    }

    /// The record of an inode whose attributes are asked for, if the asking thread has just found it, or goes on from it.
    pub(super) fn just_found(&self, ino: InodeId) -> Option<(Inode, Before)> {
        let known = self.recollected(ino, |known| !known.is_told)?;
        self.note(&known.inode, known.before, true);
        Some((known.inode, known.before))
    }

    /// The asking thread goes on in a directory.
    pub(super) fn go_on_in(&self, dir: InodeId) {
        if let Some(known) = self.recollected(dir, |known| known.is_told) {
            self.note(&known.inode, known.before, false);
        }
    }

    /// The record of the directory in which the asking thread makes something, with which its call ends.
    pub(super) fn parent_record(&self, dir: InodeId) -> Result<Inode> {
        let known = self.recollected(dir, |_| true);
        self.forget();
        known.map_or_else(|| self.namespace.get(dir), |known| Ok(known.inode))
    }

    /// Whether the asking thread has just opened a file that has no extended attributes.
    pub(super) fn just_opened_without_attributes(&self, ino: InodeId) -> bool {
        self.recollected(ino, |known| !known.inode.has_xattrs).is_some()
    }

    /// The record of an inode that the asking thread has just looked up.
    pub(super) fn just_looked_up(&self, ino: InodeId) -> Option<Inode> {
        self.recollected(ino, |_| true).map(|known| known.inode)
    }

    fn recollected(
        &self,
        ino: InodeId,
        fits: impl Fn(&Recollection) -> bool,
    ) -> Option<Recollection> {
        let commits = self.namespace.commits_seen()?;
        self.find(ino, |known| {
            known.before.commits == Some(commits)
                && known.before.at.elapsed() <= RECENT
                && fits(known)
        })
    }
}
