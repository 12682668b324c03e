//! Decisions about the whole Cluster that every host takes for itself from the same view. No I/O.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use intarsia_types::NodeId;

use crate::deployment::Deployment;
use crate::topology::{Health, Peer, Role, ServerId, Topology};

/// The only replica that a primary has, dead ones counted.
pub(super) fn sole_replica<'a>(view: &'a Topology, primary: &'a ServerId) -> Option<&'a Peer> {
    let mut replicas = view.replicas_of(primary);
    let first = replicas.next()?;
    (replicas.next().is_none() && first.health == Health::Up).then_some(first)
}

/// The replicas of a primary on other hosts than its own, which is what they are for.
pub(super) fn replicas_elsewhere<'a>(
    deployment: &Deployment,
    view: &'a Topology,
    primary: &Peer,
) -> Vec<&'a Peer> {
    let home = host_of(deployment, primary);
    let all = view.replicas_of(&primary.id);
    all.filter(|replica| host_of(deployment, replica) != home).collect()
}

/// The primaries that are up and have no replica on another host, those not given up counted.
pub(super) fn without_replica<'a>(deployment: &Deployment, view: &'a Topology) -> Vec<&'a Peer> {
    let is_lacking = |p: &&Peer| {
        p.health == Health::Up
            && replicas_elsewhere(deployment, view, p).iter().all(|r| r.health == Health::Failed)
    };
    view.primaries().into_iter().filter(is_lacking).collect()
}

/// Primaries that most others have given up, and that still hold slots.
pub(super) fn dead_primaries(view: &Topology) -> impl Iterator<Item = &Peer> {
    view.peers().iter().filter(|p| p.has_slots() && p.health == Health::Failed)
}

/// Whether a server is there that holds nothing and follows nobody: it is about to, and which shard
/// lacks a replica shows only afterwards.
pub(super) fn is_anyone_joining(view: &Topology) -> bool {
    let is_idle = |p: &Peer| !p.has_slots() && matches!(p.role, Role::Primary(_));
    view.peers().iter().any(|p| is_idle(p) && matches!(p.health, Health::Up | Health::Joining))
}

/// The replica that should go over to the shard of `wanting`: one on another host than `wanting`, that its own shard can
/// spare. Every host finds the same one.
pub(super) fn surplus_replica<'a>(
    deployment: &Deployment,
    view: &'a Topology,
    wanting: &Peer,
) -> Option<&'a Peer> {
    let home = host_of(deployment, wanting);
    let is_free = |replica: &Peer| {
        replica.health == Health::Up
            && host_of(deployment, replica) != home
            && !who_stays(deployment, view, replica).is_empty()
    };
    view.peers().iter().filter(|peer| is_free(peer)).max_by(|a, b| a.id.cmp(&b.id))
}

/// The replicas of which one has to have everything for `replica` to leave its shard: those that are up, on other hosts than
/// the primary's, and before it in the order of all, unless it counts for nothing itself. None while the primary is not
/// up: one of them is about to take its place.
///
/// By the order two never go at the same time, each because of the other.
pub(super) fn who_stays<'a>(
    deployment: &Deployment,
    view: &'a Topology,
    replica: &Peer,
) -> Vec<&'a Peer> {
    let Role::Replica(of) = &replica.role else { return Vec::new() };
    let Some(primary) = view.by_id(of).filter(|p| p.health == Health::Up) else {
        return Vec::new();
    };
    let is_idle = host_of(deployment, replica) == host_of(deployment, primary);
    let stays = |other: &&Peer| {
        other.id != replica.id
            && other.health == Health::Up
            && (is_idle || order(deployment, other) < order(deployment, replica))
    };
    replicas_elsewhere(deployment, view, primary).into_iter().filter(stays).collect()
}

/// An order of all servers, those that were added later behind the others.
fn order(deployment: &Deployment, peer: &Peer) -> (Option<u16>, ServerId) {
    let name = deployment.server_at(peer.address.ip, peer.address.port);
    (name.map(|name| name.number), peer.id.clone())
}

/// For a shard whose only replica is on the host of its primary, `wanting`, and that gets none from elsewhere: that
/// replica, and the primary that it should follow instead, whose replica is then free for `wanting`.
pub(super) fn exchange<'a>(
    deployment: &Deployment,
    view: &'a Topology,
    wanting: &Peer,
) -> Option<(&'a Peer, &'a Peer)> {
    let home = host_of(deployment, wanting);
    let is_here = |peer: &Peer| host_of(deployment, peer) == home;
    let idle = view.replicas_of(&wanting.id).find(|r| r.health == Health::Up && is_here(r))?;
    let has_one_for_it = |primary: &&Peer| {
        primary.health == Health::Up
            && !is_here(primary)
            && replicas_elsewhere(deployment, view, primary).iter().any(|replica| {
                replica.health == Health::Up
                    && !is_here(replica)
                    && order(deployment, idle) < order(deployment, replica)
            })
    };
    let to = view.primaries().into_iter().find(has_one_for_it)?;
    Some((idle, to))
}

