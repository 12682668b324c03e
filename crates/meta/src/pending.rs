//! The records of transactions over several partitions: what a participant is to do, and what was decided.

use intarsia_types::{Error, PartitionId, Result, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Bytes, DirDelta, Mutation};

/// First byte of every record. A new form gets a new number and the old decoder stays.
const FORMAT: u8 = 1;

/// What was decided of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Committed,
    Aborted,
}

/// A record of the transaction table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// At a participant: its part is prepared, and waits for the decision.
    Prepared(Prepared),
    /// At the coordinator: the transaction is committed. These partitions may have a record of it still.
    Committed { participants: Vec<PartitionId> },
    /// At the coordinator: the transaction cannot be committed any more.
    Aborted,
}

/// What a participant does when it learns the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    pub(crate) coordinator: PartitionId,
    pub(crate) on_commit: Vec<Mutation>,
    pub(crate) on_abort: Vec<Mutation>,
}

/// As stored: the format byte and `postcard` of this. Never reorder.
#[derive(Serialize, Deserialize)]
enum Stored {
    Prepared { coordinator: PartitionId, on_commit: Vec<Change>, on_abort: Vec<Change> },
    Committed { participants: Vec<PartitionId> },
    Aborted,
}

#[derive(Serialize, Deserialize)]
enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Merge { key: Vec<u8>, time: Timestamp, nlink: i32, entries: i64 },
    Add { key: Vec<u8>, delta: i64 },
}

impl Prepared {
    /// What the participant does when it learns `fate`.
    pub(crate) fn into_mutations(self, fate: Fate) -> Vec<Mutation> {
        match fate {
            Fate::Committed => self.on_commit,
            Fate::Aborted => self.on_abort,
        }
    }
}

impl Pending {
    pub(crate) fn encode(&self) -> Result<Bytes> {
        let changes = |mutations: &[Mutation]| mutations.iter().map(Change::from).collect();
        let stored = match self {
            Self::Prepared(Prepared { coordinator, on_commit, on_abort }) => Stored::Prepared {
                coordinator: *coordinator,
                on_commit: changes(on_commit),
                on_abort: changes(on_abort),
            },
            Self::Committed { participants } => {
                Stored::Committed { participants: participants.clone() }
            }
            Self::Aborted => Stored::Aborted,
        };
        postcard::to_extend(&stored, vec![FORMAT])
            .map(Bytes::from)
            .map_err(|e| Error::Engine(format!("cannot encode a transaction record: {e}")))
    }

    pub(crate) fn decode(record: &[u8]) -> Result<Self> {
        let unreadable = || Error::Engine("a transaction record cannot be read".into());
        let [FORMAT, fields @ ..] = record else { return Err(unreadable()) };
        let (stored, rest) =
            postcard::take_from_bytes::<Stored>(fields).map_err(|_| unreadable())?;
        if !rest.is_empty() {
            return Err(unreadable());
        }
        let mutations = |changes: Vec<Change>| changes.into_iter().map(Mutation::from).collect();
        Ok(match stored {
            Stored::Prepared { coordinator, on_commit, on_abort } => Self::Prepared(Prepared {
                coordinator,
                on_commit: mutations(on_commit),
                on_abort: mutations(on_abort),
            }),
            Stored::Committed { participants } => Self::Committed { participants },
            Stored::Aborted => Self::Aborted,
        })
    }
}

impl From<&Mutation> for Change {
    fn from(mutation: &Mutation) -> Self {
        match mutation {
            Mutation::Put(key, value) => Self::Put(key.to_vec(), value.to_vec()),
            Mutation::Delete(key) => Self::Delete(key.to_vec()),
            Mutation::Merge { key, delta: DirDelta { time, nlink, entries } } => {
                Self::Merge { key: key.to_vec(), time: *time, nlink: *nlink, entries: *entries }
            }
            Mutation::Add { key, delta } => Self::Add { key: key.to_vec(), delta: *delta },
        }
    }
}

impl From<Change> for Mutation {
    fn from(change: Change) -> Self {
        match change {
            Change::Put(key, value) => Self::Put(key.into(), value.into()),
            Change::Delete(key) => Self::Delete(key.into()),
            Change::Merge { key, time, nlink, entries } => {
                Self::Merge { key: key.into(), delta: DirDelta { time, nlink, entries } }
            }
            Change::Add { key, delta } => Self::Add { key: key.into(), delta },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_round_trip() {
        let key = Bytes::copy_from(b"Ikey");
        let delta = DirDelta { time: Timestamp { secs: -3, nanos: 4 }, nlink: -1, entries: 2 };
        let on_commit = vec![
            Mutation::Put(key.clone(), Bytes::copy_from(b"value")),
            Mutation::Merge { key: key.clone(), delta },
            Mutation::Add { key: key.clone(), delta: -9 },
        ];
        let on_abort = vec![Mutation::Delete(key)];
        let coordinator = PartitionId(700);
        for pending in [
            Pending::Prepared(Prepared { coordinator, on_commit, on_abort }),
            Pending::Committed { participants: vec![PartitionId(3), PartitionId(4)] },
            Pending::Aborted,
        ] {
            let record = pending.encode().unwrap();
            assert_eq!(Pending::decode(&record).unwrap(), pending);
            assert!(Pending::decode(&record[1..]).is_err());
            assert!(Pending::decode(&[&record[..], b"x"].concat()).is_err());
        }
    }
}
