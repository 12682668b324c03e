//! How much of the metadata servers could be lost now.

use std::collections::BTreeMap;

use intarsia_types::NodeId;
use serde::Serialize;

use super::balance::{dead_primaries, host_of, replicas_elsewhere};
use crate::deployment::Deployment;
use crate::topology::{Health, Topology};

/// What a host sees of the metadata servers of all hosts. Field names are stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Redundancy {
    /// Shards of the metadata.
    pub shards: usize,
    /// Those whose primary is dead and has no successor yet.
    pub without_primary: usize,
    /// Those that no replica on another host follows.
    pub without_replica: usize,
    /// Those whose primary is on this host and has no replica that has copied everything.
    pub out_of_sync: usize,
    /// The host with the most primaries, and how many those are.
    pub most_primaries: Option<(NodeId, usize)>,
    /// Whether the store would go on by itself without any one of its hosts.
    pub survives_loss: bool,
}

impl Redundancy {
    pub(super) fn of(deployment: &Deployment, view: &Topology, out_of_sync: usize) -> Self {
        let holders = || view.peers().iter().filter(|peer| peer.has_slots());
        let mut primaries: BTreeMap<NodeId, usize> = BTreeMap::new();
        for host in holders().filter_map(|peer| host_of(deployment, peer)) {
            *primaries.entry(host).or_default() += 1;
        }
        let most_primaries = primaries.into_iter().max_by_key(|(_, count)| *count);
        let shards = holders().count();
        let without_primary = dead_primaries(view).count();
        let without_replica = holders()
            .filter(|peer| {
                !replicas_elsewhere(deployment, view, peer).iter().any(|r| r.health == Health::Up)
            })
            .count();
        // An election needs the votes of most primaries.
        let keeps_majority = most_primaries.as_ref().is_some_and(|(_, most)| most * 2 < shards);
        let is_whole = without_primary + without_replica + out_of_sync == 0;
        let survives_loss = is_whole && keeps_majority;
        Self {
            shards,
            without_primary,
            without_replica,
            out_of_sync,
            most_primaries,
            survives_loss,
        }
    }
}
