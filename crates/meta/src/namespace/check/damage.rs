//! The kinds of damage, and the words for each.

use std::fmt;

use intarsia_types::{BackingRef, FileKind, InodeId, PartitionId, RecordedHints};

use crate::{Key, OpId, Value, keys};

/// A name with its record.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) dir: InodeId,
    pub(super) name: Vec<u8>,
    pub(super) key: Key,
}

/// One disagreement between records.
#[derive(Clone, Debug)]
pub(super) enum Damage {
    /// A participant waits for the decision of a transaction, or has not carried it out.
    Unfinished {
        partition: PartitionId,
        transaction: OpId,
    },
    /// A transaction holds the key, but has no record.
    LostIntent {
        partition: PartitionId,
        key: Key,
    },
    UnreadableInode {
        ino: InodeId,
        error: String,
    },
    UnreadableName {
        dir: InodeId,
        key: Key,
    },
    /// A name whose directory is no directory, or is not there.
    NameInNoDirectory(Name),
    NameWithoutInode {
        name: Name,
        ino: InodeId,
    },
    /// A name says another kind of file than its inode, which is of `kind`.
    WrongKind {
        name: Name,
        ino: InodeId,
        kind: FileKind,
    },
    /// A name whose key has the wrong hash; `value` is its dentry.
    Misplaced {
        name: Name,
        value: Value,
    },
    /// A further name of a directory, which can have only one.
    SecondName {
        name: Name,
        ino: InodeId,
    },
    /// A directory whose only name is another one than its record says.
    WrongParent {
        name: Name,
        ino: InodeId,
    },
    Loop {
        ino: InodeId,
    },
    Unnamed {
        ino: InodeId,
    },
    WrongLinks {
        ino: InodeId,
        is: u32,
        should: u32,
    },
    WrongEntries {
        ino: InodeId,
        is: u64,
        should: u64,
    },
    /// A record in `table` of an inode that is not there, or should have none.
    Stray {
        table: u8,
        ino: InodeId,
    },
    /// Whether the inode's record says that there are extended attributes is not what it should.
    XattrFlag {
        ino: InodeId,
        should: bool,
    },
    WrongHints {
        ino: InodeId,
        is: RecordedHints,
        should: RecordedHints,
    },
    /// The inode's record says that there are sums, and there are none.
    ChecksumFlag {
        ino: InodeId,
    },
    LostBody {
        ino: InodeId,
    },
    /// The ledger names a backing file that belongs to an inode.
    UsedButFree {
        backing: BackingRef,
        partition: PartitionId,
        ino: InodeId,
    },
    SharedFile {
        backing: BackingRef,
        one: InodeId,
        other: InodeId,
    },
    WrongCount {
        partition: PartitionId,
        is: u64,
        should: u64,
    },
    /// A high-water mark that is not above all numbers in use; `should` is the highest of these.
    LowMark {
        partition: PartitionId,
        mark: String,
        is: u64,
        should: u64,
    },
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name '{}' in directory {}", self.name.escape_ascii(), self.dir)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfinished { partition, transaction: OpId { session, number } } => {
                write!(
                    f,
                    "change {session:016x}-{number} was left unfinished in {}",
                    words(*partition)
                )
            }
            Self::LostIntent { partition, key } => {
                write!(f, "{key:?} in {} is held by a change that is not known", words(*partition))
            }
            Self::UnreadableInode { ino, error } => {
                write!(f, "the record of inode {ino} cannot be read ({error})")
            }
            Self::UnreadableName { dir, key } => {
                write!(f, "a name in directory {dir} cannot be read ({key:?})")
            }
            Self::NameInNoDirectory(name) => write!(f, "{name}, which is no directory"),
            Self::NameWithoutInode { name, ino } => {
                write!(f, "{name} means inode {ino}, which does not exist")
            }
            Self::WrongKind { name, ino, kind } => {
                write!(f, "{name} has another kind than its inode {ino}, a {kind:?}")
            }
            Self::Misplaced { name, .. } => write!(f, "{name} is filed under another hash"),
            Self::SecondName { name, ino } => {
                write!(f, "{name} is a second name of directory {ino}")
            }
            Self::WrongParent { name, ino } => {
                write!(f, "directory {ino} does not know {name} as its own")
            }
            Self::Loop { ino } => write!(f, "directory {ino} lies within itself"),
            Self::Unnamed { ino } => write!(f, "inode {ino} has no name and is no orphan"),
            Self::WrongLinks { ino, is, should } => {
                write!(f, "inode {ino} says {is} links and has {should}")
            }
            Self::WrongEntries { ino, is, should } => {
                write!(f, "directory {ino} says {is} entries and has {should}")
            }
            Self::Stray { table, ino } => {
                write!(f, "{} of inode {ino}, which has none", table_words(*table))
            }
            Self::XattrFlag { ino, should: true } => {
                write!(f, "inode {ino} does not know of its extended attributes")
            }
            Self::XattrFlag { ino, should: false } => {
                write!(f, "inode {ino} says it has extended attributes and has none")
            }
            Self::WrongHints { ino, is, should } => {
                write!(f, "inode {ino} says the hints '{is}' and its attributes '{should}'")
            }
            Self::ChecksumFlag { ino } => {
                write!(f, "inode {ino} says it has checksums and has none")
            }
            Self::LostBody { ino } => write!(f, "the bytes of inode {ino} are gone"),
            Self::UsedButFree { backing, ino, .. } => {
                write!(f, "{} is called free and belongs to inode {ino}", file_words(*backing))
            }
            Self::SharedFile { backing, one, other } => {
                write!(f, "{} belongs to both inode {one} and inode {other}", file_words(*backing))
            }
            Self::WrongCount { is, should, .. } => {
                write!(f, "the superblock says {is} inodes and there are {should}")
            }
            Self::LowMark { mark, is, should, .. } => {
                write!(f, "the mark '{mark}' is at {is}, numbers up to {should} are taken")
            }
        }
    }
}

fn words(partition: PartitionId) -> String {
    format!("partition {}", partition.0)
}

fn file_words(backing: BackingRef) -> String {
    format!("backing file {} of tier {}", backing.file, backing.tier)
}

fn table_words(table: u8) -> &'static str {
    match table {
        keys::ORPHAN => "an orphan mark",
        keys::WRITABLE => "a writable mark",
        keys::LOCK_MASTER => "a lock master",
        keys::XATTR => "extended attributes",
        keys::BODY => "an inline body",
        keys::CHECKSUM => "checksums",
        keys::HIDDEN => "hidden names",
        _ => "a record",
    }
}
