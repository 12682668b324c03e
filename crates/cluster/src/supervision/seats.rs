//! Which hosts are to have metadata servers: as many as there are shards, those first that have some. No I/O.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use intarsia_types::NodeId;

use super::balance::{Scene, order, replicas_elsewhere};
use crate::deployment::MAX_SERVERS_PER_HOST;
use crate::topology::{Health, Peer, Role, SLOTS};

/// The hosts that are to have servers: those with primaries before those with replicas, before those without; then those
/// that servers began on, in the order of the list. As many as there are shards, for more would have no primary. None
/// while it is not known which hosts there are, or while the Cluster is being formed.
fn chosen(scene: Scene<'_>) -> Option<BTreeSet<NodeId>> {
    if !scene.hosts.is_known() || scene.view.assigned_slots() != usize::from(SLOTS) {
        return None;
    }
    let servers = servers_by_host(scene);
    let has_some = |host: &NodeId| servers.get(host).is_some_and(|servers| servers.has_any);
    // One whose node is away for a moment serves on.
    let is_fit = |host: &NodeId| {
        takes_servers(scene, &servers, host) || (has_some(host) && !scene.hosts.is_leaving(host))
    };
    let mut fit: Vec<NodeId> =
        scene.deployment.hosts().map(|m| m.name.clone()).filter(is_fit).collect();
    fit.sort_by_key(|host| (Reverse(servers.get(host).copied()), rank(scene, host)));
    Some(fit.into_iter().take(scene.view.primaries().len()).collect())
}

/// What a host has of servers that are up: whether one is a primary, and whether there are any. `None` is less than all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Servers {
    has_primary: bool,
    has_any: bool,
}

fn servers_by_host(scene: Scene<'_>) -> BTreeMap<NodeId, Servers> {
    let mut servers: BTreeMap<NodeId, Servers> = BTreeMap::new();
    for peer in scene.view.peers() {
        if let Some(host) = scene.host_of(peer) {
            let entry = servers.entry(host).or_default();
            entry.has_any |= peer.health != Health::Failed;
            entry.has_primary |= peer.health != Health::Failed && peer.has_slots();
        }
    }
    servers
}

/// Whether a host lives and stays. One all of whose servers are given up does not count, for its record may say otherwise as
/// long as the shard that holds it takes no writes.
fn takes_servers(scene: Scene<'_>, servers: &BTreeMap<NodeId, Servers>, host: &NodeId) -> bool {
    scene.hosts.stays(host) && servers.get(host).is_none_or(|servers| servers.has_any)
}

/// An order of hosts that is the same on each: those first that servers began on. Joined hosts are not listed in the same
/// order everywhere.
fn rank(scene: Scene<'_>, host: &NodeId) -> (usize, NodeId) {
    let place = scene.deployment.meta_members().position(|member| member.name == *host);
    (place.unwrap_or(usize::MAX), host.clone())
}

/// Whether a host is known to be none of those that are to have servers.
pub(super) fn is_needless(scene: Scene<'_>, host: &NodeId) -> bool {
    scene.hosts.is_leaving(host) || chosen(scene).is_some_and(|chosen| !chosen.contains(host))
}

/// Whether each host has servers that is to have some.
pub(super) fn are_all_taken(scene: Scene<'_>) -> bool {
    let servers = servers_by_host(scene);
    let has_any = |host: &NodeId| servers.get(host).is_some_and(|servers| servers.has_any);
    match chosen(scene) {
        Some(chosen) => chosen.iter().all(has_any),
        None => scene.deployment.meta_members().all(|member| has_any(&member.name)),
    }
}

/// The host that is to get its first server.
pub(super) fn free_seat(scene: Scene<'_>) -> Option<NodeId> {
    let servers = servers_by_host(scene);
    let mut free: Vec<NodeId> = chosen(scene)?.into_iter().collect();
    free.retain(|host| !servers.contains_key(host));
    free.into_iter().min_by_key(|host| rank(scene, host))
}

