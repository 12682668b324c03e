//! Questions to the lock master of a file, and who takes its place when it is gone.

use std::sync::atomic::Ordering;

use intarsia_meta::LockMaster;
use intarsia_sync::Instant;
use intarsia_types::{Error, NodeId, Result};
use intarsia_wire::{LockAnswer, LockClaim, LockPlace, LockQuestion, Request, Response};

use super::held::Place;
use super::master::Host;
use super::master::Master;
use super::{ANSWER_PATIENCE, CHANGING, Locks, SILENT, Turn};
use crate::membership::cluster::unexpected;

/// Asking the master.
impl Locks {
    /// Puts a question to the file's lock master, whoever that is, and notes what the answer means.
    pub(super) fn ask_master(
        &self,
        turn: &Turn<'_>,
        question: &LockQuestion,
    ) -> Result<LockAnswer> {
        loop {
            let (error, pause) = match self.ask_once(turn, question) {
                Ok(LockAnswer::NotMaster { .. }) => {
                    (Error::Busy("the lock master of the file keeps changing".into()), CHANGING)
                }
                Ok(answer) => return Ok(answer),
                Err(error @ (Error::Invalid(_) | Error::NoSpace(_))) => return Err(error),
                Err(error @ Error::Busy(_)) => (error, CHANGING),
                Err(error) => (error, SILENT),
            };
            if Instant::now() + pause >= turn.deadline {
                return Err(error);
            }
            intarsia_sync::thread::sleep(pause);
        }
    }

    pub(super) fn ask_once(&self, turn: &Turn<'_>, question: &LockQuestion) -> Result<LockAnswer> {
        let place = self.find_master(turn)?;
        if turn.entry.held.lock().is_doubtful {
            self.assert_claims(turn, &place)?;
        }
        let answer = self.pose(turn, &place, question)?;
        let mut held = turn.entry.held.lock();
        if held.place.as_ref() != Some(&place) {
            // Another host has become the master meanwhile, and knows nothing of this answer.
            return Ok(LockAnswer::NotMaster { life: 0 });
        }
        held.note(question, &answer);
        Ok(answer)
    }

    /// Tells the master all that is held and waited for here, so that it drops everything else of this host.
    pub(super) fn assert_claims(&self, turn: &Turn<'_>, place: &Place) -> Result<()> {
        let claims = turn.entry.held.lock().claims();
        let all = LockQuestion::Assert { claims, tickets: self.tickets(turn.ino) };
        if self.pose(turn, place, &all)? == LockAnswer::Done {
            turn.entry.held.lock().is_doubtful = false;
        }
        Ok(())
    }

    /// Puts a question to one host. If that is no longer the master, or does not answer, the master is looked for again.
    fn pose(&self, turn: &Turn<'_>, place: &Place, question: &LockQuestion) -> Result<LockAnswer> {
        let me = self.cluster.life();
        let about = LockPlace { ino: turn.ino, epoch: place.epoch, life: me.life };
        // Taken with the turn held, so that a later question about the file has a larger number.
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let question = question.clone();
        let answer = if place.master == me {
            self.answer_lock(&me.node, about, Some(number), question)
        } else {
            let request = Request::LockInTurn { place: about, number, question };
            match self.cluster.call_within(&place.master.node, &request, ANSWER_PATIENCE) {
                Ok(Response::Lock(answer)) => Ok(answer),
                Ok(other) => Err(unexpected(&place.master.node, &other)),
                Err(error) => Err(error),
            }
        };
        if matches!(answer, Err(_) | Ok(LockAnswer::NotMaster { .. })) {
            let mut held = turn.entry.held.lock();
            // Without an answer the master may have done what was asked.
            held.is_doubtful |= answer.is_err();
            if held.place.as_ref() == Some(place) {
                held.place = None;
            }
        }
        if let Ok(LockAnswer::NotMaster { life }) = answer
            && life > place.master.life
        {
            self.take_masters_place(turn, place)?;
        }
        answer
    }

