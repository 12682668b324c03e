//! The namespace of a store: inodes, names, extended attributes and small bodies. It is written once, over a small trait
//! that each metadata engine implements.
//!
//! [`Namespace`] knows POSIX and no engine; a [`MetaEngine`] knows ordered keys and atomic commits and no
//! POSIX. Nothing here reads the wall clock: callers pass `now`.

// Clock, locks and threads are those of `intarsia_sync`, which a simulation replaces.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod allowance;
mod bytes;
mod dentry;
mod engine;
pub mod engines;
mod holders;
mod inode;
pub mod intent;
pub mod keys;
mod leased;
pub mod merge;
mod namespace;
mod pending;
mod ranks;

pub use bytes::Bytes;
pub use engine::{CommitOutcome, Condition, EngineStats, Key, MetaEngine, Mutation, OpId, Value};
pub use inode::Inode;
pub use merge::DirDelta;
pub use namespace::{
    CheckProgress, CheckReport, Counts, DirEntry, Extra, Finding, FreeFile, GroupRecord,
    Invalidated, Invalidation, LINK_MAX, LockMaster, MemberRecord, MemberState, MemberTier,
    NAME_MAX, Namespace, Naming, NewInode, Origin, Outcome, Owner, Recall, Recalled, Recovered,
    RenameMode, RootSpec, SetMode, TierRecord, WriteLease, XATTR_NAME_MAX, XATTR_VALUE_MAX,
};
