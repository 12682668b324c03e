//! What is looked after once a second: locks that are waited for or in doubt, and hosts that have died.

use intarsia_sync::Instant;
use intarsia_types::InodeId;
use intarsia_wire::LockPlace;

use super::master::Host;
use super::master::Master;
use super::{ATTEMPT, Locks};
use crate::membership::cluster::Cluster;
use crate::node::Node;

/// Looking after what waits.
impl Node {
    pub(super) fn look_after_locks(&self) {
        let Ok((locks, cluster)) = self.lock_parts() else { return };
        self.lose_locks_of_earlier_life(locks, cluster);
        self.drop_dead_hosts(locks, cluster);
        for (ino, entry) in locks.all_entries() {
            let is_doubtful = entry.held.lock().is_doubtful;
            if is_doubtful || !locks.tickets(ino).is_empty() {
                locks.run(move |node| node.look_after_file(ino));
            }
        }
    }

    /// Asks again for the locks that are waited for, unless somebody is asking just now.
    fn look_after_file(&self, ino: InodeId) {
        let Ok((locks, _)) = self.lock_parts() else { return };
        let Some(entry) = locks.known(ino) else { return };
        if entry.turn.is_locked() {
            return;
        }
        self.settle_doubt(ino);
        for ticket in locks.tickets(ino) {
            if entry.turn.is_locked() || entry.held.lock().is_doubtful {
                return;
            }
            self.pursue_lock(ticket, Instant::now() + ATTEMPT);
        }
    }

    /// Tells the master what is held here, after an answer was lost.
    fn settle_doubt(&self, ino: InodeId) {
        let settled = self.with_turn(ino, Instant::now() + ATTEMPT, |turn| {
            if !turn.entry.held.lock().is_doubtful {
                return Ok(());
            }
            let place = self.find_master(turn)?;
            self.assert_claims(turn, &place)
        });
        match settled {
            Ok(()) => self.forget_locks(ino),
            Err(error) => tracing::debug!(%ino, %error, "the lock master is told later"),
        }
    }

    /// The others have given this host up, and its locks with it.
    fn lose_locks_of_earlier_life(&self, locks: &Locks, cluster: &Cluster) {
        let life = cluster.life().life;
        if std::mem::replace(&mut *locks.life.lock(), life) == life {
            return;
        }
        locks.masters.lock().clear();
        for (ino, entry) in locks.all_entries() {
            let mut held = entry.held.lock();
            held.lose_all();
            if held.is_lost {
                tracing::error!(%ino, "the locks of an open file are lost with this host's membership");
            }
        }
    }

    fn drop_dead_hosts(&self, locks: &Locks, cluster: &Cluster) {
        let mut woken = Vec::new();
        let is_gone = |host: &Host| cluster.is_life_over(host);
        let has_dead = |master: &Master| master.hosts().iter().any(is_gone);
        if !locks.masters.lock().values().any(has_dead) || cluster.meet().is_err() {
            // A host that has just joined is not dead: what is known of the members is known anew.
            return;
        }
        {
            let mut masters = locks.masters.lock();
            for (ino, master) in &mut *masters {
                if has_dead(master) {
                    let wakes = master.retain_hosts(|host| !is_gone(host));
                    woken.push((*ino, master.epoch(), wakes));
                }
            }
        }
        for (ino, epoch, wakes) in woken {
            tracing::warn!(%ino, "locks of a lost host are gone");
            self.wake_all(cluster, LockPlace { ino, epoch, life: 0 }, wakes);
            self.resign_if_idle(ino);
        }
    }
}
