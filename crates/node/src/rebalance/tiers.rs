//! Moving files between the tiers of this host: so that each holds bytes in proportion to its speed, or because the hint `tier`
//! of a file asks for another class.

use std::collections::BTreeMap;
use std::sync::Arc;

use intarsia_meta::{Extra, FreeFile, Inode, Namespace, allowance};
use intarsia_policy::{Room, Speeds, Transfer, check_speeds, plan_balance};
use intarsia_store::{BackingFile, BackingStat, Tier};
use intarsia_types::{BackingRef, Error, InodeId, Layout, Result, TierId};
use intarsia_wire::Request;

use crate::background::queue::{Queue, Waiting};
use crate::body::integrity::{stored_sums, sum_file};
use crate::clock::{TICK, is_ticked};
use crate::inode::attempt::Attempt;
use crate::inode::lease::{Content, Leases};
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::settling::{Release, Settler};
use crate::inode::{InodeParts, Inodes};
use crate::members::Members;
use crate::membership::cluster::Cluster;
use crate::replication::Replicas;
use crate::replication::copies::Copies;
use crate::space::hints::own_hints;
use crate::space::ledger::Ledger;
use crate::space::placing::Placing;
use crate::space::tiers::{Filling, Tiers};

use super::fetch::Fetched;
use super::mover::{
    MoveOptions, MoveProgress, MoveReport, Mover, Place, TOLERANCE_PERCENT, bytes_of, errands_of,
};

impl Mover {
    /// What would have to move between the tiers of this host so that they hold bytes in proportion to `speeds`. A tier is named by
    /// its directory.
    ///
    /// # Errors
    /// [`Error::Invalid`] if no speeds are given, or speeds of other tiers than those of this host.
    pub(crate) fn plan_tiers(&self, speeds: &Speeds<String>) -> Result<Vec<Transfer<String>>> {
        if speeds.is_empty() {
            return Err(Error::Invalid("tiers are filled by their speeds: none is given".into()));
        }
        let rooms = self.tier_rooms();
        check_speeds(&rooms, speeds, "tier")
            .map_err(|problem| Error::Invalid(problem.to_string()))?;
        Ok(plan_balance(&rooms, speeds, TOLERANCE_PERCENT))
    }

    /// Moves files from tiers that hold more than their share to tiers that hold less; see [`Self::plan_tiers`].
    ///
    /// # Errors
    /// Those of the plan and the engine's own. Files that could not move are in the report and are no error.
    pub(crate) fn balance_tiers(
        &self,
        speeds: &Speeds<String>,
        options: MoveOptions,
        progress: &mut dyn FnMut(MoveProgress),
    ) -> Result<MoveReport> {
        let plan = self.plan_tiers(speeds)?;
        let ids: BTreeMap<String, TierId> =
            self.tiers.iter().map(|tier| (name_of(tier), tier.id())).collect();
        let mut files: BTreeMap<String, Vec<(InodeId, u64)>> = BTreeMap::new();
        let givers: Vec<_> = ids
            .iter()
            .filter(|(dir, _)| plan.iter().any(|transfer| transfer.from == **dir))
            .collect();
        self.namespace.each_inode(|inode| {
            let Some(own) = self.copies.own(&inode) else { return };
            if let Some((dir, _)) = givers.iter().find(|(_, tier)| **tier == own.tier) {
                files.entry((*dir).clone()).or_default().push((inode.ino, bytes_of(&inode)));
            }
        })?;
        let errands = errands_of(&plan, files, |dir| Place::Tier(ids[dir]));
        self.move_all(errands, options, progress)
    }

    /// The room in the tiers of this host, without the overflow: that is only for files for which no tier has room.
    fn tier_rooms(&self) -> Vec<Room<String>> {
        let states = self.tiers.states();
        let is_overflow =
            |tier: &Tier| states.iter().any(|state| state.id == tier.id() && state.is_overflow);
        let room = |tier: &Tier| Room {
            place: name_of(tier),
            capacity_bytes: tier.space().capacity_bytes,
            free_bytes: tier.space().free_bytes,
        };
        self.tiers.iter().filter(|tier| !is_overflow(tier)).map(room).collect()
    }
}

