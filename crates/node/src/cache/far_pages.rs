//! Pages that the kernel keeps of files whose bytes are at other hosts: the reader's side of [`crate::cache::vouch`].
//!
//! While the home of a file vouches for its content, the kernel reads the file through its page cache, with its own
//! read-ahead, and keeps the pages after a close: the next open under the same stamp finds them. A file that is being written
//! elsewhere is read past the page cache. Linux decides that once per open, so a program that opened the file before the
//! writer came still uses pages: they are dropped when the writer comes, and after that each is kept for a moment.
//! Every other open asks the home for a stamp again.
//!
//! When the kernel reads a page of a file that was cut, it fills the page with zeros behind the end, and of several such ends
//! at the same time it takes note of one only. Therefore no read for a page may return less than the length that the kernel
//! may assume ([`super::kernel_length`]): the missing bytes are taken from the *former* content, which the home still has for
//! the handle of this host. An open for which the former content is too short, because the kernel was given a greater length
//! before, goes past the page cache. For a short time after the writer came, whole reads return the former content, so that a
//! read that was under way shows one content and not the beginning of one and the end of another.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use intarsia_sync::{Instant, Mutex};
use intarsia_types::{Error, InodeId, NodeId, Result};

use crate::body::beside::FillsUp;
use crate::body::remote::RemoteFile;
use crate::cache::brief_pages::BriefPages;
use crate::cache::kernel_length::KernelLengths;

/// For this long after the home took the stamp back, a read that would end early returns the former content alone.
const SOON: Duration = Duration::from_secs(1);
/// Most files that are remembered. If one is forgotten, its pages are dropped at the next open.
const FILES_MAX: usize = 1 << 16;

/// Makes the kernel send the written pages of a file and then drop all its pages; waits for reads that are under way. No error
/// if the kernel has no pages.
pub type DropPages = dyn Fn(InodeId) -> std::io::Result<()> + Send + Sync;

/// The home of a file, and the number under which it vouched for the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(super) home: NodeId,
    pub(super) number: u64,
}

impl Stamp {
    /// A stamp as its home names it.
    pub(crate) const fn new(home: NodeId, number: u64) -> Self {
        Self { home, number }
    }
}

/// What is known of the kernel's pages of one file.
#[derive(Clone, Debug)]
struct Pages {
    /// The stamp under which the kernel has read them.
    stamp: Stamp,
    /// When the home took the stamp back; none while it holds.
    withdrawn: Option<Instant>,
    /// Pieces that were fetched ahead under the stamp are outdated and not dropped yet.
    has_old_pieces: bool,
}

/// A file that is open through the kernel's pages.
#[derive(Default)]
pub(crate) struct Paged {
    /// The content at the open, which fills up reads behind the end where the file was cut since.
    former: Option<Arc<RemoteFile>>,
    told: Told,
    /// The body was replaced since the kernel was last sent a length.
    is_other_body: bool,
}

/// The length in bytes that the kernel was sent of a file that is open through its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    #[default]
    Nothing,
    /// Sent while the kernel dropped pages: it ignores such a length, and asks again when it needs one.
    InVain(u64),
    Length(u64),
}

/// How a file is opened for reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Through the kernel's pages; those that it has of the file are valid.
    Kept,
    /// Through the kernel's pages under this stamp, after the kernel has dropped those that it has.
    Anew(Stamp),
    /// Past the kernel's pages.
    Refused,
}

impl Pages {
    /// Whether the home has taken `stamp` back, or a later one.
    fn voids(&self, stamp: &Stamp) -> bool {
        self.withdrawn.is_some()
            && self.stamp.home == stamp.home
            && self.stamp.number >= stamp.number
    }
}

impl Grant {
    /// The stamp under which the kernel begins to read pages anew, if it does.
    pub(crate) fn begins(self) -> Option<Stamp> {
        match self {
            Self::Anew(stamp) => Some(stamp),
            Self::Kept | Self::Refused => None,
        }
    }
}

/// The files of other hosts of which the kernel has pages, or had.
#[derive(Default)]
pub(crate) struct FarPages {
    files: Mutex<HashMap<InodeId, Pages>>,
    /// How many of these files have a stamp that was taken back.
    withdrawn: AtomicUsize,
    /// Makes the kernel drop pages; set once a mount offers it.
    kernel: OnceLock<Box<DropPages>>,
    pub(super) brief: BriefPages,
    pub(crate) lengths: Arc<KernelLengths>,
}

