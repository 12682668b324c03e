//! Locks of `fcntl` and `flock` between hosts: what the host of a process asks of the lock master of a file.

use intarsia_types::{InodeId, NodeId};
use serde::{Deserialize, Serialize};

/// Which of the two families of locks; they do not meet each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LockKind {
    /// 0: of `fcntl(2)`, on a range of bytes, owned by a process or an open file description.
    Record,
    /// 1: of `flock(2)`, on the whole file, owned by an open file description.
    Whole,
}

/// Who else may have a lock of the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LockMode {
    /// 0: others with a shared lock.
    Shared,
    /// 1: nobody.
    Exclusive,
}

/// A range of bytes, both ends in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockSpan {
    /// First byte.
    pub first: u64,
    /// Last byte; never before the first.
    pub last: u64,
}

impl LockSpan {
    /// All bytes that a file can have.
    pub const ALL: Self = Self { first: 0, last: u64::MAX };
}

/// A lock that somebody on a host has or wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockClaim {
    /// The family.
    pub kind: LockKind,
    /// Whose it is: the number by which the host's kernel knows a process or a description.
    pub owner: u64,
    /// The process, as its host numbers it.
    pub pid: u32,
    /// Who else may have one.
    pub mode: LockMode,
    /// Where.
    pub span: LockSpan,
}

/// A question about the locks of one inode. All but the last two go to its lock master and name the epoch
/// under which it is known as that. Appended only, never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockQuestion {
    /// 0: take a lock. With a ticket, wait for it in the queue; asked again with the same ticket to learn
    /// whether it was granted. Answer: `Granted`, `Denied`, `Queued` or `Deadlock`.
    Take {
        /// What is wanted.
        claim: LockClaim,
        /// The asker's number for the waiting, never used twice; none not to wait.
        ticket: Option<u64>,
    },
    /// 1: give up what an owner has of a range. Answer: `Done`.
    Release {
        /// The family.
        kind: LockKind,
        /// Whose.
        owner: u64,
        /// Where.
        span: LockSpan,
    },
    /// 2: what stands in the way of a lock. Answer: `Done` or `Held`.
    Test {
        /// What is wanted.
        claim: LockClaim,
    },
    /// 3: wait no longer. Answer: `Done`, or `Granted` when the lock has been granted before.
    Cancel {
        /// The number of the waiting.
        ticket: u64,
    },
    /// 4: these are all the locks of the asker's host and all that it waits for: an answer was lost.
    /// Answer: `Done`.
    Assert {
        /// The locks.
        claims: Vec<LockClaim>,
        /// The numbers of the waitings.
        tickets: Vec<u64>,
    },
    /// 5: the asker is the lock master from this epoch on; which locks has the asked host?
    /// Answer: `Claims`.
    Report,
    /// 6: the lock of this ticket is granted; sent one-way. A hint: the waiting host asks again.
    Wake {
        /// The number of the waiting.
        ticket: u64,
    },
}

/// The answer to a [`LockQuestion`]. Appended only, never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockAnswer {
    /// 0: done.
    Done,
    /// 1: the lock is the asker's.
    Granted,
    /// 2: somebody else has one that stands in the way.
    Denied,
    /// 3: it is waited for.
    Queued,
    /// 4: waiting would be for ever: those who are waited for wait for the asker.
    Deadlock,
    /// 5: this stands in the way.
    Held {
        /// The host of its owner.
        node: NodeId,
        /// The lock.
        claim: LockClaim,
    },
    /// 6: the locks of the asked host.
    Claims {
        /// Which life of the asked host has them.
        life: u64,
        /// The locks.
        claims: Vec<LockClaim>,
    },
    /// 7: the asked host is not the lock master of that epoch.
    NotMaster {
        /// Which life of the asked host answers: a later one than that of the master means that this one is
        /// over.
        life: u64,
    },
}

/// What a question is about, and who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockPlace {
    /// The file.
    pub ino: InodeId,
    /// The epoch of its lock master.
    pub epoch: u64,
    /// Which life of the asking host asks: locks of an earlier one are gone.
    pub life: u64,
}
