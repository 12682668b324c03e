//! How many files went with their last reader, as `lifetime=reads:N` says.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use intarsia_types::InodeId;

use crate::metrics::header;
use crate::metrics::last_told::LastTold;

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
        let help = "Files whose last reader has closed them, as lifetime=reads:N says, and whether they went";
        header(out, "outlived_files_total", "counter", help);
        for (is_gone, count) in [("yes", &self.gone), ("no", &self.kept)] {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(out, "intarsia_outlived_files_total{{gone=\"{is_gone}\"}} {count}");
        }
    }

    /// A file's last reader has closed it.
    pub(crate) fn note(&self, ino: InodeId, outcome: std::result::Result<(), &'static str>) {
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
