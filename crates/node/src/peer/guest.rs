//! What other hosts have here.

use std::collections::HashMap;
use std::sync::Arc;

use intarsia_store::BackingFile;
use intarsia_sync::Mutex;
use intarsia_types::{Error, InodeId, Result};
use intarsia_wire::{Handle, Target};

use crate::body::parts::PartFile;
use crate::replication::arrivals::Arrivals;
use crate::replication::replicator::Asked;

/// A file that another host has open here.
#[derive(Clone)]
pub(super) struct OpenFile {
    pub(super) ino: InodeId,
    pub(super) may_write: bool,
    /// The page stamp under which the host may keep what it reads; 0 for none.
    pub(super) stamp: u64,
    /// The backing file that the host reads. It goes on reading this one if the inode gets another one because the file is cut
    /// (see [`crate::inode::followers::Followers::spare_followers`]).
    pub(super) pinned: Option<Arc<BackingFile>>,
    /// Publications that are under way, each with the number of the call on that host that waits for it; several may wait at a
    /// time.
    asked: Vec<(u64, Asked)>,
}

impl OpenFile {
    /// Opened by a host that keeps nothing of what it reads.
    pub(super) const fn unfollowed(ino: InodeId, may_write: bool) -> Self {
        Self { ino, may_write, stamp: 0, pinned: None, asked: Vec::new() }
    }

    /// Opened for reading by a host that may keep what it reads.
    pub(super) const fn followed(
        ino: InodeId,
        stamp: u64,
        pinned: Option<Arc<BackingFile>>,
    ) -> Self {
        Self { ino, may_write: false, stamp, pinned, asked: Vec::new() }
    }

    /// The publication that was begun for this call. One that was begun for an earlier call does not serve: it may lack what
    /// was written since.
    pub(super) fn asked_for(&self, call: u64) -> Option<Asked> {
        self.asked.iter().find(|(of, _)| *of == call).map(|(_, asked)| *asked)
    }

    /// Takes note of the publication that is under way on behalf of this call, if any.
    pub(super) fn note_asked(&mut self, call: u64, asked: Option<Asked>) {
        self.asked.retain(|(of, _)| *of != call);
        self.asked.extend(asked.map(|asked| (call, asked)));
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

/// The file that a handle is of.
pub(super) fn opened(files: &OpenFiles, handle: Handle) -> Result<OpenFile> {
    files.lock().get(&handle).cloned().ok_or(Error::BadHandle)
}

/// The file that a change goes to.
pub(super) fn changed(files: &OpenFiles, target: Target) -> Result<InodeId> {
    let Target::Handle(handle) = target else {
        return Err(Error::NotSupported("a change without an open handle"));
    };
    let open = opened(files, handle)?;
    if open.may_write { Ok(open.ino) } else { Err(Error::BadHandle) }
}
