//! Decisions about the whole Cluster that every host takes for itself from the same scene. No I/O.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use intarsia_types::NodeId;

use super::roster::Hosts;
use super::seats;
use crate::deployment::Deployment;
use crate::servers::Replication;
use crate::topology::{Health, Peer, Role, ServerId, Topology};

/// What decisions follow from.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) deployment: &'a Deployment,
    /// What the servers say.
    pub(super) view: &'a Topology,
    /// What the members' records say.
    pub(super) hosts: &'a Hosts,
}

impl Scene<'_> {
    /// The host of a server.
    pub(super) fn host_of(&self, peer: &Peer) -> Option<NodeId> {
        self.deployment.server_at(peer.address.ip, peer.address.port).map(|s| s.host)
    }

    /// Whether a server's host is about to leave, so that what it holds has to be elsewhere.
    pub(super) fn is_leaving(&self, peer: &Peer) -> bool {
        self.host_of(peer).is_some_and(|host| self.hosts.is_leaving(&host))
    }
}

/// The only replica that a primary has, dead ones counted.
pub(super) fn sole_replica<'a>(view: &'a Topology, primary: &'a ServerId) -> Option<&'a Peer> {
    let mut replicas = view.replicas_of(primary);
    let first = replicas.next()?;
    (replicas.next().is_none() && first.health == Health::Up).then_some(first)
}

/// Whom a replica should follow that follows another replica: the primary that this one follows. Redis 7.0 leaves it so
/// when it hears that its primary has become a replica before it hears who has the slots now; it would never hold
/// for a copy of its shard then.
pub(super) fn head_of_chain<'a>(view: &'a Topology, replica: &Peer) -> Option<&'a Peer> {
    let Role::Replica(of) = &replica.role else { return None };
    let Role::Replica(head) = &view.by_id(of)?.role else { return None };
    view.by_id(head).filter(|head| head.has_slots() && head.health == Health::Up)
}

/// The replicas of a primary on other hosts than its own, which is what they are for, that are not about to leave.
pub(super) fn replicas_elsewhere<'a>(scene: Scene<'a>, primary: &Peer) -> Vec<&'a Peer> {
    let home = scene.host_of(primary);
    let all = scene.view.replicas_of(&primary.id);
    all.filter(|replica| scene.host_of(replica) != home && !scene.is_leaving(replica)).collect()
}

/// The primaries that are up and have no replica on another host, those not given up counted. Where there is one shard
/// without replicas, the primary of a host that leaves wants one all the same.
pub(super) fn without_replica<'a>(scene: Scene<'a>, replication: Replication) -> Vec<&'a Peer> {
    let is_lacking = |p: &&Peer| {
        p.health == Health::Up
            && (replication == Replication::Required || scene.is_leaving(p))
            && replicas_elsewhere(scene, p).iter().all(|r| r.health == Health::Failed)
    };
    scene.view.primaries().into_iter().filter(is_lacking).collect()
}

/// Whether every primary is up and has a replica.
pub(super) fn is_whole(scene: Scene<'_>, replication: Replication) -> bool {
    scene.view.primaries().iter().all(|primary| primary.health == Health::Up)
        && without_replica(scene, replication).is_empty()
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
pub(super) fn surplus_replica<'a>(scene: Scene<'a>, wanting: &Peer) -> Option<&'a Peer> {
    let home = scene.host_of(wanting);
    let is_free = |replica: &Peer| {
        replica.health == Health::Up
            && scene.host_of(replica) != home
            && !scene.is_leaving(replica)
            && !who_stays(scene, replica).is_empty()
    };
    scene.view.peers().iter().filter(|peer| is_free(peer)).max_by(|a, b| a.id.cmp(&b.id))
}

/// The replicas of which one has to have everything for `replica` to leave its shard: those that are up, on other hosts than
/// the primary's, and before it in the order of all, unless it counts for nothing itself. None while the primary is not
/// up: one of them is about to take its place.
///
/// By the order two never go at the same time, each because of the other.
pub(super) fn who_stays<'a>(scene: Scene<'a>, replica: &Peer) -> Vec<&'a Peer> {
    let Role::Replica(of) = &replica.role else { return Vec::new() };
    let Some(primary) = scene.view.by_id(of).filter(|p| p.health == Health::Up) else {
        return Vec::new();
    };
    let is_idle = scene.host_of(replica) == scene.host_of(primary) || scene.is_leaving(replica);
    let stays = |other: &&Peer| {
        other.id != replica.id
            && other.health == Health::Up
            && (is_idle || order(scene, other) < order(scene, replica))
    };
    replicas_elsewhere(scene, primary).into_iter().filter(stays).collect()
}

