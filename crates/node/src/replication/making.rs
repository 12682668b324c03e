//! Making replicas on hosts that the policy chooses, and telling hosts of copies that no record names any more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use intarsia_sync::Instant;
use intarsia_types::{BackingRef, Error, InodeId, NodeId, Result};
use rustix::io::Errno;

use crate::background::throttle::Pace;
use crate::membership::cluster::Cluster;
use crate::replication::Replicas;
use crate::replication::arrivals::CLAIMED_WITHIN;
use crate::replication::push::{CopySource, push};

/// The copies that were made of a content.
pub(super) struct Made {
    pub(super) copies: Vec<BackingRef>,
    /// The hosts that could take none, and why.
    failures: Vec<(NodeId, Error)>,
    /// The sum over the pieces of the content; 0 if no host was there to send it to.
    pub(super) sum: u64,
}

impl Made {
    /// The error that says why there are too few copies, for a file that is to have `wanted`, the one here among them:
    /// [`Error::NoSpace`] if all hosts that were asked are full, else EHOSTUNREACH.
    pub(super) fn too_few(&self, ino: InodeId, wanted: usize) -> Error {
        let failures: Vec<_> =
            self.failures.iter().map(|(node, error)| format!("{node}: {error}")).collect();
        let why = match failures.as_slice() {
            [] => "no other host that is alive has room".to_owned(),
            failures => failures.join("; "),
        };
        let what = format!(
            "inode {ino}: {} of {wanted} copies of what was written could be made ({why})",
            self.copies.len() + 1,
        );
        tracing::error!("{what}");
        let is_full = !self.failures.is_empty()
            && self.failures.iter().all(|(_, e)| matches!(e, Error::NoSpace(_)));
        if is_full {
            return Error::NoSpace(what);
        }
        Error::io(what, Errno::HOSTUNREACH.into())
    }
}

impl Replicas {
    /// Makes up to `count` copies, on hosts that `holds` does not name and that are not this one. Where one fails, another
    /// takes its place as long as there is one. That there are fewer copies in the end is no error.
    ///
    /// # Errors
    /// When the content cannot be read or does not match its sums; [`Error::Busy`] when `pace` ends the work.
    pub(super) fn make_copies(
        &self,
        cluster: &Arc<Cluster>,
        source: &CopySource<'_>,
        holds: &[NodeId],
        count: usize,
        pace: Pace<'_>,
    ) -> Result<Made> {
        let mut made = Made { copies: Vec::new(), failures: Vec::new(), sum: 0 };
        let mut tried = holds.to_vec();
        tried.push(self.me.clone());
        let mut has_met = false;
        let mut offered_at: Option<Instant> = None;
        while made.copies.len() < count {
            let missing = count - made.copies.len();
            let seed = source.ino.0;
            let plan = self.placing.plan_copies(&tried, missing, source.size_bytes, seed);
            let targets = plan.copies;
            if targets.is_empty() {
                if std::mem::replace(&mut has_met, true) {
                    break;
                }
                // Hosts may have joined since this one last read the list of members.
                cluster.meet()?;
                continue;
            }
            let begun = Instant::now();
            let pushed = push(cluster, source, &targets, pace)
                .inspect_err(|error| self.count_corrupt(error))?;
            tried.extend(targets);
            for (node, error) in &pushed.failures {
                tracing::warn!(ino = %source.ino, %node, %error, "a copy could not be made");
            }
            made.sum = pushed.sum;
            made.failures.extend(pushed.failures);
            made.copies.extend(pushed.copies.into_iter().map(|(_, backing)| backing));
            if made.copies.is_empty() {
                continue;
            }
            let waited = offered_at.get_or_insert_with(Instant::now).elapsed();
            if waited + begun.elapsed() > CLAIMED_WITHIN / 2 {
                // Another round as long as this one would lose what was made: its hosts would not wait for the claim.
                break;
            }
        }
        let sent_bytes = source.size_bytes * made.copies.len() as u64;
        self.counts.count(made.copies.len() as u64, sent_bytes, made.failures.len() as u64);
        Ok(made)
    }

    /// Counts a checksum failure, if that is what happened.
    fn count_corrupt(&self, error: &Error) {
        if matches!(error, Error::Corrupt { .. }) {
            self.metrics.checksum_failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells the hosts of these backing files, which went into the ledger, that they can be collected.
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
}
