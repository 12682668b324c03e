//! What one node asks of another.

use intarsia_types::{BackingFileId, BackingRef, InodeId, NodeId, TierClass, TierId};
use serde::{Deserialize, Serialize};

use crate::{LockPlace, LockQuestion};

/// An open file at the server, good for the session that opened it. A server never gives a number twice during
/// its life, so a stale handle names nothing rather than another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Handle(pub u64);

/// The file that a change goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// 0: one that this session has open.
    Handle(Handle),
    /// 1: a backing file at its home, with the inode that must own it.
    Backing {
        /// The inode.
        ino: InodeId,
        /// Its file at the server.
        backing: BackingRef,
    },
}

/// What `Allocate` does; the modes of `fallocate(2)` that are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllocateMode {
    /// 0: reserve, and grow the file where the range ends beyond it.
    Reserve,
    /// 1: reserve without changing the size.
    ReserveKeepSize,
    /// 2: make a hole; the size stays.
    PunchHole,
    /// 3: make zeros, and grow the file where the range ends beyond it.
    ZeroRange,
    /// 4: make zeros without changing the size.
    ZeroRangeKeepSize,
}

/// The call for which what was written is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PublishedFor {
    /// 0: `close`.
    Close,
    /// 1: `fsync`.
    Sync,
    /// 2: `fdatasync`.
    SyncData,
}

/// Which lease is called back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RecallKind {
    /// 0: the right to serve reads and attributes from what is cached.
    Read,
    /// 1: the right to write without asking.
    Write,
    /// 2: the right to a directory's entries.
    Directory,
}

