//! The commands that are sent to servers, and what their answers mean.

use std::time::Duration;

use intarsia_types::{Error, Result};
use redis::{Cmd, Value as Answer, cmd};

use super::failure::Failure;
use super::keys::PartitionKeys;
use super::library::LIBRARY;
use crate::inode::encode_time;
use crate::merge::DirDelta;
use crate::{CommitOutcome, Condition, Mutation, Value, keys};

// Numbers with which the functions in the server answer.
const NOT_FOUND: i64 = -1;
const NOT_DIRECTORY: i64 = -2;
const CORRUPT: i64 = -3;
const BAD_COUNTER: i64 = -4;
const NO_MARKER: i64 = -5;
const STALE: i64 = -6;

/// Reads the marker and these records.
pub(super) fn get<'k>(keys: &PartitionKeys, wanted: impl Iterator<Item = &'k [u8]>) -> Vec<u8> {
    let mut command = cmd("MGET");
    command.arg(&keys.marker);
    for key in wanted {
        command.arg(keys.record(key));
    }
    command.get_packed_command()
}

/// Calls a function with the marker as its one key.
fn call(function: &str, keys: &PartitionKeys, store_id: &str) -> Cmd {
    let mut command = cmd("FCALL");
    command.arg(function).arg(1).arg(&keys.marker).arg(store_id);
    command
}

/// Reads a record and the record of the inode that it names, if it is a dentry.
pub(super) fn follow(keys: &PartitionKeys, store_id: &str, key: &[u8]) -> Vec<u8> {
    call(&LIBRARY.follow, keys, store_id).arg(key).get_packed_command()
}

pub(super) fn scan(
    keys: &PartitionKeys,
    store_id: &str,
    prefix: &[u8],
    after: &[u8],
    limit: usize,
) -> Vec<u8> {
    let mut command = call(&LIBRARY.scan, keys, store_id);
    command.arg(prefix).arg(after).arg(limit).get_packed_command()
}

/// A commit, to be packed anew for each attempt, since some of its arguments differ from one attempt to the next.
pub(super) struct Commit<'c> {
    keys: &'c PartitionKeys,
    conditions: &'c [Condition],
    mutations: &'c [Mutation],
}

impl<'c> Commit<'c> {
    pub(super) const fn new(
        keys: &'c PartitionKeys,
        conditions: &'c [Condition],
        mutations: &'c [Mutation],
    ) -> Self {
        Self { keys, conditions, mutations }
    }

    /// The command: `number` is the commit's own within `session`, `lowest` the lowest number whose outcome the server must
    /// still know, and `keep` says for how long it has to keep outcomes of the session, if that is to be set.
    pub(super) fn pack(
        &self,
        store_id: &str,
        session: u64,
        number: u64,
        lowest: u64,
        keep: Option<Duration>,
    ) -> Vec<u8> {
        let function = if self.gives_back() { &LIBRARY.release } else { &LIBRARY.commit };
        let mut command = call(function, self.keys, store_id);
        let keep = keep.map_or_else(String::new, |keep| keep.as_millis().to_string());
        command.arg(&session.to_be_bytes()).arg(number).arg(lowest).arg(keep);
        command.arg(self.conditions.len());
        for condition in self.conditions {
            add_condition(&mut command, condition);
        }
        for mutation in self.mutations {
            add_mutation(&mut command, mutation);
        }
        command.get_packed_command()
    }

    /// Whether the commit removes something and makes no new name. Such a commit gives memory back, so it has to work when the
    /// server's memory is full.
    fn gives_back(&self) -> bool {
        self.mutations.iter().any(|mutation| matches!(mutation, Mutation::Delete(_)))
            && !self.conditions.iter().any(|condition| matches!(condition, Condition::Absent(_)))
    }
}

fn add_condition(command: &mut Cmd, condition: &Condition) {
    match condition {
        Condition::Absent(key) => command.arg("A").arg(&**key),
        Condition::Present(key) => command.arg("P").arg(&**key),
        Condition::Unheld(key) => command.arg("U").arg(&**key),
        Condition::Equals(key, value) => command.arg("E").arg(&**key).arg(&**value),
        Condition::AbsentOr(key, value) => command.arg("O").arg(&**key).arg(&**value),
        Condition::PrefixEmpty(prefix) => command.arg("X").arg(&**prefix),
    };
}

