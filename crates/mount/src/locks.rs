//! Locks between hosts: what the kernel asks of `fcntl` and `flock` locks, on mounts of a store of several.
//! On a store of one host the kernel keeps them and asks nothing.

use std::sync::{Arc, OnceLock};

use fuser::{Errno, FileHandle, INodeNo, LockOwner, Notifier, ReplyEmpty, ReplyLock};
use intarsia_node::{LockClaim, LockKind, LockMode, LockOutcome, LockSpan, Node, OpTimer};
use intarsia_types::{Error, InodeId, NodeId, Result};

use crate::adapter::appends;
use crate::convert::ino;

/// The last byte of a lock without an end, as the kernel has it.
const KERNEL_END: u64 = i64::MAX.cast_unsigned();
const EIO: i32 = 5;

/// The kernel's bytes from `start` to `end`.
pub(crate) const fn span(start: u64, end: u64) -> LockSpan {
    LockSpan { first: start, last: if end >= KERNEL_END { u64::MAX } else { end } }
}

/// Who else may have such a lock; `None` for giving one up.
pub(crate) const fn mode(typ: i32) -> Option<LockMode> {
    match typ {
        libc::F_RDLCK => Some(LockMode::Shared),
        libc::F_WRLCK => Some(LockMode::Exclusive),
        _ => None,
    }
}

/// What the kernel asks about a lock.
pub(crate) struct LockCall {
    pub(crate) ino: InodeId,
    pub(crate) handle: u64,
    /// What is written through the handle goes to the end of the file.
    pub(crate) appends: bool,
    pub(crate) kind: LockKind,
    pub(crate) owner: u64,
    pub(crate) pid: u32,
    pub(crate) typ: i32,
    pub(crate) span: LockSpan,
    /// The number of the request, if it is to wait.
    pub(crate) ticket: Option<u64>,
}

impl LockCall {
    /// Of a lock that is not waited for.
    pub(crate) fn new(
        (n, fh): (INodeNo, FileHandle),
        kind: LockKind,
        (owner, pid): (LockOwner, u32),
        typ: i32,
        span: LockSpan,
    ) -> Self {
        let (appends, owner) = (appends(fh), owner.0);
        Self { ino: ino(n), handle: fh.0, appends, kind, owner, pid, typ, span, ticket: None }
    }

    fn claim(&self, mode: LockMode) -> LockClaim {
        let Self { kind, owner, pid, span, .. } = *self;
        LockClaim { kind, owner, pid, mode, span }
    }

    /// Takes or gives up a lock, and answers when that is done.
    pub(crate) fn set(
        self,
        node: &Arc<Node>,
        timer: OpTimer,
        kernel: &Arc<OnceLock<Notifier>>,
        reply: ReplyEmpty,
    ) {
        let (ino, appends, counted) = (self.ino, self.appends, Arc::clone(node));
        let Some(mode) = mode(self.typ) else {
            return node.unlock(ino, self.kind, self.owner, self.span, move |outcome| {
                counted.counters().finish(&timer, outcome.is_ok());
                match outcome {
                    Ok(()) => reply.ok(),
                    Err(error) => reply.error(crate::convert::errno(&error, "unlock")),
                }
            });
        };
        let kernel = Arc::clone(kernel);
        let done = move |outcome: Result<LockOutcome>| {
            counted.counters().finish(&timer, outcome.is_ok());
            match outcome {
                Ok(LockOutcome::Granted) => {
                    drop_pages(&counted, ino, appends, kernel.get());
                    reply.ok();
                }
                Ok(LockOutcome::Denied) => reply.error(Errno::EAGAIN),
                Ok(LockOutcome::Deadlock) => reply.error(Errno::EDEADLK),
                Ok(LockOutcome::Interrupted) => reply.error(Errno::EINTR),
                Err(error) => reply.error(lock_errno(&error, ino)),
            }
        };
        node.lock(ino, self.handle, self.claim(mode), self.ticket, Box::new(done));
    }

    /// Answers what stands in the way of a lock.
    pub(crate) fn test(self, node: &Arc<Node>, timer: OpTimer, reply: ReplyLock) {
        let Some(mode) = mode(self.typ) else { return reply.error(Errno::EINVAL) };
        let (ino, counted) = (self.ino, Arc::clone(node));
        node.test_lock(ino, self.claim(mode), move |outcome| {
            counted.counters().finish(&timer, outcome.is_ok());
            match outcome {
                Ok(None) => reply.locked(0, 0, libc::F_UNLCK, 0),
                Ok(Some((host, claim))) => held(&counted, &host, &claim, reply),
                Err(error) => reply.error(lock_errno(&error, ino)),
            }
        });
    }
}

fn held(node: &Node, host: &NodeId, claim: &LockClaim, reply: ReplyLock) {
    let typ = match claim.mode {
        LockMode::Shared => libc::F_RDLCK,
        LockMode::Exclusive => libc::F_WRLCK,
    };
    // A number of another host would name some other process here.
    let pid = if *host == node.options().name { claim.pid } else { 0 };
    reply.locked(claim.span.first, claim.span.last.min(KERNEL_END), typ, pid);
}

/// What the kernel keeps of a file may be older than the lock.
fn drop_pages(node: &Node, ino: InodeId, appends: bool, kernel: Option<&Notifier>) {
    if !node.drop_pages_before_lock(ino) || !appends {
        return;
    }
    let Some(kernel) = kernel else { return };
    if let Err(error) = show_end(node, ino, kernel) {
        tracing::warn!(%ino, %error, "the kernel does not know where a file that was locked ends");
    }
}

/// An append goes to where the kernel believes the end to be. It takes no length from us but with bytes, so it
/// is given the last one.
fn show_end(node: &Node, ino: InodeId, kernel: &Notifier) -> Result<()> {
    let (attr, _) = node.attributes(ino)?;
    let Some(last) = attr.size_bytes.checked_sub(1) else { return Ok(()) };
    let mut byte = [0];
    if node.read(ino, last, &mut byte)? == 1 {
        kernel
            .store(INodeNo(ino.0), last, &byte)
            .map_err(|e| Error::io("tell the kernel a length", e))?;
    }
    Ok(())
}

/// EIO where locks were lost, else ENOLCK: the lock could not be asked for.
fn lock_errno(error: &Error, ino: InodeId) -> Errno {
    tracing::warn!(%ino, %error, "a lock was not to be had");
    if error.errno() == EIO { Errno::EIO } else { Errno::ENOLCK }
}