/// An order of all servers, those that were added later behind the others.
pub(super) fn order(scene: Scene<'_>, peer: &Peer) -> (Option<u16>, ServerId) {
    let name = scene.deployment.server_at(peer.address.ip, peer.address.port);
    (name.map(|name| name.number), peer.id.clone())
}

/// For a shard whose only replica is on the host of its primary, `wanting`, and that gets none from elsewhere: that
/// replica, and the primary that it should follow instead, whose replica is then free for `wanting`.
pub(super) fn exchange<'a>(scene: Scene<'a>, wanting: &Peer) -> Option<(&'a Peer, &'a Peer)> {
    let home = scene.host_of(wanting);
    let is_here = |peer: &Peer| scene.host_of(peer) == home;
    let replicas = || scene.view.replicas_of(&wanting.id);
    let idle = replicas().find(|r| r.health == Health::Up && is_here(r) && !scene.is_leaving(r))?;
    let has_one_for_it = |primary: &&Peer| {
        primary.health == Health::Up
            && !is_here(primary)
            && replicas_elsewhere(scene, primary).iter().any(|replica| {
                replica.health == Health::Up
                    && !is_here(replica)
                    && order(scene, idle) < order(scene, replica)
            })
    };
    let to = scene.view.primaries().into_iter().find(has_one_for_it)?;
    Some((idle, to))
}

/// The replica of `host` that should become primary: of one on a host that leaves, or because the host has none, and another
/// has two or more. Where `host` has no replica of one of these, it relieves a third, which then has none and is next; by
/// the shortest such way.
pub(super) fn due_promotion<'a>(scene: Scene<'a>, host: &NodeId) -> Option<&'a Peer> {
    let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
    for home in scene.view.primaries().into_iter().filter_map(|p| scene.host_of(p)) {
        *counts.entry(home).or_default() += 1;
    }
    if let Some(heir) =
        heir_of_leaving(scene, &counts).filter(|r| scene.host_of(r).as_ref() == Some(host))
    {
        return Some(heir);
    }
    if counts.contains_key(host) || scene.hosts.is_leaving(host) {
        return None;
    }
    // Each host with the replica of `host` that the way to it begins with.
    let mut ways: VecDeque<(NodeId, Option<&Peer>)> = VecDeque::from([(host.clone(), None)]);
    let mut reached = BTreeSet::from([host.clone()]);
    while let Some((at, begin)) = ways.pop_front() {
        if counts.get(&at).is_some_and(|count| *count > 1) {
            return begin;
        }
        for (replica, next) in relieves(scene, &at) {
            if reached.insert(next.clone()) {
                ways.push_back((next, begin.or(Some(replica))));
            }
        }
    }
    None
}

/// The replica that is to take over the first primary on a host that leaves: on the host with the fewest primaries.
fn heir_of_leaving<'a>(scene: Scene<'a>, counts: &BTreeMap<NodeId, usize>) -> Option<&'a Peer> {
    let leaves = |p: &&Peer| p.health == Health::Up && scene.is_leaving(p);
    let primary = scene.view.primaries().into_iter().find(leaves)?;
    let load = |replica: &Peer| {
        let count = scene.host_of(replica).and_then(|host| counts.get(&host).copied());
        (count.unwrap_or(0), order(scene, replica))
    };
    let heirs = replicas_elsewhere(scene, primary).into_iter();
    heirs.filter(|replica| replica.health == Health::Up).min_by_key(|replica| load(replica))
}

/// The replicas of `host` that are up, each with the host of its primary.
fn relieves<'a>(scene: Scene<'a>, host: &NodeId) -> Vec<(&'a Peer, NodeId)> {
    let of = |replica: &'a Peer| {
        let Role::Replica(of) = &replica.role else { return None };
        let primary = scene.view.by_id(of).filter(|p| p.health == Health::Up)?;
        Some((replica, scene.host_of(primary)?))
    };
    let is_here = |r: &&Peer| r.health == Health::Up && scene.host_of(r).as_ref() == Some(host);
    scene.view.peers().iter().filter(is_here).filter_map(of).collect()
}

/// Whether this replica is one too many, with everything else in place: every primary up and with a
/// replica, and servers on each host that is to have some. A host that leaves waits for its own shards alone.
pub(super) fn is_superfluous(scene: Scene<'_>, replication: Replication, replica: &Peer) -> bool {
    let Role::Replica(of) = &replica.role else { return false };
    if replication == Replication::Alone {
        let stays = |p: &Peer| p.health == Health::Up && !scene.is_leaving(p);
        return scene.view.by_id(of).is_some_and(stays);
    }
    let is_whole = || is_whole(scene, replication) && seats::are_all_taken(scene);
    !seats::who_stays_for_good(scene, replica).is_empty()
        && (scene.is_leaving(replica) || is_whole())
}

