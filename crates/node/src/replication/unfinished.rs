//! A mark on disk that is set at a clean stop if files still waited for copies. The list of these files ends with the process,
//! so the next one has to look for them.

use std::path::{Path, PathBuf};

use intarsia_store::replace_file;
use intarsia_types::Result;

/// The path of the mark, an empty file that is there while the mark is set.
pub(super) struct Unfinished(PathBuf);

impl Unfinished {
    /// The mark of the host whose store lies in `dir`.
    pub(super) fn of(dir: &Path) -> Self {
        Self(dir.join("copies-unfinished"))
    }

    /// Sets the mark, durably.
    ///
    /// # Errors
    /// The system's own.
    pub(super) fn set(&self) -> Result<()> {
        replace_file(&self.0, b"")
    }

    /// Removes the mark. Returns whether it was set.
    pub(super) fn take(&self) -> bool {
        std::fs::remove_file(&self.0).is_ok()
    }
}
