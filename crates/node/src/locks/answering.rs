//! What a host answers as the lock master of files, and to other masters.

use intarsia_sync::Instant;
use intarsia_types::{InodeId, NodeId, Result};
use intarsia_wire::{LockAnswer, LockPlace, LockQuestion, Request};

use super::asking::record_of;
use super::held::Place;
use super::master::Host;
use super::master::Master;
use super::master::Wake;
use super::{ATTEMPT, Locks};

/// Being asked.
impl Locks {
    /// Answers a question about locks from `node`, which may be this host. Questions with a `number` are answered in that
    /// order; one that comes after a later one is refused.
    ///
    /// # Errors
    /// What makes no sense or comes too late, and any question while this host may have been given up by the others.
    pub(crate) fn answer_lock(
        &self,
        node: &NodeId,
        about: LockPlace,
        number: Option<u64>,
        question: LockQuestion,
    ) -> Result<LockAnswer> {
        let host = Host { node: node.clone(), life: about.life };
        match question {
            LockQuestion::Report => Ok(self.report_claims(host, about)),
            LockQuestion::Wake { ticket } => {
                self.hear_wake(about.ino, ticket);
                Ok(LockAnswer::Done)
            }
            question => {
                self.cluster.require_current()?;
                self.cluster.require_member(node)?;
                let (answer, wakes, is_idle) = {
                    let mut masters = self.masters.lock();
                    let master = masters.get_mut(&about.ino).filter(|m| m.epoch() == about.epoch);
                    let Some(master) = master else {
                        return Ok(LockAnswer::NotMaster { life: self.cluster.life().life });
                    };
                    if let Some(number) = number {
                        master.admit(&host, number)?;
                    }
                    let (answer, wakes) = master.answer(&host, &question)?;
                    (answer, wakes, master.is_idle())
                };
                self.wake_all(about, wakes);
                if is_idle && self.known(about.ino).is_none() {
                    self.run(move |locks| locks.resign_if_idle(about.ino));
                }
                Ok(answer)
            }
        }
    }

    /// Tells a new master which locks are held here, and turns to it from now on.
    fn report_claims(&self, master: Host, about: LockPlace) -> LockAnswer {
        {
            let mut masters = self.masters.lock();
            if masters.get(&about.ino).is_some_and(|mine| mine.epoch() < about.epoch) {
                masters.remove(&about.ino);
            }
        }
        let claims = self.known(about.ino).map_or_else(Vec::new, |entry| {
            let mut held = entry.held.lock();
            let is_newer = held.place.as_ref().is_none_or(|place| place.epoch < about.epoch);
            if is_newer {
                held.place = Some(Place { master, epoch: about.epoch });
                held.is_doubtful = false;
            }
            held.claims()
        });
        LockAnswer::Claims { life: self.cluster.life().life, claims }
    }

    fn hear_wake(&self, ino: InodeId, ticket: u64) {
        if self.waiters.lock().waiting.contains_key(&ticket) {
            return self.run(move |locks| locks.pursue_lock(ticket, Instant::now() + ATTEMPT));
        }
        // A lock was granted to a process that waits no longer, so the master has to be told to drop it.
        if let Some(entry) = self.known(ino) {
            entry.held.lock().is_doubtful = true;
        }
    }

    pub(super) fn wake_all(&self, about: LockPlace, wakes: Vec<Wake>) {
        let me = self.cluster.life();
        for Wake { host, ticket } in wakes {
            if host == me {
                self.hear_wake(about.ino, ticket);
                continue;
            }
            let place = LockPlace { life: me.life, ..about };
            let request = Request::Lock { place, question: LockQuestion::Wake { ticket } };
            if let Err(error) = self.cluster.tell(&host.node, &request) {
                tracing::debug!(host = %host.node, %error, "a host finds out by itself that it has a lock");
            }
        }
    }

    /// Stops being the lock master if nobody has locks and no program here has the file open.
    pub(super) fn resign_if_idle(&self, ino: InodeId) {
        let epoch = {
            let mut masters = self.masters.lock();
            let is_idle = masters.get(&ino).is_some_and(Master::is_idle);
            if !is_idle || self.known(ino).is_some() {
                return;
            }
            // From here on other hosts that ask are told that this one is not the master.
            masters.remove(&ino).map(|master| master.epoch())
        };
        let Some(epoch) = epoch else { return };
        let mine = record_of(&self.cluster.life(), epoch);
        if let Err(error) = self.namespace.set_lock_master(ino, Some(&mine), None) {
            tracing::debug!(%ino, %error, "the record of a lock master stays; the next takes it over");
        }
    }
}
