//! The survey: which files have fewer replicas than they should.
//!
//! Each host looks through its share of the partitions. For each file that lacks replicas it tells the first host that has a
//! copy of it, which makes what is missing (see [`crate::replication::repair`]). Both can be repeated without harm.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::time::Duration;

use intarsia_meta::Inode;
use intarsia_policy::lacks_copies;
use intarsia_sync::Instant;
use intarsia_types::{BackingRef, Error, FileKind, InodeId, NodeId, PartitionId, Result, TierId};
use intarsia_wire::Request;

use crate::membership::cluster::Cluster;
use crate::replication::Replicas;
use crate::space::hints::own_hints;

/// The longest time between two surveys.
const SURVEY_INTERVAL: Duration = Duration::from_secs(600);
/// The pause before another survey after one that failed, or whose findings could not be told to all.
pub(super) const SURVEY_RETRY: Duration = Duration::from_secs(5);
/// The pause before the first survey of a host that starts, so that the others have come up too, and before one that is due
/// because hosts came or went.
pub(super) const FIRST_SURVEY: Duration = Duration::from_secs(15);
/// Most files in one message to another host.
const TOLD_AT_ONCE: usize = 512;

impl Replicas {
    /// Looks through this host's share of all files.
    pub(crate) fn survey(&self) -> Result<()> {
        let outcome = self.try_survey();
        if outcome.is_err() {
            self.queue.survey_in(SURVEY_RETRY);
        }
        outcome
    }

    fn try_survey(&self) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        self.queue.survey_in(SURVEY_INTERVAL);
        let known = std::mem::take(&mut *self.lacking.lock());
        let is_after_crash = self.is_after_crash.swap(false, Ordering::Relaxed);
        let outcome = self.survey_share(cluster, &known, is_after_crash);
        if !matches!(outcome, Ok(true)) {
            // Kept for the next survey: these files may be in other hosts' shares, which are not looked through again soon.
            self.lacking.lock().extend(known);
            self.is_after_crash.fetch_or(is_after_crash, Ordering::Relaxed);
            self.queue.survey_in(SURVEY_RETRY);
        }
        outcome.map(|_| ())
    }

    /// Looks through this host's share, and with `is_after_crash` also through the others', for files that have a copy here.
    /// Tells the hosts that are to make copies, also of the files in `known`. Returns whether all of them could be told.
    fn survey_share(
        &self,
        cluster: &Cluster,
        known: &[(BackingRef, InodeId, u64)],
        is_after_crash: bool,
    ) -> Result<bool> {
        let begun = Instant::now();
        let alive = cluster.living()?;
        // A host that was given up has no share, and if it is back soon no host notices that the shares had changed.
        let Some(rank) = alive.iter().position(|node| *node == self.me) else { return Ok(false) };
        self.queue.note_survey(&alive);
        let mut found = Found::default();
        for (first, ino, size_bytes) in known {
            let node = cluster.home_of(first.tier)?;
            if alive.contains(&node) {
                found.lacking.entry(node).or_default().push((*ino, *size_bytes));
                continue;
            }
            // That host is gone as well; another one may have a copy.
            match self.namespace.get(*ino) {
                Ok(inode) => self.look_at(cluster, &inode, &mut found)?,
                Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        for partition in self.namespace.partitions() {
            if usize::from(partition.0) % alive.len() == rank {
                self.survey_partition(cluster, partition, |_| true, &mut found)?;
            } else if is_after_crash {
                // Any of its copies: the first may be at a lost host.
                let is_here =
                    |copies: &[BackingRef]| copies.iter().any(|copy| self.tiers.has(copy.tier));
                self.survey_partition(cluster, partition, is_here, &mut found)?;
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
        concerns: impl Fn(&[BackingRef]) -> bool,
        found: &mut Found,
    ) -> Result<()> {
        let mut outcome = Ok(());
        self.namespace.each_inode_of(partition, |inode| {
            if outcome.is_ok() && concerns(inode.layout.copies()) {
                outcome = self.look_at(cluster, &inode, found);
            }
        })?;
        outcome
    }

    fn look_at(&self, cluster: &Cluster, inode: &Inode, found: &mut Found) -> Result<()> {
        let copies = inode.layout.copies();
        let may_want_more = inode.has_xattrs || self.replicas > 1;
        if inode.kind != FileKind::Regular
            || copies.is_empty()
            || (copies.len() == 1 && !may_want_more)
        {
            return Ok(());
        }
        for copy in copies {
            if let Entry::Vacant(entry) = found.homes.entry(copy.tier) {
                entry.insert(HomeState::of(cluster, &cluster.home_of(copy.tier)?));
            }
        }
        let is = |copy: &BackingRef, state| found.homes.get(&copy.tier) == Some(&state);
        let at = |state| copies.iter().find(|copy| is(copy, state));
        // One that is about to leave may stay after all, and has the content until then.
        let Some(first) = at(HomeState::Keeps).or_else(|| at(HomeState::Leaves)) else {
            // No copy is left; `intarsia lost` lists the file.
            return Ok(());
        };
        let lost = copies.iter().filter(|copy| !is(copy, HomeState::Keeps)).count();
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

    /// Asks `node` to make the copies that these files lack. Returns whether it could be told of all of them.
    pub(crate) fn tell_lacking(
        &self,
        cluster: &Cluster,
        node: &NodeId,
        files: Vec<(InodeId, u64)>,
    ) -> bool {
        if *node == self.me {
            files.into_iter().for_each(|(ino, size_bytes)| self.queue.add(ino, size_bytes));
            return true;
        }
        let mut is_told = true;
        for files in files.chunks(TOLD_AT_ONCE) {
            let inos = files.iter().map(|(ino, _)| *ino).collect();
            if let Err(error) = cluster.call(node, &Request::Replicate { inos }, None) {
                tracing::warn!(%node, %error, "files that lack copies wait for the next survey");
                self.queue.survey_in(SURVEY_RETRY);
                is_told = false;
            }
        }
        is_told
    }
}

/// What can be expected of the host that has a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HomeState {
    /// It keeps the copy.
    Keeps,
    /// It is up, but was told to leave.
    Leaves,
    /// It is lost, down, or a member no more.
    Gone,
}

impl HomeState {
    fn of(cluster: &Cluster, home: &NodeId) -> Self {
        match (cluster.has_given_up(home), cluster.is_up(home)) {
            (false, _) => Self::Keeps,
            (true, true) => Self::Leaves,
            (true, false) => Self::Gone,
        }
    }
}

/// What a survey has found so far.
#[derive(Default)]
struct Found {
    /// Inodes that lack copies, with their lengths in bytes, by the host that is to make the copies.
    lacking: BTreeMap<NodeId, Vec<(InodeId, u64)>>,
    /// What can be expected of the hosts, by their tiers.
    homes: HashMap<TierId, HomeState>,
    files: u64,
    bytes: u64,
}
