//! What the mount asks about the kernel's caches and reports of them: what may be kept of attributes, which pages are outdated, which are being dropped, and
//! which lengths the kernel was sent.

use std::sync::Arc;

use intarsia_sync::Instant;
use intarsia_types::{Attr, FileKind, InodeId};

use crate::cache::brief_pages::Asked;
use crate::cache::far_pages::DropPages;
use crate::cache::kernel_length::Dropping;
use crate::directory::telling::Telling;
use crate::directory::told::AttributeDropper;

use super::Node;

impl Node {
    /// The mount offers to have the kernel drop pages.
    pub fn set_page_dropper(&self, drop_pages: Box<DropPages>) {
        self.paging.far_pages.offer(drop_pages);
    }

    /// Whether the kernel may have pages of a file that are older than what the node says of it.
    #[must_use]
    pub fn has_old_pages(&self, ino: InodeId) -> bool {
        self.paging.old_pages.has(ino)
    }

    /// Has the kernel drop its pages of a file if they are outdated, before it is told the attributes. To be called with no lock
    /// held: it waits for reads under way. Whether they were.
    pub fn drop_old_pages(&self, ino: InodeId) -> bool {
        self.paging.drop_old(ino)
    }

    /// Has the kernel drop its pages of a file that was just locked. Whether it caches any.
    pub fn drop_pages_before_lock(&self, ino: InodeId) -> bool {
        self.paging.drop_before_lock(ino)
    }

    /// The kernel is about to drop pages of a file.
    #[must_use]
    pub fn dropping_pages(&self, ino: InodeId) -> Dropping<'_> {
        self.paging.far_pages.lengths.dropping(ino)
    }

    /// The kernel asks for the length of a file, which others may write to.
    #[must_use]
    pub fn asked_for_length(&self, ino: InodeId) -> Option<Asked<'_>> {
        self.members.is_shared().then(|| self.paging.far_pages.asked_for_length(ino))
    }

    /// The kernel is about to be sent attributes that it asked for at `asked`.
    pub fn tell_length(&self, attr: &Attr, asked: Instant) {
        if self.members.is_shared() && attr.kind == FileKind::Regular {
            self.paging.far_pages.lengths.tell(attr.ino, asked, attr.size_bytes);
        }
    }

    /// To be held while the kernel is sent something that it may cache.
    #[must_use]
    pub fn tell_kernel(&self) -> Telling<'_> {
        self.directory_leases.tell_kernel()
    }

    /// What makes the kernel ask for attributes again; it returns false if the kernel does not know the inode. Without it the
    /// kernel is allowed to cache fewer.
    pub fn set_attribute_dropper(self: &Arc<Self>, dropper: Box<AttributeDropper>) {
        let node = Arc::downgrade(self);
        self.directory_leases.told.set_dropper(Box::new(move |ino| {
            let Some(node) = node.upgrade() else { return true };
            let _dropping = node.dropping_pages(ino);
            dropper(ino)
        }));
    }
}
