//! What a call has to say of the directory that it uses.

use intarsia_types::InodeId;

use crate::directory::directory_lease::Telling;
use crate::node::Node;

impl Node {
    /// Notes that programs here use a directory, and asks for its lease when that pays.
    pub(crate) fn use_directory(&self, dir: InodeId) {
        self.directory_leases.use_directory(dir);
    }

    /// To be held while the kernel is told something that it may keep.
    #[must_use]
    pub fn tell_kernel(&self) -> Telling<'_> {
        self.directory_leases.tell_kernel()
    }
}
