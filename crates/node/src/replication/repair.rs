//! Files that have fewer copies than they should: after a host was lost, or because making them failed.
//!
//! Each host looks through its share of the metadata and tells, for each file that lacks copies, the first
//! host that has the content. That host makes what is missing. Both are done again and again without harm.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use intarsia_meta::{Extra, Inode};
use intarsia_policy::{Census, Named, lacks_copies};
use intarsia_sync::Instant;
use intarsia_types::{
    BackingRef, Error, FileKind, InodeId, Layout, NodeId, PartitionId, Result, TierId,
};
use intarsia_wire::Request;

use crate::background::queue::Summing;
use crate::background::throttle::Pace;
use crate::body::integrity::stored_sums;
use crate::inode::lease::{Attempt, Content};
use crate::inode::live::LiveState;
use crate::membership::cluster::Cluster;
use crate::node::Node;
use crate::replication::push::CopySource;
use crate::replication::replicator::Attempted;
use crate::space::hints::own_hints;

/// All files are looked at at least so often.
const SURVEY_INTERVAL: Duration = Duration::from_secs(600);
/// After a survey that could not be done, or not be acted upon, it is tried again.
const SURVEY_RETRY: Duration = Duration::from_secs(5);
/// A host that starts looks at its share after so long, when the others have come up too.
pub(crate) const FIRST_SURVEY: Duration = Duration::from_secs(15);
/// How long a writer may take to say whether it still writes.
const RECALL_PATIENCE: Duration = Duration::from_secs(2);
/// Files told to another host at once.
const TOLD_AT_ONCE: usize = 512;

impl Node {
    fn census(&self, cluster: &Cluster, inode: &Inode) -> Result<Census<BackingRef>> {
        let mut census = Census::default();
        for backing in inode.layout.copies() {
            let home = cluster.home_of(backing.tier)?;
            if cluster.has_given_up(&home) {
                census.lost.push(*backing);
            } else {
                census.alive.push((home, *backing));
            }
        }
        Ok(census)
    }

    /// Makes the copies that a closed file lacks, if this host has its content; gives up those on lost hosts
    /// once there are others in their place.
    ///
    /// # Errors
    /// That something went wrong here; it is to be tried again, as after [`Attempted::Again`].
    pub(crate) fn replicate(&self, ino: InodeId) -> Result<Attempted> {
        let Some(cluster) = &self.cluster else { return Ok(Attempted::Done) };
        let Some(turn) = self.copying.lock(ino) else { return Ok(Attempted::Again) };
        let inode = match self.namespace.get(ino) {
            Err(Error::NotFound) => return Ok(Attempted::Done),
            other => other?,
        };
        let mut census = self.census(cluster, &inode)?;
        let Some(own) = inode.layout.copies().iter().find(|copy| self.tiers.has(copy.tier)) else {
            return Ok(Attempted::Done);
        };
        let wanted = self.placing.copies_wanted(&own_hints(&self.namespace, &inode)?);
        if let Some(writer) = self.namespace.writer(ino)? {
            // Whoever may write sees to it once the file has settled.
            let note = |state: &mut LiveState| {
                if state.holds_lease() {
                    state.publishing.note_lacking();
                }
                state.holds_lease()
            };
            if self.live.with_existing(ino, note).unwrap_or(false) {
                return Ok(Attempted::Done);
            }
            if census.is_first(own) && cluster.has_let_go(&writer) {
                self.inherit(ino)?;
            } else if cluster.has_let_go(&writer)
                && let Some(first) = census.maker()
            {
                // That one may have been lost when this host was told.
                let is_told = self.tell_lacking(cluster, first, vec![(ino, inode.size_bytes)]);
                return Ok(if is_told { Attempted::Done } else { Attempted::Again });
            } else if writer.node == self.options.name {
                self.give_up(ino, None)?;
            } else if !cluster.is_over(&writer) {
                // It may have the right without knowing.
                let recalled = cluster.recall(&writer.node, ino, None, RECALL_PATIENCE);
                tracing::debug!(%ino, ?recalled, "asked the writer of a file that lacks copies");
            }
            return Ok(Attempted::Again);
        }
        if !census.lacks_copies(wanted) {
            // Whoever told this host to look may know of a loss that it has not noticed yet.
            cluster.meet()?;
            census = self.census(cluster, &inode)?;
            if !census.lacks_copies(wanted) {
                return Ok(Attempted::Done);
            }
        }
        let pace = Pace::Background(&self.throttle, &turn);
        let made = match self.make_missing(cluster, &inode, *own, &census, wanted, pace) {
            // A program waits for copies of what it has written since.
            Err(Error::Busy(_)) if turn.is_wanted() => return Ok(Attempted::Again),
            made => made?,
        };
        self.name_copies(cluster, &inode, &census, wanted, &made)
    }

