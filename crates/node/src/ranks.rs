//! The order of the node's locks. A thread that holds one waits only for those that stand further down here.
//!
//! Owns the ranks and the names of locks that a thread may hold together; the locks themselves are where they are used.
//! Asks nobody.
//! Promises that a debug build panics where a thread takes two of them in another order, and names both.

use intarsia_sync::Rank;

/// Held while this host's record in the metadata is changed.
pub(crate) const OWN_RECORD: Rank = Rank::held_while_asking(5, "the turn for this host's record");
/// Held while the lock master of a file is asked, so that its answers come in the order of the questions.
pub(crate) const LOCK_TURN: Rank = Rank::held_while_asking(10, "the turn for a file's locks");
/// The entry of a live inode. Another host that asks for the file while its entry is locked is told to ask again.
pub(crate) const LIVE_INODE: Rank = Rank::held_while_asking(20, "a live inode");
/// The writes of an open striped file that are on their way. Every read and write of the file waits for them anyway.
pub(crate) const WRITES_BEHIND: Rank = Rank::held_while_asking(25, "the writes behind");
/// Held while a reader goes over to another copy of a file, because a host failed.
pub(crate) const COPY_TURN: Rank = Rank::held_while_asking(27, "the turn for another copy");
/// The locks of this host's processes on one file.
pub(crate) const HELD_LOCKS: Rank = Rank::held_briefly(30, "the locks held on a file");
/// The files whose lock master this host is.
pub(crate) const LOCK_MASTERS: Rank = Rank::held_briefly(32, "the lock masters");
/// The processes here that wait for locks.
pub(crate) const LOCK_WAITERS: Rank = Rank::held_briefly(34, "those who wait for locks");
/// The files on which processes here have locks.
pub(crate) const LOCKED_FILES: Rank = Rank::held_briefly(36, "the files with locks");
/// A shard of the table of live inodes.
pub(crate) const LIVE_SHARD: Rank = Rank::held_briefly(40, "a shard of live inodes");
/// How directories are used here, and which leases this host has on them.
pub(crate) const DIRECTORY_USES: Rank = Rank::held_briefly(42, "the uses of directories");
/// The finalizer's queue.
pub(crate) const FINALIZER_WORK: Rank = Rank::held_briefly(44, "the finalizer's work");
/// What was dealt over all hosts.
pub(crate) const DEALT: Rank = Rank::held_briefly(45, "what was dealt");
/// The hosts of groups of files, as they were looked up.
pub(crate) const GROUPS: Rank = Rank::held_briefly(46, "the hosts of groups");
