//! Which shard a server without one should follow.

use std::cmp::Reverse;

use super::servers_per_host;
use crate::deployment::{Deployment, ServerAddress};
use crate::topology::{Health, Peer, ServerId, Topology};
use intarsia_types::NodeId;

/// Replicas that were just attached and do not show in every server's view yet.
#[derive(Clone, Debug, Default)]
pub struct Placed(Vec<(ServerId, ServerAddress)>);

impl Placed {
    /// The server at `replica` follows this primary now.
    pub fn add(&mut self, primary: ServerId, replica: ServerAddress) {
        self.0.push((primary, replica));
    }

    /// Whether one follows this primary that the view does not show.
    #[must_use]
    pub fn is_unseen(&self, view: &Topology, primary: &ServerId) -> bool {
        self.unseen(view, primary) > 0
    }

    fn unseen(&self, view: &Topology, primary: &ServerId) -> usize {
        let is_seen =
            |replica: &ServerAddress| view.replicas_of(primary).any(|r| r.address == *replica);
        self.0.iter().filter(|(of, replica)| of == primary && !is_seen(replica)).count()
    }
}

/// The primary that a server on this host should follow: of those on other hosts the one with the
/// fewest replicas, those that stand in for a lost host not counted at first; then of the host with the most primaries, so that this one can take one over;
/// then the nearest before this host in the list.
///
/// Never one on its own host, where a replica would be lost together with its primary; of replicas only those count whose
/// host does, by `counts`.
#[must_use]
pub fn wanting_shard(
    deployment: &Deployment,
    view: &Topology,
    host: usize,
    placed: &Placed,
    counts: impl Fn(&NodeId) -> bool,
) -> Option<ServerId> {
    let hosts = deployment.hosts().count();
    let host_of = |peer: &Peer| {
        let name = deployment.server_at(peer.address.ip, peer.address.port)?;
        deployment.hosts().position(|m| m.name == name.host)
    };
    let primaries = view.primaries();
    let primaries_on = |host| primaries.iter().filter(|p| host_of(p) == Some(host)).count();
    let rank = |primary: &Peer| {
        let other = host_of(primary).filter(|other| *other != host)?;
        let distance = (host + hosts - other) % hosts.max(1);
        let unseen = placed.unseen(view, &primary.id);
        let is_there = |r: &&Peer| {
            let name = deployment.server_at(r.address.ip, r.address.port);
            r.health != Health::Failed && name.is_none_or(|name| counts(&name.host))
        };
        let replicas: Vec<&Peer> = view.replicas_of(&primary.id).filter(is_there).collect();
        // A second replica on this host would be lost with the first.
        let is_second = replicas.iter().any(|replica| host_of(replica) == Some(host));
        let lasting = replicas.iter().filter(|r| is_lasting(deployment, r)).count();
        let counts = (lasting + unseen, replicas.len() + unseen);
        Some((is_second, counts, Reverse(primaries_on(other)), distance))
    };
    primaries
        .iter()
        .filter(|p| p.health != Health::Failed)
        .filter_map(|p| Some((rank(p)?, p)))
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, p)| p.id.clone())
}

/// Whether a server is of those that every host has, and not one that stands in for a lost host.
fn is_lasting(deployment: &Deployment, peer: &Peer) -> bool {
    let name = deployment.server_at(peer.address.ip, peer.address.port);
    name.is_some_and(|name| name.number < servers_per_host(deployment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::{Engine, Member};
    use intarsia_types::Durability;

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
            let found = wanting_shard(&deployment, &view, host, &Placed::default(), |_| true);
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
        assert_eq!(
            wanting_shard(&deployment, &view, 1, &Placed::default(), |_| true),
            Some(id(3, 0))
        );
        let mut placed = Placed::default();
        placed.add(id(2, 0), deployment.members[2].server(1).unwrap());
        assert_eq!(wanting_shard(&deployment, &view, 0, &placed, |_| true), Some(id(3, 0)));
    }

    #[test]
    fn two_servers_that_return_together_follow_different_shards() {
        let deployment = deployment(3);
        let text = primary(2, "0-99")
            + &primary(3, "100-199")
            + &replica(3, 2, "slave")
            + &replica(2, 3, "slave");
        let view = Topology::parse(&text).unwrap();
        let mut placed = Placed::default();
        let first = wanting_shard(&deployment, &view, 0, &placed, |_| true).unwrap();
        placed.add(first.clone(), deployment.members[0].server(0).unwrap());
        assert!(placed.is_unseen(&view, &first));
        assert_ne!(wanting_shard(&deployment, &view, 0, &placed, |_| true), Some(first));
    }

    #[test]
    fn alone_there_is_nobody_to_follow() {
        let view = Topology::parse(&primary(1, "0-16383")).unwrap();
        assert_eq!(wanting_shard(&deployment(1), &view, 0, &Placed::default(), |_| true), None);
    }
}
