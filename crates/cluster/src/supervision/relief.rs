//! How servers that were added for a lost host can go when it is back, although its own servers went to other shards than
//! these: a shard that has none but added replicas gets one that another shard can spare. No I/O.

use super::balance::{Scene, is_anyone_joining, order, replicas_elsewhere, without_replica};
use super::seats;
use crate::formation::servers_per_host;
use crate::servers::Replication;
use crate::topology::{Health, Peer, Role};

/// The replica that should go over to another shard, those of its own shard that stay, and the primary of the other.
pub(super) struct Relief<'a> {
    pub(super) replica: &'a Peer,
    pub(super) stays: Vec<&'a Peer>,
    pub(super) to: &'a Peer,
}

/// What frees an added replica, with everything else in place.
pub(super) fn relief<'a>(scene: Scene<'a>, replication: Replication) -> Option<Relief<'a>> {
    let primaries = scene.view.primaries();
    let is_whole = primaries.iter().all(|primary| primary.health == Health::Up)
        && without_replica(scene, replication).is_empty()
        && !is_anyone_joining(scene.view);
    if replication == Replication::Alone || !is_whole {
        return None;
    }
    let has_only_added = |primary: &&Peer| {
        replicas_elsewhere(scene, primary).iter().all(|replica| !is_first(scene, replica))
    };
    primaries.into_iter().filter(has_only_added).find_map(|to| spared(scene, to))
}

/// A replica that another shard can spare for the one of `to`.
fn spared<'a>(scene: Scene<'a>, to: &'a Peer) -> Option<Relief<'a>> {
    let home = scene.host_of(to);
    let of = |replica: &'a Peer| {
        let host = scene.host_of(replica);
        let is_fit = replica.health == Health::Up
            && is_first(scene, replica)
            && host != home
            && !scene.is_leaving(replica)
            && host.is_some_and(|host| !seats::is_needless(scene, &host));
        let stays = is_fit.then(|| others(scene, replica)).filter(|others| !others.is_empty())?;
        Some(Relief { replica, stays, to })
    };
    let all = scene.view.peers().iter().filter_map(of);
    all.max_by(|a, b| order(scene, a.replica).cmp(&order(scene, b.replica)))
}

/// The other replicas of its shard that count and were not added.
fn others<'a>(scene: Scene<'a>, replica: &Peer) -> Vec<&'a Peer> {
    let Role::Replica(of) = &replica.role else { return Vec::new() };
    let Some(primary) = scene.view.by_id(of) else { return Vec::new() };
    let mut others = replicas_elsewhere(scene, primary);
    others.retain(|other| {
        other.id != replica.id && other.health == Health::Up && is_first(scene, other)
    });
    others
}

/// Whether a server is one of those that its host has from the beginning.
fn is_first(scene: Scene<'_>, peer: &Peer) -> bool {
    let (number, _) = order(scene, peer);
    number.is_some_and(|number| number < servers_per_host(scene.deployment))
}

#[cfg(test)]
mod tests {
    use super::super::balance::is_superfluous;
    use super::super::examples::{deployment, id, scene, view, whole};
    use super::*;
    use crate::servers::Replication::Required;

    #[test]
    fn an_added_replica_that_is_the_only_one_of_its_shard_is_relieved() {
        // Host 1 was lost and is back: its servers follow the shards of host 2, and that of host 3 has what was added.
        let mut lines = vec![
            (1, 1, "master", Ok("0-5460")),
            (2, 0, "master", Ok("5461-10922")),
            (3, 0, "master", Ok("10923-16383")),
            (2, 1, "slave", Err((1, 1))),
            (3, 1, "slave", Err((2, 0))),
            (1, 0, "slave", Err((2, 0))),
            (2, 2, "slave", Err((3, 0))),
        ];
        let deployment = deployment(3);
        let before = view(&lines);
        let is_kept = |view: &_, server| {
            let peer = crate::topology::Topology::by_id(view, &server).unwrap();
            !is_superfluous(scene(&deployment, view), Required, peer)
        };
        assert!(is_kept(&before, id(2, 2)), "it is all that the shard has");
        let found = relief(scene(&deployment, &before), Required).unwrap();
        assert_eq!((&found.replica.id, &found.to.id), (&id(1, 0), &id(3, 0)));
        assert_eq!(found.stays.iter().map(|peer| &peer.id).collect::<Vec<_>>(), [&id(3, 1)]);
        lines[5].3 = Err((3, 0));
        let after = view(&lines);
        assert!(relief(scene(&deployment, &after), Required).is_none());
        assert!(!is_kept(&after, id(2, 2)) && is_kept(&after, id(1, 0)));
    }

    #[test]
    fn nothing_moves_where_nothing_was_added_or_something_is_missing() {
        let deployment = deployment(3);
        let relieved = |lines: &[_]| relief(scene(&deployment, &view(lines)), Required).is_some();
        let mut lines = whole();
        assert!(!relieved(&lines));
        // Host 3 holds for the replica of host 2 that is lost.
        lines[3].2 = "slave,fail";
        lines.push((3, 2, "slave", Err((1, 0))));
        assert!(!relieved(&lines), "it may come back");
        let _back = lines.remove(3);
        assert!(!relieved(&lines), "no other shard can spare one");
        lines[1].2 = "master,fail?";
        assert!(!relieved(&lines));
    }
}
