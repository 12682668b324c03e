//! What [`Locks`](crate::locks::Locks) do with the files that they are of.

use std::sync::Arc;

use intarsia_meta::{Inode, Namespace, Owner};
use intarsia_types::{Error, InodeId, Result};

use crate::inode::attempt::Attempt;
use crate::inode::following::Following;
use crate::inode::lease::Leases;
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::publication::Publisher;
use crate::inode::rights::Rights;
use crate::locks::LockedFiles;
use crate::membership::cluster::Cluster;
use crate::membership::fence::refusal;
use crate::vfs::sync::Syncer;

pub(crate) const OF_ONE_HOST: Error = Error::NotSupported("locks between hosts in a store of one");

/// Files of this host that may be locked.
pub(crate) struct Lockable {
    pub(crate) namespace: Arc<Namespace>,
    /// The other hosts, in a store of several.
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) rights: Arc<Rights>,
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
        let far = self.leases.with_live(ino, |state| {
            if !state.is_open() || state.names.is_orphan() {
                return Ok(Attempt::Done(None));
            }
            match self.namespace.get_with_writer(ino) {
                Ok((inode, writer)) => {
                    self.require_true_bytes(state, &inode, writer.as_ref())?;
                    self.following.renew_body(state, &inode)?;
                }
                // Removed by another host, and nobody else can open it any more.
                Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
            Ok(Attempt::Done(state.far()))
        })?;
        far.map_or(Ok(()), |far| far.renew())
    }

    fn is_open(&self, ino: InodeId) -> bool {
        self.live.with_existing(ino, |state| state.handles > 0).unwrap_or(false)
    }
}

impl Lockable {
    /// Refuses a lock on a file that is written here, or at another host, if others have given that host up and taken the
    /// file over, which it need not know yet: who has the lock would not see what they wrote under theirs.
    fn require_true_bytes(
        &self,
        state: &mut LiveState,
        inode: &Inode,
        writer: Option<&Owner>,
    ) -> Result<()> {
        if state.holds_lease() {
            let me = self.namespace.owner().node;
            if writer.is_none_or(|writer| writer.node != me) {
                self.rights.regain(inode.ino, state)?;
            }
            return state.require_ours();
        }
        let Some(home) = state.written_through().map(|remote| remote.home()) else {
            return Ok(());
        };
        let is_there = match (inode.layout.backing(), &self.cluster) {
            (Some(backing), Some(cluster)) => cluster.home_of(backing.tier)? == home,
            _ => true,
        };
        if is_there && writer.is_some_and(|writer| writer.node == home) {
            return Ok(());
        }
        Err(refusal(
            "another host has taken over the file from the one through which it is written; close it and open it again",
        ))
    }
}
