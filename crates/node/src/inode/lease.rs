//! Who may write to a file, when several hosts work in one store.
//!
//! One host at a time holds the lease to write, which is the mark that the file may be being written (see
//! `intarsia_meta`'s `lease`). It keeps it until the file has settled after its last close. Another host
//! that wants to write recalls it. While the file is open at its holder the other writes through that
//! host; else the lease moves, and the bytes with it: the home of a file is where it was written last.

use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::{Inode, Namespace, Owner, WriteLease, allowance};
use intarsia_policy::IoMode;
use intarsia_sync::Instant;
use intarsia_types::{BackingRef, Error, FileKind, InodeId, Layout, NodeId, Result};

use crate::background::queue::Queue;
use crate::body::remote::{RemoteFile, is_of_the_host};
use crate::body::{Bodies, Body};
use crate::cache::far_pages::FarPages;
use crate::cache::vouch::{PeerOpening, being_told};
use crate::inode::ahead::{Ahead, TRIES};
use crate::inode::attempt::{Attempt, Retry};
use crate::inode::creations::Creations;
use crate::inode::elsewhere::Elsewhere;
use crate::inode::followers::Followers;
use crate::inode::following::Following;
use crate::inode::handed::{Asked, Handed};
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::moving::Moving;
use crate::inode::passed::Passed;
use crate::inode::removal::Removal;
use crate::inode::rights::Rights;
use crate::inode::settling::Settler;
use crate::inode::unawaited::limit_what_is_left;
use crate::membership::cluster::Cluster;
use crate::membership::homes::require_some_copy;
use crate::replication::Replicas;
use crate::replication::copies::Copies;
use crate::space::hints::own_hints;
use crate::space::placing::Placing;
use crate::space::tiers::Tiers;

/// How long an open tries to get a lease while other hosts pass it between them.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long the holder of a lease may take to answer.
pub(crate) const HOLDER_PATIENCE: Duration = Duration::from_secs(2);
/// How long the home of a file may take to answer.
pub(crate) const HOME_PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two looks whether a reader by passthrough here, or the writer elsewhere, has closed the file.
const PASSED: Duration = Duration::from_millis(50);
/// The pause before a file that is just moving is looked for again.
const MOVING: Duration = Duration::from_millis(5);

/// What an open for writing is about to do with the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Keep it.
    Kept,
    /// Drop it all.
    Dropped,
}

/// Gets this host the right to write, and passes it on.
pub(crate) struct Leases {
    pub(super) namespace: Arc<Namespace>,
    pub(super) live: Arc<LiveTable>,
    /// The other hosts, in a store of several.
    pub(super) cluster: Option<Arc<Cluster>>,
    pub(super) bodies: Arc<Bodies>,
    pub(super) placing: Arc<Placing>,
    pub(super) tiers: Arc<Tiers>,
    pub(super) replicas: Arc<Replicas>,
    pub(super) rights: Arc<Rights>,
    /// The finalizer's.
    pub(super) queue: Arc<Queue>,
    pub(super) removal: Arc<Removal>,
    pub(super) copies: Arc<Copies>,
    pub(super) following: Arc<Following>,
    pub(super) moving: Arc<Moving>,
    pub(super) followers: Arc<Followers>,
    pub(super) elsewhere: Arc<Elsewhere>,
    pub(super) passed: Arc<Passed>,
    pub(super) far_pages: Arc<FarPages>,
    pub(super) creations: Arc<Creations>,
    pub(super) settler: Arc<Settler>,
}

