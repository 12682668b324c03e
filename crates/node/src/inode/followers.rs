//! Hosts that follow a live file: they have it open, and may keep what they read until this host recalls that because the
//! file is about to change (see [`crate::cache::vouch`]).

use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::{Inode, Namespace};
use intarsia_store::BackingFile;
use intarsia_types::{BackingRef, InodeId, Integrity, NodeId, Result};

use crate::cache::vouch::{Follower, Recalling, Vouches};
use crate::inode::attempt::Retry;
use crate::inode::lease::Content;
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::moving::{Moving, Source};
use crate::membership::cluster::Cluster;
use crate::space::hints::own_hints;

/// A writer that waits looks so often whether it may go on.
const PAUSE: Duration = Duration::from_millis(1);
/// A file that is cut is copied for its followers up to this length.
const COPIED_MAX: u64 = 64 << 20;

impl LiveState {
    /// Whether this host is the home of the file, as `record` says.
    fn is_home_of(&self, record: &Inode) -> bool {
        self.own_backing().is_some_and(|own| record.layout.backing() == Some(own))
    }

    /// The backing file here, if nobody can change the file before this host allows it.
    fn vouchable(&self) -> Option<BackingRef> {
        let may_be_written =
            self.mark.is_unsettled() || self.holds_lease() || self.mark.is_foreign();
        let is_vouchable = self.record.as_ref().is_some_and(|record| self.is_home_of(record))
            && self.writers == 0
            && self.recall.as_ref().is_none_or(|round| round.is_over())
            && (!may_be_written || self.is_unwritten().unwrap_or(false));
        self.own_backing().filter(|_| is_vouchable)
    }
}

/// The hosts that keep what they read of files here.
pub(crate) struct Followers {
    pub(super) namespace: Arc<Namespace>,
    pub(super) live: Arc<LiveTable>,
    /// The other hosts, in a store of several.
    pub(super) cluster: Option<Arc<Cluster>>,
    pub(super) moving: Arc<Moving>,
    pub(super) vouches: Arc<Vouches>,
}

impl Followers {
    /// Takes note of another host that has opened a file here to read, and vouches for what it reads if that can be done.
    /// The stamp, or 0, and the file that it reads, also when the inode gets another one.
    pub(crate) fn follow_up(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        reader: &NodeId,
    ) -> (u64, Option<Arc<BackingFile>>) {
        let Some(pinned) = state.own_file() else { return (0, None) };
        if state.hints.integrity() == Integrity::Strict {
            // All that is read of it is verified, by its present sums.
            return (0, None);
        }
        let vouchable = state.vouchable();
        let stamp = vouchable.map_or(0, |backing| self.vouches.stamp(ino, backing));
        state.followers.push(Follower::new(reader.clone(), stamp));
        (stamp, Some(pinned))
    }

    /// A follower has closed a handle that it had under `stamp`.
    pub(crate) fn end_following(&self, ino: InodeId, node: &NodeId, stamp: u64) {
        self.live.with_existing(ino, |state| {
            let is_it = |follower: &Follower| follower.is_of(node, stamp);
            if let Some(at) = state.followers.iter().position(is_it) {
                state.followers.swap_remove(at);
            }
        });
    }

    /// Called before somebody may write to the file. `None` once no follower keeps what it has read; else the caller has to
    /// unlock the entry and try again.
    pub(crate) fn recall_followers(&self, ino: InodeId, state: &mut LiveState) -> Option<Retry> {
        let cluster = self.cluster.as_ref()?;
        match self.vouches.recall(cluster, ino, &mut state.followers, &mut state.recall) {
            Recalling::Over => None,
            Recalling::UnderWay => {
                Some(Retry::after(PAUSE, "other hosts are being told of a writer"))
            }
        }
    }

    /// Called before a file is cut: moves it to a new backing file, so that followers go on with the old one, which they have
    /// open, complete. Else the kernels there would fill up the missing bytes with zeros, and some readers would see these
    /// before they see the new end. A file that the kernel reads by passthrough, or of which more than [`COPIED_MAX`] bytes
    /// would have to be copied, stays where it is.
    pub(crate) fn spare_followers(
        &self,
        inode: Inode,
        state: &mut LiveState,
        size_bytes: u64,
    ) -> Result<Inode> {
        let Some(cluster) = self.cluster.as_ref().filter(|_| !state.followers.is_empty()) else {
            return Ok(inode);
        };
        if !state.is_home_of(&inode)
            || !state.holds_lease()
            || state.is_passed()
            || state.size_bytes()? <= size_bytes
        {
            return Ok(inode);
        }
        // With copies on other hosts the content stays published until the next publication, so it is kept.
        let is_dropped = size_bytes == 0 && inode.layout.copies().len() == 1;
        let content = if is_dropped { Content::Dropped } else { Content::Kept };
        if content == Content::Kept && state.size_bytes()? > COPIED_MAX {
            return Ok(inode);
        }
        let hints = own_hints(&self.namespace, &inode);
        let moved = hints.and_then(|hints| {
            state.hints = hints;
            self.moving.bring_home(cluster, Source::Here, &inode, state, content)
        });
        moved.or_else(|error| {
            tracing::warn!(ino = %inode.ino, %error, "readers on other hosts may see zeros where a file is cut");
            Ok(inode)
        })
    }

    /// Whether a file has moved out of the backing file that it was in when another host opened it.
    pub(crate) fn has_left(&self, ino: InodeId, pinned: &Arc<BackingFile>) -> bool {
        let is_there =
            |state: &mut LiveState| state.own_file().is_some_and(|file| Arc::ptr_eq(&file, pinned));
        !self.live.with_existing(ino, is_there).unwrap_or(false)
    }
}
