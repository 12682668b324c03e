//! Locks of programs: passed on to [`Locks`](crate::locks::Locks), which asks here for the files they are for.

use std::sync::Arc;

use intarsia_policy::IoMode;
use intarsia_types::{Error, InodeId, NodeId, Result};

use crate::inode::lease::Attempt;
use crate::locks::{LockClaim, LockDone, LockKind, LockSpan, LockedFiles, Locks};
use crate::node::Node;

pub(crate) const OF_ONE_HOST: Error = Error::NotSupported("locks between hosts in a store of one");

impl Node {
    /// The locks between hosts; in a store of one the kernel has them all.
    pub(crate) fn shared_locks(&self) -> Result<&Arc<Locks>> {
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
            None => done(self.flush(ino)),
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

    /// Whether the kernel keeps pages of a file, so that they have to go when another host may have written.
    #[must_use]
    pub fn is_cached_by_kernel(&self, ino: InodeId) -> bool {
        self.live.with_existing(ino, |state| state.mode == IoMode::Cached).unwrap_or(false)
    }

    /// Refuses to go on with a file whose locks this host has lost.
    ///
    /// # Errors
    /// EIO, until the file is closed here.
    pub fn require_locks(&self, ino: InodeId) -> Result<()> {
        self.locks.as_ref().map_or(Ok(()), |locks| locks.require_locks(ino))
    }

    /// A file was found or made under this name.
    pub(crate) fn note_lockable(&self, name: &[u8], ino: InodeId) {
        if let Some(locks) = &self.locks {
            locks.note_lockable(name, ino);
        }
    }
}

impl LockedFiles for Node {
    fn publish(&self, ino: InodeId) -> Result<()> {
        self.inode.publisher.publish_now(ino)
    }

    fn flush(&self, ino: InodeId) -> Result<()> {
        Self::flush(self, ino)
    }

    fn look_up_anew(&self, ino: InodeId) -> Result<()> {
        let remote = self.inode.leases.with_live(ino, |state| {
            if !state.is_open() || state.names.is_orphan() {
                return Ok(Attempt::Done(None));
            }
            match self.namespace.get(ino) {
                Ok(inode) => self.inode.following.renew_body(state, &inode)?,
                // Removed by another host, and nobody else can open it any more.
                Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
            Ok(Attempt::Done(state.remote().map(Arc::clone)))
        })?;
        remote.map_or(Ok(()), |remote| remote.renew())
    }

    fn is_open(&self, ino: InodeId) -> bool {
        self.live.with_existing(ino, |state| state.handles > 0).unwrap_or(false)
    }
}
