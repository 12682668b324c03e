//! The index of SQLite's write-ahead log, which processes share as memory: one host has it at a time.
//!
//! In WAL mode a connection maps the file `DATABASE-shm` and holds a shared lock on its byte 128 for as long as it
//! uses it. Processes on two hosts would each have a memory of their own and overwrite each other's transactions.
//! So whoever locks that byte takes the file for its host first, with a lock of the whole-file family, which SQLite
//! does not use there. To another host the byte is locked exclusively, and SQLite says "database is locked" or "locking protocol".

use std::collections::HashSet;

use intarsia_sync::Mutex;
use intarsia_types::{InodeId, Result};
use intarsia_wire::{LockAnswer, LockClaim, LockKind, LockMode, LockQuestion, LockSpan};

use super::{Locks, Turn};

/// How the names of such files end.
const SUFFIX: &[u8] = b"-shm";
/// SQLite's `UNIX_SHM_DMS`, the byte that every user of the index has locked.
const BYTE: u64 = 128;
/// What a host takes: an owner whose number no kernel gives.
const OF_THIS_HOST: LockClaim = LockClaim {
    kind: LockKind::Whole,
    owner: u64::MAX,
    pid: 0,
    mode: LockMode::Exclusive,
    span: LockSpan::ALL,
};

/// Those that were looked up or made here. They are as many as the databases in WAL mode.
#[derive(Debug, Default)]
pub(super) struct WalIndexes(Mutex<HashSet<InodeId>>);

impl WalIndexes {
    /// A file was found or made under this name.
    fn note(&self, name: &[u8], ino: InodeId) {
        if name.ends_with(SUFFIX) {
            self.0.lock().insert(ino);
        }
    }

    /// Whether a lock says that the caller maps the file.
    fn is_mapped_by(&self, ino: InodeId, claim: &LockClaim) -> bool {
        let span = claim.span;
        claim.kind == LockKind::Record
            && (span.first..=span.last).contains(&BYTE)
            && self.0.lock().contains(&ino)
    }
}

impl Locks {
    /// A file was found or made under this name.
    pub(crate) fn note_lockable(&self, name: &[u8], ino: InodeId) {
        self.wal_indexes.note(name, ino);
    }

    /// Asks the master for a lock; for the file itself before, where one host may have it.
    pub(super) fn take_in_turn(
        &self,
        turn: &Turn<'_>,
        claim: LockClaim,
        ticket: Option<u64>,
    ) -> Result<LockAnswer> {
        if self.wal_indexes.is_mapped_by(turn.ino, &claim) {
            let first = LockQuestion::Take { claim: OF_THIS_HOST, ticket: None };
            let answer = self.ask_master(turn, &first)?;
            if answer != LockAnswer::Granted {
                tracing::info!(
                    ino = %turn.ino,
                    "a database in WAL mode is in use on another host: its processes share memory"
                );
                return Ok(answer);
            }
        }
        let answer = self.ask_master(turn, &LockQuestion::Take { claim, ticket });
        if !matches!(answer, Ok(LockAnswer::Granted)) {
            self.give_up_wal_index(turn);
        }
        answer
    }

    pub(super) fn test_in_turn(&self, turn: &Turn<'_>, claim: LockClaim) -> Result<LockAnswer> {
        if self.wal_indexes.is_mapped_by(turn.ino, &claim) {
            let first = self.ask_master(turn, &LockQuestion::Test { claim: OF_THIS_HOST })?;
            if first != LockAnswer::Done {
                return Ok(first);
            }
        }
        self.ask_master(turn, &LockQuestion::Test { claim })
    }

    /// Gives the file up for this host when none of its processes has a lock on it any more.
    pub(super) fn give_up_wal_index(&self, turn: &Turn<'_>) {
        let LockClaim { kind, owner, span, .. } = OF_THIS_HOST;
        if !turn.entry.held.lock().is_only_of(owner) {
            return;
        }
        turn.entry.held.lock().clear(kind, owner, span);
        let question = LockQuestion::Release { kind, owner, span };
        if !matches!(self.ask_once(turn, &question), Ok(LockAnswer::Done)) {
            turn.entry.held.lock().is_doubtful = true;
        }
    }
}
