//! What is done once a second: asking again for locks that are waited for or in doubt, and dropping those of hosts that died.

use intarsia_sync::Instant;
use intarsia_types::InodeId;
use intarsia_wire::LockPlace;

use super::master::Host;
use super::master::Master;
use super::{ATTEMPT, Locks};

/// Looking after what waits.
impl Locks {
    pub(super) fn look_after_locks(&self) {
        self.lose_locks_of_earlier_life();
        self.drop_dead_hosts();
        for (ino, entry) in self.all_entries() {
            let is_doubtful = entry.held.lock().is_doubtful;
            if is_doubtful || !self.tickets(ino).is_empty() {
                self.run(move |locks| locks.look_after_file(ino));
            }
        }
    }

    /// Asks again for the locks that are waited for, unless somebody is asking just now.
    fn look_after_file(&self, ino: InodeId) {
        let Some(entry) = self.known(ino) else { return };
        if entry.turn.is_locked() {
            return;
        }
        self.settle_doubt(ino);
        for ticket in self.tickets(ino) {
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
    fn lose_locks_of_earlier_life(&self) {
        let life = self.cluster.life().life;
        if std::mem::replace(&mut *self.life.lock(), life) == life {
            return;
        }
        self.masters.lock().clear();
        for (ino, entry) in self.all_entries() {
            let mut held = entry.held.lock();
            held.lose_all();
            if held.is_lost {
                tracing::error!(%ino, "the locks of an open file are lost with this host's membership");
            }
        }
    }

    fn drop_dead_hosts(&self) {
        let mut woken = Vec::new();
        let is_gone = |host: &Host| self.cluster.is_life_over(host);
        let has_dead = |master: &Master| master.hosts().iter().any(is_gone);
        if !self.masters.lock().values().any(has_dead) || self.cluster.meet().is_err() {
            // The members have to be read anew first, so that a host that has just joined is not taken for dead.
            return;
        }
        {
            let mut masters = self.masters.lock();
            for (ino, master) in &mut *masters {
                if has_dead(master) {
                    let wakes = master.retain_hosts(|host| !is_gone(host));
                    woken.push((*ino, master.epoch(), wakes));
                }
            }
        }
        for (ino, epoch, wakes) in woken {
            tracing::warn!(%ino, "locks of a lost host are gone");
            self.wake_all(LockPlace { ino, epoch, life: 0 }, wakes);
            self.resign_if_idle(ino);
        }
    }
}