impl Leases {
    /// Repeats `attempt` on the locked live entry until it is done, letting go of the entry in between.
    pub(crate) fn with_live<T>(
        &self,
        ino: InodeId,
        mut attempt: impl FnMut(&mut LiveState) -> Result<Attempt<T>>,
    ) -> Result<T> {
        let mut deadline = Instant::now() + allowance::of(PATIENCE);
        let (mut ahead, mut fetched) = (Ahead::default(), 0);
        loop {
            let attempted = self.live.reach(ino, |state| {
                ahead.lend(state, |state| {
                    attempt(state).inspect_err(|_| self.rights.leave_right(ino, state))
                })
            });
            match attempted? {
                Attempt::Done(value) => return Ok(value),
                Attempt::Again(Retry::Fetched(_)) if fetched == TRIES => ahead = Ahead::Refused,
                Attempt::Again(Retry::Fetched(wanted)) => {
                    // A long file takes as long as its link needs: that is no waiting for other hosts.
                    let begun = Instant::now();
                    ahead = self.moving.fetch_ahead(&wanted)?;
                    deadline += begun.elapsed();
                    allowance::extend(begun.elapsed());
                    fetched += 1;
                }
                Attempt::Again(Retry::Later { after, error }) => {
                    if Instant::now() + after >= deadline {
                        return Err(error);
                    }
                    intarsia_sync::thread::sleep(after);
                }
            }
        }
    }

    /// Prepares the entry for an open: its body becomes that of the record, and with `write` this host gets the right to
    /// write, or opens the file for writing at the host that has it.
    pub(crate) fn prepare(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        write: Option<Content>,
    ) -> Result<Attempt<Inode>> {
        let Some(cluster) = &self.cluster else {
            return self.regular(ino).map(Attempt::Done);
        };
        state.require_ours()?;
        match self.following.end_writing_elsewhere(ino, state) {
            // An open for writing goes on: it may get the bytes together with the right to write.
            Err(error) if write.is_some() && is_of_the_host(&error) => {}
            ended => ended?,
        }
        let Some(content) = write else {
            if !state.is_open() {
                // The file stays open, and its reader would go on reading what another host may have changed.
                self.rights.confirm_lease(ino, state)?;
            }
            let inode = self.regular(ino)?;
            self.renew_stamp(&inode, state);
            let renewed = self.following.renew_body(state, &inode);
            return match renewed.and_then(|()| state.require_whole_copy(&inode)) {
                // The file moved after its record was read; or a program that reads an older copy here by passthrough is
                // about to close it.
                Err(error @ Error::Busy(_)) => {
                    Ok(Attempt::Again(Retry::Later { after: MOVING, error }))
                }
                Err(error) if is_of_the_host(&error) && state.body.is_none() => self
                    .following
                    .read_elsewhere(&inode, state, error)
                    .map(|()| Attempt::Done(inode)),
                outcome => outcome.map(|()| Attempt::Done(inode)),
            };
        };
        if state.writes_without_right() {
            let inode = self.regular(ino)?;
            state.renew_stripes(&inode);
            return Ok(Attempt::Done(inode));
        }
        self.rights.confirm_lease(ino, state)?;
        if state.holds_lease() || state.writes_remotely() {
            return self.regular(ino).map(Attempt::Done);
        }
        match self.ask_for_right(cluster, ino, state)? {
            Asked::Held(inode, handed) => {
                self.use_right(cluster, &inode, state, content, handed.as_deref())
            }
            Asked::Unneeded(inode) => {
                check_regular(&inode)?;
                state.write_stripes(&self.bodies.stripes, &inode)?;
                Ok(Attempt::Done(*inode))
            }
            Asked::HeldBy(holder) => self.take_lease_over(cluster, &holder, ino, content),
            Asked::InUse(holder) => self.write_through(cluster, holder, ino, state),
            Asked::Again(retry) => Ok(Attempt::Again(retry)),
        }
    }

