//! Pages that the kernel keeps of files whose bytes are at other hosts: the reader's side of [`crate::cache::vouch`].
//!
//! While the home of a file vouches for its content, the kernel reads it through its pages, ahead as it sees fit, and keeps
//! them when the file is closed: whoever opens it again under the same stamp finds them. A file that is being written is
//! read past the pages, which an opening decides for good. So a program that opened the file before the writer came goes
//! on with pages: they are dropped when the writer comes, and after that each lives for [`BRIEF`] only. An opening by any
//! other program asks the home for a stamp anew.
//!
//! What the kernel reads of a file that was cut it fills up with zeros, and it takes note of one such end only of several at
//! a time. So no read of pages is let end early before the length that the kernel may have ([`super::kernel_length`]): the
//! *former* content, which the home still has for the handle here, fills it up. What fills up none, because the kernel
//! was told a greater length before the file was opened, is opened past the pages. Soon after the writer came the whole read is of the former content: a
//! program that was just reading then sees what was there when it began, and not the beginning of one content and the end
//! of the other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use intarsia_sync::{Instant, Mutex};
use intarsia_types::{Attr, InodeId, NodeId};

use crate::body::Body;
use crate::body::remote::RemoteFile;
use crate::cache::brief_pages::BriefPages;
use crate::cache::kernel_length::KernelLengths;
use crate::inode::live::LiveState;
use crate::node::Node;

/// How long after a writer came a read that would end early is of the former content alone.
const SOON: Duration = Duration::from_secs(1);
/// Most files that are remembered. Forgetting one costs its pages at the next opening.
const FILES_MAX: usize = 1 << 16;

/// Has the kernel drop its pages of a file; waits for reads of it under way.
pub type DropPages = dyn Fn(InodeId) + Send + Sync;

/// Which content the home of a file vouched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub(super) home: NodeId,
    pub(super) number: u64,
}

impl Stamp {
    /// As another host names it.
    pub(crate) const fn new(home: NodeId, number: u64) -> Self {
        Self { home, number }
    }
}

/// What is known of the kernel's pages of one file.
#[derive(Clone, Debug)]
struct Pages {
    stamp: Stamp,
    /// When the home took the stamp back.
    withdrawn: Option<Instant>,
    /// What was fetched ahead before that is old.
    has_old_pieces: bool,
}

/// A file that is open through the kernel's pages.
#[derive(Default)]
pub(crate) struct Paged {
    /// What it was when it was opened so, for what is missing where it was cut since.
    former: Option<Arc<RemoteFile>>,
    told: Told,
    /// The body is another one than at the last telling.
    is_other_body: bool,
}

/// Which length the kernel was told of a file that is open through its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    #[default]
    Nothing,
    /// While it dropped pages, which keeps it from taking a length: it asks again when it needs to know.
    InVain(u64),
    Length(u64),
}

/// How a file is opened for reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Through the kernel's pages, and those that it has are true.
    Kept,
    /// Through the kernel's pages, when it has dropped what it has.
    Anew(Stamp),
    /// Past the pages.
    Refused,
}

impl Pages {
    /// Whether the home has taken back such a stamp.
    fn voids(&self, stamp: &Stamp) -> bool {
        self.withdrawn.is_some()
            && self.stamp.home == stamp.home
            && self.stamp.number >= stamp.number
    }
}

impl Grant {
    /// The stamp that begins to hold for the kernel's pages.
    pub(crate) fn begins(self) -> Option<Stamp> {
        match self {
            Self::Anew(stamp) => Some(stamp),
            Self::Kept | Self::Refused => None,
        }
    }
}

/// Where the kernel is told to drop pages.
struct Kernel {
    node: Weak<Node>,
    drop_pages: Box<DropPages>,
}

/// The files with such pages.
#[derive(Default)]
pub(crate) struct FarPages {
    files: Mutex<HashMap<InodeId, Pages>>,
    /// How many stamps were taken back of those.
    withdrawn: AtomicUsize,
    kernel: OnceLock<Kernel>,
    pub(super) brief: BriefPages,
    pub(super) lengths: Arc<KernelLengths>,
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

    pub(super) fn drop_pages(&self, ino: InodeId) {
        if let Some(kernel) = self.kernel.get() {
            let _dropping = self.lengths.dropping(ino);
            (kernel.drop_pages)(ino);
        }
    }

