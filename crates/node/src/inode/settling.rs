//! Closed files settle, and small ones go beside their inodes.
//!
//! A file has *settled* when the kernel says that nobody has it open for writing, mappings included. Until then nothing is
//! derived from its content.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use intarsia_meta::{Extra, Inode, Namespace, Owner, allowance};
use intarsia_store::BackingFile;
use intarsia_sync::Instant;
use intarsia_types::{CacheHint, Error, InodeId, Integrity, Layout, Result};

use crate::background::queue::{Queue, Summing, Waiting};
use crate::body::integrity::{checksum_extras, stored_sums, sum_file};
use crate::body::own::OwnFile;
use crate::body::{Bodies, LocalBody};
use crate::inode::copied_files::Moment;
use crate::inode::inline_total::InlineTotal;
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::publication::Publisher;
use crate::inode::reclaiming::Reclaimer;
use crate::inode::removal::Removal;
use crate::inode::rights::Rights;
use crate::inode::unawaited::limit_unawaited;
use crate::kernel::Kernel;
use crate::members::Members;
use crate::metrics::Metrics;
use crate::replication::Replicas;
use crate::replication::further::{Further, take_over_copies};
use crate::space::hints::own_hints;
use crate::space::ledger::is_uncertain;
use crate::space::placing::Placing;
use crate::space::tiers::Tiers;

/// Closed files looked at together, with several hosts.
const SETTLE_BATCH: usize = 63;
/// What becomes of the right to write when a file settles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// Nobody has the right from then on.
    Settled,
    /// Nobody has the right from then on, but another host is about to ask for it.
    Recalled,
    /// This owner gets the right in the same commit.
    PassedTo(Owner),
}

impl Release {
    pub(crate) fn extra(&self) -> Extra {
        match self {
            Self::Settled | Self::Recalled => Extra::ClearWritable,
            Self::PassedTo(heir) => Extra::PassWritable(heir.clone()),
        }
    }

    const fn summing(&self) -> Summing {
        match self {
            Self::Settled => Summing::Soon,
            Self::Recalled | Self::PassedTo(_) => Summing::AfterRest,
        }
    }
}

/// How far settling has come.
#[derive(Debug)]
pub(crate) enum Settled {
    /// Somebody may be writing to it.
    NotYet,
    /// It has settled.
    Done,
    /// It has settled, in the commit that made the record this.
    As(Box<Inode>),
}

impl Settled {
    const fn is_done(&self) -> bool {
        !matches!(self, Self::NotYet)
    }
}

impl From<bool> for Settled {
    fn from(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::NotYet }
    }
}

impl LiveState {
    /// Puts a closed file into the finalizer's queue; once.
    pub(crate) fn enqueue_settle(&mut self, queue: &Queue, ino: InodeId) {
        if self.entry.enqueue() {
            queue.settle(ino);
        }
    }
}

/// Settles closed files.
pub(crate) struct Settler {
    pub(super) members: Members,
    pub(super) namespace: Arc<Namespace>,
    pub(super) live: Arc<LiveTable>,
    pub(super) bodies: Arc<Bodies>,
    pub(super) kernel: Arc<Kernel>,
    pub(super) placing: Arc<Placing>,
    pub(super) tiers: Arc<Tiers>,
    pub(super) replicas: Arc<Replicas>,
    pub(super) rights: Arc<Rights>,
    pub(super) inline_total: Arc<InlineTotal>,
    /// The finalizer's.
    pub(super) queue: Arc<Queue>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) removal: Arc<Removal>,
    pub(super) publisher: Arc<Publisher>,
    pub(super) reclaimer: Arc<Reclaimer>,
}

impl Settler {
    /// Settles a file if the finalizer cannot keep up. Called with no lock held, before a descriptor is needed.
    pub(crate) fn help_settling(&self) {
        if let Some(waiting) = self.queue.pop_overdue()
            && let Err(e) = self.settle(waiting)
        {
            tracing::warn!(error = %e, "settling ahead of a create");
        }
    }