/// The host that should start a new server for the shard of `wanting`: the one with the fewest servers
/// of those that are up, the primary's own excepted.
pub(super) fn host_for_new_server(
    deployment: &Deployment,
    view: &Topology,
    wanting: &Peer,
) -> Option<NodeId> {
    let home = host_of(deployment, wanting);
    let mut servers: BTreeMap<NodeId, usize> = BTreeMap::new();
    for peer in view.peers().iter().filter(|p| p.health == Health::Up) {
        if let Some(host) = host_of(deployment, peer) {
            *servers.entry(host).or_default() += 1;
        }
    }
    servers
        .into_iter()
        .filter(|(host, _)| Some(host) != home.as_ref())
        .min_by_key(|(_, n)| *n)
        .map(|(h, _)| h)
}

/// The replica of `host` that should become primary: the host has none, and another has two or more. Where `host` has no
/// replica of one of these, it relieves a third, which then has none and is next; by the shortest such way.
pub(super) fn due_promotion<'a>(
    deployment: &Deployment,
    view: &'a Topology,
    host: &NodeId,
) -> Option<&'a Peer> {
    let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
    for home in view.primaries().into_iter().filter_map(|p| host_of(deployment, p)) {
        *counts.entry(home).or_default() += 1;
    }
    if counts.contains_key(host) {
        return None;
    }
    // Each host with the replica of `host` that the way to it begins with.
    let mut ways: VecDeque<(NodeId, Option<&Peer>)> = VecDeque::from([(host.clone(), None)]);
    let mut reached = BTreeSet::from([host.clone()]);
    while let Some((at, begin)) = ways.pop_front() {
        if counts.get(&at).is_some_and(|count| *count > 1) {
            return begin;
        }
        for (replica, next) in relieves(deployment, view, &at) {
            if reached.insert(next.clone()) {
                ways.push_back((next, begin.or(Some(replica))));
            }
        }
    }
    None
}

/// The replicas of `host` that are up, each with the host of its primary.
fn relieves<'a>(
    deployment: &Deployment,
    view: &'a Topology,
    host: &NodeId,
) -> Vec<(&'a Peer, NodeId)> {
    let of = |replica: &'a Peer| {
        let Role::Replica(of) = &replica.role else { return None };
        let primary = view.by_id(of).filter(|p| p.health == Health::Up)?;
        Some((replica, host_of(deployment, primary)?))
    };
    let is_here =
        |r: &&Peer| r.health == Health::Up && host_of(deployment, r).as_ref() == Some(host);
    view.peers().iter().filter(is_here).filter_map(of).collect()
}

/// Whether this replica is one too many, with everything else in place: every primary up and with a
/// replica, and every host up.
pub(super) fn is_superfluous(deployment: &Deployment, view: &Topology, replica: &Peer) -> bool {
    let is_whole = view.primaries().iter().all(|p| p.health == Health::Up)
        && without_replica(deployment, view).is_empty();
    let is_up = |host: &NodeId| {
        let mut peers =
            view.peers().iter().filter(|p| host_of(deployment, p).as_ref() == Some(host));
        peers.any(|p| p.health == Health::Up)
    };
    !who_stays(deployment, view, replica).is_empty()
        && is_whole
        && deployment.members.iter().all(|m| is_up(&m.name))
}

