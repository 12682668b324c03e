//! A mark on disk: files here still waited for copies when their host stopped in order. Which ones nobody else knew.

use std::path::{Path, PathBuf};

use intarsia_store::replace_file;
use intarsia_types::Result;

/// The file that says so.
pub(super) struct Unfinished(PathBuf);

impl Unfinished {
    /// That of the host whose store lies in `dir`.
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

    /// Whether the mark was set; it is not afterwards.
    pub(super) fn take(&self) -> bool {
        std::fs::remove_file(&self.0).is_ok()
    }
}
