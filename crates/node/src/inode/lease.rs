//! Who may write to a file, when several hosts work in one store.
//!
//! One host at a time holds the lease to write, which is the mark that the file may be being written (see
//! `intarsia_meta`'s `lease`). It keeps it until the file has settled after its last close. Another host
//! that wants to write recalls it. While the file is open at its holder the other writes through that
//! host; else the lease moves, and the bytes with it: the home of a file is where it was written last.

use std::sync::Arc;
use std::time::{Duration, Instant};

use intarsia_meta::{Extra, FreeFile, Inode, Owner, WriteLease, allowance};
use intarsia_policy::IoMode;
use intarsia_types::{BackingRef, Error, FileKind, InodeId, Layout, NodeId, Result};

use crate::body::remote::RemoteFile;
use crate::body::{Body, LocalBody};
use crate::cache::vouch::{PeerOpening, being_told};
use crate::inode::live::LiveState;
use crate::membership::cluster::{Cluster, Recalled};
use crate::membership::lost::require_some_copy;
use crate::node::Node;
use crate::replication::copies::is_of_the_host;
use crate::replication::replicate::take_over_copies;

/// How long an open tries to get a lease that keeps moving.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long a holder of a lease may take to answer, and when one that did not is asked again.
const HOLDER_PATIENCE: Duration = Duration::from_secs(2);
const SILENT: Duration = Duration::from_millis(200);
/// How long the home of a file may take to answer.
const HOME_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks whether a reader past the process, or the writer elsewhere, has closed the file.
const PASSED: Duration = Duration::from_millis(50);
/// A file that is just moving is looked for again after so long.
const MOVING: Duration = Duration::from_millis(5);
/// Read from another host at once while a file moves here.
const MOVE_BYTES: usize = 1 << 20;

/// An attempt that may have to be made again, with the entry let go of in between.
pub(crate) enum Attempt<T> {
    /// It is done.
    Done(T),
    /// Not yet.
    Again(Retry),
}

/// When to try again, and what is to be said when there is no time left for that.
pub(crate) struct Retry {
    after: Duration,
    error: Error,
}

impl Retry {
    /// In a moment; `why` nothing came of it if it takes too long.
    pub(crate) fn after(after: Duration, why: &str) -> Self {
        Self { after, error: Error::Busy(why.into()) }
    }

    /// Others are at it.
    fn contended(after: Duration) -> Self {
        Self { after, error: Error::Busy("other hosts keep writing to the file".into()) }
    }
}

/// What an open for writing is about to do with the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Keep it.
    Kept,
    /// Drop it all.
    Dropped,
}

impl Node {
    /// Repeats `attempt` on the locked live entry until it is done, letting go of the entry in between.
    pub(crate) fn with_live<T>(
        &self,
        ino: InodeId,
        mut attempt: impl FnMut(&mut LiveState) -> Result<Attempt<T>>,
    ) -> Result<T> {
        let deadline = Instant::now() + allowance::of(PATIENCE);
        loop {
            match self.live.with(ino, &mut attempt)? {
                Attempt::Done(value) => return Ok(value),
                Attempt::Again(retry) if Instant::now() + retry.after < deadline => {
                    std::thread::sleep(retry.after);
                }
                Attempt::Again(retry) => return Err(retry.error),
            }
        }
    }

