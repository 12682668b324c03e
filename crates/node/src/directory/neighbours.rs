//! The other hosts, as leases on directories know them: they are asked to give theirs back, and told what changes.

use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::{Invalidated, Invalidation, Owner, Recall, Recalled, allowance};
use intarsia_sync::Instant;
use intarsia_types::{InodeId, Result};

use crate::membership::cluster::Cluster;

/// How long the hosts that are told of a change have to answer: longer than they wait for what their kernels keep.
const TOLD_WITHIN: Duration = Duration::from_secs(2);
/// How long a host that does not answer is asked for its lease: usually, by a call that asks briefly (see
/// [`allowance::asking_briefly`]), and after which pause it is asked again.
const PATIENCE: Duration = Duration::from_secs(8);
const BRIEFLY: Duration = Duration::from_millis(500);
const ASKED_AGAIN: Duration = Duration::from_millis(100);

/// The other hosts that may have leases.
pub(crate) struct Neighbours(pub(crate) Arc<Cluster>);

/// Until when hosts are asked by a call that does so for `usually`, if it is not to ask briefly.
fn deadline(usually: Duration) -> Instant {
    let patience = if allowance::is_brief() { BRIEFLY } else { usually };
    Instant::now() + allowance::of(patience)
}

impl Recall for Neighbours {
    fn is_current(&self) -> bool {
        self.0.is_sure_member()
    }

    /// A host that does not answer is asked until it is known to be lost, or the time is up.
    fn recall(&self, holder: &Owner, dir: InodeId) -> Result<Recalled> {
        let deadline = deadline(PATIENCE);
        let _limit = allowance::limit(deadline);
        loop {
            if self.0.is_over(holder) {
                return Ok(Recalled::Lost);
            }
            match self.0.recall_directory(&holder.node, dir) {
                Ok(()) => return Ok(Recalled::Released),
                Err(error) if Instant::now() + ASKED_AGAIN > deadline => return Err(error),
                Err(_) => intarsia_sync::thread::sleep(ASKED_AGAIN),
            }
        }
    }

    /// Each host is told once. One that does not answer may have left its lease since, and need not be waited for.
    fn invalidate(
        &self,
        holders: &[Owner],
        invalidation: &Invalidation,
    ) -> Vec<Result<Invalidated>> {
        let deadline = deadline(TOLD_WITHIN);
        let _limit = allowance::limit(deadline);
        let tell = |holder| {
            let is_over = self.0.is_over(holder);
            (!is_over).then(|| self.0.start_change(holder, invalidation))
        };
        let begun: Vec<_> = holders.iter().map(tell).collect();
        let answer = |(holder, begun): (&Owner, Option<Result<_>>)| match begun {
            None => Ok(Invalidated::Lost),
            Some(begun) => self.0.finish_change(&holder.node, begun?),
        };
        holders.iter().zip(begun).map(answer).collect()
    }

    fn tell_over(&self, holders: &[Owner], number: u64) {
        for holder in holders {
            if let Err(error) = self.0.tell_change_over(&holder.node, number) {
                tracing::debug!(%error, holder = %holder.node, "it is not told that a change is over");
            }
        }
    }
}
