//! Locks of programs: passed on to [`Locks`], which asks for the files that they are of.

use std::sync::Arc;

use intarsia_types::{InodeId, NodeId, Result};

use super::Node;
use crate::locks::{LockClaim, LockDone, LockKind, LockSpan, Locks};
use crate::vfs::locking::OF_ONE_HOST;

impl Node {
    /// The locks between hosts; in a store of one the kernel has them all.
    fn shared_locks(&self) -> Result<&Arc<Locks>> {
        self.locks.as_ref().ok_or(OF_ONE_HOST)
    }

    /// Asks for a lock through the open handle `handle`. With a ticket, a number that is never used twice,
    /// waits for it; [`interrupt_lock`](Self::interrupt_lock) with the same number ends that.
    pub fn lock(
        &self,
        ino: InodeId,
        handle: u64,
        claim: LockClaim,
        ticket: Option<u64>,
        done: LockDone,
    ) {
        match self.shared_locks() {
            Ok(locks) => locks.lock(ino, handle, claim, ticket, done),
            Err(error) => done(Err(error)),
        }
    }

    /// A signal came for the request with this number, which may be no request for a lock, or one that is
    /// still on its way.
    pub fn interrupt_lock(&self, ticket: u64) {
        if let Some(locks) = &self.locks {
            locks.interrupt_lock(ticket);
        }
    }

    /// Says what stands in the way of a lock, and on which host; `None` when nothing does.
    pub fn test_lock(
        &self,
        ino: InodeId,
        claim: LockClaim,
        done: impl FnOnce(Result<Option<(NodeId, LockClaim)>>) + Send + 'static,
    ) {
        match self.shared_locks() {
            Ok(locks) => locks.test_lock(ino, claim, done),
            Err(error) => done(Err(error)),
        }
    }

    /// Gives up what an owner has of a range, once what was written is published. The lock is gone also
    /// when that fails.
    pub fn unlock(
        &self,
        ino: InodeId,
        kind: LockKind,
        owner: u64,
        span: LockSpan,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        match &self.locks {
            Some(locks) => locks.unlock(ino, kind, owner, span, done),
            None => done(Ok(())),
        }
    }

    /// Whether processes of this host have or want locks of a file, so that closing it matters to them.
    #[must_use]
    pub fn has_locks(&self, ino: InodeId) -> bool {
        self.locks.as_ref().is_some_and(|locks| locks.has_locks(ino))
    }

    /// A process closes a file: publishes, and gives up what it has locked with `fcntl`.
    pub fn close_by_owner(
        &self,
        ino: InodeId,
        owner: u64,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        match &self.locks {
            Some(locks) => locks.close_by_owner(ino, owner, done),
            None => done(self.syncer.flush(ino)),
        }
    }

    /// An open handle is gone: so are the locks that were made through it and were not given up with their
    /// process, those of `flock` and of open file descriptions. With the last handle goes what is known of
    /// the file's locks.
    pub fn close_lock_handle(&self, ino: InodeId, handle: u64) {
        if let Some(locks) = &self.locks {
            locks.close_lock_handle(ino, handle);
        }
    }

    /// Refuses to go on with a file whose locks this host has lost.
    ///
    /// # Errors
    /// EIO, until the file is closed here.
    pub fn require_locks(&self, ino: InodeId) -> Result<()> {
        self.locks.as_ref().map_or(Ok(()), |locks| locks.require_locks(ino))
    }
}
