//! The failure detector: which hosts have been silent for too long.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use intarsia_meta::{MemberRecord, MemberState, Namespace, Owner};
use intarsia_sync::Instant;
use intarsia_types::{NodeId, Result, Timestamp};

use crate::clock::now;

use super::{Membership, Seen, Silence};

impl Membership {
    /// Reads the records of all members, and marks those lost that have been silent for too long.
    pub(crate) fn look(&self, directory: &Namespace) -> Result<Seen> {
        let begun = Instant::now();
        self.refresh(directory)?;
        for (node, record) in self.judge(begun) {
            let lost = record.entering(MemberState::Lost, now());
            if directory.put_member(&node, Some(&record), &lost)? {
                let silent_ms = u64::try_from(self.pace.lost_after.as_millis()).unwrap_or(u64::MAX);
                tracing::error!(
                    host = %node, silent_ms,
                    "a host has not been heard of; it is lost, and what it alone held gives EIO until it is back"
                );
                self.seen.write().insert(node, lost);
            }
        }
        let lost = self.in_state(MemberState::Lost);
        let mut known_lost = self.known_lost.lock();
        let is_news = !lost.is_subset(&known_lost);
        *known_lost = lost;
        let serving = self.in_state(MemberState::Serving);
        let mut known_serving = self.known_serving.lock();
        let is_more = !serving.is_subset(&known_serving);
        *known_serving = serving;
        Ok(match (is_news, is_more) {
            (true, _) => Seen::Loss,
            (false, true) => Seen::Arrival,
            (false, false) => Seen::Calm,
        })
    }

    /// Whether any host is lost, by the records as they were read last.
    pub(crate) fn has_lost(&self) -> bool {
        !self.in_state(MemberState::Lost).is_empty()
    }

    fn in_state(&self, state: MemberState) -> BTreeSet<NodeId> {
        let seen = self.seen.read();
        seen.iter().filter(|(_, m)| m.state == state).map(|(node, _)| node.clone()).collect()
    }

    /// Whether copies of files at a host count: it serves, or is just starting.
    pub(crate) fn keeps_copies(&self, node: &NodeId) -> bool {
        let seen = self.seen.read();
        seen.get(node)
            .is_some_and(|m| matches!(m.state, MemberState::Serving | MemberState::Joining))
    }

    /// Reads the records of all members, and logs changes of their states.
    pub(crate) fn refresh(&self, directory: &Namespace) -> Result<()> {
        let now: BTreeMap<_, _> = directory.members()?.into_iter().collect();
        let mut seen = self.seen.write();
        for (node, record) in &now {
            let before = seen.get(node).map(|before| before.state);
            if before.is_some_and(|before| before != record.state) && *node != self.me {
                tracing::info!(host = %node, state = record.state.name(), "a host has changed its state");
            }
        }
        *seen = now;
        Ok(())
    }

    /// The members that have been silent for too long; the records were read since `begun`.
    fn judge(&self, begun: Instant) -> Vec<(NodeId, MemberRecord)> {
        let mut watch = self.watch.lock();
        let gap =
            watch.last_look.map_or(Duration::ZERO, |last| begun.saturating_duration_since(last));
        let gap = gap.min(self.pace.most_silence());
        // The records were read at some moment between `begun` and now. The next gap begins now, so that no silence comes out
        // longer than it was.
        watch.last_look = Some(Instant::now());
        let seen = self.seen.read();
        watch.silences.retain(|node, _| seen.contains_key(node));
        let mut silent = Vec::new();
        for (node, record) in seen.iter() {
            if *node == self.me || !record.state.is_alive() {
                watch.silences.remove(node);
                continue;
            }
            let heard = Silence { epoch: record.epoch, beat: record.beat, lasts: Duration::ZERO };
            let silence = watch.silences.entry(node.clone()).or_insert(heard);
            if (silence.epoch, silence.beat) == (heard.epoch, heard.beat) {
                silence.lasts += gap;
            } else {
                *silence = heard;
            }
            if silence.lasts >= self.pace.lost_after {
                silent.push((node.clone(), record.clone()));
            }
        }
        silent
    }

    /// Whether a host is lost, and since when.
    pub(crate) fn lost_since(&self, node: &NodeId) -> Option<Timestamp> {
        let seen = self.seen.read();
        seen.get(node).filter(|m| m.state == MemberState::Lost).map(|m| m.since)
    }

    /// Whether a host lives as far as this one can tell, because a heartbeat of it has arrived lately. For a host that died this is
    /// false after [`Pace::lost_after`](super::Pace::lost_after) at the latest.
    pub(crate) fn hears(&self, node: &NodeId) -> bool {
        let watch = self.watch.lock();
        let Some(since) = watch.last_look.map(|look| look.elapsed()) else { return false };
        let silent = watch.silences.get(node).map(|silence| silence.lasts);
        silent.is_some_and(|silent| silent + since < self.pace.lost_after)
    }

    /// Whether there was a host of this name when the records were read last.
    pub(crate) fn knows(&self, node: &NodeId) -> bool {
        self.seen.read().contains_key(node)
    }

    /// Whether that life of a host is over, so that its leases can be taken over.
    pub(crate) fn is_over(&self, owner: &Owner) -> bool {
        if owner.node == self.me {
            return owner.epoch < self.mine.lock().epoch;
        }
        match self.seen.read().get(&owner.node) {
            None => true,
            Some(found) if found.epoch == owner.epoch => !found.state.is_alive(),
            // If `owner` has a later epoch than the record, its host is just coming back in that life.
            Some(found) => found.epoch > owner.epoch,
        }
    }

    /// All members with their records as they were read last, in the order of their names.
    pub(crate) fn all(&self) -> Vec<(NodeId, MemberRecord)> {
        self.seen.read().iter().map(|(node, record)| (node.clone(), record.clone())).collect()
    }
}