    /// Settles a closed file, and those that are due with it.
    pub(crate) fn settle_some(&self, first: Waiting) -> Result<()> {
        if !self.members.is_shared() || self.members.is_fenced() {
            return self.settle(first);
        }
        let mut due = vec![first];
        due.extend(self.queue.pop_due(SETTLE_BATCH));
        let inos: Vec<InodeId> = due.iter().map(|waiting| waiting.ino).collect();
        let left: HashSet<InodeId> = self.settle_folded(&inos).into_iter().collect();
        self.queue.set_pool_short(self.tiers.is_short());
        let mut outcome = Ok(());
        for waiting in due.into_iter().filter(|waiting| left.contains(&waiting.ino)) {
            if self.queue.is_stopping() {
                // The queue is stopped; the stop of the node settles what is left.
                break;
            }
            outcome = outcome.and(self.settle(waiting));
        }
        outcome
    }

    fn settle(&self, waiting: Waiting) -> Result<()> {
        let ino = waiting.ino;
        if self.members.is_fenced() {
            self.queue.retry(waiting);
            return Ok(());
        }
        if self.publisher.is_withheld(ino) {
            // Withheld for want of copies: they are made now, and the file is looked at again after that.
            self.replicas.queue.publish(ino);
            self.queue.retry(waiting);
            return Ok(());
        }
        let _limit = limit_unawaited();
        let is_settled = self.live.with_existing(ino, |state| {
            state.entry.take();
            allowance::asking_briefly(|| self.try_settle(ino, state, &Release::Settled))
        });
        match is_settled.transpose() {
            Ok(Some(false)) => {
                self.live.with_existing(ino, |state| state.entry.enqueue());
                self.queue.retry(waiting);
                Ok(())
            }
            Ok(_) | Err(Error::NotFound) => Ok(()),
            Err(e) => {
                // The file keeps its mark in the namespace, so the next start tries again.
                tracing::error!(%ino, error = %e, "a closed file could not be settled");
                if self.members.is_shared() {
                    // Other hosts would have to wait until then, so it is tried again here.
                    let reconciled = self.rights.reconcile_if_taken(ino);
                    self.live.with_existing(ino, |state| state.entry.enqueue());
                    self.queue.retry(waiting);
                    reconciled?;
                }
                Err(e)
            }
        }
    }

