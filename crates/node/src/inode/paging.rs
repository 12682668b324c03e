//! Live files that the kernel reads through its page cache while their bytes are at another host.

use std::sync::Arc;

use intarsia_policy::IoMode;
use intarsia_types::{Attr, InodeId, NodeId};

use crate::body::Body;
use crate::cache::far_pages::{FarPages, Grant, LengthTold, Rest, Stamp};
use crate::cache::pages::OldPages;
use crate::cache::spread::Spreads;
use crate::directory::directory_lease::DirectoryLeases;
use crate::inode::live::{LiveState, LiveTable};

impl LiveState {
    /// Whether the kernel reads the file through its pages here, while nobody writes it from here.
    fn is_read_through_pages(&self) -> bool {
        let may_write = self.writers > 0 || self.holds_lease() || self.writes_remotely();
        self.paged.is_some() && self.is_served_by_us() && !may_write
    }

    /// The body was replaced. Whether the kernel's pages of the old one are dropped later, when it asks for the length.
    pub(crate) fn renews_pages_with_length(&mut self) -> bool {
        let is_paged = self.is_read_through_pages();
        if let Some(paged) = &mut self.paged {
            paged.change_body();
        }
        is_paged
    }

    /// Keeps the old body of a file that is open through pages, whose new body has just been opened.
    pub(crate) fn note_former(&mut self, old: Option<Body>) {
        if let (Some(old), Some(paged)) = (old.and_then(Body::into_remote), &mut self.paged) {
            paged.keep_former(old);
        }
    }
}

/// What the kernel has to drop of a file that is being opened.
#[derive(Debug, Default)]
pub(crate) struct Outdated {
    /// Pages of an earlier open, because passthrough writes will go past them.
    pub(crate) pages: bool,
    /// Its pages as well, because from now on it reads the content of another host under this stamp.
    pub(crate) begins: Option<Stamp>,
    /// The attributes, because truncating the file cleared set-id bits, which the kernel leaves to us, or because nobody knows
    /// which length the kernel has.
    pub(crate) attributes: bool,
}

/// Has the kernel drop what is outdated of live files at other hosts, and sends it their lengths.
pub(crate) struct Paging {
    pub(crate) live: Arc<LiveTable>,
    pub(crate) far_pages: Arc<FarPages>,
    pub(crate) old_pages: Arc<OldPages>,
    pub(crate) spreads: Arc<Spreads>,
    pub(crate) directory_leases: Arc<DirectoryLeases>,
}

impl Paging {
    /// To be held while another host changes a file through this one.
    pub(crate) fn outdating(&self, ino: InodeId) -> Changing<'_> {
        self.old_pages.begin(ino);
        Changing { paging: self, ino }
    }

    /// How a file is opened here for reading that others may change.
    pub(crate) fn grant(&self, ino: InodeId, state: &LiveState) -> Grant {
        let grant = |remote: &Arc<_>| self.far_pages.grant_read(ino, remote);
        state.read_through().map_or(Grant::Refused, grant)
    }

    /// Has the kernel drop what it has of a file that is being opened and is outdated. Called with no lock held.
    pub(crate) fn drop_outdated(&self, ino: InodeId, outdated: &Outdated) {
        if outdated.pages {
            self.far_pages.drop_pages(ino);
        }
        if let Some(stamp) = &outdated.begins {
            self.far_pages.drop_pages(ino);
            self.far_pages.begin(ino, stamp);
        }
        if outdated.attributes {
            self.directory_leases.told.drop_attributes_of(ino);
        }
    }

    /// Has the kernel drop its pages of a file if they are outdated, before it is sent the attributes: if these have a greater
    /// length, the kernel would show the zeros behind the old end in its last page. Called with no lock held.
    pub(crate) fn drop_old(&self, ino: InodeId) -> bool {
        self.old_pages.drop_with(ino, || self.far_pages.drop_pages(ino))
    }

    /// Has the kernel drop its pages of a file that was just locked; they may be older than the lock. Whether it caches any.
    pub(crate) fn drop_before_lock(&self, ino: InodeId) -> bool {
        let is_cached = |state: &mut LiveState| state.mode == IoMode::Cached;
        if !self.live.with_existing(ino, is_cached).unwrap_or(false) {
            return false;
        }
        // Dropped now, and not when the kernel asks for the attributes: it would ignore the length then.
        if !self.drop_old(ino) {
            self.far_pages.drop_pages(ino);
        }
        true
    }

    /// Whether the home vouches for the pages that the kernel has.
    pub(crate) fn is_true(&self, ino: InodeId, state: &LiveState) -> bool {
        state.read_through().is_some_and(|remote| self.far_pages.has_true_pages(ino, remote))
    }

    /// The `home` takes back its stamp `number`: somebody is about to write to the file.
    pub(crate) fn withdraw(&self, home: &NodeId, ino: InodeId, number: u64) {
        let stamp = Stamp::new(home.clone(), number);
        self.spreads.withdraw(ino, &stamp);
        self.far_pages.withdraw_and_drop(ino, stamp);
        if !self.live.contains(ino) {
            self.far_pages.closed(ino);
        }
    }

    /// What fills up a read of pages that ends early: the file was cut since it was opened.
    pub(crate) fn former(&self, ino: InodeId) -> Option<Rest> {
        self.live.with_existing(ino, |state| {
            let paged = state.paged.as_ref()?;
            paged.rest(&self.far_pages, ino, state.size_bytes().ok())
        })?
    }

    /// Puts the length that the home of a file says into `attr`, which the kernel is about to be told, where the kernel
    /// reads the file through pages while it is written elsewhere.
    pub(crate) fn follow_length(&self, state: &mut LiveState, attr: &mut Attr) {
        if !state.is_read_through_pages() {
            return;
        }
        if let Some(remote) = state.read_through()
            && !self.far_pages.is_vouched(attr.ino, remote)
        {
            match remote.renew() {
                Ok(()) => attr.size_bytes = remote.size_bytes(),
                Err(error) => {
                    tracing::debug!(ino = %attr.ino, %error, "the length is the record's");
                }
            }
        }
        let has_true_pages = self.is_true(attr.ino, state);
        let Some(paged) = &mut state.paged else { return };
        match paged.tell(attr.size_bytes, has_true_pages) {
            LengthTold::True => {}
            LengthTold::Shorter => self.far_pages.note_brief(attr.ino, state.body.as_ref()),
            LengthTold::MayShowZeros => self.old_pages.note(attr.ino),
        }
    }
}

/// See [`Paging::outdating`].
pub(crate) struct Changing<'a> {
    paging: &'a Paging,
    ino: InodeId,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.paging.old_pages.end(self.ino);
        self.paging.directory_leases.told.outdate_attributes(self.ino);
        let is_cached = self.paging.live.with_existing(self.ino, |state| state.is_served_by_us());
        if !is_cached.unwrap_or(false) {
            self.paging.old_pages.forget(self.ino);
        }
    }
}