#[cfg(test)]
mod tests {
    use super::super::examples::{Line, deployment, hosts, id, name, scene, view, whole};
    use super::*;
    use crate::servers::Replication::Required;

    #[test]
    fn a_whole_cluster_is_left_alone() {
        let (deployment, view) = (deployment(3), view(&whole()));
        assert!(without_replica(scene(&deployment, &view), Required).is_empty());
        for host in ["n1", "n2", "n3"] {
            assert!(due_promotion(scene(&deployment, &view), &NodeId(host.into())).is_none());
        }
        for peer in view.peers() {
            assert!(!is_superfluous(scene(&deployment, &view), Required, peer));
        }
    }

    #[test]
    fn a_replica_of_a_replica_is_to_follow_the_primary() {
        let mut lines = whole();
        assert!(view(&lines).peers().iter().all(|p| head_of_chain(&view(&lines), p).is_none()));
        // Host 4 took over from the server of host 2 that had taken over from host 1.
        lines[0] = (1, 0, "slave", Err((2, 1)));
        lines[3] = (2, 1, "slave", Err((4, 1)));
        lines.push((4, 1, "master", Ok("0-5460")));
        let chained = view(&lines);
        let head = |server| head_of_chain(&chained, chained.by_id(&server).unwrap());
        assert_eq!(head(id(1, 0)).unwrap().id, id(4, 1));
        assert!(head(id(2, 1)).is_none() && head(id(4, 1)).is_none());
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
        let wanting = without_replica(scene(&deployment, &view), Required)[0];
        assert_eq!(wanting.id, id(1, 0));
        assert!(surplus_replica(scene(&deployment, &view), wanting).is_none());
        assert_eq!(
            seats::candidates(scene(&deployment, &view), wanting).into_iter().next(),
            Some(NodeId("n3".into()))
        );
        let other = view.by_id(&id(3, 1)).unwrap();
        assert_eq!(
            seats::candidates(scene(&deployment, &view), other).into_iter().next(),
            Some(NodeId("n1".into()))
        );
    }

    #[test]
    fn a_spare_replica_goes_where_one_is_missing_and_later_away() {
        let mut lines = whole();
        lines[3].2 = "slave,fail";
        lines.push((2, 2, "slave", Err((3, 0))));
        let deployment = deployment(3);
        let before = view(&lines);
        let wanting = without_replica(scene(&deployment, &before), Required)[0];
        assert_eq!(surplus_replica(scene(&deployment, &before), wanting).unwrap().id, id(2, 2));
        lines[3].2 = "slave";
        let after = view(&lines);
        assert!(!is_superfluous(
            scene(&deployment, &after),
            Required,
            after.by_id(&id(1, 1)).unwrap()
        ));
        assert!(is_superfluous(
            scene(&deployment, &after),
            Required,
            after.by_id(&id(2, 2)).unwrap()
        ));
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
            let wanting = without_replica(scene(&deployment, &view), Required)[0];
            assert_eq!(wanting.id, id(1, 0));
            surplus_replica(scene(&deployment, &view), wanting).map(|peer| peer.id.clone())
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
        let due = |host: &str| due_promotion(scene(&deployment, &view), &NodeId(host.into()));
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
            due_promotion(scene(&deployment, &view), &NodeId(host.into())).map(|p| p.id.clone())
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
        let wanting = without_replica(scene(&deployment, &before), Required);
        assert_eq!(wanting.iter().map(|p| p.id.clone()).collect::<Vec<_>>(), [id(4, 1)]);
        // Not the one that would leave the first shard on one host.
        assert_eq!(surplus_replica(scene(&deployment, &before), wanting[0]).unwrap().id, id(1, 0));
        // Had it gone all the same, the first would want one now, and nobody can spare any: two change places.
        lines[5].3 = Err((4, 1));
        let after = view(&lines);
        let wanting = without_replica(scene(&deployment, &after), Required);
        assert_eq!(wanting.iter().map(|p| p.id.clone()).collect::<Vec<_>>(), [id(1, 1)]);
        assert!(surplus_replica(scene(&deployment, &after), wanting[0]).is_none());
        let (replica, to) = exchange(scene(&deployment, &after), wanting[0]).unwrap();
        assert_eq!((replica.id.clone(), to.id.clone()), (id(1, 0), id(2, 0)));
        lines[4].3 = Err((2, 0));
        let exchanged = view(&lines);
        let wanting = without_replica(scene(&deployment, &exchanged), Required);
        assert_eq!(wanting.iter().map(|p| p.id.clone()).collect::<Vec<_>>(), [id(1, 1)]);
        assert_eq!(
            surplus_replica(scene(&deployment, &exchanged), wanting[0]).unwrap().id,
            id(3, 1)
        );
        assert!(!is_superfluous(
            scene(&deployment, &before),
            Required,
            before.by_id(&id(2, 1)).unwrap()
        ));
    }