/// Moves single files into other tiers of this host.
pub(crate) struct TierChanges {
    members: Members,
    /// The other hosts, in a store of several.
    cluster: Option<Arc<Cluster>>,
    namespace: Arc<Namespace>,
    live: Arc<LiveTable>,
    tiers: Arc<Tiers>,
    placing: Arc<Placing>,
    copies: Arc<Copies>,
    ledger: Arc<Ledger>,
    replicas: Arc<Replicas>,
    leases: Arc<Leases>,
    settler: Arc<Settler>,
    /// The finalizer's.
    queue: Arc<Queue>,
}

impl TierChanges {
    /// Built with the parts that live inodes are made of, and with what changes these.
    pub(crate) fn new(of: &InodeParts, inode: &Inodes) -> Self {
        Self {
            members: of.members.clone(),
            cluster: of.cluster.clone(),
            namespace: Arc::clone(&of.namespace),
            live: Arc::clone(&of.live),
            tiers: Arc::clone(&of.tiers),
            placing: Arc::clone(&of.placing),
            copies: Arc::clone(&of.copies),
            ledger: Arc::clone(&of.ledger),
            replicas: Arc::clone(&of.replicas),
            leases: Arc::clone(&inode.leases),
            settler: Arc::clone(&inode.settler),
            queue: Arc::clone(&of.queue),
        }
    }

    /// Called when a file has got a hint on its tier: has its home move it there as soon as no program has it open. An inline body
    /// goes there only once it is moved to a backing file.
    pub(crate) fn follow_tier(&self, ino: InodeId) {
        let is_written_here = self.live.with_existing(ino, |state| state.own_file().is_some());
        let Ok(inode) = self.namespace.get(ino) else { return };
        let home = inode.layout.backing();
        if is_written_here == Some(true) || home.is_some_and(|home| self.tiers.has(home.tier)) {
            self.queue.change_tier(ino);
        } else if let (Some(home), Some(cluster)) = (home, &self.cluster) {
            let host = cluster.home_of(home.tier);
            let told = host.and_then(|host| cluster.tell(&host, &Request::FollowTier { ino }));
            if let Err(error) = told {
                tracing::info!(%ino, %error, "the home of a file was not told of its hint; set it again");
            }
        }
    }

