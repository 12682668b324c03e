//! Opens and creates.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fuser::{
    BackingId, Errno, FileHandle, FopenFlags, INodeNo, OpenFlags, ReplyCreate, ReplyOpen, Request,
};
use intarsia_node::{KernelBacking, NewName, Op, Opened, Pages};
use intarsia_types::Error;

use super::answers::GENERATION;
use super::{Adapter, caller};
use crate::convert::{errno, ino, ttl};

/// Bits of a handle, see [`Adapter::handle`]: it may write, it appends.
const WRITES: u64 = 1;
const APPENDS: u64 = 2;
/// And reads come of the kernel's pages, of a file of another host.
const PAGED: u64 = 4;
const HANDLE_SHIFT: u32 = 3;

/// `__FMODE_EXEC` of the kernel's `linux/fs.h`: opened to be run, by the kernel itself.
const FMODE_EXEC: i32 = 0x20;

pub(super) const fn may_write(flags: OpenFlags) -> bool {
    !matches!(flags.0 & libc::O_ACCMODE, libc::O_RDONLY)
}

/// Whether the kernel opens a file to run it.
pub(super) const fn runs(flags: OpenFlags) -> bool {
    flags.0 & FMODE_EXEC != 0
}

pub(super) const fn is_writer(handle: FileHandle) -> bool {
    handle.0 & WRITES != 0
}

/// Whether what is written through the handle goes to the end of the file.
pub(crate) const fn appends(handle: FileHandle) -> bool {
    handle.0 & APPENDS != 0
}

pub(super) const fn is_paged(handle: FileHandle) -> bool {
    handle.0 & PAGED != 0
}

/// What tells apart the handles of a file.
pub(super) const fn number(handle: FileHandle) -> u64 {
    handle.0 >> HANDLE_SHIFT
}

fn backing_of(opened: &Opened) -> Option<&BackingId> {
    opened.passthrough.as_ref().and_then(|kernel| kernel.downcast_ref())
}

fn as_kernel(id: BackingId) -> KernelBacking {
    Arc::new(id)
}

impl Adapter {
    /// A new handle. The kernel keeps its own count of them; ours says how it was opened, and tells apart
    /// through which one a lock was made.
    fn handle(&self, write: bool, flags: OpenFlags) -> FileHandle {
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed) << HANDLE_SHIFT;
        let appends = if flags.0 & libc::O_APPEND == 0 { 0 } else { APPENDS };
        FileHandle(number | appends | if write { WRITES } else { 0 })
    }

    fn fopen_flags(&self, opened: &Opened) -> FopenFlags {
        let mut flags = match opened.pages {
            Pages::Kept | Pages::Vouched if opened.passthrough.is_none() => {
                FopenFlags::FOPEN_KEEP_CACHE
            }
            // An older kernel could not map it then.
            Pages::Bypassed if self.maps_direct.load(Ordering::Relaxed) => {
                FopenFlags::FOPEN_DIRECT_IO
            }
            _ => FopenFlags::empty(),
        };
        if !opened.wants_flush {
            flags |= FopenFlags::FOPEN_NOFLUSH;
        }
        flags
    }

    pub(super) fn answer_open(
        &self,
        req: &Request,
        n: INodeNo,
        flags: OpenFlags,
        reply: ReplyOpen,
    ) {
        let timer = Self::start(req, Op::Open);
        let write = may_write(flags);
        let registrar = |fd: BorrowedFd<'_>| reply.open_backing(fd).map(as_kernel);
        let truncate = flags.0 & libc::O_TRUNC != 0;
        let result = self.node.open_file(caller(req), ino(n), write, truncate, &registrar);
        self.finish(&timer, result.is_ok());
        let opened = match result {
            Ok(opened) => opened,
            Err(e) => return reply.error(self.inode_errno(req, &e, "open")),
        };
        self.stale_calls.forget(req.pid());
        if runs(flags) {
            self.node.begin_running(ino(n));
        }
        // An open that truncates counts as a writer to the node, whatever its access mode.
        let mut fh = self.handle(write || truncate, flags);
        fh.0 |= if opened.pages == Pages::Vouched { PAGED } else { 0 };
        self.record_open(req, &timer, n, fh, (flags, false), &opened);
        let mut flags = self.fopen_flags(&opened);
        if self.node.has_locks(ino(n)) {
            // Closing it gives up its process's locks.
            flags -= FopenFlags::FOPEN_NOFLUSH;
        }
        match backing_of(&opened) {
            Some(id) => reply.opened_passthrough(fh, flags, id),
            None => reply.opened(fh, flags),
        }
    }

    pub(super) fn answer_create(
        &self,
        req: &Request,
        (parent, name): (INodeNo, &OsStr),
        new: &NewName,
        flags: OpenFlags,
        reply: ReplyCreate,
    ) {
        let timer = Self::start_in(req, parent, Op::Create);
        let write = may_write(flags);
        let registrar = |fd: BorrowedFd<'_>| reply.open_backing(fd).map(as_kernel);
        let (caller, parent) = (caller(req), ino(parent));
        let result = self.node.create_file(caller, parent, name.as_bytes(), new, write, &registrar);
        self.finish(&timer, result.is_ok());
        let (attr, opened) = match result {
            Ok(made) => made,
            // Another host was first. The kernel looks the name up again and opens the file, permissions and all.
            Err(Error::Exists) if flags.0 & libc::O_EXCL == 0 => return reply.error(Errno::ESTALE),
            Err(e) => return reply.error(errno(&e, "create")),
        };
        let fh = self.handle(write, flags);
        self.node.recorder().named(parent, name.as_bytes(), &attr);
        self.record_open(req, &timer, INodeNo(attr.ino.0), fh, (flags, true), &opened);
        let (flags, attr) = (self.fopen_flags(&opened), self.told_attr(&timer, &attr));
        let telling = self.node.tell_kernel();
        let name = ttl(&telling, self.node.name_validity(parent, timer.started()));
        match backing_of(&opened) {
            Some(id) => reply.created_passthrough(&name, &attr, GENERATION, fh, flags, id),
            None => reply.created(&name, &attr, GENERATION, fh, flags),
        }
    }
}
