//! A file whose home becomes this host, with its bytes.

use std::sync::Arc;

use intarsia_meta::{Extra, Inode, Namespace};
use intarsia_types::{BackingRef, Error, Layout, NodeId, Result};

use crate::background::turns::Turns;
use crate::body::remote::RemoteFile;
use crate::body::{Body, LocalBody};
use crate::cache::remote_cache::RemoteCache;
use crate::inode::following::Following;
use crate::inode::live::LiveState;
use crate::inode::renewal::Renewal;
use crate::membership::cluster::Cluster;
use crate::replication::Replicas;
use crate::replication::copies::open_elsewhere;
use crate::replication::further::{Further, take_over_copies};
use crate::space::ledger::Ledger;
use crate::space::placing::Placing;
use crate::space::tiers::Tiers;

use super::lease::Content;

/// Where the bytes are of a file that is moving to this host.
#[derive(Clone, Copy)]
pub(crate) enum Source<'s> {
    /// Here, in a file that the kernel reads.
    Here,
    /// At the first of these hosts that serves it.
    Hosts(&'s [NodeId]),
    /// They were sent along with the right, all of them.
    Sent(&'s [u8]),
}

/// Makes this host the home of files.
pub(crate) struct Moving {
    pub(super) namespace: Arc<Namespace>,
    pub(super) placing: Arc<Placing>,
    pub(super) tiers: Arc<Tiers>,
    pub(super) replicas: Arc<Replicas>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) remote_cache: Arc<RemoteCache>,
    pub(super) renewal: Arc<Renewal>,
    pub(super) following: Arc<Following>,
    /// What is being fetched before this host becomes its home.
    pub(super) fetches: Turns,
}

impl Moving {
    /// Makes this host, which has a copy, the home of a file that nobody writes to. The other copies hold the published content
    /// and stay named, except `given_up`.
    pub(super) fn become_home(
        &self,
        inode: &Inode,
        own: BackingRef,
        given_up: Option<BackingRef>,
        state: &mut LiveState,
    ) -> Result<Inode> {
        let others: Vec<_> =
            inode.layout.copies().iter().copied().filter(|copy| Some(*copy) != given_up).collect();
        // Who settles it after a crash takes the time of what it finds for that of the last write; a copy has that of its making.
        self.tiers.get(own.tier)?.open_file(own.file, false)?.set_mtime(inode.mtime)?;
        let mut dropped = Vec::new();
        let moved = self.namespace.change(inode.ino, |now, extras| {
            if now.layout != inode.layout {
                return Err(Error::Busy("the file moved while it was being moved".into()));
            }
            extras.push(Extra::HoldWritable);
            dropped = take_over_copies(&mut now.layout, own, Further::Kept(&others), extras)?;
            Ok(())
        })?;
        self.replicas.note_dropped(&dropped);
        self.following.renew_body(state, &moved)?;
        Ok(moved)
    }

    /// Copies a file that nobody writes to from `source` to a tier here, which becomes its home. `state` has the file's
    /// hints.
    pub(crate) fn bring_home(
        &self,
        cluster: &Arc<Cluster>,
        source: Source<'_>,
        inode: &Inode,
        state: &mut LiveState,
        content: Content,
    ) -> Result<Inode> {
        let (new, is_whole) = self.place_for(inode, state, content)?;
        let backing = new.backing;
        let copied = match (content, source) {
            (Content::Dropped, _) => Ok(()),
            (Content::Kept, _) if is_whole => Ok(()),
            (Content::Kept, Source::Here) => self.renewal.copy_present(inode, backing).map(|_| ()),
            (Content::Kept, Source::Sent(bytes)) => {
                self.ledger.write_whole(backing, bytes).map(|_| ())
            }
            (Content::Kept, Source::Hosts(hosts)) => open_elsewhere(cluster, inode, hosts)
                .and_then(|source| self.copy_whole(&Arc::new(source), inode, backing)),
        };
        let ready = copied.and_then(|()| match content {
            Content::Kept => {
                // After a crash, settling takes the time of the backing file for that of the last write.
                new.ro.set_mtime(inode.mtime)?;
                self.tiers.force_out(&new.ro)
            }
            Content::Dropped => Ok(()),
        });
        let moved = ready.and_then(|()| self.record_move(inode, backing, content));
        let (moved, dropped) = match moved {
            Ok(moved) => moved,
            Err(error) => {
                drop(new);
                self.ledger.discard_unrecorded(inode.ino, backing, &error)?;
                return Err(error);
            }
        };
        self.replicas.note_dropped(&dropped);
        state.body = Some(Body::local(new));
        state.sums.forget();
        state.mark.set();
        state.overlay.size_bytes = moved.size_bytes;
        state.accounted_512 = 0;
        state.account(&self.tiers)?;
        state.mark_seen();
        state.record = Some(moved.clone());
        Ok(moved)
    }