    /// Moves a file of this host into the tier that its hints ask for; tries again later if a program has it open.
    pub(crate) fn change_tier_as_hinted(&self, waiting: Waiting) -> Result<()> {
        let ino = waiting.ino;
        let inode = match self.namespace.get(ino) {
            Err(Error::NotFound) => return Ok(()),
            found => found?,
        };
        let Some(home) = inode.layout.backing().filter(|home| self.tiers.has(home.tier)) else {
            if self.live.with_existing(ino, |state| state.own_file().is_some()) == Some(true) {
                // The file has been written here, but its record does not name the backing file yet.
                self.queue.change_tier_later(waiting);
            }
            return Ok(());
        };
        let hints = own_hints(&self.namespace, &inode)?;
        let Some(to) = self.placing.tier_as_hinted(&hints, home.tier, inode.size_bytes) else {
            return Ok(());
        };
        match allowance::asking_briefly(|| self.change_tier(ino, to)) {
            Ok(Fetched::Here) => tracing::debug!(%ino, tier = %to, "a file followed its hint"),
            Ok(_) | Err(Error::Busy(_)) => self.queue.change_tier_later(waiting),
            // The file was removed, has become inline, or has moved to another host.
            Err(Error::NotFound) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Moves a file of this host that no program has open into another of its tiers. It is copied with its entry unlocked, so that
    /// no call has to wait; if the file is opened or changed meanwhile, it stays where it is.
    ///
    /// # Errors
    /// [`Error::NotFound`] if this host has no copy in a tier, [`Error::NoSpace`], [`Error::Busy`] if the file changed meanwhile,
    /// [`Error::Corrupt`] if the copy differs from the file; the engine's or the disk's own.
    pub(super) fn change_tier(&self, ino: InodeId, to: TierId) -> Result<Fetched> {
        if self.members.is_shared() {
            self.members.await_membership()?;
        }
        let Some(inode) = self.settled(ino)? else { return Ok(Fetched::InUse) };
        // The file may have become inline, or have moved to another host.
        let from = self.copies.own(&inode).ok_or(Error::NotFound)?;
        if from.tier == to {
            return Ok(Fetched::Here);
        }
        let tier = self.tiers.get(to)?;
        if tier.is_low() || !tier.fits(inode.size_bytes) {
            return Err(Error::NoSpace(format!("tier {} has no room for it", name_of(tier))));
        }
        let copying = self.begin(inode, from, to)?;
        let outcome = self.copy_compared(&copying).and_then(|()| self.put_in_place(&copying));
        let left = match &outcome {
            Ok(Fetched::Here) => return outcome,
            Ok(_) => self.discard(&copying, &Error::Busy("it is in use".into())),
            Err(error) => self.discard(&copying, error),
        };
        left.and(outcome)
    }

    /// The record of a file that no program has open, after all that was written is recorded; none if the file is in use.
    fn settled(&self, ino: InodeId) -> Result<Option<Inode>> {
        self.live.reach(ino, |state| {
            if !self.settles(ino, state)? {
                return Ok(None);
            }
            self.namespace.get(ino).map(Some)
        })
    }

    /// Settles the file if no program has it open. Whether it has settled; a file that is withheld has not, because its record is
    /// of an older content until its copies are made.
    fn settles(&self, ino: InodeId, state: &mut LiveState) -> Result<bool> {
        Ok(!state.is_open()
            && !state.publishing.is_withheld()
            && self.settler.try_settle(ino, state, &Release::Settled)?)
    }

    /// Opens the file, and takes an empty one for the copy in the tier `to`. Waits first, if the file was changed just now, until a
    /// further change would show in its times.
    fn begin(&self, inode: Inode, from: BackingRef, to: TierId) -> Result<Copying> {
        let source = self.tiers.get(from.tier)?.open_file(from.file, false)?;
        let mut seen = source.stat()?;
        if !is_ticked(seen.ctime) {
            intarsia_sync::thread::sleep(TICK);
            seen = source.stat()?;
        }
        if !is_ticked(seen.ctime) {
            return Err(Error::Busy("the file is being written to".into()));
        }
        let (to, file) = self.tiers.take_file(to, &self.namespace)?;
        let filling = self.tiers.fill(to);
        Ok(Copying { inode, from, source, seen, to, file, _filling: filling })
    }

    /// Copies the file and reads the copy again, to compare it with the stored sums, or with the file itself if it has none.
    fn copy_compared(&self, copying: &Copying) -> Result<()> {
        let Copying { inode, source, file, to, .. } = copying;
        self.ledger.copy_from(*to, |buffer, at| {
            if self.queue.is_stopping() {
                return Err(Error::Busy("the node is about to stop".into()));
            }
            source.read_at(buffer, at)
        })?;
        let wanted = match inode.checksummed {
            true => stored_sums(&self.namespace, inode.ino)?,
            false => sum_file(source)?,
        };
        if sum_file(file)? != wanted {
            copying.require_unchanged()?;
            // A writer has the sums removed before it writes, in a commit that makes a new version; then nothing is damaged.
            if self.namespace.get(inode.ino)?.version != inode.version {
                return Err(Error::Busy("the file was opened while it was being moved".into()));
            }
            let what = "a copy in another tier differs from what was written".to_owned();
            return Err(Error::Corrupt { ino: inode.ino, what });
        }
        self.tiers.force_out(file)
    }

    /// Has the record name the copy in place of the file, if that has not changed. A crash before that commit leaves the copy as a
    /// free file, and one after it the old file.
    fn put_in_place(&self, copying: &Copying) -> Result<Fetched> {
        let ino = copying.inode.ino;
        self.leases.with_live(ino, |state| {
            if !self.settles(ino, state)? {
                return Ok(Attempt::Done(Fetched::InUse));
            }
            let inode = match self.leases.prepare(ino, state, Some(Content::Kept))? {
                Attempt::Again(retry) => return Ok(Attempt::Again(retry)),
                Attempt::Done(inode) => inode,
            };
            if state.writes_remotely() {
                // The file is open at another host, which only lets this host write through it.
                state.body = None;
                return Ok(Attempt::Done(Fetched::InUse));
            }
            let placed = self.record_copy(copying, &inode, state);
            if state.holds_lease() {
                state.enqueue_settle(&self.queue, ino);
            }
            placed.map(|()| Attempt::Done(Fetched::Here))
        })
    }

    fn record_copy(&self, copying: &Copying, inode: &Inode, state: &mut LiveState) -> Result<()> {
        let Copying { from, to, file, .. } = copying;
        if self.copies.own(inode) != Some(*from) {
            return Err(Error::Busy("the file moved while it was being copied".into()));
        }
        copying.require_unchanged()?;
        // The record's present time, which a program may have set since the copy was begun.
        file.set_mtime(inode.mtime)?;
        let (tier, blocks_512) = (self.tiers.get(to.tier)?, file.stat()?.blocks_512);
        // The last step that may fail: after it the copy is the file's backing file.
        self.record_tier(inode, state, *from, *to)?;
        tier.account(0, blocks_512);
        state.body = None;
        state.sums.unload();
        state.accounted_512 = 0;
        if self.members.is_shared() {
            self.replicas.note_dropped(&[*from]);
        } else {
            self.queue.reclaim(from.tier, FreeFile::of(inode.ino, from.file));
        }
        Ok(())
    }

    /// Removes a copy that was not recorded because of `error`; if the commit may have been made, it is kept as an in-doubt file.
    fn discard(&self, copying: &Copying, error: &Error) -> Result<()> {
        self.ledger.discard_unrecorded(copying.inode.ino, copying.to, error)
    }

    fn record_tier(
        &self,
        inode: &Inode,
        state: &mut LiveState,
        from: BackingRef,
        to: BackingRef,
    ) -> Result<()> {
        let mut extras = state.lease_extras(self.members.is_shared());
        extras.extend([Extra::TakeFree(to), Extra::PutFree(from)]);
        let copies = inode.layout.copies().iter();
        let copies: Vec<_> = copies.map(|copy| if *copy == from { to } else { *copy }).collect();
        let recorded = self.namespace.change(inode.ino, |now, more| {
            if now.layout != inode.layout || now.size_bytes != inode.size_bytes {
                return Err(Error::Busy("the file changed while it was being moved".into()));
            }
            more.extend_from_slice(&extras);
            now.layout = Layout::of_copies(copies.clone());
            Ok(())
        })?;
        state.record = Some(recorded);
        Ok(())
    }
}

/// A file on its way into another tier.
struct Copying {
    /// Its record when the copy was begun.
    inode: Inode,
    from: BackingRef,
    source: BackingFile,
    /// Length and times of the source when the copy was begun; any later write changes its `ctime`.
    seen: BackingStat,
    to: BackingRef,
    file: BackingFile,
    _filling: Filling,
}

impl Copying {
    /// # Errors
    /// [`Error::Busy`] if the source has changed since the copy was begun.
    fn require_unchanged(&self) -> Result<()> {
        let now = self.source.stat()?;
        if (now.size_bytes, now.ctime) == (self.seen.size_bytes, self.seen.ctime) {
            return Ok(());
        }
        Err(Error::Busy("the file changed while it was being moved".into()))
    }
}

/// The name of a tier for users: its directory, as for `intarsia up --tier`.
fn name_of(tier: &Tier) -> String {
    tier.dir().display().to_string()
}