    /// The metadata say that this host may write: prepares the entry for that.
    fn use_right(
        &self,
        cluster: &Arc<Cluster>,
        inode: &Inode,
        state: &mut LiveState,
        content: Content,
        handed: Option<&Handed>,
    ) -> Result<Attempt<Inode>> {
        let ino = inode.ino;
        check_regular(inode)?;
        state.right.acquire();
        match self.stripe_new(cluster, inode, state) {
            Ok(None) => {}
            Ok(Some(inode)) => return Ok(Attempt::Done(inode)),
            Err(error) => {
                self.rights.give_lease_back(ino, state);
                return Err(error);
            }
        }
        let outcome = match self.settle_in(cluster, inode, state, content, handed) {
            // The file moved once more, or a program that has an older copy open here is about to close it.
            Err(error @ Error::Busy(_)) => {
                Ok(Attempt::Again(Retry::Later { after: MOVING, error }))
            }
            outcome => outcome,
        };
        if !matches!(outcome, Ok(Attempt::Done(_))) || state.writes_remotely() {
            let _limit = outcome.is_err().then(limit_what_is_left);
            self.rights.give_lease_back(ino, state);
        }
        outcome
    }

    /// Makes a file striped that has no bytes, if its hints say so; this host has the lease to it, which ends with that.
    pub(crate) fn stripe_new(
        &self,
        cluster: &Arc<Cluster>,
        inode: &Inode,
        state: &mut LiveState,
    ) -> Result<Option<Inode>> {
        let Some((wish, hints)) = self.bodies.stripes.wanted_by(inode)? else { return Ok(None) };
        let inode = self.bodies.stripes.lay(cluster, inode, wish, &hints)?;
        state.right.release();
        state.write_stripes(&self.bodies.stripes, &inode)?;
        Ok(Some(inode))
    }

    /// When to try again to write to a long file of the lower file system: once its content was copied.
    pub(crate) fn after_lower_copy(
        &self,
        ino: InodeId,
        state: &LiveState,
    ) -> Result<Option<Retry>> {
        Ok(self.moving.lower_wanted_ahead(ino, state)?.map(Retry::Fetched))
    }

    /// Asks the home of a file that is open here once more to vouch for its content, if it did not at the open.
    fn renew_stamp(&self, inode: &Inode, state: &mut LiveState) {
        let is_unsure = |remote: &Arc<RemoteFile>| !self.far_pages.is_vouched(inode.ino, remote);
        if state.read_through().is_some_and(is_unsure)
            && let Err(error) = self.following.replace_body(state, inode)
        {
            tracing::debug!(ino = %inode.ino, %error, "read as it is open");
        }
    }

    pub(super) fn regular(&self, ino: InodeId) -> Result<Inode> {
        let inode = self.namespace.get(ino)?;
        check_regular(&inode)?;
        Ok(inode)
    }

    /// The holder's life is over: frees its lease, unless the content is needed and only that host has it. The same commit
    /// takes that host's copy out of the record: what it wrote and did not publish must never be taken for the file.
    fn take_lease_over(
        &self,
        cluster: &Cluster,
        holder: &Owner,
        ino: InodeId,
        content: Content,
    ) -> Result<Attempt<Inode>> {
        if content == Content::Kept {
            // If all copies are lost the mark stays: only the lost host knows what the file has become.
            require_some_copy(cluster, &self.regular(ino)?)?;
        }
        // If the holder is an earlier life of this host, its copy is in a tier here, and stays in the record.
        let is_his = |copy: &BackingRef| {
            !self.tiers.has(copy.tier)
                && cluster.home_of(copy.tier).is_ok_and(|home| home == holder.node)
        };
        if let Some(dropped) = self.namespace.take_over_write(ino, holder, is_his)? {
            tracing::warn!(%ino, %holder, "took over the right to write from a host that is gone");
            self.replicas.note_dropped(&dropped);
            if !dropped.is_empty() {
                // The host that settles the file makes its copies; if nobody gets the right, this host does.
                self.replicas.queue.add(ino, 0);
            }
        }
        Ok(Attempt::Again(Retry::contended(Duration::ZERO)))
    }

