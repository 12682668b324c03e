//! Closing a file and hearing how that went.
#![expect(unsafe_code, reason = "the standard library closes without a word")]

use std::fs::File;
use std::os::fd::IntoRawFd;

/// Closes a file; what a write could not say yet, this does.
///
/// # Errors
/// The system's own.
pub fn close(file: File) -> std::io::Result<()> {
    // SAFETY: the descriptor was just given up by its only owner.
    unsafe { rustix::io::try_close(file.into_raw_fd()) }.map_err(Into::into)
}
