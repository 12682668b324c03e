//! Which shard a server without one should follow.

use std::collections::HashMap;

use crate::deployment::Deployment;
use crate::topology::{Health, Peer, ServerId, Topology};

/// Replicas that were just attached and do not show in every server's view yet.
#[derive(Clone, Debug, Default)]
pub struct Placed(HashMap<ServerId, usize>);

impl Placed {
    /// One more replica follows this primary.
    pub fn add(&mut self, primary: ServerId) {
        *self.0.entry(primary).or_default() += 1;
    }

    fn count(&self, primary: &ServerId) -> usize {
        self.0.get(primary).copied().unwrap_or(0)
    }
}

/// The primary that a server on this host should follow: of those on other hosts the one with the
/// fewest replicas, then the nearest before this host in the list.
///
/// Never one on its own host, where a replica would be lost together with its primary.
#[must_use]
pub fn wanting_shard(
    deployment: &Deployment,
    view: &Topology,
    host: usize,
    placed: &Placed,
) -> Option<ServerId> {
    let hosts = deployment.members.len();
    let distance = |primary: &Peer| {
        let name = deployment.server_at(primary.address.ip, primary.address.port)?;
        let other = deployment.members.iter().position(|m| m.name == name.host)?;
        Some((host + hosts - other) % hosts.max(1))
    };
    view.primaries()
        .into_iter()
        .filter(|p| p.health != Health::Failed)
        .filter_map(|p| Some((distance(p).filter(|d| *d > 0)?, p)))
        .min_by_key(|(distance, p)| (replicas(view, p).max(placed.count(&p.id)), *distance))
        .map(|(_, p)| p.id.clone())
}

fn replicas(view: &Topology, primary: &Peer) -> usize {
    view.replicas_of(&primary.id).filter(|r| r.health != Health::Failed).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::{Engine, Member};
    use intarsia_types::{Durability, NodeId};

    fn deployment(hosts: u8) -> Deployment {
        let member = |n: u8| Member {
            name: NodeId(format!("n{n}")),
            address: [10, 0, 0, n].into(),
            node_port: 7400,
            server_port: 7401,
        };
        let members = (1..=hosts).map(member).collect();
        Deployment::new(Durability::Interval, 2, Engine::Servers, members).unwrap()
    }

    fn id(host: u8, server: u8) -> ServerId {
        ServerId(format!("{host:020x}{server:020x}"))
    }

    fn primary(host: u8, slots: &str) -> String {
        format!("{} 10.0.0.{host}:7401@7402 master - 0 0 1 connected {slots}\n", id(host, 0))
    }

    fn replica(host: u8, of: u8, flags: &str) -> String {
        format!("{} 10.0.0.{host}:7403@7404 {flags} {} 0 0 1 connected\n", id(host, 1), id(of, 0))
    }

    #[test]
    fn each_host_follows_the_one_before_it() {
        let deployment = deployment(3);
        let text = primary(1, "0-99") + &primary(2, "100-199") + &primary(3, "200-299");
        let view = Topology::parse(&text).unwrap();
        for (host, expected) in [(0, 3), (1, 1), (2, 2)] {
            let found = wanting_shard(&deployment, &view, host, &Placed::default());
            assert_eq!(found, Some(id(expected, 0)), "host {host}");
        }
    }

    #[test]
    fn a_shard_without_a_replica_comes_first_and_never_ones_own() {
        let deployment = deployment(3);
        let text = primary(1, "0-99")
            + &primary(2, "100-199")
            + &primary(3, "200-299")
            + &replica(2, 1, "slave")
            + &replica(1, 3, "slave,fail");
        let view = Topology::parse(&text).unwrap();
        // Shards 2 and 3 have none; from host 2 shard 3 is the only one elsewhere.
        assert_eq!(wanting_shard(&deployment, &view, 1, &Placed::default()), Some(id(3, 0)));
        let mut placed = Placed::default();
        placed.add(id(2, 0));
        assert_eq!(wanting_shard(&deployment, &view, 0, &placed), Some(id(3, 0)));
    }

    #[test]
    fn alone_there_is_nobody_to_follow() {
        let view = Topology::parse(&primary(1, "0-16383")).unwrap();
        assert_eq!(wanting_shard(&deployment(1), &view, 0, &Placed::default()), None);
    }
}