/// The hosts that could start a new server for the shard of `wanting`, the best first: of those that are to have
/// servers the one with the fewest, then others without. While it is not known which hosts there are, those with servers.
pub(super) fn candidates(scene: Scene<'_>, wanting: &Peer) -> Vec<NodeId> {
    let home = scene.host_of(wanting);
    let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
    for peer in scene.view.peers().iter().filter(|p| p.health == Health::Up) {
        if let Some(host) = scene.host_of(peer) {
            *counts.entry(host).or_default() += 1;
        }
    }
    let chosen = chosen(scene);
    let mut all: Vec<NodeId> = if scene.hosts.is_known() {
        let servers = servers_by_host(scene);
        let all = scene.deployment.hosts().map(|member| member.name.clone());
        all.filter(|host| takes_servers(scene, &servers, host)).collect()
    } else {
        counts.keys().cloned().collect()
    };
    let count = |host: &NodeId| counts.get(host).copied().unwrap_or(0);
    all.retain(|host| {
        Some(host) != home.as_ref() && count(host) < usize::from(MAX_SERVERS_PER_HOST)
    });
    all.sort_by_key(|host| {
        let is_chosen = chosen.as_ref().is_none_or(|chosen| chosen.contains(host));
        (!is_chosen, count(host), rank(scene, host))
    });
    all
}

/// As [`who_stays`](super::balance::who_stays) for a replica that goes for good: those on hosts that are to have servers.
pub(super) fn who_stays_for_good<'a>(scene: Scene<'a>, replica: &Peer) -> Vec<&'a Peer> {
    let Role::Replica(of) = &replica.role else { return Vec::new() };
    let Some(primary) = scene.view.by_id(of).filter(|p| p.health == Health::Up) else {
        return Vec::new();
    };
    let needs_none = |peer: &Peer| scene.host_of(peer).is_some_and(|h| is_needless(scene, &h));
    let goes_first = scene.host_of(replica) == scene.host_of(primary) || needs_none(replica);
    let stays = |other: &&Peer| {
        other.id != replica.id
            && other.health == Health::Up
            && !needs_none(other)
            && (goes_first || order(scene, other) < order(scene, replica))
    };
    replicas_elsewhere(scene, primary).into_iter().filter(stays).collect()
}

#[cfg(test)]
mod tests {
    use super::super::balance::is_superfluous;
    use super::super::examples::{Line, deployment, hosts, id, name, view, whole};
    use super::super::roster::Hosts;
    use super::*;
    use crate::deployment::Deployment;
    use crate::servers::Replication::Required;
    use crate::topology::Topology;

    fn store(hosts: u8) -> Deployment {
        deployment(hosts).with_meta_hosts(Some(3)).unwrap()
    }