pub(super) fn host_of(deployment: &Deployment, peer: &Peer) -> Option<NodeId> {
    deployment.server_at(peer.address.ip, peer.address.port).map(|s| s.host)
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
        Deployment::new(Durability::Interval, 2, Engine::Servers, (1..=hosts).map(member).collect())
            .unwrap()
    }

    fn id(host: u8, server: u8) -> ServerId {
        ServerId(format!("{host:020x}{server:020x}"))
    }

    /// Host, server, flags, and the slots or whom it follows.
    type Line = (u8, u8, &'static str, Result<&'static str, (u8, u8)>);

    fn view(lines: &[Line]) -> Topology {
        let text: Vec<String> = lines
            .iter()
            .map(|(host, server, flags, role)| {
                let (follows, slots) = match role {
                    Ok(slots) => ("-".to_owned(), *slots),
                    Err((h, s)) => (id(*h, *s).0, ""),
                };
                let port = 7401 + 2 * u16::from(*server);
                format!(
                    "{} 10.0.0.{host}:{port}@{} {flags} {follows} 0 0 1 connected {slots}",
                    id(*host, *server),
                    port + 1
                )
            })
            .collect();
        Topology::parse(&text.join("\n")).unwrap()
    }

    fn whole() -> Vec<Line> {
        vec![
            (1, 0, "master", Ok("0-99")),
            (2, 0, "master", Ok("100-199")),
            (3, 0, "master", Ok("200-299")),
            (2, 1, "slave", Err((1, 0))),
            (3, 1, "slave", Err((2, 0))),
            (1, 1, "slave", Err((3, 0))),
        ]
    }

    #[test]
    fn a_whole_cluster_is_left_alone() {
        let (deployment, view) = (deployment(3), view(&whole()));
        assert!(without_replica(&deployment, &view).is_empty());
        for host in ["n1", "n2", "n3"] {
            assert!(due_promotion(&deployment, &view, &NodeId(host.into())).is_none());
        }
        for peer in view.peers() {
            assert!(!is_superfluous(&deployment, &view, peer));
        }
    }

    #[test]
    fn the_sole_replica_is_the_one_that_may_take_over() {
        let view = view(&whole());
        assert_eq!(sole_replica(&view, &id(1, 0)).unwrap().id, id(2, 1));
        assert!(sole_replica(&view, &id(2, 1)).is_none());
    }

    #[test]
    fn with_two_replicas_none_is_the_sole_one_even_when_one_is_dead() {
        let mut lines = whole();
        lines.push((3, 2, "slave,fail", Err((1, 0))));
        assert!(sole_replica(&view(&lines), &id(1, 0)).is_none());
        let mut lines = whole();
        lines[3].2 = "slave,fail?";
        assert!(sole_replica(&view(&lines), &id(1, 0)).is_none());
    }

    #[test]
    fn a_lost_host_is_made_up_for_by_the_others() {
        // Host 2 is gone; its replica on host 3 was promoted, and shard 1 lost its replica.
        let lines = [
            (1, 0, "master", Ok("0-99")),
            (2, 0, "master,fail", Ok("")),
            (3, 0, "master", Ok("200-299")),
            (2, 1, "slave,fail", Err((1, 0))),
            (3, 1, "master", Ok("100-199")),
            (1, 1, "slave", Err((3, 0))),
        ];
        let (deployment, view) = (deployment(3), view(&lines));
        let wanting = without_replica(&deployment, &view)[0];
        assert_eq!(wanting.id, id(1, 0));
        assert!(surplus_replica(&deployment, &view, wanting).is_none());
        assert_eq!(host_for_new_server(&deployment, &view, wanting), Some(NodeId("n3".into())));
        let other = view.by_id(&id(3, 1)).unwrap();
        assert_eq!(host_for_new_server(&deployment, &view, other), Some(NodeId("n1".into())));
    }

    #[test]
    fn a_spare_replica_goes_where_one_is_missing_and_later_away() {
        let mut lines = whole();
        lines[3].2 = "slave,fail";
        lines.push((2, 2, "slave", Err((3, 0))));
        let deployment = deployment(3);
        let before = view(&lines);
        let wanting = without_replica(&deployment, &before)[0];
        assert_eq!(surplus_replica(&deployment, &before, wanting).unwrap().id, id(2, 2));
        lines[3].2 = "slave";
        let after = view(&lines);
        assert!(!is_superfluous(&deployment, &after, after.by_id(&id(1, 1)).unwrap()));
        assert!(is_superfluous(&deployment, &after, after.by_id(&id(2, 2)).unwrap()));
    }

    #[test]
    fn of_two_replicas_one_stays_whoever_decides() {
        // Host 2 is cut off, which is why shard 1 lacks a replica, and host 1 has just stopped its server 2: others do not
        // know of that yet.
        let mut lines = whole();
        lines[3].2 = "slave,fail";
        lines.push((1, 2, "slave", Err((2, 0))));
        let deployment = deployment(3);
        let surplus = |lines: &[Line]| {
            let view = view(lines);
            let wanting = without_replica(&deployment, &view)[0];
            assert_eq!(wanting.id, id(1, 0));
            surplus_replica(&deployment, &view, wanting).map(|peer| peer.id.clone())
        };
        assert_eq!(surplus(&lines), None, "the other one may go because of this one");
        // One that comes behind another may go, but not from a shard that needs a new primary.
        lines.push((3, 2, "slave", Err((2, 0))));
        assert_eq!(surplus(&lines), Some(id(3, 2)));
        lines[1].2 = "master,fail";
        assert_eq!(surplus(&lines), None);
        lines[1].2 = "master,fail?";
        assert_eq!(surplus(&lines), None);
    }

    #[test]
    fn a_host_that_returned_gets_its_share_of_primaries_back() {
        // The replica of host 1 was promoted on host 2; host 1 came back as its replica.
        let lines = [
            (2, 1, "master", Ok("0-99")),
            (2, 0, "master", Ok("100-199")),
            (3, 0, "master", Ok("200-299")),
            (1, 0, "slave", Err((2, 1))),
            (3, 1, "slave", Err((2, 0))),
            (1, 1, "slave", Err((3, 0))),
        ];
        let (deployment, view) = (deployment(3), view(&lines));
        let due = |host: &str| due_promotion(&deployment, &view, &NodeId(host.into()));
        assert_eq!(due("n1").unwrap().id, id(1, 0));
        assert!(due("n2").is_none() && due("n3").is_none());
    }

    #[test]
    fn a_host_without_a_replica_of_the_crowded_one_relieves_a_third() {
        // Host 1 is back, with replicas of the only primaries of hosts 2 and 4.
        let mut lines = vec![
            (2, 0, "master", Ok("0-99")),
            (3, 0, "master", Ok("100-199")),
            (3, 1, "master", Ok("200-299")),
            (4, 1, "master", Ok("300-399")),
            (1, 0, "slave", Err((2, 0))),
            (1, 1, "slave", Err((4, 1))),
            (2, 1, "slave", Err((3, 0))),
            (4, 0, "slave", Err((3, 1))),
        ];
        let deployment = deployment(4);
        let due = |lines: &[Line], host: &str| {
            let view = view(lines);
            due_promotion(&deployment, &view, &NodeId(host.into())).map(|p| p.id.clone())
        };
        assert_eq!(due(&lines, "n1"), Some(id(1, 0)));
        assert!(["n2", "n3", "n4"].iter().all(|host| due(&lines, host).is_none()));
        // It has taken over; now that host has none, and a replica of the crowded one.
        lines[0] = (1, 0, "master", Ok("0-99"));
        lines[4] = (2, 0, "slave", Err((1, 0)));
        assert_eq!(due(&lines, "n2"), Some(id(2, 1)));
        assert!(["n1", "n3", "n4"].iter().all(|host| due(&lines, host).is_none()));
        // Without a way nobody moves.
        lines.truncate(6);
        assert!(["n1", "n2", "n3", "n4"].iter().all(|host| due(&lines, host).is_none()));
    }

    #[test]
    fn a_replica_on_the_host_of_its_primary_counts_for_nothing() {
        // Host 1 took the primary over from host 3; its other server, a replica of the same, follows it now.
        let mut lines = vec![
            (1, 1, "master", Ok("0-99")),
            (2, 0, "master", Ok("100-199")),
            (3, 0, "master", Ok("200-299")),
            (4, 1, "master", Ok("300-399")),
            (1, 0, "slave", Err((1, 1))),
            (2, 1, "slave", Err((1, 1))),
            (3, 1, "slave", Err((2, 0))),
            (4, 0, "slave", Err((3, 0))),
        ];
        let deployment = deployment(4);
        let before = view(&lines);
        let wanting = without_replica(&deployment, &before);
        assert_eq!(wanting.iter().map(|p| p.id.clone()).collect::<Vec<_>>(), [id(4, 1)]);
        // Not the one that would leave the first shard on one host.
        assert_eq!(surplus_replica(&deployment, &before, wanting[0]).unwrap().id, id(1, 0));
        // Had it gone all the same, the first would want one now, and nobody can spare any: two change places.
        lines[5].3 = Err((4, 1));
        let after = view(&lines);
        let wanting = without_replica(&deployment, &after);
        assert_eq!(wanting.iter().map(|p| p.id.clone()).collect::<Vec<_>>(), [id(1, 1)]);
        assert!(surplus_replica(&deployment, &after, wanting[0]).is_none());
        let (replica, to) = exchange(&deployment, &after, wanting[0]).unwrap();
        assert_eq!((replica.id.clone(), to.id.clone()), (id(1, 0), id(2, 0)));
        lines[4].3 = Err((2, 0));
        let exchanged = view(&lines);
        let wanting = without_replica(&deployment, &exchanged);
        assert_eq!(wanting.iter().map(|p| p.id.clone()).collect::<Vec<_>>(), [id(1, 1)]);
        assert_eq!(surplus_replica(&deployment, &exchanged, wanting[0]).unwrap().id, id(3, 1));
        assert!(!is_superfluous(&deployment, &before, before.by_id(&id(2, 1)).unwrap()));
    }
}
