//! Which length the kernel may assume for a file that other hosts write to.
//!
//! If a read of a page ends early, the kernel fills the page with zeros up to the length that it assumes. It does not always
//! accept a length that we send: it ignores one if pages were dropped since it asked, or if another answer arrived meanwhile.
//! So only an upper bound is known here: a length counts as accepted if none of that happened, and enough time has passed for
//! the kernel to process the answer.

use std::collections::HashMap;
use std::time::Duration;

use intarsia_sync::{Instant, Mutex};
use intarsia_types::InodeId;

use crate::cache::far_pages::FarPages;

/// After this time the kernel has processed an answer, also on a busy machine.
const TAKEN: Duration = Duration::from_secs(1);
/// Most files that are remembered; when there are more, all are forgotten. No length counts as sent of a forgotten file.
const FILES_MAX: usize = 1 << 16;

/// The lengths of one file that the kernel was sent.
#[derive(Clone, Copy, Debug)]
struct Length {
    /// The greatest length that it may assume, in bytes.
    most: u64,
    /// The length in bytes that it was sent last, and when.
    last: u64,
    told: Instant,
    /// When it was last sent a different length.
    other_told: Option<Instant>,
    /// When it was sent the last length in an answer that it has no reason to ignore: no pages were dropped, and no other
    /// length was still arriving, between its question and the answer. `None` if there was no such answer yet.
    clear: Option<Instant>,
    /// Drops of its pages that are under way, and when the last one ended.
    drops: u32,
    dropped: Option<Instant>,
}

impl Length {
    const fn new(now: Instant, size_bytes: u64) -> Self {
        let (most, last) = (size_bytes, size_bytes);
        let told = now;
        Self { most, last, told, other_told: None, clear: Some(now), drops: 0, dropped: None }
    }

    /// Counts the last length as accepted if it was sent long enough ago, and nothing disturbed the answer.
    fn settle(&mut self, now: Instant) {
        if self.clear.is_some_and(|clear| now >= clear + TAKEN) {
            self.most = self.last;
        }
    }

    /// The kernel is sent a length that it asked for at `asked`.
    fn tell(&mut self, asked: Instant, now: Instant, size_bytes: u64) {
        self.settle(now);
        if size_bytes != self.last {
            self.other_told = Some(self.told);
            self.last = size_bytes;
            self.clear = None;
        }
        self.told = now;
        self.most = self.most.max(size_bytes);
        let is_dropped = self.drops > 0 || self.dropped.is_some_and(|dropped| dropped >= asked);
        let is_other_taken = self.other_told.is_none_or(|told| asked >= told + TAKEN);
        if self.clear.is_none() && !is_dropped && is_other_taken {
            self.clear = Some(now);
        }
    }

    /// The kernel begins to drop pages of the file.
    fn begin_drop(&mut self, now: Instant) {
        self.settle(now);
        self.drops += 1;
        // An answer of less than `TAKEN` ago may still be on its way, and the kernel may ignore it because of this drop.
        self.clear = self.clear.filter(|clear| now >= *clear + TAKEN);
    }

    const fn end_drop(&mut self, now: Instant) {
        self.drops = self.drops.saturating_sub(1);
        self.dropped = Some(now);
    }
}

/// The lengths that the kernel was sent, by file.
#[derive(Default)]
pub(crate) struct KernelLengths(Mutex<HashMap<InodeId, Length>>);

/// Held while the kernel drops pages of a file.
pub struct Dropping<'a> {
    lengths: &'a KernelLengths,
    ino: InodeId,
}

impl KernelLengths {
    /// The kernel is about to be sent a length that it asked for at `asked`.
    pub(crate) fn tell(&self, ino: InodeId, asked: Instant, size_bytes: u64) {
        let now = Instant::now();
        let mut files = self.0.lock();
        if files.len() >= FILES_MAX && !files.contains_key(&ino) {
            files.clear();
        }
        let length = files.entry(ino).or_insert_with(|| Length::new(now, size_bytes));
        length.tell(asked, now, size_bytes);
    }

    /// The kernel is about to drop pages of a file.
    pub(crate) fn dropping(&self, ino: InodeId) -> Dropping<'_> {
        if let Some(length) = self.0.lock().get_mut(&ino) {
            length.begin_drop(Instant::now());
        }
        Dropping { lengths: self, ino }
    }

    /// Whether pages are being dropped: meanwhile the kernel does not learn the file's length from a read that ends early.
    pub(super) fn is_dropping(&self, ino: InodeId) -> bool {
        self.0.lock().get(&ino).is_some_and(|length| length.drops > 0)
    }

    /// The greatest length in bytes that the kernel may assume; `None` if it was sent none.
    pub(super) fn most(&self, ino: InodeId) -> Option<u64> {
        let mut files = self.0.lock();
        let length = files.get_mut(&ino)?;
        length.settle(Instant::now());
        Some(length.most)
    }
}

impl FarPages {
    /// Whether the node does not know which length the kernel has of a file. It will know once the kernel has asked again.
    pub(crate) fn has_doubtful_length(&self, ino: InodeId) -> bool {
        let files = self.lengths.0.lock();
        files.get(&ino).is_some_and(|length| length.most != length.last && length.clear.is_none())
    }
}

impl Drop for Dropping<'_> {
    fn drop(&mut self) {
        if let Some(length) = self.lengths.0.lock().get_mut(&self.ino) {
            length.end_drop(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_kernel_may_have_any_length_that_it_was_told_until_one_of_them_is_taken_for_sure() {
        let start = Instant::now();
        let at = |ms: u32| start + MS * ms;
        let mut length = Length::new(at(0), 600);
        length.tell(at(2000), at(2001), 60);
        assert_eq!(length.most, 600, "it may not have taken it yet");
        length.settle(at(3001));
        assert_eq!(length.most, 60);
        length.tell(at(4000), at(4001), 70);
        assert_eq!(length.most, 70, "a greater one it may have at once");
        length.tell(at(4000), at(4002), 60);
        length.settle(at(9000));
        assert_eq!(length.most, 70, "two answered at a time: it has the one or the other");
        length.tell(at(9000), at(9001), 60);
        length.settle(at(9500));
        assert_eq!(length.most, 70);
        length.settle(at(10_001));
        assert_eq!(length.most, 60);
    }

    #[test]
    fn a_length_that_is_told_while_pages_are_dropped_is_not_taken() {
        let start = Instant::now();
        let at = |ms: u32| start + MS * ms;
        let told_and_most = |drop: u32, end: u32| {
            let mut length = Length::new(at(0), 600);
            if drop < 2001 {
                length.begin_drop(at(drop));
            }
            if end < 2001 {
                length.end_drop(at(end));
            }
            length.tell(at(2000), at(2001), 60);
            if drop >= 2001 {
                length.begin_drop(at(drop));
            }
            length.settle(at(9000));
            length.most
        };
        assert_eq!(told_and_most(1000, 1500), 60, "before it was asked for");
        assert_eq!(told_and_most(1000, 2000), 600, "when it was asked for");
        assert_eq!(told_and_most(1000, 3000), 600, "they are still being dropped");
        assert_eq!(told_and_most(2500, 3000), 600, "soon after");
        assert_eq!(told_and_most(5000, 6000), 60, "long after");
    }
}