impl FarPages {
    fn change(&self, ino: InodeId, f: impl FnOnce(Option<Pages>) -> Option<Pages>) {
        let is_withdrawn = |pages: &Pages| pages.withdrawn.is_some();
        let mut files = self.files.lock();
        if files.len() >= FILES_MAX {
            files.retain(|_, pages| is_withdrawn(pages));
        }
        let before = files.remove(&ino);
        let was_withdrawn = before.as_ref().is_some_and(is_withdrawn);
        let after = f(before);
        match (was_withdrawn, after.as_ref().is_some_and(is_withdrawn)) {
            (false, true) => drop(self.withdrawn.fetch_add(1, Ordering::SeqCst)),
            (true, false) => drop(self.withdrawn.fetch_sub(1, Ordering::SeqCst)),
            _ => {}
        }
        if let Some(after) = after {
            files.insert(ino, after);
        }
    }

    /// The mount offers to have the kernel drop pages.
    pub(crate) fn offer(&self, drop_pages: Box<DropPages>) {
        // A node is mounted once; a second offer changes nothing.
        let _ = self.kernel.set(drop_pages);
    }

    /// Whether the kernel can be asked to drop pages.
    pub(super) fn can_drop(&self) -> bool {
        self.kernel.get().is_some()
    }

    /// Has the kernel drop its pages of a file. To be called with no lock held: it waits for reads under way, and these may need
    /// the lock.
    pub(crate) fn drop_pages(&self, ino: InodeId) {
        if let Err(error) = self.flush_pages(ino) {
            tracing::warn!(%ino, %error, "the kernel keeps pages of a file");
        }
    }

    /// As [`drop_pages`](Self::drop_pages), but returns an error if pages that programs wrote could not be written out.
    ///
    /// # Errors
    /// They could not be written.
    pub(crate) fn flush_pages(&self, ino: InodeId) -> Result<()> {
        let Some(drop_pages) = self.kernel.get() else { return Ok(()) };
        let _dropping = self.lengths.dropping(ino);
        drop_pages(ino).map_err(|error| Error::io("flush the kernel's pages", error))
    }

    /// How a file of another host is opened here for reading.
    pub(crate) fn grant_read(&self, ino: InodeId, remote: &RemoteFile) -> Grant {
        if remote.may_write() || !self.can_drop() {
            return Grant::Refused;
        }
        if self.lengths.most(ino).is_some_and(|most| most > remote.size_bytes()) {
            return Grant::Refused;
        }
        self.grant(ino, vouched(remote))
    }

    /// Whether the home vouches for what is read of the file.
    pub(crate) fn is_vouched(&self, ino: InodeId, remote: &RemoteFile) -> bool {
        self.grant(ino, vouched(remote)) != Grant::Refused
    }

    /// Whether the home vouches for the pages that the kernel has.
    pub(crate) fn has_true_pages(&self, ino: InodeId, remote: &RemoteFile) -> bool {
        !remote.may_write() && self.grant(ino, vouched(remote)) == Grant::Kept
    }

    /// The home takes a stamp back, and the kernel drops what it has under it.
    pub(crate) fn withdraw_and_drop(&self, ino: InodeId, stamp: Stamp) {
        self.withdraw(ino, stamp);
        self.drop_pages(ino);
    }

    fn grant(&self, ino: InodeId, stamp: Stamp) -> Grant {
        match self.files.lock().get(&ino) {
            _ if stamp.number == 0 => Grant::Refused,
            Some(pages) if pages.voids(&stamp) => Grant::Refused,
            Some(pages) if pages.stamp == stamp => Grant::Kept,
            _ => Grant::Anew(stamp),
        }
    }

    /// The kernel has dropped the pages that it had of a file; it reads new ones under `stamp`.
    pub(crate) fn begin(&self, ino: InodeId, stamp: &Stamp) {
        self.change(ino, |before| match before {
            Some(pages) if pages.stamp == *stamp || pages.voids(stamp) => Some(pages),
            _ => Some(Pages { stamp: stamp.clone(), withdrawn: None, has_old_pieces: false }),
        });
    }

