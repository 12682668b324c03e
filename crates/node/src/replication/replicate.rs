//! Further copies of a file's content on other hosts.
//!
//! The record names the home's backing file first, then the copies. A copy holds the content as of the last
//! publication and is never changed: to publish another content, new copies are made beside the old ones, and
//! one commit names the new and puts the old into the ledger. So until that commit all hosts agree on the old
//! content, and from then on all of them have the new one; whichever host is lost, one of the two is whole.
//!
//! With `close=safe`, and for `fsync`, the publication waits for its copies. Else it names the home alone, and
//! they are made in the background (see [`crate::replication::replicator`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use intarsia_meta::{Extra, Inode};
use intarsia_store::{BackingFile, BackingStat};
use intarsia_types::{
    BackingRef, CloseMode, Error, InodeId, Integrity, NodeId, Result, TierClass, Timestamp,
};
use rustix::io::Errno;

use crate::background::throttle::Pace;
use crate::body::integrity::checksum_extras;
use crate::clock::TICK;
use crate::inode::live::LiveState;
use crate::membership::cluster::Cluster;
use crate::node::Node;
use crate::replication::further::{Further, take_over_copies};
use crate::replication::push::{CopySource, piece_sum, push};

/// From this length on it is cheaper to wait for the clock to tick than to read the file twice.
const WAIT_FOR_TICK_BYTES: u64 = 4 << 20;

/// When content is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A program closes the file.
    Close,
    /// A program calls `fsync`.
    Sync,
}

/// The content that the copies on other hosts hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    size_bytes: u64,
    /// The change time of the home's file just before it was read.
    ctime: Timestamp,
    /// Over the pieces.
    sum: u64,
    /// Whatever changes the file later changes the time too: the clock had ticked before the file was read.
    is_exact: bool,
}

/// What is published once the copies are made.
struct Publication {
    file: Arc<BackingFile>,
    backing: BackingRef,
    class: TierClass,
    stat: BackingStat,
    mtime: Option<Timestamp>,
    ctime: Option<Timestamp>,
    strict_sums: Vec<Extra>,
    record: Inode,
    copied: Option<Copied>,
    wanted: usize,
}

/// New copies, and why there are not more.
pub(crate) struct Made {
    pub(crate) copies: Vec<BackingRef>,
    failures: Vec<(NodeId, Error)>,
    sum: u64,
}

impl Node {
    fn awaits_copies(&self, state: &LiveState, moment: Moment) -> bool {
        let is_promised = match state.hints.close_asked() {
            Some(mode) => mode == CloseMode::Safe,
            None => moment == Moment::Sync,
        };
        is_promised
            && state.holds_lease()
            && state.local().is_some()
            && self.placing.copies_wanted(&state.hints) > 1
    }

    /// Whether publishing the file's content now waits for other hosts.
    pub(crate) fn publishes_copies(&self, ino: InodeId, moment: Moment) -> bool {
        self.is_shared()
            && self.live.with_existing(ino, |s| self.awaits_copies(s, moment)).unwrap_or(false)
    }

    /// Whether a closed file is not published yet for want of copies.
    pub(crate) fn is_withheld(&self, ino: InodeId) -> bool {
        let withheld = |state: &mut LiveState| state.publishing.is_withheld() && !state.is_open();
        self.live.with_existing(ino, withheld).unwrap_or(false)
    }

    /// Publishes what was written, with as many copies as the file is to have.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or EHOSTUNREACH when there are not enough hosts for them. Then other hosts see what
    /// they saw before, unless at least one copy was made.
    pub(crate) fn publish_copies(&self, ino: InodeId) -> Result<()> {
        let outcome = self.with_right(ino, || self.try_publish_copies(ino));
        if outcome.is_err() {
            // Others see the old content, which has its copies, until this one has.
            self.live.with_existing(ino, |state| match state.holds_lease() {
                true => state.publishing.withhold(),
                false => state.publishing.publish(),
            });
        }
        outcome
    }

