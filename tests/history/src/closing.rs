//! Closing a file and hearing how that went: a store publishes what was written when it is closed.
#![expect(unsafe_code, reason = "the standard library closes without a word")]

use std::fs::File;
use std::os::fd::IntoRawFd;

/// Closes a file; what a write could not say yet, this does.
pub(crate) fn close(file: File) -> std::io::Result<()> {
    // SAFETY: the descriptor was just given up by its only owner.
    unsafe { rustix::io::try_close(file.into_raw_fd()) }.map_err(Into::into)
}
