//! Files that run as programs.
//!
//! The kernel refuses to cut such a file (ETXTBSY), but where the file system cuts as it opens
//! (`FUSE_ATOMIC_O_TRUNC`) and the file is opened for reading, it asks for the open first and refuses after it.

use std::collections::HashMap;

use intarsia_sync::Mutex;
use intarsia_types::{Error, InodeId, Result};

/// How often each file is open to be run.
#[derive(Default)]
pub(crate) struct Executed(Mutex<HashMap<InodeId, u32>>);

impl Executed {
    /// The kernel has opened a file to run it.
    pub(crate) fn begin(&self, ino: InodeId) {
        *self.0.lock().entry(ino).or_default() += 1;
    }

    /// One of those opens has ended.
    pub(crate) fn end(&self, ino: InodeId) {
        let mut counts = self.0.lock();
        if let Some(count) = counts.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&ino);
            }
        }
    }

    /// Refuses to cut a file that runs.
    ///
    /// # Errors
    /// [`Error::Running`].
    pub(crate) fn refuse(&self, ino: InodeId) -> Result<()> {
        if self.0.lock().contains_key(&ino) { Err(Error::Running) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_cut_once_it_runs_nowhere() {
        let executed = Executed::default();
        let ino = InodeId(7);
        executed.begin(ino);
        executed.begin(ino);
        executed.end(ino);
        assert!(matches!(executed.refuse(ino), Err(Error::Running)));
        executed.refuse(InodeId(8)).expect("another file");
        executed.end(ino);
        executed.refuse(ino).expect("nobody runs it");
    }
}