    fn grant(&self, ino: InodeId, stamp: Stamp) -> Grant {
        match self.files.lock().get(&ino) {
            _ if stamp.number == 0 => Grant::Refused,
            Some(pages) if pages.voids(&stamp) => Grant::Refused,
            Some(pages) if pages.stamp == stamp => Grant::Kept,
            _ => Grant::Anew(stamp),
        }
    }

    /// The kernel has dropped what it had; what it reads from now on is of `stamp`.
    fn begin(&self, ino: InodeId, stamp: &Stamp) {
        self.change(ino, |before| match before {
            Some(pages) if pages.stamp == *stamp || pages.voids(stamp) => Some(pages),
            _ => Some(Pages { stamp: stamp.clone(), withdrawn: None, has_old_pieces: false }),
        });
    }

    /// The home takes a stamp back; also one that is just being given.
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

    /// Nobody has the file open any more.
    pub(crate) fn closed(&self, ino: InodeId) {
        if self.withdrawn.load(Ordering::SeqCst) > 0 {
            self.change(ino, |before| before.filter(|pages| pages.withdrawn.is_none()));
        }
    }

    /// The node that the kernel with the pages is of.
    pub(super) fn kernel_node(&self) -> Option<Weak<Node>> {
        self.kernel.get().map(|kernel| Weak::clone(&kernel.node))
    }

    pub(super) fn takes_old_pieces(&self, ino: InodeId) -> bool {
        let mut files = self.files.lock();
        files.get_mut(&ino).is_some_and(|pages| std::mem::take(&mut pages.has_old_pieces))
    }
}

impl RemoteFile {
    /// What its home vouches for the content with.
    pub(crate) fn vouched(&self) -> Stamp {
        Stamp { home: self.home(), number: self.stamp() }
    }
}

impl Node {
    /// The mount offers to have the kernel drop pages.
    pub fn set_page_dropper(self: &Arc<Self>, drop_pages: Box<DropPages>) {
        // A node is mounted once; a second offer changes nothing.
        let _ = self.far_pages.kernel.set(Kernel { node: Arc::downgrade(self), drop_pages });
    }

    /// How a file is opened here for reading that others may change.
    pub(crate) fn grant_pages(&self, ino: InodeId, state: &LiveState) -> Grant {
        match state.remote() {
            Some(remote) if !remote.may_write() && self.far_pages.kernel.get().is_some() => {
                if self.far_pages.lengths.most(ino).is_some_and(|most| most > remote.size_bytes()) {
                    return Grant::Refused;
                }
                self.far_pages.grant(ino, remote.vouched())
            }
            _ => Grant::Refused,
        }
    }

    /// The kernel has dropped what it had of a file that is being opened.
    pub fn begin_pages(&self, ino: InodeId, stamp: &Stamp) {
        self.far_pages.begin(ino, stamp);
    }

    /// Whether the home vouches for what is read of the file.
    pub(crate) fn is_vouched(&self, ino: InodeId, remote: &RemoteFile) -> bool {
        self.far_pages.grant(ino, remote.vouched()) != Grant::Refused
    }

    /// Whether the home vouches for the pages that the kernel has.
    pub(crate) fn has_true_pages(&self, ino: InodeId, state: &LiveState) -> bool {
        let is_true =
            |remote: &RemoteFile| self.far_pages.grant(ino, remote.vouched()) == Grant::Kept;
        state.remote().is_some_and(|remote| !remote.may_write() && is_true(remote))
    }

    /// Another host is about to write to a file of which it has vouched for the content.
    pub(crate) fn withdraw_pages(&self, home: &NodeId, ino: InodeId, number: u64) {
        let stamp = Stamp { home: home.clone(), number };
        self.spreads.withdraw(ino, &stamp);
        self.far_pages.withdraw(ino, stamp);
        self.far_pages.drop_pages(ino);
        if !self.live.contains(ino) {
            self.far_pages.closed(ino);
        }
    }

    /// Keeps what a file was that is open through pages, whose new body has just been loaded: its longest one.
    pub(crate) fn note_former(&self, state: &mut LiveState, old: Option<Body>) {
        let Some(old) = old.and_then(Body::into_remote) else { return };
        let is_shorter = |former: &Arc<RemoteFile>| former.size_bytes() < old.size_bytes();
        let Some(paged) = &mut state.paged else { return };
        if paged.former.as_ref().is_none_or(is_shorter) {
            paged.former = Some(old);
        }
    }

