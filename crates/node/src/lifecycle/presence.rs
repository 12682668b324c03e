//! The node as a member of its store: how it joins the other hosts and leaves them, and what it does when they come and go.

use std::sync::{Arc, Weak};
use std::time::Duration;

use intarsia_meta::{MemberState, MemberTier, Owner};
use intarsia_types::{Durability, Result};

use crate::background::queue::Queue;
use crate::cache::remote_cache::RemoteCache;
use crate::inode::rights::Rights;
use crate::membership::Seen;
use crate::membership::cluster::Cluster;
use crate::membership::fence::MemberEvents;
use crate::peer::PeerService;
use crate::peer::serving::{Peer, PeerFiles};
use crate::rebalance::mover::Mover;
use crate::replication::replicator::CopyQueue;

/// This host as a member of its store; in a store of one host nothing of it is asked for.
pub(crate) struct Presence {
    pub(crate) durability: Durability,
    /// Between two beats.
    pub(crate) interval: Duration,
    /// The other hosts, in a store of several.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// The finalizer's.
    pub(crate) queue: Arc<Queue>,
    pub(crate) remote_cache: Arc<RemoteCache>,
    /// Files that lack copies on other hosts.
    pub(crate) copy_queue: Arc<CopyQueue>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) mover: Arc<Mover>,
    pub(crate) peer: Arc<Peer>,
}

impl MemberEvents for Presence {
    /// What the others are told about the tiers here.
    fn tier_reports(&self) -> Vec<MemberTier> {
        self.remote_cache.tier_reports()
    }

    fn has_looked(&self, seen: Seen) {
        match seen {
            Seen::Loss => {
                // Copies that were there are to be made anew.
                self.copy_queue.survey_in(Duration::ZERO);
                self.copy_queue.hurry();
            }
            // What could not be done for want of a host may be possible now.
            Seen::Arrival => self.copy_queue.hurry(),
            Seen::Calm => {}
        }
        self.survey_new_share();
    }

    fn claim_for(&self, next: &Owner) -> Result<()> {
        self.rights.claim_leases(next)
    }
}

impl Presence {
    /// Each host that comes or goes changes which files the others look through. So where a host is lost, a file that lacks
    /// a copy may have been in nobody's share, or only at a host that was down.
    fn survey_new_share(&self) {
        if let Some(cluster) = self.cluster.as_ref().filter(|cluster| cluster.has_lost()) {
            self.copy_queue.survey_among(&cluster.alive());
        }
    }

    /// Starts the heartbeat.
    pub(crate) fn begin_beating(self: &Arc<Self>) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        cluster.begin_beating(Arc::downgrade(self), self.interval)
    }

    /// Begins to serve the other hosts, with what `files` does like for programs, and tells them where.
    pub(crate) fn join(&self, files: Weak<dyn PeerFiles>) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        cluster.join(Arc::new(PeerService::new(Arc::downgrade(&self.peer), files)))?;
        self.queue.collect();
        cluster.meet()
    }

    /// Stops the heartbeat.
    pub(crate) fn stop_heartbeat(&self) {
        if let Some(cluster) = &self.cluster {
            cluster.stop_heartbeat();
        }
    }

    /// Stops serving the other hosts.
    pub(crate) fn leave(&self) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        // What was kept in memory goes with the node.
        let state = match self.durability {
            Durability::Memory => MemberState::Lost,
            Durability::Interval | Durability::Sync => MemberState::Stopped,
        };
        cluster.leave(state, || self.mover.holds_files())
    }
}
