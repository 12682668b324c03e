//! Intents: what a transaction over several partitions puts in place of the value of a key that it holds.
//!
//! The protocol is described in `docs/internals/transactions.md`.

use intarsia_types::PartitionId;

use crate::{Bytes, OpId, keys};

/// First byte of an intent. No format of an inode record or a directory entry has this number, so that
/// nothing takes an intent for a record.
pub const TAG: u8 = 0xff;

const LEN: usize = 1 + 8 + 8 + 2;

/// Stands in place of a value: a transaction holds the key, and the record at its coordinator says what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The transaction.
    pub transaction: OpId,
    /// The partition in which the transaction is decided.
    pub coordinator: PartitionId,
}

impl Intent {
    pub(crate) fn encode(self) -> Bytes {
        let mut bytes = [0; LEN];
        bytes[0] = TAG;
        bytes[1..9].copy_from_slice(&self.transaction.session.to_be_bytes());
        bytes[9..17].copy_from_slice(&self.transaction.number.to_be_bytes());
        bytes[17..].copy_from_slice(&self.coordinator.0.to_be_bytes());
        Bytes::copy_from(&bytes)
    }

    /// The intent in the value of a key, if it is one. Only inode records, directory entries and
    /// superblock values are ever held: attributes and bodies are the users' own bytes.
    #[must_use]
    pub fn of(key: &[u8], value: &[u8]) -> Option<Self> {
        match (key.first(), value) {
            (Some(&(keys::INODE | keys::DENTRY | keys::SUPER)), [TAG, rest @ ..]) => {
                Self::decode(rest)
            }
            _ => None,
        }
    }

    fn decode(rest: &[u8]) -> Option<Self> {
        let (session, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let coordinator = PartitionId(u16::from_be_bytes(rest.try_into().ok()?));
        let transaction =
            OpId { session: u64::from_be_bytes(*session), number: u64::from_be_bytes(*number) };
        Some(Self { transaction, coordinator })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_is_told_from_the_bytes_of_users() {
        let transaction = OpId { session: 1 << 60, number: 7 };
        let intent = Intent { transaction, coordinator: PartitionId(513) };
        let value = intent.encode();
        assert_eq!(Intent::of(b"Ikey", &value), Some(intent));
        assert_eq!(Intent::of(b"Dkey", &value), Some(intent));
        assert_eq!(Intent::of(b"Xkey", &value), None);
        assert_eq!(Intent::of(b"Ikey", &value[..18]), None);
        assert_eq!(Intent::of(b"Ikey", b""), None);
    }
}
