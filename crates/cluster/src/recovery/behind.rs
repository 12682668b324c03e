//! Which of several replicas takes the place of a primary that is gone. One that was away may lack what the primary and
//! the others have acknowledged meanwhile. Its files do not tell: the others noted in theirs that it was away.

use intarsia_types::NodeId;

use super::{Witness, last_owners};
use crate::deployment::ServerName;
use crate::servers::Kept;
use crate::topology::{Health, ServerId};

/// Replicas that are not to take over.
type PassedOver = Vec<ServerName>;
/// Hosts whose copy is the best there is and may lack something, and when it was last known to be up to date.
type Older = Vec<(NodeId, i64)>;

/// Leaves each primary that is gone one heir: a replica that the others did not give up, if there is one, and of several
/// the one that wrote its map last.
pub(super) fn choose_heirs(
    kept: &[(NodeId, Kept)],
    witnesses: &mut [Witness],
) -> (PassedOver, Older) {
    let (mut passed_over, mut older) = (Vec::new(), Vec::new());
    for id in last_owners(witnesses).into_keys() {
        let is_alive = |w: &Witness| w.view.myself().is_some_and(|me| me.id == id);
        if witnesses.iter().any(is_alive) {
            continue;
        }
        let follows = |w: &Witness| w.view.myself().is_some_and(|me| me.is_replica_of(&id));
        let is_heir = |w: &&Witness| w.survivor.is_complete && follows(w);
        let rank =
            |heir: &Witness| (!is_behind(witnesses, heir, &id), since_s(kept, &heir.survivor.name));
        let heirs = witnesses.iter().filter(is_heir);
        let Some(best) = heirs.max_by_key(|heir| rank(heir)) else { continue };
        let (is_newest, since_s) = rank(best);
        let best = best.survivor.name.clone();
        if !is_newest {
            older.push((best.host.clone(), since_s));
        }
        for witness in witnesses.iter_mut().filter(|w| follows(w) && w.survivor.is_complete) {
            if witness.survivor.name != best {
                witness.survivor.is_complete = false;
                passed_over.push(witness.survivor.name.clone());
            }
        }
    }
    (passed_over, older)
}

/// Whether a primary may have acknowledged changes that this replica does not have: somebody knew that it was away, and
/// of another replica that was not. What somebody knew does not count whom the replica saw go, for it was there later.
fn is_behind(witnesses: &[Witness], replica: &Witness, primary: &ServerId) -> bool {
    let Some(own) = replica.view.myself() else { return true };
    witnesses.iter().any(|witness| {
        let gave_up = |by: &Witness, id: &ServerId| {
            by.view.by_id(id).is_some_and(|peer| peer.health == Health::Failed)
        };
        let mut others = witness.view.replicas_of(primary).filter(|other| other.id != own.id);
        let Some(author) = witness.view.myself() else { return false };
        gave_up(witness, &own.id)
            && others.any(|other| other.health != Health::Failed)
            && !gave_up(replica, &author.id)
    })
}

fn since_s(kept: &[(NodeId, Kept)], name: &ServerName) -> i64 {
    let is_same = |(host, kept): &&(NodeId, Kept)| *host == name.host && kept.number == name.number;
    kept.iter().find(is_same).map_or(0, |(_, kept)| kept.since_s)
}