    /// Settles at once whatever can be, for a clean stop.
    pub(crate) fn settle_now(&self, ino: InodeId) -> Result<()> {
        let settled = |state: &mut LiveState| self.try_settle(ino, state, &Release::Settled);
        match self.live.with_existing(ino, settled).transpose() {
            Err(Error::NotFound) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Whether the file has settled (or is open again, and not ours to settle).
    pub(crate) fn try_settle(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        release: &Release,
    ) -> Result<bool> {
        self.settle_and_tell(ino, state, release).map(|settled| settled.is_done())
    }

    /// As [`try_settle`](Self::try_settle), but returns the new record too.
    pub(super) fn settle_and_tell(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        release: &Release,
    ) -> Result<Settled> {
        let outcome = self.settle_entry(ino, state, release);
        state.note_change(outcome)
    }

    fn settle_entry(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        release: &Release,
    ) -> Result<Settled> {
        if state.is_open() || !(state.mark.is_unsettled() || state.holds_lease()) {
            return Ok(Settled::Done);
        }
        if state.unnamed().is_some() {
            return self.settle_one_folded(ino, state, release).map(Settled::from);
        }
        if state.overlay.is_dirty {
            // A close could not record it; once the right to write is gone it cannot be recorded any more.
            self.publisher.persist(ino, state)?;
        }
        let Some(known) = self.rights.known_record(state) else {
            let inode = self.rights.recorded(ino, state)?;
            return self.settle_as(&inode, state, release);
        };
        match self.settle_as(&known, state, release) {
            Err(Error::NotFound) => self.rights.recorded(ino, state).and(Err(Error::NotFound)),
            outcome => outcome,
        }
    }

    /// `inode` is what the record said a moment ago, or when this host changed it last.
    fn settle_as(
        &self,
        inode: &Inode,
        state: &mut LiveState,
        release: &Release,
    ) -> Result<Settled> {
        let ino = inode.ino;
        let copies = inode.layout.copies();
        if copies.is_empty() || copies.iter().any(|copy| self.tiers.has(copy.tier)) {
            // If its bytes are elsewhere there is nothing here to settle, and they may be lost, with former disks of this host.
            state.load_body(&self.bodies, inode)?;
        }
        if state.mark.is_foreign() {
            // Nobody has opened the file since this node started, so its hints were not read yet.
            state.hints = own_hints(&self.namespace, inode)?;
        }
        state.close_writer();
        let Some(stat) = state.own_stat()? else {
            return self.end_right(inode, state, release);
        };
        let settled = match self.try_fold(ino, state, stat.size_bytes, release)? {
            Some(folded) => folded,
            None if !state.is_unwritten()? => return Ok(Settled::NotYet),
            None => match self.record_settled(inode, state, release)? {
                Some(recorded) => recorded,
                None => return Ok(Settled::NotYet),
            },
        };
        self.metrics.settled.fetch_add(1, Ordering::Relaxed);
        state.mark.clear();
        state.right.release();
        state.backing.resolve();
        state.body = None;
        state.sums.unload();
        self.queue.set_pool_short(self.tiers.is_short());
        Ok(Settled::As(Box::new(settled)))
    }

    /// Ends the right to write a file that has no bytes in a file here: a crash came between folding it and clearing its mark, or
    /// the lease is to a file beside its inode.
    fn end_right(
        &self,
        inode: &Inode,
        state: &mut LiveState,
        release: &Release,
    ) -> Result<Settled> {
        let ino = inode.ino;
        let mut extras = state.lease_extras(self.members.is_shared());
        extras.push(release.extra());
        let settled = self.namespace.change_known(inode, |_, more| {
            more.extend_from_slice(&extras);
            Ok(())
        });
        let settled = settled.inspect_err(|error| {
            if is_uncertain(error) && state.holds_lease() && !state.overlay.is_dirty {
                // Another host may have the right by now. No bytes are here, so the entry can just be dropped.
                state.mark.clear();
                state.body = None;
                self.rights.give_lease_back(ino, state);
            }
        })?;
        state.mark.clear();
        state.right.release();
        state.body = None;
        if state.publishing.take_lacking() {
            self.replicas.queue.add(ino, settled.size_bytes);
        }
        Ok(Settled::As(Box::new(settled)))
    }

    /// Records that the file has settled. `known` is the record as of a moment ago; returns the new one, or `None` if the
    /// content is withheld from now on.
    fn record_settled(
        &self,
        known: &Inode,
        state: &mut LiveState,
        release: &Release,
    ) -> Result<Option<Inode>> {
        let ino = known.ino;
        let Some(OwnFile { backing: home, file, stat }) = state.own_now()? else {
            return Err(Error::BadHandle);
        };
        self.tiers.get(home.tier)?.account(state.accounted_512, stat.blocks_512);
        state.accounted_512 = stat.blocks_512;
        let was_written = stat.ctime > state.seen_ctime;
        let is_in_doubt = state.mark.is_foreign() && known.layout.copies().len() > 1;
        let is_same = if state.copied.is_some() {
            state.is_copied(ino)?
        } else if is_in_doubt {
            // The process that wrote the file is gone. Times do not tell: attributes may have changed after its writes.
            !was_written && self.is_as_recorded(known, &file)?
        } else {
            !was_written
        };
        let has_copies = known.layout.copies().len() > 1;
        // A file without a name needs no copies: its record is gone, or about to go.
        let is_named = !state.names.is_orphan();
        if !is_same && has_copies && is_named && state.awaits_copies(&self.placing, Moment::Sync) {
            // A safe close may have promised the content of the copies, so they stay named until there are new ones. Another
            // host that wants to write does so through this one meanwhile.
            state.publishing.withhold();
            return Ok(None);
        }
        let mut extras = state.lease_extras(self.members.is_shared());
        extras.push(release.extra());
        let is_strict = state.hints.integrity() == Integrity::Strict;
        match (state.sums.get(), is_strict) {
            (Some(sums), true) => extras.extend(checksum_extras(sums)),
            _ => self.queue.sum_later(ino, release.summing()),
        }
        let is_news = state.publishing.is_withheld() || !is_same;
        let has_no_sums = state.sums.are_none();
        let mut dropped = Vec::new();
        let inode = self.namespace.change_known(known, |inode, more| {
            more.extend_from_slice(&extras);
            let further = if is_news { Vec::new() } else { inode.layout.copies().to_vec() };
            dropped = take_over_copies(&mut inode.layout, home, Further::Kept(&further), more)?;
            inode.size_bytes = stat.size_bytes;
            inode.blocks_512 = stat.blocks_512;
            inode.checksummed &= !has_no_sums;
            if state.has_newer_mtime(stat.ctime, inode) {
                inode.mtime = stat.mtime;
                inode.ctime = inode.ctime.max(stat.ctime);
            }
            Ok(())
        })?;
        self.replicas.note_dropped(&dropped);
        let lacked = state.publishing.take_lacking();
        if lacked || inode.layout.copies().len() != self.placing.copies_wanted(&state.hints) {
            self.replicas.queue.add(ino, stat.size_bytes);
        }
        Ok(Some(inode))
    }

    /// Whether a file has the sums that are stored with its record.
    fn is_as_recorded(&self, known: &Inode, file: &BackingFile) -> Result<bool> {
        let may_be = known.checksummed && file.stat()?.size_bytes == known.size_bytes;
        Ok(may_be && sum_file(file)? == stored_sums(&self.namespace, known.ino)?)
    }

    /// Moves a small body beside its inode and gives the backing file back, if nobody else has it open. Returns the new record.
    ///
    /// If nobody else has the file open nobody can write to it either, so its length is asked once that is sure; `size_bytes`,
    /// from before, only saves the attempt for large files.
    fn try_fold(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        size_bytes: u64,
        release: &Release,
    ) -> Result<Option<Inode>> {
        if !self.placing.goes_inline(&state.hints, size_bytes, || self.inline_total.bytes())
            || state.may_be_held_by_others()
        {
            return Ok(None);
        }
        let Some(OwnFile { backing, stat, .. }) = state.own_now()? else { return Ok(None) };
        if stat.size_bytes > self.placing.inline_max_bytes() {
            return Ok(None);
        }
        let len = usize::try_from(stat.size_bytes).unwrap_or(0);
        let Some(bytes) = state.own_content(len)? else { return Ok(None) };
        let mut extras = state.lease_extras(self.members.is_shared());
        extras.push(release.extra());
        let mut dropped = Vec::new();
        if self.namespace.records_reserved_files() {
            // Only where the ledger has the files of pools too: this one goes to the pool below. In a store of several hosts a
            // crash in between leaves a file that no record names, which the next start looks for.
            extras.push(Extra::PutFree(backing));
        }
        if !bytes.is_empty() {
            extras.push(Extra::PutBody(bytes.as_slice().into()));
        }
        let folded = self.namespace.change(ino, |inode, more| {
            more.extend_from_slice(&extras);
            dropped = inode.layout.copies().to_vec();
            dropped.retain(|copy| *copy != backing);
            more.extend(dropped.iter().map(|copy| Extra::PutFree(*copy)));
            inode.layout = if bytes.is_empty() { Layout::Empty } else { Layout::Inline };
            inode.size_bytes = bytes.len() as u64;
            inode.blocks_512 = bytes.len().div_ceil(512) as u64;
            if state.has_newer_mtime(stat.ctime, inode) {
                inode.mtime = stat.mtime;
                inode.ctime = inode.ctime.max(stat.ctime);
            }
            Ok(())
        })?;
        self.replicas.note_dropped(&dropped);
        self.metrics.folded.fetch_add(1, Ordering::Relaxed);
        // The kernel's pages from passthrough are those of the backing file; the next reader would find none. Nobody has
        // the file open, so no request for it can be waiting for this thread.
        if let Some(page_cache) = self.kernel.page_cache()
            && !bytes.is_empty()
            && state.hints.cache() != Some(CacheHint::None)
        {
            page_cache(ino, &bytes);
        }
        if let Some(LocalBody { ro, .. }) = state.release_own(&self.tiers)? {
            self.reclaimer.give_back(ino, backing, ro)?;
        }
        Ok(Some(folded))
    }

    /// Waits until every closed file has settled and been summed, or the deadline has passed.
    #[must_use]
    pub(crate) fn wait_until_settled(&self, deadline: impl Into<Instant>) -> bool {
        let deadline = deadline.into();
        while Instant::now() < deadline {
            let is_busy = self.live.entries().iter().any(|l| l.lock().entry.is_queued());
            if !is_busy && self.queue.is_at_rest() {
                return true;
            }
            intarsia_sync::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}