    fn try_publish_copies(&self, ino: InodeId) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let _turn = self.copying.lock(ino).ok_or_else(|| others_copy(ino))?;
        let Some(publication) = self
            .live
            .with_existing(ino, |state| self.begin_publication(ino, state))
            .transpose()?
            .flatten()
        else {
            return Ok(());
        };
        let publication = self.wait_for_tick(publication)?;
        let source = publication.source(ino);
        let is_exact = is_ticked(publication.stat.ctime);
        let old = publication.record.layout.copies();
        if let Some(copied) = publication.copied
            && copied.size_bytes == publication.stat.size_bytes
            && old.len() >= publication.wanted
            && !copied.is_exact
            && copied.sum == piece_sum(&source)?
        {
            let copied = Copied { ctime: publication.stat.ctime, is_exact, ..copied };
            match self.end_publication(cluster, ino, &publication, Further::Kept(old), copied) {
                // One was given up while this host compared.
                Err(Error::Busy(_)) => {}
                outcome => return outcome,
            }
        }
        let count = publication.wanted - 1;
        let made = self.make_copies(cluster, &source, &[], count, Pace::Now)?;
        let copied = Copied {
            size_bytes: publication.stat.size_bytes,
            ctime: publication.stat.ctime,
            sum: made.sum,
            is_exact,
        };
        if made.copies.is_empty() {
            return Err(self.too_few(ino, &publication, &made));
        }
        self.end_publication(cluster, ino, &publication, Further::Made(&made.copies), copied)?;
        if made.copies.len() < count {
            return Err(self.too_few(ino, &publication, &made));
        }
        Ok(())
    }

    /// What there is to publish with copies, if anything.
    fn begin_publication(
        &self,
        ino: InodeId,
        state: &mut LiveState,
    ) -> Result<Option<Publication>> {
        if !self.awaits_copies(state, Moment::Sync) && !self.awaits_copies(state, Moment::Close) {
            // Another host has it by now, or it is gone.
            if !state.holds_lease() {
                state.publishing.publish();
            }
            return Ok(None);
        }
        let wanted = self.placing.copies_wanted(&state.hints);
        let record = self.namespace.get(ino);
        let record = match record {
            Err(Error::NotFound) => {
                // Nobody is to see it any more, so that nothing keeps it from settling.
                state.names.lose();
                state.publishing.publish();
                state.overlay.is_dirty = false;
                return Ok(None);
            }
            other => other?,
        };
        let is_changed = state.publishing.is_withheld()
            || state.overlay.is_dirty
            || state.has_changed_unseen()?;
        // What stands beside the inode has its copies there.
        let has_copies = record.layout.copies().len() >= wanted || state.unnamed().is_some();
        if !is_changed && has_copies {
            return Ok(None);
        }
        state.notice_writes(&self.kernel)?;
        let Some(local) = state.local() else { return Ok(None) };
        let is_strict = state.hints.integrity() == Integrity::Strict;
        let home_class = self.tiers.get(local.backing.tier)?.class();
        Ok(Some(Publication {
            stat: local.ro.stat()?,
            file: Arc::clone(&local.ro),
            backing: local.backing,
            class: state.hints.tier().unwrap_or(home_class),
            mtime: state.overlay.mtime,
            ctime: state.overlay.ctime,
            strict_sums: match state.sums.get() {
                Some(sums) if is_strict => checksum_extras(sums),
                _ => Vec::new(),
            },
            record,
            copied: state.copied,
            wanted,
        }))
    }

    /// For a long file: has the clock tick, so that the file's change time tells later whether it is still
    /// what was read.
    fn wait_for_tick(&self, publication: Publication) -> Result<Publication> {
        let is_long = publication.stat.size_bytes >= WAIT_FOR_TICK_BYTES;
        if !is_long || is_ticked(publication.stat.ctime) {
            return Ok(publication);
        }
        intarsia_sync::thread::sleep(TICK);
        Ok(Publication { stat: publication.file.stat()?, ..publication })
    }

    /// Whether the copies on other hosts hold what the home's file holds now, as far as this host made them.
    pub(crate) fn is_copied(&self, ino: InodeId, state: &LiveState) -> Result<bool> {
        let (Some(copied), Some(local)) = (state.copied, state.local()) else { return Ok(false) };
        let stat = local.ro.stat()?;
        if copied.is_of(&stat) {
            return Ok(true);
        }
        if copied.is_exact || copied.size_bytes != stat.size_bytes {
            return Ok(false);
        }
        let source = CopySource {
            ino,
            version: 0,
            file: &local.ro,
            size_bytes: stat.size_bytes,
            sums: None,
            class: TierClass::Disk,
        };
        Ok(copied.sum == piece_sum(&source)?)
    }

    /// Tells the hosts of files that went into the ledger.
    pub(crate) fn note_dropped(&self, dropped: &[BackingRef]) {
        let Some(cluster) = &self.cluster else { return };
        for backing in dropped {
            if self.tiers.has(backing.tier) {
                self.receiver.let_go(*backing);
            } else {
                cluster.note_garbage(*backing);
            }
        }
    }

    /// Names the home and `further` as what holds the content of `publication`.
    fn end_publication(
        &self,
        cluster: &Cluster,
        ino: InodeId,
        publication: &Publication,
        further: Further<'_>,
        copied: Copied,
    ) -> Result<()> {
        let mut dropped = Vec::new();
        let outcome = self.live.with(ino, |state| {
            let is_same = state.local().is_some_and(|local| local.backing == publication.backing);
            if !is_same || !state.holds_lease() {
                return Err(Error::Busy("the file was taken from this host meanwhile".into()));
            }
            state.account(&self.tiers)?;
            let blocks_512 = state.accounted_512;
            let stat = publication.stat;
            let is_unchanged =
                state.local().is_some_and(|local| local.ro.stat().is_ok_and(|now| now == stat));
            // What was written meanwhile is in the sums or in the copies or in both.
            let sums = publication.strict_sums.as_slice();
            let sums = if is_unchanged { sums } else { &[] };
            let is_unnamed = state.unnamed().is_some();
            let changed = self.namespace.change(ino, |inode, extras| {
                extras.push(Extra::HoldWritable);
                extras.extend_from_slice(sums);
                if is_unnamed {
                    Self::unfold_record(inode, publication.backing, extras);
                }
                dropped =
                    take_over_copies(&mut inode.layout, publication.backing, further, extras)?;
                inode.size_bytes = stat.size_bytes;
                inode.blocks_512 = blocks_512;
                inode.mtime = publication.mtime.unwrap_or(inode.mtime);
                inode.ctime = publication.ctime.unwrap_or(inode.ctime);
                Ok(())
            });
            let inode = state.note_change(changed)?;
            state.naming.name();
            state.copied = Some(copied);
            if !sums.is_empty() {
                state.sums.note_stored(true);
            }
            state.record = Some(inode);
            state.publishing.publish();
            if is_unchanged {
                state.overlay.is_dirty = false;
                state.overlay.mtime = None;
                state.overlay.ctime = None;
                state.seen_ctime = stat.ctime;
            }
            Ok(())
        });
        if let Err(error) = outcome {
            cluster.refuse_copies(ino, &publication.record, further.copies());
            return match error {
                // Removed while its copies were made.
                Error::NotFound => Ok(()),
                error => Err(error),
            };
        }
        self.note_dropped(&dropped);
        Ok(())
    }

    /// Makes up to `count` copies on hosts that `holds` does not name and that are not this one. A host that
    /// fails is replaced by another while there is one.
    pub(crate) fn make_copies(
        &self,
        cluster: &Arc<Cluster>,
        source: &CopySource<'_>,
        holds: &[NodeId],
        count: usize,
        pace: Pace<'_>,
    ) -> Result<Made> {
        let mut made = Made { copies: Vec::new(), failures: Vec::new(), sum: 0 };
        let mut tried = holds.to_vec();
        tried.push(self.options.name.clone());
        let mut has_met = false;
        while made.copies.len() < count {
            let missing = count - made.copies.len();
            let seed = source.ino.0;
            let plan = self.placing.plan_copies(&tried, missing, source.size_bytes, seed);
            let targets = plan.copies;
            if targets.is_empty() {
                if std::mem::replace(&mut has_met, true) {
                    break;
                }
                // Some may have come since the last beat.
                cluster.meet()?;
                continue;
            }
            let pushed = push(cluster, source, &targets, pace)
                .inspect_err(|error| self.count_corrupt(error))?;
            tried.extend(targets);
            for (node, error) in &pushed.failures {
                tracing::warn!(ino = %source.ino, %node, %error, "a copy could not be made");
            }
            made.sum = pushed.sum;
            made.failures.extend(pushed.failures);
            made.copies.extend(pushed.copies.into_iter().map(|(_, backing)| backing));
        }
        let sent_bytes = source.size_bytes * made.copies.len() as u64;
        self.copy_metrics.count(made.copies.len() as u64, sent_bytes, made.failures.len() as u64);
        Ok(made)
    }

    /// Counts a content that is not what its sums say.
    fn count_corrupt(&self, error: &Error) {
        if matches!(error, Error::Corrupt { .. }) {
            self.metrics.checksum_failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn too_few(&self, ino: InodeId, publication: &Publication, made: &Made) -> Error {
        let failures: Vec<_> =
            made.failures.iter().map(|(node, error)| format!("{node}: {error}")).collect();
        let why = match failures.as_slice() {
            [] => "no other host that is alive has room".to_owned(),
            failures => failures.join("; "),
        };
        let what = format!(
            "inode {ino}: {} of {} copies of what was written could be made ({why})",
            made.copies.len() + 1,
            publication.wanted,
        );
        tracing::error!("{what}");
        let is_full = !made.failures.is_empty()
            && made.failures.iter().all(|(_, e)| matches!(e, Error::NoSpace(_)));
        if is_full {
            return Error::NoSpace(what);
        }
        Error::io(what, Errno::HOSTUNREACH.into())
    }
}

/// Somebody else is making copies of the file, and waits for a host.
fn others_copy(ino: InodeId) -> Error {
    let what = format!("inode {ino}: copies that were begun before are still on their way");
    Error::io(what, Errno::TIMEDOUT.into())
}

impl Publication {
    fn source(&self, ino: InodeId) -> CopySource<'_> {
        CopySource {
            ino,
            version: self.record.version,
            file: &self.file,
            size_bytes: self.stat.size_bytes,
            sums: None,
            class: self.class,
        }
    }
}

impl Copied {
    /// Whether the home's file has surely not changed since.
    pub(crate) fn is_of(&self, stat: &BackingStat) -> bool {
        self.is_exact && self.size_bytes == stat.size_bytes && self.ctime == stat.ctime
    }
}

/// Whether what changes a file from now on gets a later time than this.
fn is_ticked(ctime: Timestamp) -> bool {
    intarsia_sync::system_now().duration_since(ctime.into()).is_ok_and(|age| age >= TICK)
}