    /// Notes that the home took a stamp back. That may also be a stamp that has not arrived here yet: the answer to an open and
    /// the recall can overtake each other.
    fn withdraw(&self, ino: InodeId, stamp: Stamp) {
        let (home, number) = (stamp.home.clone(), stamp.number);
        let is_late = |pages: &Pages| pages.stamp.home == home && pages.stamp.number > number;
        self.change(ino, |before| match before {
            Some(pages) if is_late(&pages) => Some(pages),
            _ => Some(Pages { withdrawn: Some(Instant::now()), has_old_pieces: true, stamp }),
        });
    }

    /// Whether the home took the stamp of a file back a moment ago.
    fn has_just_been_withdrawn(&self, ino: InodeId) -> bool {
        let files = self.files.lock();
        let withdrawn = files.get(&ino).and_then(|pages| pages.withdrawn);
        withdrawn.is_some_and(|since| since.elapsed() < SOON)
    }

    /// No program here has the file open any more. Forgets a stamp that was taken back: the next open asks for a new one.
    pub(crate) fn closed(&self, ino: InodeId) {
        if self.withdrawn.load(Ordering::SeqCst) > 0 {
            self.change(ino, |before| before.filter(|pages| pages.withdrawn.is_none()));
        }
    }

    /// Whether pieces of the file were fetched ahead under a stamp that was taken back; true only once, for the caller that drops
    /// them.
    pub(super) fn takes_old_pieces(&self, ino: InodeId) -> bool {
        let mut files = self.files.lock();
        files.get_mut(&ino).is_some_and(|pages| std::mem::take(&mut pages.has_old_pieces))
    }
}

/// The stamp under which its home vouches for a remote file.
pub(crate) fn vouched(remote: &RemoteFile) -> Stamp {
    Stamp { home: remote.home(), number: remote.stamp() }
}

/// What becomes of the kernel's pages of a file when the kernel is sent a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LengthTold {
    /// Nothing.
    True,
    /// The kernel drops the pages behind the new end when it takes the length. All others have to be dropped after that.
    Shorter,
    /// The last page may have zeros behind the old end, which would show: the pages have to be dropped before.
    MayShowZeros,
}

impl Paged {
    /// The state of a file that the kernel begins to read through its pages; `size_bytes` is the length that it was sent.
    pub(crate) fn new(size_bytes: Option<u64>) -> Self {
        let told = size_bytes.map_or(Told::Nothing, Told::Length);
        Self { told, ..Self::default() }
    }

    /// Notes that the body was replaced: the next length that the kernel is sent is of another content.
    pub(crate) const fn change_body(&mut self) {
        self.is_other_body = true;
    }

    /// Keeps the `old` body, which was replaced, to fill up reads, if it is longer than the one kept so far.
    pub(crate) fn keep_former(&mut self, old: Arc<RemoteFile>) {
        let is_shorter = |former: &Arc<RemoteFile>| former.size_bytes() < old.size_bytes();
        if self.former.as_ref().is_none_or(is_shorter) {
            self.former = Some(old);
        }
    }

    /// The former content, to fill up a read of pages that ends early, in a file of `size_bytes`.
    pub(crate) fn rest(
        &self,
        pages: &FarPages,
        ino: InodeId,
        size_bytes: Option<u64>,
    ) -> Option<Rest> {
        let file = self.former.clone()?;
        let is_it = |size_bytes: u64| self.told == Told::Length(size_bytes);
        let is_told = !self.is_other_body && size_bytes.is_some_and(is_it);
        let is_soon = !is_told && pages.has_just_been_withdrawn(ino);
        Some(Rest { ino, file, is_told, is_soon, lengths: Arc::clone(&pages.lengths) })
    }

    /// Called before the kernel is sent a length. `has_true_pages` tells that the home vouches for the pages that it has. Returns
    /// what has to become of these pages.
    pub(crate) fn tell(&mut self, size_bytes: u64, has_true_pages: bool) -> LengthTold {
        let is_other_body = std::mem::take(&mut self.is_other_body);
        let before = std::mem::replace(&mut self.told, Told::Length(size_bytes));
        if has_true_pages || (before.is_of(size_bytes) && !is_other_body) {
            return LengthTold::True;
        }
        match before {
            Told::Length(before) if before > size_bytes => return LengthTold::Shorter,
            // The kernel has this length already, so it does not matter that it ignores it.
            Told::Length(before) if before == size_bytes => {}
            _ => self.told = Told::InVain(size_bytes),
        }
        LengthTold::MayShowZeros
    }
}

impl Told {
    const fn is_of(self, size_bytes: u64) -> bool {
        matches!(self, Self::InVain(told) | Self::Length(told) if told == size_bytes)
    }
}

