//! How much of the metadata servers could be lost now.

use std::collections::BTreeMap;
use std::fmt;

use intarsia_types::NodeId;
use serde::Serialize;

use super::balance::{Scene, dead_primaries, replicas_elsewhere};
use super::roster::Hosts;
use crate::topology::Health;

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
    /// The hosts that have metadata servers, and what those are.
    pub holdings: Vec<Holding>,
}

/// What a host has of the metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// The host.
    pub host: NodeId,
    /// Its servers that hold a shard, dead ones without a successor counted.
    pub primaries: usize,
    /// Its other servers that are up.
    pub replicas: usize,
}

impl Holding {
    /// Whether it has nothing of the metadata.
    #[must_use]
    pub const fn is_vacant(&self) -> bool {
        self.primaries == 0 && self.replicas == 0
    }
}

impl fmt::Display for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = |count, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        let (primaries, replicas) =
            (noun(self.primaries, "primary server"), noun(self.replicas, "replica"));
        let host = &self.host;
        match (self.primaries, self.replicas) {
            (0, _) => write!(f, "{replicas} of the metadata on {host}"),
            (_, 0) => write!(f, "{primaries} of the metadata on {host}"),
            _ => write!(f, "{primaries} and {replicas} of the metadata on {host}"),
        }
    }
}

impl Redundancy {
    pub(super) fn of(scene: Scene<'_>, out_of_sync: usize) -> Self {
        // What a host has that leaves counts until it goes.
        let scene = Scene { hosts: &Hosts::unknown(), ..scene };
        let holders = || scene.view.peers().iter().filter(|peer| peer.has_slots());
        let holdings = holdings(scene);
        let most = holdings.iter().filter(|h| h.primaries > 0).max_by_key(|h| h.primaries);
        let most_primaries = most.map(|h| (h.host.clone(), h.primaries));
        let shards = holders().count();
        let without_primary = dead_primaries(scene.view).count();
        let without_replica = holders()
            .filter(|peer| !replicas_elsewhere(scene, peer).iter().any(|r| r.health == Health::Up))
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
            holdings,
        }
    }

    /// Whether the servers are heard of.
    pub(super) const fn is_served(&self) -> bool {
        self.shards > 0
    }

    /// What a host still has of the metadata that no other host would have without it: nothing once it may go. None
    /// as long as the servers are not heard of.
    #[must_use]
    pub fn holding(&self, host: &NodeId) -> Option<Holding> {
        let none = || Holding { host: host.clone(), primaries: 0, replicas: 0 };
        let found = self.holdings.iter().find(|holding| holding.host == *host);
        (self.shards > 0).then(|| found.cloned().unwrap_or_else(none))
    }
}

fn holdings(scene: Scene<'_>) -> Vec<Holding> {
    let mut all: BTreeMap<NodeId, (usize, usize)> = BTreeMap::new();
    for peer in scene.view.peers() {
        let is_other = !peer.has_slots() && peer.health != Health::Failed;
        let Some(host) = scene.host_of(peer).filter(|_| peer.has_slots() || is_other) else {
            continue;
        };
        let (primaries, replicas) = all.entry(host).or_default();
        *primaries += usize::from(peer.has_slots());
        *replicas += usize::from(is_other);
    }
    let holding = |(host, (primaries, replicas))| Holding { host, primaries, replicas };
    all.into_iter().map(holding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_holds_is_said_in_words() {
        let said = |primaries, replicas| {
            Holding { host: NodeId("n1".into()), primaries, replicas }.to_string()
        };
        assert_eq!(said(1, 2), "1 primary server and 2 replicas of the metadata on n1");
        assert_eq!(said(0, 1), "1 replica of the metadata on n1");
        assert_eq!(said(2, 0), "2 primary servers of the metadata on n1");
    }
}
