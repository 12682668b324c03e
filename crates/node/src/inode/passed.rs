//! What this host knows of rights to write that no live file here has: those that it has passed on and not asked for since,
//! for which it need not ask the metadata; and those that the metadata may say it has, because a commit had no answer.

use std::collections::HashSet;

use intarsia_meta::{Namespace, WriteLease};
use intarsia_sync::Mutex;
use intarsia_types::{InodeId, Result};

/// Most files that are remembered; of others the record is asked.
const FILES_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct Passed(Mutex<HashSet<InodeId>>);

impl Passed {
    pub(super) fn note(&self, ino: InodeId) {
        let mut files = self.0.lock();
        if files.len() >= FILES_MAX {
            files.clear();
        }
        files.insert(ino);
    }

    pub(super) fn contains(&self, ino: InodeId) -> bool {
        self.0.lock().contains(&ino)
    }

    /// Another host is about to pass the right on to this one, whether the metadata's answer comes or not.
    pub(super) fn forget(&self, ino: InodeId) {
        self.0.lock().remove(&ino);
    }

    /// Asks for the right to write to a file, which this host has from the moment on that the metadata say so, whether
    /// their answer comes or not.
    pub(crate) fn acquire_write(&self, namespace: &Namespace, ino: InodeId) -> Result<WriteLease> {
        self.forget(ino);
        namespace.acquire_write(ino)
    }
}
