//! What other hosts have here.

use std::collections::HashMap;
use std::sync::Arc;

use intarsia_store::BackingFile;
use intarsia_sync::Mutex;
use intarsia_types::InodeId;
use intarsia_wire::Handle;

use crate::body::parts::PartFile;
use crate::replication::arrivals::Arrivals;

/// A file that another host has open here.
#[derive(Clone)]
pub(super) struct OpenFile {
    pub(super) ino: InodeId,
    pub(super) may_write: bool,
    /// Under which the host may keep what it reads; 0 for none.
    pub(super) stamp: u64,
    /// What it reads, also when the file is cut (see [`crate::inode::followers::Followers::spare_followers`]).
    pub(super) pinned: Option<Arc<BackingFile>>,
}

impl OpenFile {
    /// Opened by a host that keeps nothing of what it reads.
    pub(super) const fn unfollowed(ino: InodeId, may_write: bool) -> Self {
        Self { ino, may_write, stamp: 0, pinned: None }
    }
}

/// A part of a striped file that another host has open here.
#[derive(Clone)]
pub(super) struct OpenPart {
    pub(super) file: Arc<PartFile>,
    pub(super) may_write: bool,
}

pub(super) type OpenFiles = Mutex<HashMap<Handle, OpenFile>>;

/// What one host has here: open files, and copies that it is sending. All of it ends when that host is gone.
#[derive(Default)]
pub(crate) struct Guest {
    pub(super) files: OpenFiles,
    pub(super) parts: Mutex<HashMap<Handle, OpenPart>>,
    pub(super) arrivals: Arrivals,
}
