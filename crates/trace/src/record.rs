//! What is recorded.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Grows with every change of what a record holds.
pub const VERSION: u32 = 1;

/// How much is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// Nothing.
    #[default]
    Off,
    /// Opens, closes, names, and reads and writes merged into few ranges a file; what the kernel serves by itself is
    /// counted at its close.
    Coarse,
    /// Every run of reads and writes; files are served through the process, so that each is seen.
    Fine,
}

impl FromStr for Detail {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "coarse" => Ok(Self::Coarse),
            "fine" => Ok(Self::Fine),
            _ => Err(format!("'{text}' is no detail of a recording; give off, coarse or fine")),
        }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Coarse => "coarse",
            Self::Fine => "fine",
        })
    }
}

/// One entry of a log. Stored by `postcard`, fields and variants in this order: never reorder them. Times are
/// nanoseconds since [`Host::began_unix_ns`], by a clock that never jumps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// The first one of a log.
    Host(Host),
    /// A process, when it is first seen, and again when it has become another program.
    Process(Process),
    /// A process has ended.
    Ended {
        /// Which.
        process: u64,
        /// When.
        at_ns: u64,
    },
    /// The path of a directory below the mount, without a slash in front; empty for the root.
    Directory {
        /// Its inode number.
        ino: u64,
        /// From now on.
        path: Vec<u8>,
    },
    /// A file is opened.
    Open {
        /// Number of the open file, used once in a log.
        handle: u64,
        /// Who; 0 is unknown.
        process: u64,
        /// Inode number of the file.
        file: u64,
        /// Inode number of the directory by which it was last looked up; 0 is unknown.
        directory: u64,
        /// Its name there; empty where unknown.
        name: Vec<u8>,
        /// What for.
        access: Access,
        /// Length when it was opened, in bytes.
        size_bytes: u64,
        /// When the request came.
        at_ns: u64,
        /// How long it took.
        took_ns: u64,
    },
    /// Reads or writes one after the other.
    Range(Range),
    /// The last descriptor of an open file is gone.
    Close {
        /// Which.
        handle: u64,
        /// Length when it was closed, in bytes.
        size_bytes: u64,
        /// When.
        at_ns: u64,
        /// What was read of it in all.
        read: Counted,
        /// What was written to it in all.
        written: Counted,
    },
    /// A name is made, moved or removed.
    Name {
        /// Who; 0 is unknown.
        process: u64,
        /// How.
        change: NameChange,
        /// Inode number of the directory.
        directory: u64,
        /// The name there.
        name: Vec<u8>,
        /// Of a move or link, the directory of the new name; else 0.
        new_directory: u64,
        /// Of a move or link, the new name; else empty.
        new_name: Vec<u8>,
        /// When the request came.
        at_ns: u64,
        /// How long it took.
        took_ns: u64,
    },
    /// So many records were left out, for want of room.
    Lost {
        /// How many.
        records: u64,
    },
    /// The log ends as it was meant to.
    End {
        /// When.
        at_ns: u64,
        /// Whether because the log was full.
        is_full: bool,
    },
}

/// Where and how a log was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// [`VERSION`] of whoever wrote it.
    pub version: u32,
    /// The host in the store.
    pub name: String,
    /// The store.
    pub store: String,
    /// When it began, in nanoseconds since 1970.
    pub began_unix_ns: u64,
    /// How much is recorded.
    pub detail: Detail,
}

/// Who did something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Number within the log, not the system's.
    pub number: u64,
    /// The system's.
    pub pid: u32,
    /// The system's number of the process that began it.
    pub parent_pid: u32,
    /// When it began, in nanoseconds since 1970, by a clock of 10 ms steps; 0 where unknown.
    pub began_unix_ns: u64,
    /// From when on it is what follows.
    pub at_ns: u64,
    /// Name of the program.
    pub program: Vec<u8>,
    /// The beginning of its command line, words ended by zero bytes.
    pub command: Vec<u8>,
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of open(2)")]
pub struct Access {
    /// For reading.
    pub reads: bool,
    /// For writing.
    pub writes: bool,
    /// It is new.
    pub is_new: bool,
    /// What it held is dropped.
    pub truncates: bool,
    /// The kernel reads and writes by itself.
    pub is_passthrough: bool,
}

/// Reads or writes of one open file one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Which open file.
    pub handle: u64,
    /// Whether they are writes.
    pub is_write: bool,
    /// The first byte touched.
    pub offset: u64,
    /// From the first byte touched to behind the last one.
    pub span_bytes: u64,
    /// Bytes in all; of merged ranges more or less than the span.
    pub bytes: u64,
    /// Requests.
    pub calls: u64,
    /// When the first one came.
    pub began_ns: u64,
    /// When the last one was answered.
    pub ended_ns: u64,
    /// What they took together.
    pub took_ns: u64,
}

/// Bytes of a file, and how they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// How many.
    pub bytes: u64,
    /// Where from.
    pub how: How,
}

/// How bytes are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Each request was seen.
    #[default]
    Seen,
    /// The length of a file that was written anew, at its close.
    Length,
    /// By how much the file grew.
    Growth,
    /// What the kernel counted for the process meanwhile, at most the length of the file.
    Process,
    /// Nobody counted: once the whole file.
    Assumed,
}

/// What happens to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameChange {
    /// A file or directory gets another name.
    Rename,
    /// Two names are exchanged.
    Exchange,
    /// A file gets one more name.
    Link,
    /// A name of a file goes.
    Unlink,
    /// A directory is made.
    MakeDirectory,
    /// A directory goes.
    RemoveDirectory,
    /// A symbolic link is made.
    SymbolicLink,
}
