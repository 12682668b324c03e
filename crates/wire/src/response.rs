//! What a node answers.

use intarsia_types::{BackingRef, NodeId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Fault, Handle, LockAnswer};

/// An answer. Nodes agree on it by number: variants are only ever appended, never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// 0: done, nothing to tell.
    Done,
    /// 1: it did not work.
    Failed(Fault),
    /// 2: a file is open, or a copy begun.
    Opened {
        /// The handle.
        handle: Handle,
        /// Length of the file at this moment.
        size_bytes: u64,
    },
    /// 3: the payload is what was asked for, short at the end of the file.
    Data {
        /// Length of the file at this moment.
        size_bytes: u64,
    },
    /// 4: the change is made.
    Written {
        /// Length of the file after it.
        size_bytes: u64,
    },
    /// 5: a file at its home.
    Status {
        /// Length.
        size_bytes: u64,
        /// Disk use in units of 512 bytes.
        blocks_512: u64,
        /// Last change of the content.
        mtime: Timestamp,
        /// Last change of the file.
        ctime: Timestamp,
    },
    /// 6: a copy is complete and lasting.
    Pushed {
        /// Where it lies at the server.
        backing: BackingRef,
    },
    /// 7: the lease is given back; what was held is published.
    Released,
    /// 8: the lease is in use; ask again after this time.
    Busy {
        /// When to ask again.
        retry_ms: u32,
    },
    /// 9: the payload is JSON.
    Json,
    /// 10: about the locks that processes have.
    Lock(LockAnswer),
    /// 11: a file is open, and nobody can change it before the lease named by the stamp is recalled.
    Vouched {
        /// The handle.
        handle: Handle,
        /// Length of the file at this moment.
        size_bytes: u64,
        /// The same for as long as the content is, and never given again for another; 0 when the server cannot vouch.
        stamp: u64,
    },
    /// 12: which pieces to take. None: ask again in a few milliseconds.
    Spread {
        /// Length of each piece but the last.
        piece_bytes: u64,
        /// The pieces, from 0, each with the reader that gives it; none for the file's home.
        takes: Vec<(u32, Option<NodeId>)>,
    },
    /// 13: the right to write is the asker's. The payload is all that the file holds, if that is as long as the record says.
    HandedOver {
        /// The inode's record as the commit made it that passed the right on; empty if it is to be looked up.
        record: Vec<u8>,
    },
}

impl Response {
    /// The handle that the answer gives: whoever gets it has to close it, also when nobody waits for the answer any more.
    #[must_use]
    pub const fn opened(&self) -> Option<Handle> {
        match self {
            Self::Opened { handle, .. } | Self::Vouched { handle, .. } => Some(*handle),
            _ => None,
        }
    }
}
