//! How many files went with their last reader, as `lifetime=reads:N` says.

use std::fmt::Write as _;

use intarsia_types::InodeId;

use crate::metrics::header;
use crate::metrics::wishes::Wishes;

/// How many files went, and how many should have.
#[derive(Default)]
pub(crate) struct Outlived(Wishes);

impl Outlived {
    /// The counts in Prometheus text form.
    pub(crate) fn render(&self, out: &mut String) {
        let help = "Files whose last reader has closed them, as lifetime=reads:N says, and whether they went";
        header(out, "outlived_files_total", "counter", help);
        let (gone, kept) = self.0.counts();
        for (is_gone, count) in [("yes", gone), ("no", kept)] {
            let _ = writeln!(out, "intarsia_outlived_files_total{{gone=\"{is_gone}\"}} {count}");
        }
    }

    /// A file's last reader has closed it.
    pub(crate) fn note(&self, ino: InodeId, outcome: std::result::Result<(), &'static str>) {
        match outcome {
            Ok(()) => {
                self.0.note_met();
                tracing::debug!(%ino, "gone with its last reader");
            }
            Err(why) => {
                if let Some(files) = self.0.note_unmet() {
                    tracing::info!(%ino, why, files, "a file stays after its last reader");
                } else {
                    tracing::debug!(%ino, why, "a file stays after its last reader");
                }
            }
        }
    }
}