/// A question to a node. Nodes agree on it by number: variants are only ever appended, never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// 0: are you there? Answered by the transport itself.
    Ping,
    /// 1: keep this file open for me, so that it stays readable when its name goes. Answer: `Opened`.
    Open {
        /// The inode. The server refuses one whose bytes are elsewhere.
        ino: InodeId,
        /// Whether the handle is for writing too.
        may_write: bool,
    },
    /// 2: release a handle. Answer: `Done`.
    Close {
        /// The handle.
        handle: Handle,
    },
    /// 3: bytes of a file. Answer: `Data`, short at the end of the file.
    Read {
        /// The open file.
        handle: Handle,
        /// First byte.
        offset_bytes: u64,
        /// How many; at most [`crate::MAX_PAYLOAD_BYTES`].
        len_bytes: u32,
        /// How many bytes after these the asker will want soon; 0 when it does not know.
        read_ahead_bytes: u64,
    },
    /// 4: the payload belongs at this place. Answer: `Written`.
    Write {
        /// The file.
        target: Target,
        /// First byte.
        offset_bytes: u64,
    },
    /// 5: cut or grow. Answer: `Written`.
    Truncate {
        /// The file.
        target: Target,
        /// The new length.
        size_bytes: u64,
    },
    /// 6: space. Answer: `Written`.
    Allocate {
        /// The file.
        target: Target,
        /// First byte.
        offset_bytes: u64,
        /// How many.
        len_bytes: u64,
        /// What to do.
        mode: AllocateMode,
    },
    /// 7: what the file is at this moment, at its home. Answer: `Status`.
    Stat {
        /// The inode.
        ino: InodeId,
        /// Its file at the server.
        backing: BackingRef,
    },
    /// 8: I will send a copy. Answer: `Opened`; `PushChunk` and `PushEnd` name that handle. A copy that is not
    /// ended when its session closes is thrown away.
    PushBegin {
        /// The inode.
        ino: InodeId,
        /// The version of the record when the copy was begun.
        version: u64,
        /// The class of tier wanted.
        class: TierClass,
        /// Length of the whole copy.
        total_bytes: u64,
    },
    /// 9: the payload belongs at this place of the copy. Answer: `Done`.
    PushChunk {
        /// The copy.
        handle: Handle,
        /// First byte.
        offset_bytes: u64,
    },
    /// 10: the copy is complete; make it last. Answer: `Pushed`.
    PushEnd {
        /// The copy.
        handle: Handle,
        /// The sum, modulo 2^64, over the pieces that were sent, of the CRC-64/NVME of a piece's offset and its own
        /// CRC-64/NVME, both as 8 bytes little-endian. What was not sent is a hole.
        sum: u64,
    },
    /// 11: throw a copy away that was pushed, unless its inode has it by now. Answer: `Done`.
    Drop {
        /// The inode.
        ino: InodeId,
        /// Its file at the server.
        backing: BackingRef,
        /// The version of the record when the copy was begun.
        version: u64,
    },
    /// 12: give a lease back. Answer: `Released` or `Busy`.
    Recall {
        /// The inode.
        ino: InodeId,
        /// Which lease.
        kind: RecallKind,
        /// Of `Read`, the stamp of the pages. Of `Write`, the life of the asker, to whom the holder passes the right in the
        /// commit with which it gives it up; 0 if it is to pass to nobody, which a holder may always do.
        epoch: u64,
    },
    /// 13: forget what you cached of this inode. Sent one-way: a hint, correctness never rests on it.
    Invalidate {
        /// The inode.
        ino: InodeId,
    },
    /// 14: these files of your tier are garbage. Answer: `Done`.
    Reclaim {
        /// The tier at the server.
        tier: TierId,
        /// The files, at most as many as a header holds (about 6,000).
        files: Vec<BackingFileId>,
    },
    /// 15: tell about yourself. Answer: `Json`.
    Status,
    /// 16: tell where an inode's bytes are, as far as you know. Answer: `Json`.
    Locate {
        /// The inode.
        ino: InodeId,
    },
    /// 17: publish what was written through this handle, as a close does. Answer: `Done`, or `Busy` while copies
    /// are still being made: then ask again.
    Flush {
        /// The open file.
        handle: Handle,
    },
    /// 18: keep this file open for me to read, and send what it begins with. Answer: `Opened`, with those bytes, short
    /// at the end of the file.
    OpenRead {
        /// The inode. The server refuses one whose bytes are elsewhere.
        ino: InodeId,
        /// How many bytes; at most [`crate::MAX_PAYLOAD_BYTES`].
        len_bytes: u32,
    },
    /// 19: about the locks that processes have. Answer: `Lock`.
    Lock {
        /// The file.
        place: LockPlace,
        /// The question.
        question: LockQuestion,
    },
    /// 20: the payload is a whole small copy. Answer: `Pushed`.
    PushWhole {
        /// The inode.
        ino: InodeId,
        /// The class of tier wanted.
        class: TierClass,
        /// As in `PushEnd`, over the payload as one piece; 0 for an empty one.
        sum: u64,
    },
    /// 21: you have the content of these files; see whether they have as many copies as they should. Answer:
    /// `Done`, at once.
    Replicate {
        /// The inodes.
        inos: Vec<InodeId>,
    },
    /// 22: become the home of this file. Answer: `Released` when it is here, `Busy` with 0 when somebody has it
    /// open, `Busy` with another time while it is on its way.
    Fetch {
        /// The inode.
        ino: InodeId,
    },
    /// 23: keep this part of a striped file open for me, so that it stays there when the file's name goes. Answer:
    /// `Opened`, with the part's length; offsets and lengths of what follows are the part's own.
    OpenPart {
        /// The inode. The server refuses a file that is not its part.
        ino: InodeId,
        /// The part at the server.
        backing: BackingRef,
        /// Whether the handle is for writing too.
        may_write: bool,
    },
    /// 24: what an open part is at this moment. Answer: `Status`.
    StatPart {
        /// The open part.
        handle: Handle,
    },
    /// 25: I have the right to write this file, which has its bytes in no tier yet, and have no room for it: take
    /// that right from me, be its home, and keep it open for me to write. The payload is what the file holds now.
    /// Answer: `Opened`; after `Failed` the right is mine still, unless it was given back.
    TakeIn {
        /// The inode.
        ino: InodeId,
    },
    /// 26: as `OpenRead`, and vouch for what is read if you can: I keep it beyond its reading, until you recall that
    /// (`Recall` of kind `Read`, with the stamp as its epoch). Answer: `Vouched`.
    OpenVouched {
        /// The inode. The server refuses one whose bytes are elsewhere.
        ino: InodeId,
        /// How many bytes; at most [`crate::MAX_PAYLOAD_BYTES`].
        len_bytes: u32,
    },
    /// 27: I read this file, for which you vouch under the stamp, as others do: which pieces am I to take, and from
    /// whom? Answer: `Spread`; `Failed` when you do not vouch for it any more.
    Spread {
        /// The inode.
        ino: InodeId,
        /// The stamp.
        stamp: u64,
        /// Pieces that I was told to take and have got since I asked last; others may have them from me.
        landed: Vec<u32>,
        /// Pieces that I was told to take and did not get.
        failed: Vec<u32>,
        /// The first piece that my readers want.
        from: u32,
        /// And the one after the last.
        until: u32,
        /// I take no more, and others may have none from me.
        is_leaving: bool,
    },
    /// 28: bytes of a file that you have taken as a piece, or otherwise, under this stamp of its home. Answer: `Data`;
    /// `Failed` when you do not have all of them.
    ReadSpread {
        /// The inode.
        ino: InodeId,
        /// The home of the file.
        home: NodeId,
        /// The home's stamp.
        stamp: u64,
        /// First byte.
        offset_bytes: u64,
        /// How many bytes; at most [`crate::MAX_PAYLOAD_BYTES`].
        len_bytes: u32,
    },
    /// 29: as `Recall` of kind `Write`, for a host that will have the bytes itself: with the right tell me what the record is
    /// by now, and send the bytes if they are few. Answer: `HandedOver`, or as that of `Recall`.
    HandOver {
        /// The inode.
        ino: InodeId,
        /// The life of the asker, to whom the right is to pass.
        epoch: u64,
        /// Of a file that is longer no bytes are wanted; at most [`crate::MAX_PAYLOAD_BYTES`].
        len_bytes: u32,
    },
    /// 30: this file, whose home you are, has got a hint on its tier. Sent one-way: a hint is advice.
    FollowTier {
        /// The inode.
        ino: InodeId,
    },
    /// 31: as `Lock`, for the lock master of a file, who refuses it once it has answered a later one of the same life of the
    /// asker about the file. Answer: `Lock`, or `Failed` with `Busy`.
    LockInTurn {
        /// The file.
        place: LockPlace,
        /// Larger than those of all questions that the asker has asked before about the file.
        number: u64,
        /// The question; not `Report` nor `Wake`.
        question: LockQuestion,
    },
    /// 32: publish what was written through this handle, with the copies and as durable as was promised for that. Answer: `Done`,
    /// or `Busy` while copies are still being made: then ask again for the same call.
    Publish {
        /// The open file.
        handle: Handle,
        /// Which call of a program this is for. All that was written when it is asked for first is published for it.
        call: u64,
        /// What kind of call.
        published_for: PublishedFor,
    },
    /// 33: I change these metadata records, which your lease on a directory covers. Forget them, and keep nothing of them until
    /// `ChangesOver` names the change, or give the lease back. Answer: `Done`, or `Released`.
    ChangeRecords {
        /// The directory.
        dir: InodeId,
        /// The number of the change among those of my life.
        number: u64,
        /// The keys of the records.
        keys: Vec<Vec<u8>>,
    },
    /// 34: these changes have been made, or never will be. Sent one-way: if it is lost, ask for the lease anew.
    ChangesOver {
        /// Their numbers.
        numbers: Vec<u64>,
    },
}

