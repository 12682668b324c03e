//! New files for which this host has no room: another host takes them in, and they are written through it.
//!
//! A new file is kept beside its inode until it grows. If every tier here is below its watermark then, the host with most room
//! becomes its home: it takes the lease to write over from this host, makes a backing file, and keeps the file open for this
//! host, with the content so far. From then on it is a file of that host which is written through it, like any other (see
//! [`crate::inode::lease`]). At each moment one of the two has the lease: it passes in one commit, on condition that the asker
//! still has it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use intarsia_meta::{Extra, FreeFile, Inode, Namespace, Owner, WriteLease};
use intarsia_policy::{Home, IoMode, Plan, Reason, Wish};
use intarsia_types::{Error, HintSet, InodeId, Layout, NodeId, Result, TierId};

use crate::background::queue::Queue;
use crate::body::changing::MovesFrom;
use crate::body::own::OwnFile;
use crate::body::remote::RemoteFile;
use crate::body::{Bodies, Body, LocalBody};
use crate::cache::remote_cache::RemoteCache;
use crate::clock::now;
use crate::inode::following::Following;
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::passed::Passed;
use crate::members::Members;
use crate::membership::cluster::Cluster;
use crate::metrics::Metrics;
use crate::metrics::hinted::Hinted;
use crate::metrics::last_told::LastTold;
use crate::space::hints::own_hints;
use crate::space::ledger::Ledger;
use crate::space::placing::{Placing, pattern_of_place};
use crate::space::tiers::{Tiers, full};

/// How many hosts are asked to take in one file; more than one, because their room is known as of the last beat.
const HOSTS_ASKED: usize = 4;
/// The pause between two lines in the log about files that go elsewhere.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// When the log last said that files go elsewhere, or nowhere.
#[derive(Default)]
pub(crate) struct Shortage {
    elsewhere: LastTold,
    nowhere: LastTold,
}

/// Has new files grow where there is room for them, here or at another host.
pub(crate) struct Elsewhere {
    pub(super) members: Members,
    pub(super) namespace: Arc<Namespace>,
    pub(super) live: Arc<LiveTable>,
    /// The other hosts, in a store of several.
    pub(super) cluster: Option<Arc<Cluster>>,
    pub(super) bodies: Arc<Bodies>,
    pub(super) placing: Arc<Placing>,
    pub(super) tiers: Arc<Tiers>,
    /// The finalizer's.
    pub(super) queue: Arc<Queue>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) remote_cache: Arc<RemoteCache>,
    pub(super) following: Arc<Following>,
    pub(super) passed: Arc<Passed>,
    pub(super) hinted: Arc<Hinted>,
    pub(super) shortage: Shortage,
}

impl Elsewhere {
    /// The tier here in which a new file is placed; none if it is placed at another host.
    pub(crate) fn tier_for_new(&self, hints: &HintSet, seed: u64) -> Option<TierId> {
        self.remote_cache.make_room();
        match self.placing.plan_for_new(hints, seed).home {
            Home::Here(tier) => Some(tier),
            Home::Elsewhere { .. } | Home::Nowhere | Home::Unchanged => None,
        }
    }

    /// Moves an inline body, which is about to grow, to a backing file: in a tier here, or at another host if there is no room
    /// here. Copies a file of the lower file system to a backing file here.
    pub(crate) fn unfold(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        match state.moves_from() {
            Some(MovesFrom::Memory(_)) => self.give_home(ino, state),
            Some(MovesFrom::Below(_)) | None => state.copy_up(&self.bodies, ino),
        }
    }

    /// Moves the bytes that stand beside the inode to the host and tier that the policy chooses for a growing file.
    fn give_home(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        self.remote_cache.make_room();
        let Plan { home, reason, .. } = self.placing.plan_for_new(&state.hints, ino.0);
        let why = reason.as_str();
        let (last, is_as_wished) = match home {
            Home::Here(tier) => (Some(tier), self.is_as_wished(&state.hints, reason)),
            Home::Elsewhere { hosts, otherwise } => {
                if self.may_be_handed_out(state) && self.hand_out(ino, state, &hosts, reason)? {
                    self.note_placed(&state.hints, reason.is_wish(), why);
                    return Ok(());
                }
                (
                    otherwise,
                    self.placing.wish_of(&state.hints) == Wish::Maker && otherwise.is_some(),
                )
            }
            Home::Nowhere | Home::Unchanged => (None, false),
        };
        self.note_placed(&state.hints, is_as_wished, why);
        match last {
            Some(tier) => {
                self.placing.note_home(&state.hints, ino, None);
                state.unfold_into(&self.bodies, ino, tier)
            }
            None if self.members.is_shared() => Err(self.refuse_for_room(reason.as_str())),
            None => Err(self.refuse_for_room("every tier is full")),
        }
    }

