//! Files that run as programs.
//!
//! The kernel refuses to cut such a file (ETXTBSY), but where the file system cuts as it opens
//! (`FUSE_ATOMIC_O_TRUNC`) and the file is opened for reading, it asks for the open first and refuses after it.

use std::collections::HashMap;

use intarsia_sync::Mutex;

use fuser::{INodeNo, OpenFlags};

/// `__FMODE_EXEC` of the kernel's `linux/fs.h`: opened to be run, by the kernel itself.
const FMODE_EXEC: i32 = 0x20;

/// How often each file is open to be run.
#[derive(Default)]
pub(crate) struct Executed(Mutex<HashMap<u64, u32>>);

impl Executed {
    /// Takes note of an open.
    pub(crate) fn opened(&self, n: INodeNo, flags: OpenFlags) {
        if flags.0 & FMODE_EXEC != 0 {
            *self.0.lock().entry(n.0).or_default() += 1;
        }
    }

    /// Takes note of its end.
    pub(crate) fn released(&self, n: INodeNo, flags: OpenFlags) {
        if flags.0 & FMODE_EXEC == 0 {
            return;
        }
        let mut counts = self.0.lock();
        if let Some(count) = counts.get_mut(&n.0) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&n.0);
            }
        }
    }

    /// Whether the file runs.
    pub(crate) fn has(&self, n: INodeNo) -> bool {
        self.0.lock().contains_key(&n.0)
    }
}