    fn at<'a>(deployment: &'a Deployment, view: &'a Topology, hosts: &'a Hosts) -> Scene<'a> {
        Scene { deployment, view, hosts }
    }

    /// The replica of host 2 was promoted on host 3, and those of hosts 1 and 3 lack theirs.
    fn without_host_2() -> Vec<Line> {
        vec![
            (1, 0, "master", Ok("0-5460")),
            (2, 0, "master,fail", Ok("")),
            (3, 0, "master", Ok("10923-16383")),
            (2, 1, "slave,fail", Err((1, 0))),
            (3, 1, "master", Ok("5461-10922")),
            (1, 1, "slave", Err((3, 0))),
        ]
    }

    #[test]
    fn a_whole_cluster_keeps_its_seats() {
        let (store, view, known) = (store(5), view(&whole()), hosts(&[1, 2, 3, 4, 5], &[]));
        let scene = at(&store, &view, &known);
        assert!(free_seat(scene).is_none() && are_all_taken(scene));
        let needless = (1..=5).map(|n| is_needless(scene, &name(n))).collect::<Vec<_>>();
        assert_eq!(needless, [false, false, false, true, true]);
    }

    #[test]
    fn while_hosts_are_unknown_none_is_needless_and_those_with_servers_help() {
        let (store, view, unknown) = (store(4), view(&without_host_2()), Hosts::unknown());
        let scene = at(&store, &view, &unknown);
        assert!(free_seat(scene).is_none());
        assert!((1..=4).all(|n| !is_needless(scene, &name(n))));
        let wanting = view.by_id(&id(1, 0)).unwrap();
        assert_eq!(candidates(scene, wanting), [name(3)]);
    }

    #[test]
    fn a_host_without_servers_takes_the_place_of_a_lost_one() {
        let (store, known) = (store(4), hosts(&[1, 3, 4], &[]));
        let mut lines = without_host_2();
        let lost = view(&lines);
        let wanting = lost.by_id(&id(1, 0)).unwrap();
        assert_eq!(candidates(at(&store, &lost, &known), wanting), [name(4), name(3)]);
        // Its record may say that it lives, as long as nobody can write another.
        let stale = hosts(&[1, 2, 3, 4], &[]);
        assert_eq!(candidates(at(&store, &lost, &stale), wanting), [name(4), name(3)]);
        lines.push((4, 0, "slave", Err((1, 0))));
        let half = view(&lines);
        let second = half.by_id(&id(3, 1)).unwrap();
        assert_eq!(candidates(at(&store, &half, &known), second), [name(4), name(1)]);
    }

    #[test]
    fn of_many_hosts_without_servers_the_same_one_takes_both_places() {
        let (store, known) = (store(6), hosts(&[1, 2, 4, 5, 6], &[]));
        assert_eq!(store.meta_hosts, [name(1), name(3), name(5)]);
        let mut lines = vec![
            (1, 0, "master", Ok("0-5460")),
            (5, 0, "master", Ok("10923-16383")),
            (5, 1, "master", Ok("5461-10922")),
            (1, 1, "slave", Err((5, 0))),
        ];
        let lost = view(&lines);
        let wanting = lost.by_id(&id(1, 0)).unwrap();
        assert_eq!(candidates(at(&store, &lost, &known), wanting).first(), Some(&name(2)));
        lines.push((2, 0, "slave", Err((1, 0))));
        let half = view(&lines);
        let wanting = half.by_id(&id(5, 1)).unwrap();
        assert_eq!(candidates(at(&store, &half, &known), wanting).first(), Some(&name(2)));
    }

    #[test]
    fn a_host_that_returns_when_its_place_is_taken_keeps_nothing() {
        let (store, known) = (store(4), hosts(&[1, 2, 3, 4], &[]));
        let lines = [
            (1, 0, "master", Ok("0-5460")),
            (4, 0, "master", Ok("5461-10922")),
            (3, 0, "master", Ok("10923-16383")),
            (4, 1, "slave", Err((1, 0))),
            (3, 1, "slave", Err((4, 0))),
            (1, 1, "slave", Err((3, 0))),
            (2, 0, "slave", Err((1, 0))),
            (2, 1, "slave", Err((3, 0))),
        ];
        let view = view(&lines);
        let scene = at(&store, &view, &known);
        assert!(is_needless(scene, &name(2)) && !is_needless(scene, &name(4)));
        let superfluous =
            |host, server| is_superfluous(scene, Required, view.by_id(&id(host, server)).unwrap());
        assert!(superfluous(2, 0) && superfluous(2, 1));
        assert!([(1, 1), (3, 1), (4, 1)].iter().all(|(host, server)| !superfluous(*host, *server)));
    }

    #[test]
    fn a_joined_host_takes_a_free_place() {
        // Host 2 has left, and its shards are on the other two.
        let store = store(4);
        let mut lines = without_host_2();
        lines.retain(|line| line.0 != 2);
        lines.extend([(3, 2, "slave", Err((1, 0))), (1, 2, "slave", Err((3, 1)))]);
        let view = view(&lines);
        assert_eq!(free_seat(at(&store, &view, &hosts(&[1, 3], &[]))), None);
        let joined = hosts(&[1, 3, 4], &[]);
        assert_eq!(free_seat(at(&store, &view, &joined)), Some(name(4)));
        let leaving = hosts(&[1, 3, 4], &[4]);
        assert_eq!(free_seat(at(&store, &view, &leaving)), None);
    }

    #[test]
    fn no_two_replicas_of_a_shard_go_because_of_each_other() {
        // Hosts 2 and 4 both have too much; whichever view a host has, one of three replicas stays.
        let (store, known) = (store(4), hosts(&[1, 2, 3, 4], &[]));
        let mut lines = whole();
        lines.extend([(4, 0, "slave", Err((1, 0))), (3, 2, "slave", Err((1, 0)))]);
        let view = view(&lines);
        let scene = at(&store, &view, &known);
        let going = [(2, 1), (4, 0), (3, 2)].map(|(host, server)| {
            !who_stays_for_good(scene, view.by_id(&id(host, server)).unwrap()).is_empty()
        });
        assert_eq!(going, [false, true, true]);
    }
}