fn add_mutation(command: &mut Cmd, mutation: &Mutation) {
    match mutation {
        Mutation::Put(key, value) => command.arg("P").arg(&**key).arg(&**value),
        Mutation::Delete(key) => command.arg("D").arg(&**key),
        Mutation::Merge { key, delta } => command.arg("M").arg(&**key).arg(directory(*delta)),
        Mutation::Add { key, delta } => command.arg("A").arg(&**key).arg(&signed(*delta)),
    };
}

/// Time, links and entries, in the form that the functions read: Lua has no 64-bit numbers.
fn directory(delta: DirDelta) -> Vec<u8> {
    let time = encode_time(delta.time);
    [time.as_slice(), &delta.nlink.to_be_bytes(), &signed(delta.entries)].concat()
}

/// A number as a sign and 8 bytes of magnitude.
fn signed(number: i64) -> [u8; 9] {
    let mut bytes = [0; 9];
    bytes[0] = if number < 0 { b'-' } else { b'+' };
    bytes[1..].copy_from_slice(&number.unsigned_abs().to_be_bytes());
    bytes
}

/// The values of an array, nil as `None`.
pub(super) fn values(answer: Answer) -> Result<Vec<Option<Value>>> {
    let Answer::Array(values) = answer else { return Err(unexpected(&answer)) };
    let value = |value| match value {
        Answer::BulkString(bytes) => Ok(Some(Value::from(bytes))),
        Answer::Nil => Ok(None),
        other => Err(unexpected(&other)),
    };
    values.into_iter().map(value).collect()
}

/// The values that a function returned; `None` when the marker is missing.
pub(super) fn records(answer: Answer) -> Result<Option<Vec<Option<Value>>>> {
    match answer {
        Answer::Int(NO_MARKER) => Ok(None),
        Answer::Int(CORRUPT) => {
            Err(Error::Engine("an index names a record that is missing".into()))
        }
        answer => values(answer).map(Some),
    }
}

/// What became of a commit.
pub(super) fn outcome(
    answer: &Answer,
    mutations: &[Mutation],
    lost: impl FnOnce() -> Error,
) -> Result<CommitOutcome> {
    let (code, culprit) = match answer {
        Answer::Int(0) => return Ok(CommitOutcome::Applied),
        Answer::Int(failed @ 1..) => {
            let index = usize::try_from(*failed - 1).unwrap_or(usize::MAX);
            return Ok(CommitOutcome::Conflict { index });
        }
        Answer::Array(parts) => match parts.as_slice() {
            [Answer::Int(code), Answer::Int(culprit)] => (*code, *culprit),
            _ => return Err(unexpected(answer)),
        },
        _ => return Err(unexpected(answer)),
    };
    let culprit = usize::try_from(culprit - 1).ok().and_then(|index| mutations.get(index));
    let ino = culprit.and_then(|mutation| keys::inode_of(mutation.key()));
    Err(match code {
        NOT_FOUND => Error::NotFound,
        NOT_DIRECTORY => Error::NotDirectory,
        CORRUPT => Error::Corrupt {
            ino: ino.unwrap_or(intarsia_types::InodeId(0)),
            what: "inode record".into(),
        },
        BAD_COUNTER => Error::Engine("a counter that is not of 8 bytes".into()),
        NO_MARKER => lost(),
        STALE => Error::Engine("a commit came after its outcome was forgotten".into()),
        _ => unexpected(answer),
    })
}

/// A figure of an answer to `INFO`, by its name; 0 where it is missing.
pub(super) fn figure(answer: std::result::Result<Answer, Failure>, name: &str) -> u64 {
    let Ok(Answer::BulkString(text)) = answer else { return 0 };
    let text = String::from_utf8_lossy(&text);
    let figure = text.lines().find_map(|line| line.strip_prefix(name));
    figure.and_then(|figure| figure.trim().parse().ok()).unwrap_or(0)
}

fn unexpected(answer: &Answer) -> Error {
    Error::Engine(format!("an unexpected answer of a metadata server: {answer:?}"))
}