/// The former content of a file, for one read of pages.
pub(crate) struct Rest {
    ino: InodeId,
    file: Arc<RemoteFile>,
    /// The kernel was sent the present length. It may have ignored it.
    is_told: bool,
    /// The home took the stamp back less than [`SOON`] ago.
    is_soon: bool,
    lengths: Arc<KernelLengths>,
}

impl Rest {
    /// Whether a read at `at` may end early after `done` bytes.
    fn may_end(&self, done: usize, at: u64) -> bool {
        // No zeros show if the read ends at or behind the greatest length that the kernel may assume: it reads whole pages, and
        // cuts them at its own length.
        let knows = |most| at + done as u64 >= most;
        // The kernel was sent the present length. If it ignored it, it learns it from this read, which contains the end.
        let learns = self.is_told && done > 0 && !self.lengths.is_dropping(self.ino);
        learns || self.lengths.most(self.ino).is_some_and(knows)
    }
}

impl FillsUp for Rest {
    fn complete(&self, buffer: &mut [u8], done: usize, at: u64) -> usize {
        if done == buffer.len() || self.may_end(done, at) {
            return done;
        }
        // If the former content cannot be read any more, the read ends early.
        let former = |buffer: &mut [u8], at| self.file.read_at(buffer, at).unwrap_or(0);
        if self.is_soon {
            let mut whole = vec![0; buffer.len()];
            let len = former(&mut whole, at);
            if len > done {
                buffer[..len].copy_from_slice(&whole[..len]);
                return len;
            }
        }
        done + former(&mut buffer[done..], at + done as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(home: &str, number: u64) -> Stamp {
        Stamp { home: NodeId(home.into()), number }
    }

    #[test]
    fn pages_are_kept_under_the_stamp_that_they_were_read_under_and_no_other() {
        let (pages, ino) = (FarPages::default(), InodeId(9));
        assert_eq!(pages.grant(ino, stamp("n1", 0)), Grant::Refused);
        assert_eq!(pages.grant(ino, stamp("n1", 5)), Grant::Anew(stamp("n1", 5)));
        pages.begin(ino, &stamp("n1", 5));
        assert_eq!(pages.grant(ino, stamp("n1", 5)), Grant::Kept);
        assert_eq!(pages.grant(ino, stamp("n2", 5)), Grant::Anew(stamp("n2", 5)));
        pages.withdraw(ino, stamp("n1", 5));
        assert_eq!(pages.grant(ino, stamp("n1", 5)), Grant::Refused);
        pages.begin(ino, &stamp("n1", 5));
        assert_eq!(
            pages.grant(ino, stamp("n1", 5)),
            Grant::Refused,
            "taken back while it was given"
        );
        pages.begin(ino, &stamp("n1", 6));
        pages.withdraw(ino, stamp("n1", 5));
        assert_eq!(pages.grant(ino, stamp("n1", 6)), Grant::Kept, "a recall that comes late");
        pages.closed(ino);
        assert_eq!(pages.grant(ino, stamp("n1", 6)), Grant::Kept, "also when it is closed");
    }

    #[test]
    fn only_a_length_that_the_kernel_does_not_have_makes_its_pages_old() {
        let mut paged = Paged::new(Some(10));
        assert_eq!(paged.tell(10, false), LengthTold::True);
        assert_eq!(paged.tell(5, false), LengthTold::Shorter);
        assert_eq!(paged.tell(8, true), LengthTold::True);
        assert_eq!(paged.tell(20, false), LengthTold::MayShowZeros);
        assert_eq!(paged.told, Told::InVain(20));
        assert_eq!(paged.tell(20, false), LengthTold::True, "it was told already");
        paged.change_body();
        assert_eq!(paged.tell(20, false), LengthTold::MayShowZeros, "of another body");
    }

    #[test]
    fn a_stamp_that_is_taken_back_before_it_came_is_not_used() {
        let (pages, ino) = (FarPages::default(), InodeId(9));
        pages.withdraw(ino, stamp("n1", 7));
        assert_eq!(pages.grant(ino, stamp("n1", 7)), Grant::Refused);
        assert_eq!(pages.grant(ino, stamp("n1", 8)), Grant::Anew(stamp("n1", 8)));
        pages.closed(ino);
        assert_eq!(pages.withdrawn.load(Ordering::SeqCst), 0);
    }
}