    /// The file here that is to hold a file of another host, and whether it has the content already.
    fn place_for(
        &self,
        inode: &Inode,
        state: &mut LiveState,
        content: Content,
    ) -> Result<(LocalBody, bool)> {
        if content == Content::Kept
            && let Some(fetched) = state.ahead.take_of(inode)
        {
            self.remote_cache.forget(inode.ino);
            return Ok((fetched, true));
        }
        let open = state.passed_copy();
        match (self.remote_cache.take_out(inode, open.is_some()), open) {
            (Some(kept), None) => Ok(kept),
            (Some((kept, is_true)), Some(open)) if kept.backing == open => Ok((kept, is_true)),
            (other, Some(_)) => {
                if let Some((other, _)) = other {
                    self.remote_cache.give_back(other.backing, other.ro);
                }
                Err(Error::Busy(
                    "an older copy of the file is open here for reading past the process".into(),
                ))
            }
            (None, None) => {
                self.remote_cache.make_room();
                let tier = self.placing.tier_here(state.hints.tier())?;
                if content == Content::Kept {
                    self.tiers.require_room(tier, inode.size_bytes)?;
                }
                let (backing, file) = self.tiers.take_file(tier, &self.namespace)?;
                Ok((LocalBody::new(backing, file), false))
            }
        }
    }

    fn copy_whole(
        &self,
        source: &Arc<RemoteFile>,
        inode: &Inode,
        backing: BackingRef,
    ) -> Result<()> {
        let size_bytes = self.renewal.copy_here(source, backing)?;
        require_bytes(source, inode, size_bytes)
    }

    /// Names `new` as the home's file in place of the old home's. The other copies hold the same content, if it
    /// is kept.
    fn record_move(
        &self,
        inode: &Inode,
        new: BackingRef,
        content: Content,
    ) -> Result<(Inode, Vec<BackingRef>)> {
        let home = inode.layout.backing();
        // A host has one copy of a file, so an older one here goes too.
        let is_kept = |copy: &BackingRef| {
            content == Content::Kept && Some(*copy) != home && !self.tiers.has(copy.tier)
        };
        let (kept, dropped): (Vec<_>, Vec<_>) =
            inode.layout.copies().iter().copied().partition(is_kept);
        let mut extras = vec![Extra::HoldWritable, Extra::TakeFree(new)];
        extras.extend((inode.layout == Layout::Inline).then_some(Extra::DeleteBody));
        extras.extend(dropped.iter().map(|copy| Extra::PutFree(*copy)));
        let copies: Vec<_> = std::iter::once(new).chain(kept).collect();
        let moved = self.namespace.change_known(inode, |now, more| {
            more.extend_from_slice(&extras);
            if now.layout != inode.layout {
                return Err(Error::Busy("the file moved while it was being moved".into()));
            }
            now.layout = Layout::of_copies(copies.clone());
            now.checksummed = false;
            if content == Content::Dropped {
                now.size_bytes = 0;
            }
            Ok(())
        })?;
        Ok((moved, dropped))
    }
}

/// So many bytes came from another host: they have to be all of the file.
pub(super) fn require_bytes(source: &RemoteFile, inode: &Inode, size_bytes: u64) -> Result<()> {
    if size_bytes == inode.size_bytes {
        return Ok(());
    }
    let (home, wanted_bytes) = (source.home(), inode.size_bytes);
    let what = format!("{size_bytes} bytes came from {home}, not {wanted_bytes}");
    Err(Error::Corrupt { ino: inode.ino, what })
}
