//! What the kernel is sent under a lease on a directory, and how long it may cache that.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use intarsia_sync::{Instant, RwLockReadGuard};
use intarsia_types::InodeId;

use super::directory_lease::{DirectoryLeases, KEPT_BY_KERNEL, Use};

/// Which lease covers something that the kernel is to be sent. The kernel may keep it for a moment if that lease has been held
/// since before it was read, and still is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cover {
    pub(crate) dir: InodeId,
    /// A time before it was read.
    pub(crate) read_after: Instant,
}

/// Held while the kernel is sent something that it may cache: from the decision how long it may keep it until the answer is on
/// its way. Giving a lease back waits for that, so nothing that may wait for another host is done meanwhile.
pub struct Telling<'a> {
    leases: &'a DirectoryLeases,
    /// Directories of which the kernel is allowed to keep something until it expires.
    told: RefCell<Vec<InodeId>>,
    /// The kernel is sent attributes that it has to be made to drop when the lease is given back.
    tells_attributes: Cell<bool>,
    _turn: RwLockReadGuard<'a, ()>,
}

impl DirectoryLeases {
    /// To be held while the kernel is sent something that it may cache.
    pub(crate) fn tell_kernel(&self) -> Telling<'_> {
        let turn = self.telling.read();
        let tells_attributes = Cell::default();
        Telling { leases: self, told: RefCell::default(), tells_attributes, _turn: turn }
    }
}

impl Telling<'_> {
    /// How long the kernel may keep something that `cover` is of; zero if not at all. It is more only in a directory that no
    /// other host has changed for a while: a lease on it can be given back only after that time.
    #[must_use]
    pub fn lasts(&self, cover: Cover) -> Duration {
        let now = Instant::now();
        if !self.is_covered(cover, |seen, since| seen.is_calm(now, since)) {
            return Duration::ZERO;
        }
        let mut told = self.told.borrow_mut();
        if !told.contains(&cover.dir) {
            told.push(cover.dir);
        }
        KEPT_BY_KERNEL
    }

    /// How long the kernel may keep the attributes of `ino`, which it asked for, or which is new. If the kernel can be made to
    /// drop them, it may keep those in all leased directories, also in one that was changed a short while ago.
    #[must_use]
    pub fn attributes_last(&self, ino: InodeId, cover: Cover) -> Duration {
        let lasts = self.lasts(cover);
        let told = &self.leases.told;
        if !lasts.is_zero() || !told.can_be_taken_back() || !self.is_covered(cover, |_, _| true) {
            return lasts;
        }
        told.note(cover.dir, ino);
        self.tells_attributes.set(true);
        KEPT_BY_KERNEL
    }

    /// Whether the lease has been held since before its part was read, and `and` holds of how the directory is used.
    fn is_covered(&self, cover: Cover, and: impl Fn(&Use, Instant) -> bool) -> bool {
        let Cover { dir, read_after } = cover;
        let is_kept = self.leases.with(dir, |seen| {
            seen.held.is_some_and(|since| since < read_after && and(seen, since))
        });
        let namespace = &self.leases.namespace;
        is_kept == Some(true)
            && namespace.holds_directory(dir)
            && !namespace.is_changed_elsewhere(dir)
            && namespace.keeps_directories()
    }

    /// Whether the kernel was allowed to keep something.
    #[must_use]
    pub fn is_binding(&self) -> bool {
        self.tells_attributes.get() || !self.told.borrow().is_empty()
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        for dir in self.told.get_mut().drain(..) {
            let now = Instant::now();
            self.leases.with(dir, |seen| seen.kept_by_kernel = Some(now));
        }
    }
}