impl Request {
    /// The request's name, for messages and metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Open { .. } => "open",
            Self::Close { .. } => "close",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Truncate { .. } => "truncate",
            Self::Allocate { .. } => "allocate",
            Self::Stat { .. } => "stat",
            Self::PushBegin { .. } => "push begin",
            Self::PushChunk { .. } => "push chunk",
            Self::PushEnd { .. } => "push end",
            Self::Drop { .. } => "drop",
            Self::Recall { .. } => "recall",
            Self::Invalidate { .. } => "invalidate",
            Self::Reclaim { .. } => "reclaim",
            Self::Status => "status",
            Self::Locate { .. } => "locate",
            Self::Flush { .. } => "flush",
            Self::OpenRead { .. } => "open to read",
            Self::Lock { .. } | Self::LockInTurn { .. } => "lock",
            Self::PushWhole { .. } => "push whole",
            Self::Replicate { .. } => "replicate",
            Self::Fetch { .. } => "fetch",
            Self::OpenPart { .. } => "open part",
            Self::StatPart { .. } => "stat part",
            Self::TakeIn { .. } => "take in",
            Self::OpenVouched { .. } => "open vouched",
            Self::Spread { .. } => "spread",
            Self::ReadSpread { .. } => "read spread",
            Self::HandOver { .. } => "hand over",
            Self::FollowTier { .. } => "follow tier",
            Self::Publish { .. } => "publish",
            Self::ChangeRecords { .. } => "change records",
            Self::ChangesOver { .. } => "changes over",
        }
    }

    /// How many payload bytes the answer may bring.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        match self {
            Self::Read { len_bytes, .. }
            | Self::OpenRead { len_bytes, .. }
            | Self::OpenVouched { len_bytes, .. }
            | Self::ReadSpread { len_bytes, .. }
            | Self::HandOver { len_bytes, .. } => usize::try_from(*len_bytes).unwrap_or(usize::MAX),
            _ => 0,
        }
    }
}
