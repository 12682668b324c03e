//! Files that go when so many readers have closed them: `lifetime=reads:N`.
//!
//! The number of readers is in the metadata, so it counts those of all hosts and survives each of them. A reader is who had the
//! file open only to read, whatever he read of it. What if a host dies before it has counted its readers? Then the file
//! stays for longer, and goes with one that comes later, or not at all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use intarsia_meta::Inode;
use intarsia_types::{Error, InodeId, Result};

use crate::metrics::header;
use crate::metrics::last_told::LastTold;
use crate::node::Node;
use crate::space::hints::own_hints;

/// Names of a directory that are looked through at a time.
const LISTED: usize = 1024;
/// Between two words in the log about files that stay.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// How many files went, and how many should have.
#[derive(Default)]
pub(crate) struct Outlived {
    gone: AtomicU64,
    kept: AtomicU64,
    told: LastTold,
}

impl Outlived {
    /// The counts in Prometheus text form.
    pub(crate) fn render(&self, out: &mut String) {
        use std::fmt::Write as _;
        let help = "Files whose last reader has closed them, as lifetime=reads:N says, and whether they went";
        header(out, "outlived_files_total", "counter", help);
        for (is_gone, count) in [("yes", &self.gone), ("no", &self.kept)] {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(out, "intarsia_outlived_files_total{{gone=\"{is_gone}\"}} {count}");
        }
    }

    fn note(&self, ino: InodeId, outcome: std::result::Result<(), &'static str>) {
        match outcome {
            Ok(()) => {
                self.gone.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(%ino, "gone with its last reader");
            }
            Err(why) => {
                let files = self.kept.fetch_add(1, Ordering::Relaxed) + 1;
                if self.told.is_due(TOLD_EVERY) {
                    tracing::info!(%ino, why, files, "a file stays after its last reader");
                } else {
                    tracing::debug!(%ino, why, "a file stays after its last reader");
                }
            }
        }
    }
}

impl Node {
    /// Counts a reader that has closed a file whose life readers end, and removes the file if it was the last.
    ///
    /// # Errors
    /// The engine's own; then the file stays.
    pub fn reader_left(&self, ino: InodeId) -> Result<()> {
        let readers = match self.namespace.count_reader(ino) {
            // Somebody has removed it.
            Err(Error::NotFound) => return Ok(()),
            counted => counted?,
        };
        let inode = self.namespace.get(ino)?;
        // Asked anew: the hint may be another one by now.
        let Some(most) = own_hints(&self.namespace, &inode)?.reads() else { return Ok(()) };
        if readers < most {
            return Ok(());
        }
        let removed = match self.only_name_of(&inode)? {
            Ok(name) => match self.unlink(inode.parent, &name) {
                Ok(()) => Ok(()),
                Err(Error::NotFound) => return Ok(()),
                Err(error) => return Err(error),
            },
            Err(why) => Err(why),
        };
        self.outlived.note(ino, removed);
        Ok(())
    }

    /// The name of a file in its directory, or why it is not known.
    fn only_name_of(&self, inode: &Inode) -> Result<std::result::Result<Vec<u8>, &'static str>> {
        if inode.nlink > 1 {
            return Ok(Err("it has several names"));
        }
        if inode.parent == InodeId(0) {
            return Ok(Err("it was moved to a directory whose metadata is apart"));
        }
        let mut cookie = 0;
        loop {
            let entries = self.namespace.list(inode.parent, cookie, LISTED)?;
            let Some(last) = entries.last() else { return Ok(Err("it has no name")) };
            cookie = last.cookie;
            if let Some(entry) = entries.into_iter().find(|entry| entry.ino == inode.ino) {
                return Ok(Ok(entry.name));
            }
        }
    }
}
