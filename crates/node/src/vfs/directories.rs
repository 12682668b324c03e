//! What a call reports about the directory that it uses.

use std::sync::Arc;

use intarsia_types::InodeId;

use crate::directory::telling::Telling;
use crate::directory::told::AttributeDropper;
use crate::node::Node;

impl Node {
    /// Notes that programs here use a directory, and asks for its lease when that pays.
    pub(crate) fn use_directory(&self, dir: InodeId) {
        self.directory_leases.use_directory(dir);
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
