//! What this host does with open files that were changed in the lower file system.

use std::sync::Arc;

use intarsia_types::InodeId;

use crate::body::lower::LowerEvents;
use crate::cache::pages::OldPages;
use crate::inode::live::LiveTable;

/// Has the kernel drop its pages of open files that have changed below.
pub(crate) struct Outdating {
    live: Arc<LiveTable>,
    old_pages: Arc<OldPages>,
}

impl Outdating {
    pub(crate) fn new(live: &Arc<LiveTable>, old_pages: &Arc<OldPages>) -> Arc<Self> {
        Arc::new(Self { live: Arc::clone(live), old_pages: Arc::clone(old_pages) })
    }
}

impl LowerEvents for Outdating {
    fn note_changed(&self, ino: InodeId) {
        if self.live.contains(ino) {
            self.old_pages.note(ino);
        }
    }
}