    #[test]
    fn a_host_that_leaves_hands_over_before_it_goes() {
        let deployment = deployment(4).with_meta_hosts(Some(3)).unwrap();
        let leaving = hosts(&[1, 2, 3, 4], &[2]);
        let lacking = |view: &Topology| {
            let scene = Scene { deployment: &deployment, view, hosts: &leaving };
            without_replica(scene, Required).iter().map(|p| p.id.clone()).collect::<Vec<_>>()
        };
        let due = |view: &Topology, host: u8| {
            let scene = Scene { deployment: &deployment, view, hosts: &leaving };
            due_promotion(scene, &name(host)).map(|p| p.id.clone())
        };
        let superfluous = |view: &Topology, host, server| {
            let scene = Scene { deployment: &deployment, view, hosts: &leaving };
            is_superfluous(scene, Required, view.by_id(&id(host, server)).unwrap())
        };
        // Its replica counts no more; the host without servers takes one.
        let mut lines = whole();
        let before = view(&lines);
        assert_eq!(lacking(&before), [id(1, 0)]);
        let at = Scene { deployment: &deployment, view: &before, hosts: &leaving };
        let wanting = without_replica(at, Required)[0];
        let candidates = seats::candidates(at, wanting);
        assert_eq!(candidates, [name(4), name(3)]);
        assert!(!superfluous(&before, 2, 1), "nobody else has the shard");
        lines.push((4, 0, "slave", Err((1, 0))));
        let replaced = view(&lines);
        assert!(lacking(&replaced).is_empty() && superfluous(&replaced, 2, 1));
        // Then its primary goes to the host of the replica, which has one already, and what is left of it is needless
        // when there is another replica.
        assert_eq!(due(&replaced, 3), Some(id(3, 1)));
        assert!([1, 2, 4].iter().all(|host| due(&replaced, *host).is_none()));
        lines[1] = (2, 0, "slave", Err((3, 1)));
        lines[4] = (3, 1, "master", Ok("5461-10922"));
        let handed_over = view(&lines);
        assert_eq!(lacking(&handed_over), [id(3, 1)]);
        assert!(!superfluous(&handed_over, 2, 0));
        lines.push((4, 1, "slave", Err((3, 1))));
        let copied = view(&lines);
        assert!(superfluous(&copied, 2, 0) && !superfluous(&copied, 4, 1));
        assert_eq!(due(&copied, 4), Some(id(4, 1)), "the new host has no primary yet");
        lines.retain(|line| line.0 != 2);
        assert!(lacking(&view(&lines)).is_empty());
    }

    #[test]
    fn one_shard_without_replicas_goes_with_its_host() {
        let deployment = deployment(3).with_meta_hosts(Some(1)).unwrap();
        let one = [(1, 0, "master", Ok("0-16383"))];
        let stays = hosts(&[1, 2, 3], &[]);
        let leaves = hosts(&[1, 2, 3], &[1]);
        let alone = view(&one);
        let lacking = |hosts: &Hosts, view: &Topology| {
            let scene = Scene { deployment: &deployment, view, hosts };
            without_replica(scene, Replication::Alone).len()
        };
        assert_eq!((lacking(&stays, &alone), lacking(&leaves, &alone)), (0, 1));
        let both = view(&[one[0], (2, 0, "slave", Err((1, 0)))]);
        let scene = Scene { deployment: &deployment, view: &both, hosts: &leaves };
        assert_eq!(lacking(&leaves, &both), 0);
        assert_eq!(due_promotion(scene, &name(2)).map(|p| p.id.clone()), Some(id(2, 0)));
        let replica = both.by_id(&id(2, 0)).unwrap();
        assert!(!is_superfluous(scene, Replication::Alone, replica));
        let moved = view(&[(2, 0, "master", Ok("0-16383")), (1, 0, "slave", Err((2, 0)))]);
        let scene = Scene { deployment: &deployment, view: &moved, hosts: &leaves };
        let left = moved.by_id(&id(1, 0)).unwrap();
        assert!(is_superfluous(scene, Replication::Alone, left));
    }
}
