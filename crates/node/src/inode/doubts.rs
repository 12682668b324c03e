//! Inodes of which it is not known whether a name is left, because a commit had no answer. For backing files that may
//! have no owner see [`crate::space::ledger`].

use std::time::Duration;

use intarsia_sync::{Instant, Mutex};
use intarsia_types::{Error, InodeId, Result};

use crate::inode::live::{Forgotten, LiveState};
use crate::node::Node;
use crate::space::ledger::is_uncertain;

/// Inodes that may have lost their last name to this host, which nobody waits for.
#[derive(Debug, Default)]
pub(crate) struct DoubtfulOrphans(Mutex<Vec<(InodeId, Instant)>>);

impl Node {
    /// Nobody has the file open any more. If it was promised and could not be recorded, nobody else knows of its bytes.
    pub(crate) fn note_broken_promise(&self, ino: InodeId, state: &mut LiveState) {
        if self.namespace.forget_promise(ino) && state.local().is_some() {
            state.backing.doubt();
        }
    }

    /// Passes on what became of taking a name from an inode that was to be kept as an orphan of this host; without an
    /// answer it may be one.
    pub(crate) fn or_doubt_orphan<T>(&self, kept: Option<InodeId>, taken: Result<T>) -> Result<T> {
        taken.inspect_err(|error| {
            if let Some(ino) = kept.filter(|_| is_uncertain(error)) {
                self.doubt_orphan(ino);
            }
        })
    }

    /// The inode may be an orphan that this host is to remove. Of a store of this host alone the next start does.
    pub(crate) fn doubt_orphan(&self, ino: InodeId) {
        if self.is_shared() {
            self.doubtful_orphans.0.lock().push((ino, Instant::now()));
            self.settler_queue.collect();
        }
    }

    /// Removes those that became orphans and are not open here any more.
    pub(crate) fn resolve_orphans(&self) -> Result<()> {
        let age = Duration::from_millis(self.options.uncertain_ms);
        let is_due = |(_, since): &mut (InodeId, Instant)| since.elapsed() >= age;
        let due: Vec<_> = self.doubtful_orphans.0.lock().extract_if(.., is_due).collect();
        for (at, (ino, _)) in due.iter().enumerate() {
            let is_orphan = match self.namespace.get(*ino) {
                Ok(inode) => inode.nlink == 0,
                Err(Error::NotFound) => false,
                Err(error) => {
                    self.doubtful_orphans.0.lock().extend_from_slice(&due[at..]);
                    return Err(error);
                }
            };
            let waits = |state: &mut LiveState| {
                if is_orphan {
                    state.names.lose();
                }
                state.is_open()
            };
            if is_orphan && self.live.with_existing(*ino, waits) != Some(true) {
                self.reap(*ino, Forgotten::default());
            }
        }
        Ok(())
    }
}
