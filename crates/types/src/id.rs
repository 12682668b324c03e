//! Identifiers. Each is a type of its own so that an inode number cannot be passed for a file number.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A shard of the metadata; a commit is atomic within one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartitionId(pub u16);

/// An inode number: 16 bits birth partition, 48 bits sequence within it. Never reused.
///
/// The record stays in its birth partition for life, so the number alone says where to look.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InodeId(pub u64);

impl InodeId {
    /// The root directory; FUSE demands the number 1.
    pub const ROOT: Self = Self(1);
    /// Largest sequence number within one partition.
    pub const MAX_SEQUENCE: u64 = (1 << 48) - 1;

    /// Joins a partition and a sequence number (cut to 48 bits).
    #[must_use]
    pub const fn new(partition: PartitionId, sequence: u64) -> Self {
        Self(((partition.0 as u64) << 48) | (sequence & Self::MAX_SEQUENCE))
    }

    /// The partition that holds this inode's record.
    #[must_use]
    pub const fn partition(self) -> PartitionId {
        PartitionId((self.0 >> 48) as u16)
    }

    /// The sequence number within the birth partition.
    #[must_use]
    pub const fn sequence(self) -> u64 {
        self.0 & Self::MAX_SEQUENCE
    }
}

impl fmt::Display for InodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for InodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ino:{}:{}", self.partition().0, self.sequence())
    }
}

/// Number of a plain backing file within its tier. Files are recycled, so it names a slot, not content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BackingFileId(pub u64);

impl fmt::Display for BackingFileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A tier of this host, by its stable number in the store (not its place in the configuration).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TierId(pub u16);

impl fmt::Display for TierId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// A member of the deployment, in the name that the batch system uses for the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeId(pub String);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inode_keeps_its_birth_partition() {
        let ino = InodeId::new(PartitionId(7), 42);
        assert_eq!(ino.partition(), PartitionId(7));
        assert_eq!(ino.sequence(), 42);
        assert_eq!(InodeId::ROOT.partition(), PartitionId(0));
        assert_eq!(InodeId::ROOT.sequence(), 1);
    }
}
