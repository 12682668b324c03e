//! How a process of this host gets a lock, and waits for it.

use intarsia_sync::Instant;
use intarsia_types::{Error, InodeId, Result};
use intarsia_wire::{LockAnswer, LockClaim, LockKind, LockQuestion, LockSpan};

use super::asking::misfit;
use super::{LockOutcome, Locks, PATIENCE, Turn, Waiter};

impl Locks {
    pub(super) fn with_turn<T>(
        &self,
        ino: InodeId,
        deadline: Instant,
        f: impl FnOnce(&Turn<'_>) -> Result<T>,
    ) -> Result<T> {
        loop {
            let entry = self.entry(ino);
            let Some(turn) = entry.turn.try_lock_until(deadline) else {
                return Err(Error::Busy("the lock master of the file does not answer".into()));
            };
            if !entry.held.lock().is_gone {
                return f(&Turn { ino, entry: &entry, _turn: turn, deadline });
            }
        }
    }

    pub(super) fn try_lock(
        &self,
        ino: InodeId,
        handle: u64,
        claim: LockClaim,
        deadline: Instant,
    ) -> Result<LockOutcome> {
        let answer = self.with_turn(ino, deadline, |turn| {
            turn.entry.held.lock().note_use(handle, claim.kind, claim.owner);
            self.take_in_turn(turn, claim, None)
        });
        match answer? {
            LockAnswer::Granted => Ok(LockOutcome::Granted),
            LockAnswer::Denied => Ok(LockOutcome::Denied),
            other => Err(misfit(&other)),
        }
    }

    /// Asks for a lock that is waited for, or gives up waiting if a signal has come.
    pub(super) fn pursue_lock(&self, ticket: u64, deadline: Instant) {
        let Some(ino) = self.waiters.lock().waiting.get(&ticket).map(|waiter| waiter.ino) else {
            return;
        };
        let ended = self.with_turn(ino, deadline, |turn| Ok(self.pursue_in_turn(turn, ticket)));
        match ended {
            Ok(Some((waiter, outcome))) => {
                let outcome = self.with_fresh_content(ino, &waiter.claim, outcome);
                (waiter.done)(outcome);
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%ino, %error, "a lock is waited for longer"),
        }
    }

    fn pursue_in_turn(
        &self,
        turn: &Turn<'_>,
        ticket: u64,
    ) -> Option<(Waiter, Result<LockOutcome>)> {
        let (claim, mut is_interrupted) = {
            let waiters = self.waiters.lock();
            let waiter = waiters.waiting.get(&ticket)?;
            (waiter.claim, waiter.is_interrupted)
        };
        let mut outcome = None;
        if !is_interrupted {
            match self.take_in_turn(turn, claim, Some(ticket)) {
                Ok(LockAnswer::Granted) => outcome = Some(Ok(LockOutcome::Granted)),
                Ok(LockAnswer::Deadlock) => outcome = Some(Ok(LockOutcome::Deadlock)),
                // Denied: another host has the file for itself (see [`super::wal_index`]), so it is asked for again later.
                Ok(LockAnswer::Queued | LockAnswer::Denied) => {}
                Ok(other) => outcome = Some(Err(misfit(&other))),
                Err(error @ (Error::Invalid(_) | Error::NoSpace(_))) => outcome = Some(Err(error)),
                Err(error) => {
                    tracing::debug!(ino = %turn.ino, %error, "a lock is waited for until its master answers");
                }
            }
            is_interrupted =
                self.waiters.lock().waiting.get(&ticket).is_some_and(|w| w.is_interrupted);
        }
        if outcome.is_none() && is_interrupted {
            outcome = Some(Ok(self.stop_waiting(turn, &claim, ticket)));
        }
        let waiter = self.waiters.lock().waiting.remove_entry(&ticket);
        match (waiter, outcome) {
            (Some((_, waiter)), Some(outcome)) => Some((waiter, outcome)),
            (Some((ticket, waiter)), None) => {
                self.waiters.lock().waiting.insert(ticket, waiter);
                None
            }
            (None, _) => None,
        }
    }

    fn stop_waiting(&self, turn: &Turn<'_>, claim: &LockClaim, ticket: u64) -> LockOutcome {
        match self.ask_once(turn, &LockQuestion::Cancel { ticket }) {
            Ok(LockAnswer::Granted) => {
                turn.entry.held.lock().grant(claim);
                LockOutcome::Granted
            }
            Ok(_) => LockOutcome::Interrupted,
            Err(error) => {
                tracing::debug!(ino = %turn.ino, %error, "the lock master learns later that nobody waits");
                turn.entry.held.lock().is_doubtful = true;
                LockOutcome::Interrupted
            }
        }
    }

    /// After a lock was granted: looks the file up again, so that its owner sees what was written under earlier locks.
    pub(super) fn with_fresh_content(
        &self,
        ino: InodeId,
        claim: &LockClaim,
        outcome: Result<LockOutcome>,
    ) -> Result<LockOutcome> {
        if !matches!(outcome, Ok(LockOutcome::Granted)) {
            return outcome;
        }
        self.files().and_then(|files| files.look_up_anew(ino)).map(|()| LockOutcome::Granted).inspect_err(|error| {
            tracing::warn!(%ino, %error, "a lock is given up, as the file cannot be looked up anew");
            self.give_up_locks(ino, &[(claim.kind, claim.owner)], claim.span);
        })
    }

    pub(super) fn give_up_locks(&self, ino: InodeId, owners: &[(LockKind, u64)], span: LockSpan) {
        let deadline = Instant::now() + PATIENCE;
        let outcome = self.with_turn(ino, deadline, |turn| {
            for (kind, owner) in owners {
                let (had, is_doubtful) = {
                    let mut held = turn.entry.held.lock();
                    (held.clear(*kind, *owner, span), held.is_doubtful)
                };
                let question = LockQuestion::Release { kind: *kind, owner: *owner, span };
                if !had && !is_doubtful {
                    continue;
                }
                if !matches!(self.ask_once(turn, &question), Ok(LockAnswer::Done)) {
                    // The master is told again once it answers.
                    turn.entry.held.lock().is_doubtful = true;
                }
            }
            self.give_up_wal_index(turn);
            Ok(())
        });
        if let Err(error) = outcome {
            // Another thread kept the turn all this time: the locks are dropped here, and the master is told later.
            tracing::warn!(%ino, %error, "a lock is given up later");
            if let Some(entry) = self.known(ino) {
                let mut held = entry.held.lock();
                for (kind, owner) in owners {
                    held.clear(*kind, *owner, span);
                }
                held.is_doubtful = true;
            }
        }
    }

    /// Drops what is known of a file's locks when nobody here uses it any more.
    pub(super) fn forget_locks(&self, ino: InodeId) {
        let outcome = self.with_turn(ino, Instant::now() + PATIENCE, |turn| {
            let is_open = self.is_open(ino);
            let mut held = turn.entry.held.lock();
            if is_open || !held.is_empty() || held.is_doubtful || !self.tickets(ino).is_empty() {
                return Ok(());
            }
            held.is_gone = true;
            self.entries.lock().remove(&ino);
            Ok(())
        });
        if outcome.is_ok() {
            self.resign_if_idle(ino);
        }
    }
}