    /// Makes this host, which has a copy, the home of a file that a lost host may have been writing to. What that
    /// had not published counts no more, so its own copy is none any more.
    fn inherit(&self, ino: InodeId) -> Result<()> {
        self.with_live(ino, |state| {
            let attempt = self.prepare(ino, state, Some(Content::Kept))?;
            // Whoever only reads it needs no lease, and may go on for as long as it likes.
            if matches!(attempt, Attempt::Done(_))
                && state.writers == 0
                && !state.mark.is_unsettled()
            {
                self.give_lease_back(ino, state);
                if !state.is_open() {
                    let forgotten = state.forget_body();
                    self.discard_unnamed(ino, &forgotten);
                }
                self.settler_queue.sum_later(ino, Summing::Soon);
            }
            Ok(attempt)
        })
        .map(|_| ())
    }

    fn make_missing(
        &self,
        cluster: &Arc<Cluster>,
        inode: &Inode,
        own: BackingRef,
        census: &Census<BackingRef>,
        wanted: usize,
        pace: Pace<'_>,
    ) -> Result<Vec<BackingRef>> {
        let count = census.missing(wanted);
        if count == 0 {
            return Ok(Vec::new());
        }
        let file = self.tiers.get(own.tier)?.open_file(own.file, false)?;
        let size_bytes = file.stat()?.size_bytes;
        if size_bytes != inode.size_bytes {
            let what = format!("a copy of {size_bytes} bytes, not {}", inode.size_bytes);
            return Err(Error::Corrupt { ino: inode.ino, what });
        }
        let sums =
            if inode.checksummed { Some(stored_sums(&self.namespace, inode.ino)?) } else { None };
        let class = own_hints(&self.namespace, inode)?.tier();
        let source = CopySource {
            ino: inode.ino,
            version: inode.version,
            file: &file,
            size_bytes,
            sums: sums.as_ref(),
            class: class.unwrap_or(self.tiers.get(own.tier)?.class()),
        };
        let made = self.make_copies(cluster, &source, &census.holders(), count, pace)?;
        Ok(made.copies)
    }

    /// Names the new copies in the record, and no more those on lost hosts if there are enough without them.
    fn name_copies(
        &self,
        cluster: &Cluster,
        inode: &Inode,
        census: &Census<BackingRef>,
        wanted: usize,
        made: &[BackingRef],
    ) -> Result<Attempted> {
        let Named { copies, is_enough } = census.named_with(made, wanted);
        let known = inode.layout.copies();
        if copies == known {
            return Ok(if is_enough { Attempted::Done } else { Attempted::Again });
        }
        let dropped: Vec<_> = known.iter().copied().filter(|copy| !copies.contains(copy)).collect();
        let mut extras = vec![Extra::HoldUnwritten];
        extras.extend(made.iter().map(|copy| Extra::ClaimFree(*copy)));
        extras.extend(dropped.iter().map(|copy| Extra::PutFree(*copy)));
        let named = self.namespace.update_with(inode.ino, &extras, |now| {
            if now.version != inode.version {
                return Err(Error::Busy("the file was changed while its copies were made".into()));
            }
            now.layout = Layout::of_copies(copies.clone());
            Ok(())
        });
        match named {
            Ok(_) => {}
            Err(Error::NotFound | Error::Busy(_)) => {
                cluster.refuse_copies(inode.ino, inode, made);
                return Ok(Attempted::Again);
            }
            Err(error) => return Err(error),
        }
        self.note_dropped(&dropped);
        if is_enough && !census.lost.is_empty() {
            self.copy_metrics.repaired.fetch_add(1, Ordering::Relaxed);
        }
        Ok(if is_enough { Attempted::Done } else { Attempted::Again })
    }

    /// Looks through this host's share of all files.
    pub(crate) fn survey_copies(&self) -> Result<()> {
        let outcome = self.try_survey_copies();
        if outcome.is_err() {
            self.copy_queue.survey_in(SURVEY_RETRY);
        }
        outcome
    }

