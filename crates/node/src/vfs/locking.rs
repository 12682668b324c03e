//! What [`Locks`](crate::locks::Locks) do with the files that they are of.

use std::sync::Arc;

use intarsia_meta::Namespace;
use intarsia_types::{Error, InodeId, Result};

use crate::inode::following::Following;
use crate::inode::lease::{Attempt, Leases};
use crate::inode::live::LiveTable;
use crate::inode::publication::Publisher;
use crate::locks::LockedFiles;
use crate::vfs::sync::Syncer;

pub(crate) const OF_ONE_HOST: Error = Error::NotSupported("locks between hosts in a store of one");

/// Files of this host that may be locked.
pub(crate) struct Lockable {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) following: Arc<Following>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) syncer: Arc<Syncer>,
}

impl LockedFiles for Lockable {
    fn publish(&self, ino: InodeId) -> Result<()> {
        self.publisher.publish_now(ino)
    }

    fn flush(&self, ino: InodeId) -> Result<()> {
        self.syncer.flush(ino)
    }

    fn look_up_anew(&self, ino: InodeId) -> Result<()> {
        let remote = self.leases.with_live(ino, |state| {
            if !state.is_open() || state.names.is_orphan() {
                return Ok(Attempt::Done(None));
            }
            match self.namespace.get(ino) {
                Ok(inode) => self.following.renew_body(state, &inode)?,
                // Removed by another host, and nobody else can open it any more.
                Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
            Ok(Attempt::Done(state.remote().map(Arc::clone)))
        })?;
        remote.map_or(Ok(()), |remote| remote.renew())
    }

    fn is_open(&self, ino: InodeId) -> bool {
        self.live.with_existing(ino, |state| state.handles > 0).unwrap_or(false)
    }
}