    /// Makes the entry fit for an open: its body is that of the record, and with `write` this host may
    /// write, or writes through the host that may.
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
        let Some(content) = write else {
            let inode = self.regular(ino)?;
            self.renew_stamp(&inode, state);
            return match self.renew_body(state, &inode) {
                // It moved between the record and the question to its home; or who has an older copy open here, past the
                // process, is about to close it.
                Err(error @ Error::Busy(_)) => Ok(Attempt::Again(Retry { after: MOVING, error })),
                Err(error) if is_of_the_host(&error) && state.body.is_none() => {
                    self.read_elsewhere(&inode, state, error).map(|()| Attempt::Done(inode))
                }
                outcome => outcome.map(|()| Attempt::Done(inode)),
            };
        };
        if state.writes_stripes() {
            let inode = self.regular(ino)?;
            Self::renew_stripes(state, &inode);
            return Ok(Attempt::Done(inode));
        }
        self.confirm_lease(ino, state)?;
        if state.holds_lease || state.writes_remotely() {
            return self.regular(ino).map(Attempt::Done);
        }
        match self.namespace.acquire_write(ino)? {
            WriteLease::Held(inode) => {
                check_regular(&inode)?;
                state.holds_lease = true;
                match self.stripe_new(cluster, &inode, state) {
                    Ok(None) => {}
                    Ok(Some(inode)) => return Ok(Attempt::Done(inode)),
                    Err(error) => {
                        self.give_lease_back(ino, state);
                        return Err(error);
                    }
                }
                let outcome = match self.settle_in(cluster, &inode, state, content) {
                    // It moved once more meanwhile, or who has an older copy open here is about to close it.
                    Err(error @ Error::Busy(_)) => {
                        Ok(Attempt::Again(Retry { after: MOVING, error }))
                    }
                    outcome => outcome,
                };
                if !matches!(outcome, Ok(Attempt::Done(_))) || state.writes_remotely() {
                    self.give_lease_back(ino, state);
                }
                outcome
            }
            WriteLease::Unneeded(inode) => {
                check_regular(&inode)?;
                self.write_stripes(&inode, state)?;
                Ok(Attempt::Done(*inode))
            }
            WriteLease::HeldBy(holder) if cluster.is_over(&holder) => {
                self.take_lease_over(cluster, &holder, ino, content)
            }
            WriteLease::HeldBy(holder) => self.ask_holder(cluster, &holder.node, ino, state),
        }
    }

    /// Makes a file striped that has no bytes and is to be so, with the lease to it, which goes.
    fn stripe_new(
        &self,
        cluster: &Arc<Cluster>,
        inode: &Inode,
        state: &mut LiveState,
    ) -> Result<Option<Inode>> {
        let Some((wish, hints)) = self.is_to_be_striped(inode)? else { return Ok(None) };
        let inode = self.lay_stripes(cluster, inode, wish, &hints)?;
        state.holds_lease = false;
        self.write_stripes(&inode, state)?;
        Ok(Some(inode))
    }

    /// Asks the home of a file that is open here anew whether it vouches for what is read, if it did not.
    fn renew_stamp(&self, inode: &Inode, state: &mut LiveState) {
        let is_unsure =
            |remote: &Arc<RemoteFile>| !remote.may_write() && !self.is_vouched(inode.ino, remote);
        if state.remote().is_some_and(is_unsure)
            && let Err(error) = self.replace_body(state, inode)
        {
            tracing::debug!(ino = %inode.ino, %error, "read as it is open");
        }
    }

    fn regular(&self, ino: InodeId) -> Result<Inode> {
        let inode = self.namespace.get(ino)?;
        check_regular(&inode)?;
        Ok(inode)
    }

    fn ask_holder(
        &self,
        cluster: &Arc<Cluster>,
        holder: &NodeId,
        ino: InodeId,
        state: &mut LiveState,
    ) -> Result<Attempt<Inode>> {
        match cluster.recall(holder, ino, HOLDER_PATIENCE) {
            Ok(Recalled::Released) => Ok(Attempt::Again(Retry::contended(Duration::ZERO))),
            Ok(Recalled::Later(pause)) => Ok(Attempt::Again(Retry::contended(pause))),
            Ok(Recalled::InUse) => self.write_through(cluster, holder.clone(), ino, state),
            // Either it answers again soon, or it is declared lost, and then its lease is.
            Err(error) => Ok(Attempt::Again(Retry { after: SILENT, error })),
        }
    }

    /// The holder's life is over: its lease is free for whoever needs none of the bytes that went with it. Its copy goes
    /// in the same commit: whatever comes next, nobody takes for published what it wrote.
    fn take_lease_over(
        &self,
        cluster: &Cluster,
        holder: &Owner,
        ino: InodeId,
        content: Content,
    ) -> Result<Attempt<Inode>> {
        if content == Content::Kept {
            // If all copies are lost its mark stays: only its home can tell what the file has become.
            require_some_copy(cluster, &self.regular(ino)?)?;
        }
        // A life of this host before has left nothing that is not known here.
        let is_his = |copy: &BackingRef| {
            !self.tiers.has(copy.tier)
                && cluster.home_of(copy.tier).is_ok_and(|home| home == holder.node)
        };
        if let Some(dropped) = self.namespace.take_over_write(ino, holder, is_his)? {
            tracing::warn!(%ino, %holder, "took over the right to write from a host that is gone");
            self.note_dropped(&dropped);
        }
        Ok(Attempt::Again(Retry::contended(Duration::ZERO)))
    }

    /// The lease is held: brings the bytes here, if they are elsewhere.
    fn settle_in(
        &self,
        cluster: &Arc<Cluster>,
        inode: &Inode,
        state: &mut LiveState,
        content: Content,
    ) -> Result<Attempt<Inode>> {
        let foreign = inode.layout.backing().filter(|backing| !self.tiers.has(backing.tier));
        let own = self.own_copy(inode);
        let Some(backing) = foreign else {
            self.renew_body(state, inode)?;
            if state.is_passed() && state.kept().is_some() {
                // What the kernel reads is the file that it writes to.
                return self.bring_home(cluster, &[], inode, state, content).map(Attempt::Done);
            }
            require_here(state, inode)?;
            return Ok(Attempt::Done(inode.clone()));
        };
        let home = cluster.home_of(backing.tier)?;
        if state.is_passed() {
            // What the kernel reads may be a copy that is not the file's any more.
            self.renew_body(state, inode)?;
        }
        let own = own.filter(|_| !(state.is_passed() && state.kept().is_some()));
        match (cluster.recall(&home, inode.ino, HOME_PATIENCE), content) {
            (Ok(Recalled::Later(pause)), _) => Ok(Attempt::Again(Retry::contended(pause))),
            (Ok(Recalled::InUse), _) => {
                // Whoever reads there keeps reading the same file, so that is where it is written.
                self.give_lease_back(inode.ino, state);
                self.write_through(cluster, home, inode.ino, state)
            }
            (recalled, _) if let Some(own) = own => {
                // What the old home holds may be more than it published, unless it could be asked.
                let given_up = recalled.is_err().then_some(backing);
                self.become_home(inode, own, given_up, state).map(Attempt::Done)
            }
            (Ok(Recalled::Released) | Err(_), Content::Dropped) if !self.tiers.have_room() => {
                self.drop_content(inode, state)?;
                self.regular(inode.ino).map(Attempt::Done)
            }
            (Ok(Recalled::Released), Content::Kept) if !self.tiers.have_room() => {
                // It stays where it is.
                self.give_lease_back(inode.ino, state);
                self.write_through(cluster, home, inode.ino, state)
            }
            (Ok(Recalled::Released), _) | (Err(_), Content::Dropped) => {
                let source = std::slice::from_ref(&home);
                self.bring_home(cluster, source, inode, state, content).map(Attempt::Done)
            }
            (Err(error), Content::Kept) => {
                let hosts = self.hosts_of(inode)?;
                match hosts.split_first() {
                    Some((_, others @ [_, ..])) => {
                        self.bring_home(cluster, others, inode, state, content).map(Attempt::Done)
                    }
                    _ => Err(error),
                }
            }
        }
    }

    /// Makes this host, which has a copy, the home of a file that nobody writes to. The other copies stay
    /// named, for they hold what is published, but for `given_up`.
    fn become_home(
        &self,
        inode: &Inode,
        own: BackingRef,
        given_up: Option<BackingRef>,
        state: &mut LiveState,
    ) -> Result<Inode> {
        let others: Vec<_> =
            inode.layout.copies().iter().copied().filter(|copy| Some(*copy) != given_up).collect();
        let mut dropped = Vec::new();
        let moved = self.namespace.change(inode.ino, |now, extras| {
            if now.layout != inode.layout {
                return Err(Error::Busy("the file moved while it was being moved".into()));
            }
            extras.push(Extra::HoldWritable);
            dropped = take_over_copies(now, own, &others, extras)?;
            Ok(())
        })?;
        self.note_dropped(&dropped);
        self.renew_body(state, &moved)?;
        Ok(moved)
    }

    /// Copies a file that nobody writes to from the first of `sources` that serves it to a tier here, which
    /// becomes its home.
    pub(crate) fn bring_home(
        &self,
        cluster: &Arc<Cluster>,
        sources: &[NodeId],
        inode: &Inode,
        state: &mut LiveState,
        content: Content,
    ) -> Result<Inode> {
        state.hints = self.own_hints(inode)?;
        let (new, is_whole) = self.place_for(inode, state)?;
        let backing = new.backing;
        let copied = match content {
            Content::Kept if !is_whole && sources.is_empty() => {
                self.copy_present(inode, backing).map(|_| ())
            }
            Content::Kept if !is_whole => self
                .open_elsewhere(cluster, inode, sources)
                .and_then(|source| self.copy_whole(&Arc::new(source), inode, backing)),
            _ => Ok(()),
        };
        let moved = copied.and_then(|()| self.record_move(inode, backing, content));
        let (moved, dropped) = match moved {
            Ok(moved) => moved,
            Err(error) => {
                drop(new);
                self.discard_unrecorded(inode.ino, backing, &error)?;
                return Err(error);
            }
        };
        self.note_dropped(&dropped);
        state.body = Some(Body::Local(new));
        state.sums = None;
        state.is_checksummed = false;
        state.is_unsettled = true;
        state.overlay.size_bytes = moved.size_bytes;
        state.accounted_512 = 0;
        self.account(state)?;
        state.mark_seen();
        state.record = Some(moved.clone());
        Ok(moved)
    }

    /// The file here that is to hold a file of another host, and whether it has the content already.
    fn place_for(&self, inode: &Inode, state: &LiveState) -> Result<(LocalBody, bool)> {
        let is_open = state.handles > 0 && state.mode == IoMode::Passthrough;
        let open = state.kept().filter(|_| is_open);
        match (self.take_kept(inode, open.is_some()), open) {
            (Some(kept), None) => Ok(kept),
            (Some((kept, is_true)), Some(open)) if kept.backing == open.backing => {
                Ok((kept, is_true))
            }
            (_, Some(_)) => Err(Error::Busy(
                "an older copy of the file is open here for reading past the process".into(),
            )),
            (None, None) => {
                self.remote_cache.make_room();
                let tier = self.tiers.choose(state.hints.tier())?;
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
        let size_bytes = self.copy_here(source, backing)?;
        if size_bytes == inode.size_bytes {
            return Ok(());
        }
        let (home, wanted_bytes) = (source.home(), inode.size_bytes);
        let what = format!("{size_bytes} bytes came from {home}, not {wanted_bytes}");
        Err(Error::Corrupt { ino: inode.ino, what })
    }

    /// Makes a backing file here what `source` is; how long that is.
    pub(crate) fn copy_here(&self, source: &Arc<RemoteFile>, backing: BackingRef) -> Result<u64> {
        self.copy_from(backing, |buffer, at| source.read_at(buffer, at))
    }

    /// As [`copy_here`](Self::copy_here), from what `read` reads.
    pub(crate) fn copy_from(
        &self,
        backing: BackingRef,
        read: impl Fn(&mut [u8], u64) -> Result<usize>,
    ) -> Result<u64> {
        let target = self.tiers.get(backing.tier)?.open_file(backing.file, true)?;
        let mut buffer = vec![0; MOVE_BYTES];
        let mut at = 0;
        loop {
            let n = read(&mut buffer, at)?;
            if n == 0 {
                break;
            }
            target.write_all_at(&buffer[..n], at)?;
            at += n as u64;
        }
        target.set_len(at)?;
        Ok(at)
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
        // Nor does a host have two copies.
        let is_kept = |copy: &BackingRef| {
            content == Content::Kept && Some(*copy) != home && !self.tiers.has(copy.tier)
        };
        let (kept, dropped): (Vec<_>, Vec<_>) =
            inode.layout.copies().iter().copied().partition(is_kept);
        let mut extras = vec![Extra::HoldWritable, Extra::TakeFree(new)];
        extras.extend((inode.layout == Layout::Inline).then_some(Extra::DeleteBody));
        extras.extend(dropped.iter().map(|copy| Extra::PutFree(*copy)));
        let copies: Vec<_> = std::iter::once(new).chain(kept).collect();
        let moved = self.namespace.update_with(inode.ino, &extras, |now| {
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

    /// Opens the file for writing at the host that may, unless it is to be tried again: it is telling readers of the file
    /// that it is about to be written, or the file is moving.
    fn write_through(
        &self,
        cluster: &Arc<Cluster>,
        holder: NodeId,
        ino: InodeId,
        state: &mut LiveState,
    ) -> Result<Attempt<Inode>> {
        if state.handles > 0 && state.mode == IoMode::Passthrough {
            // The kernel reads and writes a file past the process for all who have it open, or for none.
            return Ok(Attempt::Again(Retry::after(
                PASSED,
                "another host is writing to the file, which is open here for reading past the process",
            )));
        }
        let remote = match RemoteFile::open(cluster, holder, ino, true) {
            Err(error @ Error::Busy(_)) => {
                return Ok(Attempt::Again(Retry { after: MOVING, error }));
            }
            opened => opened?,
        };
        state.overlay.size_bytes = remote.size_bytes();
        state.body = Some(Body::Remote(Arc::new(remote)));
        state.sums = None;
        self.regular(ino).map(Attempt::Done)
    }

    /// Lets others write again, after nothing came of it here.
    pub(crate) fn give_lease_back(&self, ino: InodeId, state: &mut LiveState) {
        if !std::mem::take(&mut state.holds_lease) {
            return;
        }
        let extras = [Extra::HoldWritable, Extra::ClearWritable];
        if let Err(error) = self.namespace.update_with(ino, &extras, |_| Ok(())) {
            tracing::debug!(%ino, %error, "a lease to write was not given back");
        }
    }

    /// Has the body be that of the record, unless it is being written here.
    pub(crate) fn renew_body(&self, state: &mut LiveState, inode: &Inode) -> Result<()> {
        if state.writes_stripes() {
            Self::renew_stripes(state, inode);
            return Ok(());
        }
        if self.is_outdated(state, inode)? {
            state.hints = self.own_hints(inode)?;
            self.replace_body(state, inode)?;
        }
        if state.body.is_none() {
            state.hints = self.own_hints(inode)?;
            // Another host's orphan is not for this one to remove.
            state.is_orphan |= inode.nlink == 0 && !self.is_shared();
            self.load_body(state, inode)?;
        }
        state.record = Some(inode.clone());
        state.followed_at = Some(Instant::now());
        Ok(())
    }

    /// Makes the body that of the record. If the file was removed or changed again meanwhile, what is open stays
    /// readable as it was.
    fn replace_body(&self, state: &mut LiveState, inode: &Inode) -> Result<()> {
        let doubtful = state.doubtful();
        let mut old =
            (state.body.take(), state.record.replace(inode.clone()), state.is_checksummed);
        let loaded = self.load_body(state, inode);
        if loaded.is_ok() {
            self.note_former(state, old.0.take());
        }
        if state.is_open() && matches!(loaded, Err(Error::NotFound | Error::Busy(_))) {
            (state.body, state.record, state.is_checksummed) = old;
            return loaded;
        }
        if let Some(backing) = doubtful {
            self.doubt(backing, FreeFile::of(inode.ino, backing.file), state.accounted_512);
        }
        state.is_doubtful = false;
        if state.is_served_by_us() && !self.has_true_pages(inode.ino, state) {
            self.old_pages.note(inode.ino);
        }
        loaded
    }

    /// Whether another host has changed the file since its body was read. What is being written here is newer than
    /// any record.
    fn is_outdated(&self, state: &mut LiveState, inode: &Inode) -> Result<bool> {
        let is_known = state.record.as_ref().is_some_and(|known| known.version == inode.version);
        let is_ours = state.is_unsettled || state.overlay.is_dirty || state.writes_remotely();
        let is_kept_true = |kept: &LocalBody| self.is_kept_true(inode, kept.backing);
        let is_known = is_known && state.kept().is_none_or(is_kept_true);
        if state.body.is_none() || is_ours || is_known {
            return Ok(false);
        }
        let is_passed = state.is_passed();
        let is_named = |local: &LocalBody| inode.layout.copies().contains(&local.backing);
        if is_passed && state.local().is_some_and(|local| !is_named(local)) {
            self.keep_dropped(inode, state)?;
        }
        let stays = match &state.body {
            // A copy that is named is of what the record says: copies are replaced, never changed.
            Some(Body::Local(local)) => is_named(local),
            // While it is open the kernel can be told of no other file.
            Some(Body::Kept(kept)) if is_passed => {
                if !is_kept_true(kept) {
                    self.renew_kept(inode, kept).map_err(|error| self.explained(inode, error))?;
                }
                true
            }
            // The file has a place of its own here now.
            Some(Body::Kept(_)) if self.own_copy(inode).is_some() => false,
            Some(Body::Kept(kept)) => is_kept_true(kept),
            _ => false,
        };
        if !stays && is_passed {
            return Err(Error::Busy(
                "another host has moved the file while it is open here; close it first".into(),
            ));
        }
        state.sums = None;
        state.is_checksummed = stays && inode.checksummed && state.kept().is_none();
        Ok(!stays)
    }

    /// Goes over to what another host has made of a file that is open here. At once, for if it is removed next it is to
    /// stay readable. Not a file that is written here: dropping the kernel's pages while it asks for a length keeps it from
    /// taking that, and who holds a lock would not see to the end.
    pub(crate) fn follow(&self, state: &mut LiveState, inode: &Inode) -> Result<()> {
        if !self.is_shared()
            || !state.is_served_by_us()
            || state.holds_lease
            || state.writes_stripes()
            || state.is_quarantined
        {
            return Ok(());
        }
        let followed = match self.is_outdated(state, inode) {
            Ok(true) => self.replace_body(state, inode),
            Ok(false) => Ok(()),
            // Removed meanwhile; it stays as it was.
            Err(Error::NotFound) => return Ok(()),
            Err(error) => return Err(error),
        };
        match followed {
            Ok(()) => state.followed_at = Some(Instant::now()),
            Err(error) => {
                tracing::debug!(ino = %inode.ino, %error, "whoever reads the file tries again");
            }
        }
        Ok(())
    }

    /// Opens a file for another host, for one that keeps what it reads if there is a `follower`: a file whose bytes are
    /// here, or that is being written here.
    pub(crate) fn open_for_peer(
        &self,
        ino: InodeId,
        may_write: bool,
        follower: Option<&NodeId>,
    ) -> Result<PeerOpening> {
        self.live.with(ino, |state| {
            state.require_ours()?;
            if may_write && self.recall_followers(ino, state).is_some() {
                // Its own kernel may have pages, so it lets go of its entry meanwhile.
                return Err(being_told());
            }
            let inode = self.regular(ino)?;
            let served = match may_write {
                _ if matches!(inode.layout, Layout::Striped { .. }) => {
                    return Err(Error::Busy("the file is striped now; open its parts".into()));
                }
                true => inode.layout.backing(),
                false => self.own_copy(&inode).or(inode.layout.backing()),
            };
            let is_elsewhere = served.is_some_and(|backing| !self.tiers.has(backing.tier));
            if is_elsewhere || state.writes_remotely() {
                return Err(Error::Busy("the file has moved to another host".into()));
            }
            self.renew_body(state, &inode)?;
            require_here(state, &inode)?;
            if may_write {
                self.confirm_lease(ino, state)?;
            }
            if may_write && !state.holds_lease {
                match self.namespace.acquire_write(ino)? {
                    WriteLease::Held(_) => state.holds_lease = true,
                    WriteLease::HeldBy(_) | WriteLease::Unneeded(_) => {
                        return Err(Error::Busy("the file is written at another host".into()));
                    }
                }
            }
            if may_write {
                self.mark_unsettled(ino, state)?;
            }
            state.remote_handles += 1;
            state.writers += u32::from(may_write);
            let size_bytes = state.size_bytes()?;
            let (stamp, pinned) =
                follower.map_or((0, None), |reader| self.follow_up(ino, state, reader));
            Ok(PeerOpening { size_bytes, stamp, pinned })
        })
    }

    /// Gives back the right to write to a file whose entry, which the caller has locked, does not know of it: it was
    /// asked for, and the answer was lost.
    pub(crate) fn release_unknown(&self, ino: InodeId) -> Result<()> {
        if self.namespace.writer(ino)?.as_ref() == Some(&self.namespace.owner()) {
            tracing::warn!(%ino, "gave back a right to write that nothing here knew of");
            let extras = [Extra::HoldWritable, Extra::ClearWritable];
            self.namespace.update_with(ino, &extras, |_| Ok(()))?;
        }
        Ok(())
    }

    /// Another host wants to write, or to take the bytes to itself.
    pub(crate) fn give_up(&self, ino: InodeId) -> Result<Recalled> {
        /// A second attempt after so long, while somebody is busy with the entry here.
        const SOON: Duration = Duration::from_millis(20);
        let outcome = self.live.try_with(ino, SOON, |state| {
            if state.striped().is_some() {
                // There is no lease any more.
                return Ok(Recalled::Released);
            }
            if state.is_open() {
                return Ok(Recalled::InUse);
            }
            if !state.holds_lease && !state.is_unsettled {
                if !self.creations.is_stranger(ino) {
                    return Ok(Recalled::Later(SOON));
                }
                self.release_unknown(ino)?;
            } else if !self.try_settle(ino, state)? {
                // Somebody has it mapped still.
                return Ok(Recalled::InUse);
            }
            Ok(Recalled::Released)
        });
        match outcome {
            None => Ok(Recalled::Later(SOON)),
            Some(Err(Error::NotFound)) => Ok(Recalled::Released),
            Some(outcome) => outcome,
        }
    }
}

/// That the bytes are not read from another host because the copy here is broken (see `Node::read_elsewhere`).
fn require_here(state: &LiveState, inode: &Inode) -> Result<()> {
    if state.remote().is_none_or(|remote| remote.may_write()) {
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
