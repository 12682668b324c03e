//! Files that run as programs.
//!
//! The kernel refuses to cut such a file (ETXTBSY), but where the file system cuts as it opens
//! (`FUSE_ATOMIC_O_TRUNC`) and the file is opened for reading, it asks for the open first and refuses after it.

use std::collections::HashMap;
use std::time::Duration;

use intarsia_sync::{Condvar, Mutex};
use intarsia_types::{Error, InodeId, Result};

/// How long a program may have ended before the kernel's word of that is here: it sends that word and does not wait for it.
const ENDED_WITHIN: Duration = Duration::from_millis(500);

/// How often each file is open to be run.
#[derive(Default)]
pub(crate) struct Executed {
    counts: Mutex<HashMap<InodeId, u32>>,
    ended: Condvar,
}

impl Executed {
    /// The kernel has opened a file to run it.
    pub(crate) fn begin(&self, ino: InodeId) {
        *self.counts.lock().entry(ino).or_default() += 1;
    }

    /// One of those opens has ended.
    pub(crate) fn end(&self, ino: InodeId) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&ino);
                self.ended.notify_all();
            }
        }
    }

    /// Refuses to cut a file that runs. Waits a moment for a program that may have ended.
    ///
    /// # Errors
    /// [`Error::Running`].
    pub(crate) fn refuse(&self, ino: InodeId) -> Result<()> {
        let mut counts = self.counts.lock();
        let runs = |counts: &mut HashMap<InodeId, u32>| counts.contains_key(&ino);
        let waited = self.ended.wait_while_for(&mut counts, runs, ENDED_WITHIN);
        if waited.timed_out() { Err(Error::Running) } else { Ok(()) }
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
        // The kernel says so after the program has ended.
        intarsia_sync::thread::scope(|scope| {
            scope.spawn(|| executed.end(ino));
            executed.refuse(ino).expect("nobody runs it");
        });
    }
}
