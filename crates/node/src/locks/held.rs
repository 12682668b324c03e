//! What the processes of this host have of one file's locks.

use intarsia_wire::{LockAnswer, LockClaim, LockKind, LockQuestion, LockSpan};

use super::master::Host;
use super::table::{Lock, LockTable};

/// The lock master of a file, and its epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) master: Host,
    pub(crate) epoch: u64,
}

/// The locks of this host's processes on one file. Never more than the lock master knows of: a lock comes
/// here after it was granted, and goes before it is given up.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Who the master is, as far as is known.
    pub(crate) place: Option<Place>,
    /// The master may know of locks that are not here: an answer was lost.
    pub(crate) is_doubtful: bool,
    /// The others gave this host up, and its locks with it: open handles of the file give EIO.
    pub(crate) is_lost: bool,
    /// Removed from the list of files: a thread that still holds the entry looks the file up again.
    pub(crate) is_gone: bool,
    records: LockTable<u64>,
    wholes: LockTable<u64>,
    /// Which owner has locked through which open handle.
    used: Vec<(u64, LockKind, u64)>,
}

impl Held {
    const fn table(&mut self, kind: LockKind) -> &mut LockTable<u64> {
        match kind {
            LockKind::Record => &mut self.records,
            LockKind::Whole => &mut self.wholes,
        }
    }

    /// Notes what the answer to a question means for what is held.
    pub(crate) fn note(&mut self, question: &LockQuestion, answer: &LockAnswer) {
        let LockQuestion::Take { claim, .. } = question else { return };
        match answer {
            LockAnswer::Granted => self.grant(claim),
            LockAnswer::Denied | LockAnswer::Queued if claim.kind == LockKind::Whole => {
                self.wholes.clear(&claim.owner, LockSpan::ALL);
            }
            _ => {}
        }
    }

    /// A lock was granted.
    pub(crate) fn grant(&mut self, claim: &LockClaim) {
        let LockClaim { kind, owner, pid, mode, span } = *claim;
        self.table(kind).set(Lock { owner, pid, mode, span });
    }

    /// A lock is about to be given up; returns whether there was anything.
    pub(crate) fn clear(&mut self, kind: LockKind, owner: u64, span: LockSpan) -> bool {
        self.table(kind).clear(&owner, span)
    }

    /// Whether nobody has anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.wholes.is_empty()
    }

    /// Whether one owner has locks of whole files, and nobody has anything else.
    pub(crate) fn is_only_of(&self, owner: u64) -> bool {
        self.records.is_empty()
            && !self.wholes.is_empty()
            && self.wholes.iter().all(|lock| lock.owner == owner)
    }

    /// All locks, in the form of a report to the master.
    pub(crate) fn claims(&self) -> Vec<LockClaim> {
        let of = |kind, table: &LockTable<u64>| {
            let claim = |lock: &Lock<u64>| {
                let Lock { owner, pid, mode, span } = *lock;
                LockClaim { kind, owner, pid, mode, span }
            };
            table.iter().map(claim).collect::<Vec<_>>()
        };
        let mut claims = of(LockKind::Record, &self.records);
        claims.extend(of(LockKind::Whole, &self.wholes));
        claims
    }

    /// Remembers through which handle an owner locks.
    pub(crate) fn note_use(&mut self, handle: u64, kind: LockKind, owner: u64) {
        if !self.used.contains(&(handle, kind, owner)) {
            self.used.push((handle, kind, owner));
        }
    }

    /// The owners that have locked through a handle, which is closed now.
    pub(crate) fn forget_handle(&mut self, handle: u64) -> Vec<(LockKind, u64)> {
        let gone = self.used.extract_if(.., |(used, ..)| *used == handle);
        gone.map(|(_, kind, owner)| (kind, owner)).collect()
    }

    /// Drops all locks: the host begins a new life, for which none of them holds.
    pub(crate) fn lose_all(&mut self) {
        self.is_lost |= !self.is_empty();
        self.records = LockTable::default();
        self.wholes = LockTable::default();
        self.place = None;
        self.is_doubtful = false;
    }
}