    /// Whether a file that is placed here is where its hints wish it.
    pub(crate) fn is_as_wished(&self, hints: &HintSet, reason: Reason) -> bool {
        reason.is_wish() || self.placing.wish_of(hints) == Wish::Maker
    }

    /// Counts a file whose hints say where to place it; `why` says why it was placed where it is.
    pub(crate) fn note_placed(&self, hints: &HintSet, is_as_wished: bool, why: &'static str) {
        let wish = self.placing.wish_of(hints);
        if let Some(pattern) = pattern_of_place(hints, &wish) {
            self.hinted.note(pattern, if is_as_wished { Ok(()) } else { Err(why) });
        }
        if wish == Wish::Maker {
            return;
        }
        let counter = if is_as_wished {
            &self.metrics.placed_as_hinted
        } else {
            &self.metrics.placed_otherwise
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a write that gets ENOSPC because of `why`, and says so in the log now and then.
    pub(crate) fn refuse_for_room(&self, why: &str) -> Error {
        let refused = self.metrics.refused_for_room.fetch_add(1, Ordering::Relaxed) + 1;
        if self.shortage.nowhere.is_due(TOLD_EVERY) {
            let help = if self.members.is_shared() {
                "remove files, add a tier, or have a host join"
            } else {
                "remove files, or add a tier"
            };
            tracing::warn!(why, refused, "writes get ENOSPC; {help}");
        }
        Error::NoSpace(why.to_owned())
    }

    /// Whether another host can become the home of a file. One that is open for another host already, or has lost its
    /// name, stays; and so does one that the kernel is to write by itself.
    fn may_be_handed_out(&self, state: &LiveState) -> bool {
        let is_passed = state.handles > 0 && state.mode == IoMode::Passthrough;
        state.holds_lease()
            && state.remote_handles == 0
            && !state.names.is_orphan()
            && !state.right.is_taken_over()
            && !is_passed
    }

    /// Offers the file to `hosts` in turn until one takes it in. `false` when none did; then nothing has changed.
    fn hand_out(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        hosts: &[NodeId],
        reason: Reason,
    ) -> Result<bool> {
        let (Some(cluster), Some(bytes)) = (&self.cluster, state.to_record()) else {
            return Ok(false);
        };
        let bytes = bytes.to_vec();
        // A deferred create is committed first: else no other host knows of the file.
        self.namespace.keep_promise(ino)?;
        for host in hosts.iter().take(HOSTS_ASKED) {
            let taken = match RemoteFile::take_in(cluster, host, ino, &bytes) {
                Ok(remote) => Some(remote),
                Err(error) => {
                    tracing::debug!(%ino, %host, %error, "a host did not take a file in");
                    self.after_refusal(cluster, host, ino, state, error)?
                }
            };
            if let Some(remote) = taken {
                self.tell_handed_out(ino, host, reason);
                self.placing.note_home(&state.hints, ino, Some(host));
                hold_remotely(state, remote);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `host` did not say that it took the file in. Returns the open file if it did so nevertheless.
    fn after_refusal(
        &self,
        cluster: &Arc<Cluster>,
        host: &NodeId,
        ino: InodeId,
        state: &mut LiveState,
        refusal: Error,
    ) -> Result<Option<RemoteFile>> {
        let mut held = self.passed.acquire_write(&self.namespace, ino)?;
        if let WriteLease::Held(_) = held {
            // The request may still be on its way: changing the record makes it fail.
            let changed = self.namespace.update_with(ino, &[Extra::HoldWritable], |_| Ok(()));
            if let Ok(inode) = &changed {
                state.note_own_change(inode);
                return Ok(None);
            }
            held = self.passed.acquire_write(&self.namespace, ino)?;
        }
        let taken = match held {
            WriteLease::Held(_) => return Err(refusal),
            WriteLease::HeldBy(owner) if owner.node == *host => {
                RemoteFile::open(cluster, host.clone(), ino, true)
            }
            WriteLease::HeldBy(_) | WriteLease::Unneeded(_) => Err(refusal),
        };
        // What was written here and not published is at the host that took the file, or lost.
        taken.map(Some).inspect_err(|_| {
            state.right.release();
            state.right.lose();
            state.overlay.is_dirty = false;
            // The host that took the file may fail to make room for it, and give the right back to this one.
            self.passed.doubt_right(ino, &self.queue);
        })
    }

    fn tell_handed_out(&self, ino: InodeId, host: &NodeId, reason: Reason) {
        let why = reason.as_str();
        if !reason.is_wish() {
            let files = self.metrics.born_elsewhere.fetch_add(1, Ordering::Relaxed) + 1;
            if self.shortage.elsewhere.is_due(TOLD_EVERY) {
                tracing::warn!(%ino, %host, reason = why, files, "new files go to other hosts");
                return;
            }
        }
        tracing::debug!(%ino, %host, reason = why, "a new file went to another host");
    }

    /// Becomes the home of a file with `content` that `asker` has the lease to and no room for. Returns its length.
    ///
    /// # Errors
    /// [`Error::NoSpace`] without a tier above its watermark, [`Error::Busy`] for a file that `asker` may not write,
    /// or that has its bytes in a tier. After a failure `asker` has the lease again, unless the metadata do not answer.
    pub(crate) fn take_in(&self, asker: &NodeId, ino: InodeId, content: &[u8]) -> Result<u64> {
        self.live.reach(ino, |state| {
            state.require_ours()?;
            let inode = self.namespace.get(ino)?;
            if !matches!(inode.layout, Layout::Empty | Layout::Inline) || state.holds_lease() {
                return Err(Error::Busy("the file has a home already".into()));
            }
            state.hints = own_hints(&self.namespace, &inode)?;
            self.remote_cache.make_room();
            let Plan { home, reason, .. } = self.placing.plan_here(&state.hints, ino.0);
            let (Home::Here(tier), Reason::RoomHere) = (home, reason) else {
                return Err(full());
            };
            let owner = match self.namespace.writer(ino)? {
                Some(owner) if owner.node == *asker => owner,
                _ => return Err(Error::Busy(format!("{asker} may not write to the file"))),
            };
            self.passed.forget(ino);
            let me = self.namespace.owner();
            let passed = self.namespace.hand_over_unchanged(&inode, &owner, &me);
            if !passed.inspect_err(|error| self.passed.doubt(ino, error))? {
                return Err(Error::Busy(format!("{asker} may not write to the file")));
            }
            state.right.acquire();
            if let Err(error) = self.fill(&inode, state, tier, content) {
                self.return_to(&owner, ino, state);
                return Err(error);
            }
            state.remote_handles += 1;
            state.writers += 1;
            self.metrics.taken_in.fetch_add(1, Ordering::Relaxed);
            state.size_bytes()
        })
    }

    /// Puts `content`, which may not be recorded yet, into a backing file.
    fn fill(
        &self,
        inode: &Inode,
        state: &mut LiveState,
        tier: TierId,
        content: &[u8],
    ) -> Result<()> {
        self.following.renew_body(state, inode)?;
        let Some(is_news) = state.body.as_mut().and_then(|body| body.replace_beside(content))
        else {
            return Err(Error::Busy("the file has a home already".into()));
        };
        if is_news {
            state.overlay.note_written();
            state.overlay.mtime = Some(now());
            state.overlay.ctime = Some(now());
        }
        state.unfold_into(&self.bodies, inode.ino, tier)
    }

    /// Gives the lease back to the host that had it, with the file unchanged.
    fn return_to(&self, owner: &Owner, ino: InodeId, state: &mut LiveState) {
        state.drop_body(&self.ledger, ino);
        state.overlay = crate::inode::live::Overlay::default();
        match self.namespace.hand_over_write(ino, &self.namespace.owner(), owner) {
            Ok(_) => _ = state.right.release(),
            Err(error) => {
                tracing::warn!(%ino, %owner, %error, "a lease to write is given back later");
                state.enqueue_settle(&self.queue, ino);
            }
        }
    }

    /// Called before a file is cut to nothing, or an empty file is written: gives up its backing file here if its tier has no
    /// room even without it and another host has. From then on the file is placed like a new one.
    pub(crate) fn let_go_for_room(
        &self,
        inode: &Inode,
        state: &mut LiveState,
        is_cut: bool,
    ) -> Result<()> {
        let is_settled_here = !state.is_open()
            && state.unnamed().is_none()
            && inode.layout.copies().first() == state.own_backing().as_ref();
        if !is_settled_here || !self.may_be_handed_out(state) {
            return Ok(());
        }
        let Some(OwnFile { backing, stat, .. }) = state.own_now()? else { return Ok(()) };
        let tier = self.tiers.get(backing.tier)?;
        let held_bytes = stat.blocks_512 * 512;
        let has_room = !tier.is_low_without(held_bytes) && (held_bytes > 0 || tier.fits(1));
        if has_room
            || !(is_cut || stat.size_bytes == 0)
            || !self.has_room_elsewhere_only(inode, state)
            || !state.is_unwritten().unwrap_or(false)
        {
            return Ok(());
        }
        self.drop_content(inode, state).map(drop)
    }

    /// Called before an empty file is written: gives up its backing file here if its hints, which may have been set since it
    /// was made, wish it at another host or dealt over several. Returns its record; from then on it is placed like a new file.
    pub(crate) fn let_go_as_wished(
        &self,
        inode: &Inode,
        state: &mut LiveState,
    ) -> Result<Option<Inode>> {
        if self.placing.wish_of(&state.hints) == Wish::Maker && state.hints.dealing().is_none() {
            return Ok(None);
        }
        if state.is_open() || !self.may_be_handed_out(state) {
            return Ok(None);
        }
        let Some(OwnFile { backing, stat, .. }) = state.own_now()? else { return Ok(None) };
        if stat.size_bytes > 0
            || !state.is_unwritten().unwrap_or(false)
            || !self.is_wished_away(inode.ino, &state.hints)?
        {
            return Ok(None);
        }
        if inode.layout.copies().first() == Some(&backing) {
            return self.drop_content(inode, state).map(Some);
        }
        if state.unnamed().is_none() || inode.layout != Layout::Empty {
            return Ok(None);
        }
        self.drop_unnamed(inode.ino, state)?;
        Ok(Some(inode.clone()))
    }

    /// Whether the hints wish a new file at another host, or dealt over several.
    fn is_wished_away(&self, ino: InodeId, hints: &HintSet) -> Result<bool> {
        if self.bodies.stripes.wanted(hints)?.is_some() {
            return Ok(true);
        }
        let Plan { home, reason, .. } = self.placing.plan_for_new(hints, ino.0);
        Ok(matches!(home, Home::Elsewhere { .. }) && reason.is_wish())
    }

    /// Gives up an empty backing file that no record names.
    fn drop_unnamed(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        state.naming.name();
        let Some(LocalBody { backing, .. }) = state.release_own(&self.tiers)? else {
            return Ok(());
        };
        self.queue.reclaim(backing.tier, FreeFile::of(ino, backing.file));
        become_empty(state);
        Ok(())
    }

    /// Whether there is no room here, and another host has some.
    fn has_room_elsewhere_only(&self, inode: &Inode, state: &LiveState) -> bool {
        self.remote_cache.make_room();
        let plan = self.placing.plan_here(&state.hints, inode.ino.0);
        matches!(plan.home, Home::Elsewhere { .. })
    }

    /// Records that a file to which this host has the lease is empty and in no tier any more. Returns its record.
    pub(crate) fn drop_content(&self, inode: &Inode, state: &mut LiveState) -> Result<Inode> {
        let dropped = inode.layout.copies().to_vec();
        let mut extras = vec![Extra::HoldWritable];
        extras.extend(dropped.iter().map(|copy| Extra::PutFree(*copy)));
        if inode.checksummed {
            extras.push(Extra::DeleteChecksums { from: 0 });
        }
        let changed = self.namespace.update_with(inode.ino, &extras, |found| {
            if found.layout != inode.layout {
                return Err(Error::Busy("the file moved while it was being cut".into()));
            }
            found.layout = Layout::Empty;
            found.checksummed = false;
            (found.size_bytes, found.blocks_512) = (0, 0);
            (found.mtime, found.ctime) = (now(), now());
            Ok(())
        });
        let emptied = state.note_change(changed)?;
        for backing in dropped {
            match (self.tiers.has(backing.tier), &self.cluster) {
                (true, _) => {
                    let free = FreeFile::of(inode.ino, backing.file);
                    self.queue.reclaim(backing.tier, free);
                }
                (false, Some(cluster)) => cluster.note_garbage(backing),
                (false, None) => {}
            }
        }
        become_empty(state);
        state.record = Some(emptied.clone());
        Ok(emptied)
    }
}

/// Makes the entry that of an empty file.
fn become_empty(state: &mut LiveState) {
    state.body = Some(Body::empty());
    state.sums.forget();
    state.mark.clear();
    state.copied = None;
    state.accounted_512 = 0;
    state.overlay.size_bytes = 0;
}

/// From now on the file is written through its home, which has all that was written here.
fn hold_remotely(state: &mut LiveState, remote: RemoteFile) {
    state.overlay = crate::inode::live::Overlay::default();
    state.overlay.size_bytes = remote.size_bytes();
    state.body = Some(Body::remote(remote));
    state.sums.forget();
    state.mark.clear();
    state.right.release();
}
