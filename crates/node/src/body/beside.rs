//! What rooms above keep here beside a remote body: cached copies that are made of what is read of it, and the former content
//! that fills up reads behind its end. These traits are their side of it.

use std::ops::Range;

/// A copy that is made of what happens to be read.
pub(crate) trait CopyBeside: Send + Sync {
    /// Notes bytes that were read.
    fn add(&self, offset_bytes: u64, bytes: &[u8]);
}

/// A copy that comes piece by piece, from which the file is read.
pub(crate) trait Piecewise: Send + Sync {
    /// How long the file is.
    fn size_bytes(&self) -> u64;

    /// Whether it may be read still.
    fn is_alive(&self) -> bool;

    /// Whether a reader has these bytes without waiting.
    fn has(&self, range: &Range<u64>) -> bool;

    /// Notes what a reader here reads; whether it comes as a piece, if it is not here.
    fn comes(&self, range: &Range<u64>) -> bool;

    /// Waits until the bytes are here and fills `buffer`. False when they do not arrive, or may be outdated.
    fn wait_and_read(&self, offset_bytes: u64, buffer: &mut [u8]) -> bool;
}

/// What fills up a read of a file that was cut.
pub(crate) trait FillsUp: Send {
    /// Completes a read at `at` in `buffer`, of which `done` bytes are from the file. Returns the bytes in `buffer` then.
    fn complete(&self, buffer: &mut [u8], done: usize, at: u64) -> usize;
}