    fn try_survey_copies(&self) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        self.copy_queue.survey_in(SURVEY_INTERVAL);
        let known = std::mem::take(&mut *self.lacking.lock());
        let outcome = self.survey_share(cluster, &known);
        if !matches!(outcome, Ok(true)) {
            // They may be in other hosts' shares, which nobody looks through again soon.
            self.lacking.lock().extend(known);
            self.copy_queue.survey_in(SURVEY_RETRY);
        }
        outcome.map(|_| ())
    }

    /// Looks through this host's share, and tells what is found and what is known to lack copies; whether all who
    /// are to make copies could be told.
    fn survey_share(
        &self,
        cluster: &Cluster,
        known: &[(BackingRef, InodeId, u64)],
    ) -> Result<bool> {
        let begun = Instant::now();
        let alive = cluster.living()?;
        let Some(rank) = alive.iter().position(|node| *node == self.options.name) else {
            return Ok(known.is_empty());
        };
        let mut found = Found::default();
        for (first, ino, size_bytes) in known {
            let node = cluster.home_of(first.tier)?;
            found.lacking.entry(node).or_default().push((*ino, *size_bytes));
        }
        for partition in self.namespace.partitions() {
            if usize::from(partition.0) % alive.len() == rank {
                self.survey_partition(cluster, partition, &mut found)?;
            }
        }
        let (files, bytes) = (found.files, found.bytes);
        let mut are_told = true;
        for (node, inos) in found.lacking {
            are_told &= self.tell_lacking(cluster, &node, inos);
        }
        if files > 0 {
            let took = begun.elapsed();
            tracing::info!(files, bytes, ?took, "files that lack copies get them now");
        }
        Ok(are_told)
    }

    fn survey_partition(
        &self,
        cluster: &Cluster,
        partition: PartitionId,
        found: &mut Found,
    ) -> Result<()> {
        let mut outcome = Ok(());
        self.namespace.each_inode_of(partition, |inode| {
            if outcome.is_ok() {
                outcome = self.survey(cluster, &inode, found);
            }
        })?;
        outcome
    }

    fn survey(&self, cluster: &Cluster, inode: &Inode, found: &mut Found) -> Result<()> {
        let copies = inode.layout.copies();
        let may_want_more = inode.has_xattrs || self.options.replicas > 1;
        if inode.kind != FileKind::Regular
            || copies.is_empty()
            || (copies.len() == 1 && !may_want_more)
        {
            return Ok(());
        }
        for copy in copies {
            if let std::collections::hash_map::Entry::Vacant(entry) =
                found.given_up.entry(copy.tier)
            {
                entry.insert(cluster.has_given_up(&cluster.home_of(copy.tier)?));
            }
        }
        let is_lost = |copy: &&BackingRef| found.given_up.get(&copy.tier) == Some(&true);
        let Some(first) = copies.iter().find(|copy| !is_lost(copy)) else {
            // None is left; `intarsia lost` names it.
            return Ok(());
        };
        let lost = copies.iter().filter(is_lost).count();
        let wanted = self.placing.copies_wanted(&own_hints(&self.namespace, inode)?);
        if !lacks_copies(copies.len() - lost, lost, wanted) {
            return Ok(());
        }
        found.files += 1;
        found.bytes += inode.size_bytes;
        let node = cluster.home_of(first.tier)?;
        found.lacking.entry(node).or_default().push((inode.ino, inode.size_bytes));
        Ok(())
    }

    /// Has `node` make the copies that files lack; whether it could be told.
    pub(crate) fn tell_lacking(
        &self,
        cluster: &Cluster,
        node: &NodeId,
        files: Vec<(InodeId, u64)>,
    ) -> bool {
        if *node == self.options.name {
            files.into_iter().for_each(|(ino, size_bytes)| self.copy_queue.add(ino, size_bytes));
            return true;
        }
        let mut is_told = true;
        for files in files.chunks(TOLD_AT_ONCE) {
            let inos = files.iter().map(|(ino, _)| *ino).collect();
            if let Err(error) = cluster.call(node, &Request::Replicate { inos }, None) {
                tracing::warn!(%node, %error, "files that lack copies wait for the next survey");
                self.copy_queue.survey_in(SURVEY_RETRY);
                is_told = false;
            }
        }
        is_told
    }
}

/// What a survey has found so far.
#[derive(Default)]
struct Found {
    /// By the host that is to make the copies.
    lacking: BTreeMap<NodeId, Vec<(InodeId, u64)>>,
    /// Whether the host of a tier is lost.
    given_up: HashMap<TierId, bool>,
    files: u64,
    bytes: u64,
}
