//! What a remote body needs of the rooms above, as traits that they implement: cached copies that are made of what is read, and
//! the former content, which fills up reads behind the end of a file that was cut.

use std::ops::Range;

/// A cached copy that is made of what programs happen to read.
pub(crate) trait CopyBeside: Send + Sync {
    /// Adds bytes that were read.
    fn add(&self, offset_bytes: u64, bytes: &[u8]);
}

/// A cached copy that is made piece by piece, and from which the file is read meanwhile.
pub(crate) trait Piecewise: Send + Sync {
    /// How long the file is.
    fn size_bytes(&self) -> u64;

    /// Whether the copy may still be read. False once the file may have changed.
    fn is_alive(&self) -> bool;

    /// Whether these bytes can be read without waiting.
    fn has(&self, range: &Range<u64>) -> bool;

    /// Notes what a program reads. Whether these bytes are here or will come as pieces; else they are to be asked of the home.
    fn comes(&self, range: &Range<u64>) -> bool;

    /// Waits until the bytes are here and fills `buffer`. False if they do not come in time, or may be outdated.
    fn wait_and_read(&self, offset_bytes: u64, buffer: &mut [u8]) -> bool;
}

/// Fills up a read of a file that was cut.
pub(crate) trait FillsUp: Send {
    /// Completes a read at offset `at`, of which the first `done` bytes of `buffer` came from the file. Returns how many bytes of
    /// `buffer` are filled then.
    fn complete(&self, buffer: &mut [u8], done: usize, at: u64) -> usize;
}