    /// The file's lock master; this host becomes it if there is none, or the one that was is gone.
    pub(super) fn find_master(&self, turn: &Turn<'_>) -> Result<Place> {
        let known = turn.entry.held.lock().place.clone();
        if let Some(place) = known
            && !self.cluster.is_life_over(&place.master)
        {
            return Ok(place);
        }
        let me = self.cluster.life();
        let Some(recorded) = self.namespace.lock_master(turn.ino)? else {
            let epoch = crate::clock::now().secs.unsigned_abs();
            let mine = record_of(&me, epoch);
            if !self.namespace.set_lock_master(turn.ino, None, Some(&mine))? {
                return Err(Error::Busy("another host becomes the lock master".into()));
            }
            self.masters.lock().insert(turn.ino, Master::new(epoch));
            return Ok(turn.settle(Place { master: me, epoch }));
        };
        let place = place_of(&recorded);
        let is_mine = place.master == me;
        let is_in_office =
            self.masters.lock().get(&turn.ino).map(Master::epoch) == Some(place.epoch);
        if (is_mine && !is_in_office) || self.cluster.is_life_over(&place.master) {
            return self.take_masters_place(turn, &place);
        }
        Ok(turn.settle(place))
    }

    /// Becomes the lock master in the place of one that is gone, and collects the locks of all hosts that live.
    fn take_masters_place(&self, turn: &Turn<'_>, gone: &Place) -> Result<Place> {
        let me = self.cluster.life();
        let epoch = gone.epoch + 1;
        let (old, new) = (record_of(&gone.master, gone.epoch), record_of(&me, epoch));
        if !self.namespace.set_lock_master(turn.ino, Some(&old), Some(&new))? {
            return Err(Error::Busy("another host becomes the lock master".into()));
        }
        let mut master = Master::new(epoch);
        for node in self.cluster.others_alive()? {
            if let Some((host, claims)) = self.collect_claims(turn, epoch, &node)? {
                master.adopt(&host, &claims)?;
            }
        }
        let mut held = turn.entry.held.lock();
        master.adopt(&me, &held.claims())?;
        let place = Place { master: me, epoch };
        held.place = Some(place.clone());
        held.is_doubtful = false;
        drop(held);
        self.masters.lock().insert(turn.ino, master);
        tracing::warn!(
            ino = %turn.ino, epoch, lost = %gone.master.node,
            "took over the locks of a file whose lock master is gone"
        );
        Ok(place)
    }

    /// Asks a host for its locks until it answers or is lost.
    fn collect_claims(
        &self,
        turn: &Turn<'_>,
        epoch: u64,
        node: &NodeId,
    ) -> Result<Option<(Host, Vec<LockClaim>)>> {
        let place = LockPlace { ino: turn.ino, epoch, life: self.cluster.life().life };
        let request = Request::Lock { place, question: LockQuestion::Report };
        loop {
            let error = match self.cluster.call_within(node, &request, ANSWER_PATIENCE) {
                Ok(Response::Lock(LockAnswer::Claims { life, claims })) => {
                    return Ok(Some((Host { node: node.clone(), life }, claims)));
                }
                Ok(other) => unexpected(node, &other),
                Err(error) => error,
            };
            if !self.cluster.others_alive()?.contains(node) {
                return Ok(None);
            }
            if Instant::now() + CHANGING >= turn.deadline {
                return Err(error);
            }
            intarsia_sync::thread::sleep(CHANGING);
        }
    }
}

impl Turn<'_> {
    /// Notes who the master is.
    fn settle(&self, place: Place) -> Place {
        let mut held = self.entry.held.lock();
        if held.place.as_ref() != Some(&place) {
            held.is_doubtful |= !held.is_empty();
            held.place = Some(place.clone());
        }
        place
    }
}

pub(super) fn record_of(host: &Host, epoch: u64) -> LockMaster {
    LockMaster { node: host.node.clone(), life: host.life, epoch }
}

fn place_of(record: &LockMaster) -> Place {
    let LockMaster { node, life, epoch } = record.clone();
    Place { master: Host { node, life }, epoch }
}

pub(super) fn misfit(answer: &LockAnswer) -> Error {
    Error::Engine(format!("a lock master gave an answer that does not fit: {answer:?}"))
}