    /// Opens the file for writing at the host that has the right. That is tried again later while that host tells readers of
    /// the file that it is about to be written, or while the file moves.
    pub(super) fn write_through(
        &self,
        cluster: &Arc<Cluster>,
        holder: NodeId,
        ino: InodeId,
        state: &mut LiveState,
    ) -> Result<Attempt<Inode>> {
        if state.handles > 0 && state.mode == IoMode::Passthrough {
            // All who have a file open share its I/O mode: with passthrough the kernel would not send the writes here.
            return Ok(Attempt::Again(Retry::after(
                PASSED,
                "another host is writing to the file, which is open here for reading past the process",
            )));
        }
        let remote = match RemoteFile::open(cluster, holder, ino, true) {
            Err(error @ Error::Busy(_)) => {
                return Ok(Attempt::Again(Retry::Later { after: MOVING, error }));
            }
            opened => opened?,
        };
        let inode = self.regular(ino)?;
        // Hints are read when the body is loaded, and only then.
        state.hints = own_hints(&self.namespace, &inode)?;
        state.overlay.size_bytes = remote.size_bytes();
        state.body = Some(Body::remote(remote));
        state.sums.unload();
        state.record = Some(inode.clone());
        Ok(Attempt::Done(inode))
    }

    /// Opens a file for another host: one whose bytes are here, or that is being written here. With `follower` that host may
    /// keep what it reads.
    pub(crate) fn open_for_peer(
        &self,
        ino: InodeId,
        may_write: bool,
        follower: Option<&NodeId>,
    ) -> Result<PeerOpening> {
        self.live.reach_for(ino, allowance::of(HOME_PATIENCE), |state| {
            let opened = self.open_live_for_peer(ino, may_write, follower, state);
            opened.inspect_err(|_| self.rights.leave_right(ino, state))
        })
    }

    fn open_live_for_peer(
        &self,
        ino: InodeId,
        may_write: bool,
        follower: Option<&NodeId>,
        state: &mut LiveState,
    ) -> Result<PeerOpening> {
        state.require_ours()?;
        if may_write && self.followers.recall_followers(ino, state).is_some() {
            // The asker's own kernel may have pages to drop first, so the asker unlocks its entry and tries again.
            return Err(being_told());
        }
        let known = if may_write { None } else { self.rights.known_record(state) };
        let inode = known.map_or_else(|| self.regular(ino), Ok)?;
        let served = match may_write {
            _ if matches!(inode.layout, Layout::Striped { .. }) => {
                return Err(Error::Busy("the file is striped now; open its parts".into()));
            }
            true => inode.layout.backing(),
            false => self.copies.own(&inode).or(inode.layout.backing()),
        };
        let is_elsewhere = served.is_some_and(|backing| !self.tiers.has(backing.tier));
        if is_elsewhere || state.writes_remotely() {
            return Err(Error::Busy("the file has moved to another host".into()));
        }
        self.following.renew_body(state, &inode)?;
        require_here(state, &inode)?;
        if may_write {
            self.rights.confirm_lease(ino, state)?;
        }
        if may_write && !state.holds_lease() {
            match self.passed.acquire_write(&self.namespace, ino)? {
                WriteLease::Held(_) => _ = state.right.acquire(),
                WriteLease::HeldBy(_) | WriteLease::Unneeded(_) => {
                    return Err(Error::Busy("the file is written at another host".into()));
                }
            }
        }
        if may_write {
            state.mark_unsettled(&self.bodies, ino)?;
        }
        state.remote_handles += 1;
        state.writers += u32::from(may_write);
        let size_bytes = state.size_bytes()?;
        let (stamp, pinned) =
            follower.map_or((0, None), |reader| self.followers.follow_up(ino, state, reader));
        Ok(PeerOpening { size_bytes, stamp, pinned })
    }
}

/// EIO if the file is read from another host because the copy here is broken (see [`Following::read_elsewhere`]).
pub(super) fn require_here(state: &LiveState, inode: &Inode) -> Result<()> {
    if state.read_through().is_none() {
        return Ok(());
    }
    Err(Error::Corrupt { ino: inode.ino, what: "the copy here cannot be opened".into() })
}

fn check_regular(inode: &Inode) -> Result<()> {
    match inode.kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(Error::IsDirectory),
        _ => Err(Error::NotSupported("opening a special file through the store")),
    }
}