    /// What fills up a read of pages at `at` that ends early: the file was cut since it was opened.
    pub(crate) fn former(&self, ino: InodeId) -> Option<Rest> {
        let mut rest = self.live.with_existing(ino, |state| {
            let Paged { former, told, is_other_body } = state.paged.as_ref()?;
            let is_told = !is_other_body
                && state.size_bytes().is_ok_and(|size_bytes| *told == Told::Length(size_bytes));
            let lengths = Arc::clone(&self.far_pages.lengths);
            former.clone().map(|file| Rest { ino, file, is_told, is_soon: false, lengths })
        })??;
        rest.is_soon = !rest.is_told && self.far_pages.has_just_been_withdrawn(ino);
        Some(rest)
    }

    /// Puts the length that the home of a file says into `attr`, which the kernel is about to be told, where the kernel
    /// reads the file through pages while it is written elsewhere.
    pub(crate) fn follow_length(&self, state: &mut LiveState, attr: &mut Attr) {
        if !state.is_read_through_pages() {
            return;
        }
        if let Some(remote) = state.remote()
            && !self.is_vouched(attr.ino, remote)
        {
            match remote.renew() {
                Ok(()) => attr.size_bytes = remote.size_bytes(),
                Err(error) => {
                    tracing::debug!(ino = %attr.ino, %error, "the length is the record's");
                }
            }
        }
        let size_bytes = attr.size_bytes;
        let has_true_pages = self.has_true_pages(attr.ino, state);
        let Some(paged) = &mut state.paged else { return };
        let is_other_body = std::mem::take(&mut paged.is_other_body);
        let before = std::mem::replace(&mut paged.told, Told::Length(size_bytes));
        if has_true_pages || (before.is_of(size_bytes) && !is_other_body) {
            return;
        }
        match before {
            // It drops what stands behind the new end when it takes the length. The rest goes after that.
            Told::Length(before) if before > size_bytes => {
                self.note_brief_pages(attr.ino, state);
                return;
            }
            // To be told it in vain does no harm: it has it.
            Told::Length(before) if before == size_bytes => {}
            _ => paged.told = Told::InVain(size_bytes),
        }
        // Behind the old end it has zeros, perhaps, and would show them.
        self.old_pages.note(attr.ino);
    }
}

impl Paged {
    /// Of a file that the kernel begins to read through its pages.
    pub(crate) fn new(state: &LiveState) -> Self {
        let told = state.size_bytes().map_or(Told::Nothing, Told::Length);
        Self { told, ..Self::default() }
    }
}

impl LiveState {
    /// Whether the kernel reads it through its pages here, and it is written elsewhere only.
    fn is_read_through_pages(&self) -> bool {
        let may_write = self.writers > 0 || self.holds_lease() || self.writes_remotely();
        self.paged.is_some() && self.is_served_by_us() && !may_write
    }

    /// The body is another one. Whether what the kernel has of the old one is dropped when it asks for the length.
    pub(crate) fn renews_pages_with_length(&mut self) -> bool {
        let is_paged = self.is_read_through_pages();
        if let Some(paged) = &mut self.paged {
            paged.is_other_body = true;
        }
        is_paged
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
    /// The kernel was told how long the file is now. It may not have taken that.
    is_told: bool,
    /// The writer has only just come.
    is_soon: bool,
    lengths: Arc<KernelLengths>,
}

impl Rest {
    /// Whether a read at `at` may end early after `done` bytes.
    fn may_end(&self, done: usize, at: u64) -> bool {
        // The kernel reads whole pages, also behind an end that it knows.
        let knows = |most| at + done as u64 >= most;
        // Should it not have taken the length, it takes that from the one read that has the end in it.
        let learns = self.is_told && done > 0 && !self.lengths.is_dropping(self.ino);
        learns || self.lengths.most(self.ino).is_some_and(knows)
    }

    /// Has `buffer` hold what is read at `at`, of which the file has `done` bytes; how much that is.
    pub(crate) fn complete(&self, buffer: &mut [u8], done: usize, at: u64) -> usize {
        if done == buffer.len() || self.may_end(done, at) {
            return done;
        }
        // The home may be gone by now.
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
    fn a_stamp_that_is_taken_back_before_it_came_is_not_used() {
        let (pages, ino) = (FarPages::default(), InodeId(9));
        pages.withdraw(ino, stamp("n1", 7));
        assert_eq!(pages.grant(ino, stamp("n1", 7)), Grant::Refused);
        assert_eq!(pages.grant(ino, stamp("n1", 8)), Grant::Anew(stamp("n1", 8)));
        pages.closed(ino);
        assert_eq!(pages.withdrawn.load(Ordering::SeqCst), 0);
    }
}
