//! Each kernel request becomes one call on the node and one reply.

mod batch;
mod listing;
mod recording;

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BackingId, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle,
    Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    Notifier, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, RequestId, TimeOrNow, WriteFlags,
};
use intarsia_node::{
    AttrChange, Caller, Direction, FarRead, KernelBacking, LockKind, LockSpan, Metrics, NameChange,
    NewName, Node, Op, OpTimer, Opened, Reading, RenameMode, SetMode, Telling, Validity,
};
use intarsia_sync::Mutex;
use intarsia_types::{Attr, Error, FileKind, InodeId, Result};

use crate::calls;
use crate::convert::{
    attribute_ttl, errno, file_attr, file_kind, ino, no_attributes, set_time, ttl,
};
use crate::executed::Executed;
use crate::locks::{LockCall, span};
use crate::mode::Mode;
use crate::page::PageSize;
use crate::slow::Lanes;
use crate::stale::StaleCalls;

/// Inode numbers are never reused, so one generation does for ever.
const GENERATION: Generation = Generation(0);
/// Largest request in either direction.
const MAX_TRANSFER_BYTES: u32 = 1 << 20;

/// What programs are told to read and write at a time; buffered ones do so.
const BLOCK_BYTES: u32 = 4096;
/// Of a file that may be read past the kernel's pages, where each read is a request.
const FAR_BLOCK_BYTES: u32 = 64 << 10;

/// How long the kernel may keep attributes.
type KeptFor = fn(&Telling<'_>, InodeId, Validity) -> Duration;

pub(crate) struct Adapter {
    node: Arc<Node>,
    lanes: Lanes,
    mode: Arc<Mutex<Mode>>,
    has_write_back: AtomicBool,
    /// The kernel maps files also that are read past its pages.
    maps_direct: AtomicBool,
    next_handle: AtomicU64,
    executed: Executed,
    stale_calls: StaleCalls,
    /// For telling the kernel things; there once the session is.
    notifier: Arc<OnceLock<Notifier>>,
    list_page: PageSize,
    list_plus_page: PageSize,
}

impl Adapter {
    pub(crate) fn new(node: Arc<Node>, lanes: Lanes, mode: Arc<Mutex<Mode>>) -> Self {
        let has_write_back = AtomicBool::new(false);
        Self {
            node,
            lanes,
            mode,
            has_write_back,
            maps_direct: AtomicBool::new(false),
            next_handle: AtomicU64::new(1),
            executed: Executed::default(),
            stale_calls: StaleCalls::default(),
            notifier: Arc::default(),
            list_page: PageSize::default(),
            list_plus_page: PageSize::default(),
        }
    }

    /// Where the session's notifier is to be put.
    pub(crate) fn notifier_slot(&self) -> Arc<OnceLock<Notifier>> {
        Arc::clone(&self.notifier)
    }

    fn start(req: &Request, op: Op) -> OpTimer {
        Self::begin(req, None, op)
    }

    /// Starts with a request for which the kernel holds a lock of the directory.
    fn start_in(req: &Request, directory: INodeNo, op: Op) -> OpTimer {
        Self::begin(req, Some(ino(directory)), op)
    }

    fn begin(req: &Request, directory: Option<InodeId>, op: Op) -> OpTimer {
        calls::begin(req.pid(), directory, op);
        intarsia_node::begin_answering(req.pid());
        Metrics::start(op)
    }

    fn finish(&self, timer: &OpTimer, is_ok: bool) {
        self.node.counters().finish(timer, is_ok);
        calls::end(is_ok);
    }

    /// Has the kernel drop what it has of a file if that is old, which it is to be told the attributes of. Where it is
    /// told of a greater length it would show what stands behind the old one in its last page: zeros.
    fn before_telling(&self, attr: &Attr) {
        let Some(kernel) = self.notifier.get() else { return };
        self.node.drop_old_pages(attr.ino, || {
            // ENOENT means that the kernel has nothing cached.
            let _ = kernel.inval_inode(INodeNo(attr.ino.0), 0, 0);
        });
    }

    fn entry(
        &self,
        timer: &OpTimer,
        op: &'static str,
        (parent, name): (INodeNo, &[u8]),
        result: Result<(Attr, Validity)>,
        reply: ReplyEntry,
    ) {
        self.entry_kept(timer, op, (parent, name), result, attribute_ttl, reply);
    }

    /// As [`entry`](Self::entry); `kept` says how long the kernel may keep the attributes.
    fn entry_kept(
        &self,
        timer: &OpTimer,
        op: &'static str,
        (parent, name): (INodeNo, &[u8]),
        result: Result<(Attr, Validity)>,
        kept: KeptFor,
        reply: ReplyEntry,
    ) {
        self.finish(timer, result.is_ok());
        match result {
            Ok((attr, validity)) => {
                self.before_telling(&attr);
                self.node.recorder().named(ino(parent), name, &attr);
                let telling = self.node.tell_kernel();
                let named = ttl(&telling, self.node.name_validity(ino(parent), timer.started()));
                let kept = kept(&telling, attr.ino, validity);
                reply.entry_with_ttls(&kept, &named, &self.told_attr(timer, &attr), GENERATION);
            }
            Err(e) => reply.error(errno(&e, op)),
        }
    }

    fn attr(
        &self,
        req: &Request,
        timer: &OpTimer,
        op: &'static str,
        result: Result<(Attr, Validity)>,
        kept: KeptFor,
        reply: ReplyAttr,
    ) {
        self.finish(timer, result.is_ok());
        match result {
            Ok((attr, validity)) => {
                let telling = self.node.tell_kernel();
                let kept = kept(&telling, attr.ino, validity);
                reply.attr(&kept, &self.told_attr(timer, &attr));
            }
            Err(e) => reply.error(self.inode_errno(req, &e, op)),
        }
    }

    /// The errno of a call that names an inode, which may be gone by now.
    fn inode_errno(&self, req: &Request, error: &Error, op: &'static str) -> Errno {
        match error {
            Error::NotFound => self.stale_calls.errno(req.pid()),
            other => errno(other, op),
        }
    }

    /// A new handle. The kernel keeps its own count of them; ours says how it was opened, and tells apart
    /// through which one a lock was made.
    fn handle(&self, write: bool, flags: OpenFlags) -> FileHandle {
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed) << HANDLE_SHIFT;
        let appends = if flags.0 & libc::O_APPEND == 0 { 0 } else { APPENDS };
        FileHandle(number | appends | if write { WRITES } else { 0 })
    }

    /// Has the kernel drop what it has of a file that is being opened, and that is old.
    fn outdate(&self, n: INodeNo, opened: &Opened, kernel: &Notifier) {
        let invalidate = |offset| {
            let _dropping = self.node.dropping_pages(ino(n));
            // ENOENT means that the kernel has nothing cached.
            let _ = kernel.inval_inode(n, offset, 0);
        };
        if opened.outdates_cache {
            invalidate(0);
        }
        if let Some(stamp) = &opened.begins_pages {
            invalidate(0);
            self.node.begin_pages(ino(n), stamp);
        }
        if opened.outdates_attributes {
            // A negative offset leaves the pages alone. But a length that it asked for before it does not take.
            invalidate(-1);
        }
    }

    /// The attributes that the kernel is told in answer to a request, and keeps.
    fn told_attr(&self, timer: &OpTimer, attr: &Attr) -> FileAttr {
        self.node.tell_length(attr, timer.started());
        self.file_attr(attr)
    }

    fn file_attr(&self, attr: &Attr) -> FileAttr {
        let is_far = attr.kind == FileKind::Regular && self.node.is_shared();
        let blksize = if is_far { FAR_BLOCK_BYTES } else { BLOCK_BYTES };
        file_attr(attr, blksize)
    }

    fn fopen_flags(&self, opened: &Opened) -> FopenFlags {
        let mut flags = FopenFlags::empty();
        if opened.passthrough.is_none() && opened.keeps_cache {
            flags |= FopenFlags::FOPEN_KEEP_CACHE;
        }
        // The kernel's pages do not follow what another host does to a file. An older kernel could not map it then.
        if opened.changes_elsewhere && self.maps_direct.load(Ordering::Relaxed) {
            flags |= FopenFlags::FOPEN_DIRECT_IO;
        }
        if !opened.wants_flush {
            flags |= FopenFlags::FOPEN_NOFLUSH;
        }
        flags
    }

    fn empty(&self, timer: &OpTimer, op: &'static str, result: Result<()>, reply: ReplyEmpty) {
        finish_empty(&self.node, timer, op, result, reply);
    }

    /// As [`empty`](Self::empty), of a call that names an inode.
    fn inode_empty(
        &self,
        req: &Request,
        timer: &OpTimer,
        op: &'static str,
        result: Result<()>,
        reply: ReplyEmpty,
    ) {
        match result {
            Err(Error::NotFound) => {
                self.finish(timer, false);
                reply.error(self.stale_calls.errno(req.pid()));
            }
            result => self.empty(timer, op, result, reply),
        }
    }

    fn xattr_reply(
        &self,
        req: &Request,
        result: Result<Vec<u8>>,
        size: u32,
        op: &'static str,
        reply: ReplyXattr,
    ) {
        match result {
            Err(e) => reply.error(self.inode_errno(req, &e, op)),
            Ok(value) => match (u32::try_from(value.len()), size) {
                (Ok(len), 0) => reply.size(len),
                (Ok(len), size) if len <= size => reply.data(&value),
                _ => reply.error(errno(&Error::Range, op)),
            },
        }
    }

    fn wait_for_peer(&self, read: FarRead, place: Place, timer: OpTimer, reply: ReplyData) {
        let node = Arc::clone(&self.node);
        self.lanes.peers.run(move || {
            READ_BUFFER.with_borrow_mut(|buffer| {
                read.finish(buffer, |bytes| match bytes {
                    Ok(bytes) => answer_remote_read(&node, &timer, Ok(bytes), reply),
                    Err(error) => read_moved(&node, place, error, &timer, reply),
                });
            });
        });
    }
}

/// A file, and the bytes of it that a program reads: the first, and how many.
type Place = (InodeId, u64, usize);

/// The bytes could not be had from the host that they were asked of; they may be at another one by now.
fn read_moved(node: &Node, place: Place, error: Error, timer: &OpTimer, reply: ReplyData) {
    let (ino, offset, size) = place;
    let mut bytes = vec![0; size];
    match node.read_moved(ino, offset, &mut bytes).unwrap_or(Err(error)) {
        Ok(len) => answer_read(node, timer, Ok(&bytes[..len]), reply),
        Err(error) => answer_remote_read(node, timer, Err(error), reply),
    }
}

fn answer_remote_read(node: &Node, timer: &OpTimer, bytes: Result<&[u8]>, reply: ReplyData) {
    node.count_read(bytes.as_ref().map_or(0, |bytes| bytes.len()));
    answer_read(node, timer, bytes, reply);
}

fn answer_read(node: &Node, timer: &OpTimer, bytes: Result<&[u8]>, reply: ReplyData) {
    node.counters().finish(timer, bytes.is_ok());
    calls::end(bytes.is_ok());
    match bytes {
        Ok(bytes) => reply.data(bytes),
        Err(e) => reply.error(errno(&e, "read")),
    }
}

fn finish_empty(
    node: &Node,
    timer: &OpTimer,
    op: &'static str,
    result: Result<()>,
    reply: ReplyEmpty,
) {
    node.counters().finish(timer, result.is_ok());
    calls::end(result.is_ok());
    match result {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(errno(&e, op)),
    }
}

/// See [`KeptFor`]: where the kernel takes what it is told for the newest, whatever it was told to drop meanwhile.
fn as_told(telling: &Telling<'_>, _ino: InodeId, validity: Validity) -> Duration {
    ttl(telling, validity)
}

fn caller(req: &Request) -> Caller {
    Caller { uid: req.uid(), gid: req.gid() }
}

const fn may_write(flags: OpenFlags) -> bool {
    !matches!(flags.0 & libc::O_ACCMODE, libc::O_RDONLY)
}

/// Bits of a handle, see [`Adapter::handle`]: it may write, it appends.
const WRITES: u64 = 1;
const APPENDS: u64 = 2;
/// And reads come of the kernel's pages, of a file of another host.
const PAGED: u64 = 4;
const HANDLE_SHIFT: u32 = 3;

const fn is_writer(handle: FileHandle) -> bool {
    handle.0 & WRITES != 0
}

fn backing_of(opened: &Opened) -> Option<&BackingId> {
    opened.passthrough.as_ref().and_then(|kernel| kernel.downcast_ref())
}

fn as_kernel(id: BackingId) -> KernelBacking {
    Arc::new(id)
}

impl Filesystem for Adapter {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let mut wanted = InitFlags::FUSE_ASYNC_READ
            | InitFlags::FUSE_BIG_WRITES
            | InitFlags::FUSE_ATOMIC_O_TRUNC
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2
            | InitFlags::FUSE_MAX_PAGES
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_NO_OPENDIR_SUPPORT
            | InitFlags::FUSE_EXPLICIT_INVAL_DATA
            // An inode that the kernel has forgotten can be opened by its handle: it is looked up as "." below itself.
            | InitFlags::FUSE_EXPORT_SUPPORT
            // Not FUSE_ASYNC_DIO: what a reader brought into the kernel's pages while an asynchronous write went past
            // them would stay there after the write has been reported done.
            | InitFlags::FUSE_ABORT_ERROR
            // Lists are checked by the kernel; the umask is ours to apply, for a default list replaces it.
            | InitFlags::FUSE_POSIX_ACL
            | InitFlags::FUSE_DONT_MASK
            // Only then it says that whoever sets a list is not in the file's group.
            | InitFlags::FUSE_SETXATTR_EXT;
        let mut mode = self.mode.lock();
        if mode.in_force && !config.capabilities().contains(InitFlags::FUSE_PASSTHROUGH) {
            *mode = Mode::off("the kernel does not offer it (Linux 6.9 or later is needed)");
        }
        if mode.in_force {
            wanted |= InitFlags::FUSE_PASSTHROUGH;
            // One level: an overlay file system (containers) can still stand on this mount.
            let _ = config.set_max_stack_depth(1);
        } else if !self.node.is_shared() && !self.node.has_lower() {
            // With it the kernel believes its own lengths for as long as it knows a file, so that it
            // would never see what another host appended, or what changed in a lower file system.
            wanted |= InitFlags::FUSE_WRITEBACK_CACHE;
        }
        if self.node.is_shared() {
            // Locks hold between hosts. On one host the kernel keeps them.
            wanted |= InitFlags::FUSE_POSIX_LOCKS | InitFlags::FUSE_FLOCK_LOCKS;
            // So that files which others may change can be read past its pages.
            wanted |= InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        }
        let wanted = wanted & config.capabilities();
        let _ = config.add_capabilities(wanted);
        let _ = config.set_max_write(MAX_TRANSFER_BYTES);
        let _ = config.set_max_readahead(MAX_TRANSFER_BYTES);
        let _ = config.set_max_background(64);
        let has_write_back = wanted.contains(InitFlags::FUSE_WRITEBACK_CACHE);
        self.has_write_back.store(has_write_back, Ordering::Release);
        let maps_direct = wanted.contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        self.maps_direct.store(maps_direct, Ordering::Release);
        self.node.set_kernel_mode(mode.in_force, has_write_back);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let timer = Self::start_in(req, parent, Op::Lookup);
        match self.node.lookup(ino(parent), name.as_bytes()) {
            Err(Error::NotFound) => {
                self.finish(&timer, true);
                let telling = self.node.tell_kernel();
                let absence = self.node.absence_validity(ino(parent), timer.started());
                reply.entry(&ttl(&telling, absence), &no_attributes(), GENERATION);
            }
            result => self.entry(&timer, "lookup", (parent, name.as_bytes()), result, reply),
        }
    }

    fn forget(&self, _req: &Request, _ino: INodeNo, _nlookup: u64) {
        // Inode numbers are never reused and records outlive the kernel's interest: nothing to do.
        self.node.counters().count(Op::Forget, 1);
    }

    fn getattr(&self, req: &Request, n: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let timer = Self::start(req, Op::GetAttr);
        let _asked = self.node.asked_for_length(ino(n));
        let result = self.node.attributes(ino(n)).inspect(|(attr, _)| self.before_telling(attr));
        self.attr(req, &timer, "getattr", result, attribute_ttl, reply);
    }

    fn setattr(
        &self,
        req: &Request,
        n: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let timer = Self::start(req, Op::SetAttr);
        let change = AttrChange {
            perm: mode.map(|m| u16::try_from(m & 0o7777).unwrap_or(0)),
            uid,
            gid,
            size_bytes: size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            ctime: ctime.map(Into::into),
        };
        let result = self.node.set_attributes(caller(req), ino(n), &change);
        // What the kernel is told of a change it takes for the newest.
        self.attr(req, &timer, "setattr", result, as_told, reply);
    }

    fn readlink(&self, req: &Request, n: INodeNo, reply: ReplyData) {
        let timer = Self::start(req, Op::ReadLink);
        let result = self.node.read_link(ino(n));
        self.finish(&timer, result.is_ok());
        match result {
            Ok(target) => reply.data(&target),
            Err(e) => reply.error(self.inode_errno(req, &e, "readlink")),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let timer = Self::start_in(req, parent, Op::MkNod);
        let result = file_kind(mode)
            .ok_or_else(|| Error::Invalid(format!("no kind of file has mode {mode:o}")))
            .and_then(|kind| {
                let new = new_name(kind, mode, umask, rdev, None);
                self.node.make(caller(req), ino(parent), name.as_bytes(), &new)
            });
        self.entry(&timer, "mknod", (parent, name.as_bytes()), result, reply);
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let timer = Self::start_in(req, parent, Op::MkDir);
        let new = new_name(FileKind::Directory, mode, umask, 0, None);
        let result = self.node.make(caller(req), ino(parent), name.as_bytes(), &new);
        self.record_name(req, &timer, NameChange::MakeDirectory, (parent, name), &result);
        self.entry(&timer, "mkdir", (parent, name.as_bytes()), result, reply);
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let timer = Self::start_in(req, parent, Op::SymLink);
        let target = target.as_os_str().as_bytes().to_vec();
        let new = new_name(FileKind::Symlink, 0o777, 0, 0, Some(target));
        let result = self.node.make(caller(req), ino(parent), name.as_bytes(), &new);
        self.record_name(req, &timer, NameChange::SymbolicLink, (parent, name), &result);
        self.entry(&timer, "symlink", (parent, name.as_bytes()), result, reply);
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let timer = Self::start_in(req, parent, Op::Unlink);
        let result = self.node.unlink(ino(parent), name.as_bytes());
        self.record_name(req, &timer, NameChange::Unlink, (parent, name), &result);
        self.empty(&timer, "unlink", result, reply);
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let timer = Self::start_in(req, parent, Op::RmDir);
        let result = self.node.rmdir(ino(parent), name.as_bytes());
        self.record_name(req, &timer, NameChange::RemoveDirectory, (parent, name), &result);
        self.empty(&timer, "rmdir", result, reply);
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let timer = Self::start_in(req, parent, Op::Rename);
        let result = rename_mode(flags).and_then(|mode| {
            self.node.rename(ino(parent), name.as_bytes(), ino(newparent), newname.as_bytes(), mode)
        });
        self.record_rename(req, &timer, (parent, name), (newparent, newname), flags, &result);
        self.empty(&timer, "rename", result, reply);
    }

    fn link(
        &self,
        req: &Request,
        n: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let timer = Self::start_in(req, newparent, Op::Link);
        let result = self.node.link(ino(n), ino(newparent), newname.as_bytes());
        // The kernel knows the inode, and takes what it is told of it here for the newest.
        self.entry_kept(&timer, "link", (newparent, newname.as_bytes()), result, as_told, reply);
    }

    fn open(&self, req: &Request, n: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let timer = Self::start(req, Op::Open);
        let write = may_write(flags);
        let registrar = |fd: BorrowedFd<'_>| reply.open_backing(fd).map(as_kernel);
        let truncate = flags.0 & libc::O_TRUNC != 0;
        if truncate && !write && self.executed.has(n) {
            self.finish(&timer, false);
            return reply.error(Errno::from_i32(libc::ETXTBSY));
        }
        let result = self.node.open_file(caller(req), ino(n), write, truncate, &registrar);
        self.finish(&timer, result.is_ok());
        match result {
            Ok(opened) => {
                self.stale_calls.forget(req.pid());
                if let Some(kernel) = self.notifier.get() {
                    self.outdate(n, &opened, kernel);
                }
                self.executed.opened(n, flags);
                // An open that truncates counts as a writer to the node, whatever its access mode.
                let mut fh = self.handle(write || truncate, flags);
                fh.0 |= if opened.is_paged { PAGED } else { 0 };
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
            Err(e) => reply.error(self.inode_errno(req, &e, "open")),
        }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let timer = Self::start_in(req, parent, Op::Create);
        let write = may_write(OpenFlags(flags));
        let new = new_name(FileKind::Regular, mode, umask, 0, None);
        let registrar = |fd: BorrowedFd<'_>| reply.open_backing(fd).map(as_kernel);
        let result = self.node.create_file(
            caller(req),
            ino(parent),
            name.as_bytes(),
            &new,
            write,
            &registrar,
        );
        self.finish(&timer, result.is_ok());
        match result {
            Ok((attr, opened)) => {
                let fh = self.handle(write, OpenFlags(flags));
                self.node.recorder().named(ino(parent), name.as_bytes(), &attr);
                self.record_open(
                    req,
                    &timer,
                    INodeNo(attr.ino.0),
                    fh,
                    (OpenFlags(flags), true),
                    &opened,
                );
                let (flags, attr) = (self.fopen_flags(&opened), self.told_attr(&timer, &attr));
                let telling = self.node.tell_kernel();
                let name = ttl(&telling, self.node.name_validity(ino(parent), timer.started()));
                match backing_of(&opened) {
                    Some(id) => reply.created_passthrough(&name, &attr, GENERATION, fh, flags, id),
                    None => reply.created(&name, &attr, GENERATION, fh, flags),
                }
            }
            // Another host was first. The kernel looks the name up again and opens the file, permissions and all.
            Err(Error::Exists) if flags & libc::O_EXCL == 0 => reply.error(Errno::ESTALE),
            Err(e) => reply.error(errno(&e, "create")),
        }
    }

    fn read(
        &self,
        req: &Request,
        n: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let timer = Self::start(req, Op::Read);
        READ_BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let begun = self.node.require_locks(ino(n)).and_then(|()| match fh.0 & PAGED == 0 {
                true => self.node.begin_read(ino(n), offset, &mut buffer[..size]),
                false => self.node.begin_page_read(ino(n), offset, &mut buffer[..size]),
            });
            match begun {
                Ok(Reading::Done(len)) => {
                    self.record_moved(fh, Direction::Read, (offset, len), &timer);
                    answer_read(&self.node, &timer, Ok(&buffer[..len]), reply);
                }
                Ok(Reading::Elsewhere(read)) if read.is_ready() => {
                    self.record_moved(fh, Direction::Read, (offset, size), &timer);
                    let deliver = |bytes: Result<&[u8]>| match bytes {
                        Ok(bytes) => answer_remote_read(&self.node, &timer, Ok(bytes), reply),
                        Err(error) => {
                            let (node, place) = (Arc::clone(&self.node), (ino(n), offset, size));
                            let look = move || read_moved(&node, place, error, &timer, reply);
                            self.lanes.peers.run(look);
                        }
                    };
                    read.finish(buffer, deliver);
                }
                // This thread has other requests to take meanwhile.
                Ok(Reading::Elsewhere(read)) => {
                    self.record_moved(fh, Direction::Read, (offset, size), &timer);
                    self.wait_for_peer(read, (ino(n), offset, size), timer, reply);
                }
                Err(e) => answer_read(&self.node, &timer, Err(e), reply),
            }
        });
    }

    fn write(
        &self,
        req: &Request,
        n: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let timer = Self::start(req, Op::Write);
        let is_write_back = self.has_write_back.load(Ordering::Relaxed)
            && write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let kills = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let result = self
            .node
            .require_locks(ino(n))
            .and_then(|()| self.node.write(ino(n), offset, data, is_write_back, kills));
        if result.is_ok() {
            self.record_moved(fh, Direction::Write, (offset, data.len()), &timer);
        }
        self.finish(&timer, result.is_ok());
        match result {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(e) => reply.error(errno(&e, "write")),
        }
    }

    fn flush(
        &self,
        req: &Request,
        n: INodeNo,
        _fh: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let timer = Self::start(req, Op::Flush);
        let node = Arc::clone(&self.node);
        if node.has_locks(ino(n)) {
            let counted = Arc::clone(&node);
            node.close_by_owner(ino(n), owner.0, move |result| {
                finish_empty(&counted, &timer, "flush", result, reply);
            });
        } else if node.flush_may_block(ino(n)) {
            let n = ino(n);
            let lane = self.lanes.for_durable(node.waits_for_hosts(n, false));
            lane.run(move || finish_empty(&node, &timer, "flush", node.flush(n), reply));
        } else {
            self.empty(&timer, "flush", node.flush(ino(n)), reply);
        }
    }

    fn release(
        &self,
        req: &Request,
        n: INodeNo,
        fh: FileHandle,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let timer = Self::start(req, Op::Release);
        self.executed.released(n, flags);
        self.node.record_close(ino(n), fh.0 >> HANDLE_SHIFT);
        if self.node.release(ino(n), is_writer(fh)) {
            let (node, n) = (Arc::clone(&self.node), ino(n));
            self.lanes.slow.run(move || {
                if let Err(error) = node.reader_left(n) {
                    tracing::warn!(ino = %n, %error, "a reader is not counted; the file stays for longer");
                }
            });
        }
        self.node.close_lock_handle(ino(n), fh.0);
        self.empty(&timer, "release", Ok(()), reply);
    }

    fn fsync(&self, req: &Request, n: INodeNo, _fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        let timer = Self::start(req, Op::FSync);
        let node = Arc::clone(&self.node);
        let n = ino(n);
        let lane = self.lanes.for_durable(node.waits_for_hosts(n, true));
        lane.run(move || finish_empty(&node, &timer, "fsync", node.fsync(n, datasync), reply));
    }

    fn opendir(&self, _req: &Request, n: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // Listings carry their place in the cookie, so no state is needed.
        self.node.counters().count(Op::OpenDir, 1);
        let flags = match self.node.may_cache_listing(ino(n)) {
            true => FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR,
            // Neither this listing nor the pages of an earlier one are to be kept.
            false => FopenFlags::empty(),
        };
        reply.opened(FileHandle(0), flags);
    }

    fn readdir(
        &self,
        req: &Request,
        n: INodeNo,
        _fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.list(&Self::start_in(req, n, Op::ReadDir), n, offset, reply);
    }

    fn readdirplus(
        &self,
        req: &Request,
        n: INodeNo,
        _fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.list_plus(&Self::start_in(req, n, Op::ReadDirPlus), n, offset, reply);
    }

    fn ioctl(
        &self,
        req: &Request,
        n: INodeNo,
        _fh: FileHandle,
        flags: IoctlFlags,
        cmd: u32,
        asked: &[u8],
        _out_bytes: u32,
        reply: ReplyIoctl,
    ) {
        if flags.contains(IoctlFlags::FUSE_IOCTL_DIR) {
            self.batch(req, n, cmd, asked, reply);
        } else {
            reply.error(Errno::ENOTTY);
        }
    }

    fn statfs(&self, req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        const BLOCK: u32 = 4096;
        let timer = Self::start(req, Op::StatFs);
        let result = self.node.space();
        self.finish(&timer, result.is_ok());
        match result {
            Ok((space, inodes)) => {
                let blocks = |bytes: u64| bytes / u64::from(BLOCK);
                let free = blocks(space.free_bytes);
                // A file needs a block at most, so free blocks bound free inodes.
                reply.statfs(
                    blocks(space.used_bytes + space.free_bytes),
                    free,
                    free,
                    inodes + free,
                    free,
                    BLOCK,
                    255,
                    BLOCK,
                );
            }
            Err(e) => reply.error(errno(&e, "statfs")),
        }
    }

    fn setxattr(
        &self,
        req: &Request,
        n: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let timer = Self::start(req, Op::SetXattr);
        let mode = match flags {
            libc::XATTR_CREATE => SetMode::Create,
            libc::XATTR_REPLACE => SetMode::Replace,
            _ => SetMode::Either,
        };
        let result = self.node.set_xattr(ino(n), name.as_bytes(), value, mode);
        self.inode_empty(req, &timer, "setxattr", result, reply);
    }

    fn set_acl_and_kill_sgid(
        &self,
        req: &Request,
        n: INodeNo,
        name: &OsStr,
        value: &[u8],
        reply: ReplyEmpty,
    ) {
        let timer = Self::start(req, Op::SetXattr);
        let n = ino(n);
        let result = self
            .node
            .set_xattr(n, name.as_bytes(), value, SetMode::Either)
            .and_then(|()| self.node.clear_set_group_id(n));
        self.inode_empty(req, &timer, "setxattr", result, reply);
    }

    fn getxattr(&self, req: &Request, n: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let timer = Self::start(req, Op::GetXattr);
        let result = self.node.get_xattr(ino(n), name.as_bytes());
        self.finish(&timer, matches!(result, Ok(_) | Err(Error::NoAttribute)));
        self.xattr_reply(req, result, size, "getxattr", reply);
    }

    fn listxattr(&self, req: &Request, n: INodeNo, size: u32, reply: ReplyXattr) {
        let timer = Self::start(req, Op::ListXattr);
        let result = self.node.list_xattr(ino(n)).map(|names| {
            names
                .into_iter()
                .flat_map(|mut n| {
                    n.push(0);
                    n
                })
                .collect()
        });
        self.finish(&timer, result.is_ok());
        self.xattr_reply(req, result, size, "listxattr", reply);
    }

    fn removexattr(&self, req: &Request, n: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let timer = Self::start(req, Op::RemoveXattr);
        let result = self.node.remove_xattr(ino(n), name.as_bytes());
        self.inode_empty(req, &timer, "removexattr", result, reply);
    }

    fn access(&self, _req: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        // The kernel checks permissions itself (default_permissions).
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        req: &Request,
        n: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let timer = Self::start(req, Op::FAllocate);
        let node = Arc::clone(&self.node);
        let n = ino(n);
        self.lanes.slow.run(move || {
            let result = node.allocate(n, offset, length, mode.cast_unsigned());
            finish_empty(&node, &timer, "fallocate", result, reply);
        });
    }

    fn lseek(
        &self,
        req: &Request,
        n: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let timer = Self::start(req, Op::LSeek);
        let (node, n) = (Arc::clone(&self.node), ino(n));
        if !self.has_write_back.load(Ordering::Relaxed) || !node.is_written_through_us(n) {
            return answer_seek(&node, &timer, seek(&node, n, offset, whence), reply);
        }
        // The kernel holds written pages that we have not seen, which would look like holes. Taking the
        // pages back makes it write them, which needs an event loop that is not this one.
        let notifier = self.notifier.get().cloned();
        self.lanes.slow.run(move || {
            let flushed = notifier.map_or(Ok(()), |k| k.inval_inode(INodeNo(n.0), 0, 0));
            let result = match flushed {
                Err(e) if e.raw_os_error() != Some(libc::ENOENT) => {
                    Err(Error::io("flush the kernel's pages", e))
                }
                _ => seek(&node, n, offset, whence),
            };
            answer_seek(&node, &timer, result, reply);
        });
    }

    fn getlk(
        &self,
        req: &Request,
        n: INodeNo,
        fh: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        let call = LockCall {
            ino: ino(n),
            handle: fh.0,
            appends: fh.0 & APPENDS != 0,
            kind: LockKind::Record,
            owner: owner.0,
            pid,
            typ,
            span: span(start, end),
            ticket: None,
        };
        call.test(&self.node, Self::start(req, Op::GetLock), reply);
    }

    fn setlk(
        &self,
        req: &Request,
        n: INodeNo,
        fh: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let call = LockCall {
            ino: ino(n),
            handle: fh.0,
            appends: fh.0 & APPENDS != 0,
            kind: LockKind::Record,
            owner: owner.0,
            pid,
            typ,
            span: span(start, end),
            ticket: sleep.then_some(req.unique().0),
        };
        call.set(&self.node, Self::start(req, Op::SetLock), &self.notifier, reply);
    }

    fn flock(
        &self,
        req: &Request,
        n: INodeNo,
        fh: FileHandle,
        owner: LockOwner,
        typ: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let call = LockCall {
            ino: ino(n),
            handle: fh.0,
            appends: fh.0 & APPENDS != 0,
            kind: LockKind::Whole,
            owner: owner.0,
            pid,
            typ,
            span: LockSpan::ALL,
            ticket: sleep.then_some(req.unique().0),
        };
        call.set(&self.node, Self::start(req, Op::SetLock), &self.notifier, reply);
    }

    fn interrupt(&self, _req: &Request, unique: RequestId) -> std::result::Result<(), Errno> {
        if !self.node.is_shared() {
            // Nothing here waits for ever, so the kernel need not say it again.
            return Err(Errno::ENOSYS);
        }
        self.node.interrupt_lock(unique.0);
        Ok(())
    }

    fn copy_file_range(
        &self,
        req: &Request,
        ino_in: INodeNo,
        _fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        _fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let timer = Self::start(req, Op::CopyFileRange);
        let node = Arc::clone(&self.node);
        let (from, to) = (ino(ino_in), ino(ino_out));
        self.lanes.slow.run(move || {
            // The reply counts in 32 bits.
            let len = len.min(1 << 30);
            let result = node.copy_range(from, offset_in, to, offset_out, len);
            node.counters().finish(&timer, result.is_ok());
            match result {
                Ok(n) => reply.written(u32::try_from(n).unwrap_or(u32::MAX)),
                Err(e) => reply.error(errno(&e, "copy_file_range")),
            }
        });
    }
}

thread_local! {
    /// One buffer per event loop: fresh memory costs several times the copy.
    static READ_BUFFER: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn new_name(kind: FileKind, mode: u32, umask: u32, rdev: u32, target: Option<Vec<u8>>) -> NewName {
    let bits = |m: u32| u16::try_from(m & 0o7777).unwrap_or(0);
    NewName { kind, perm: bits(mode), umask: bits(umask), rdev, target }
}

fn seek(node: &Node, n: InodeId, offset: i64, whence: i32) -> Result<u64> {
    match (u64::try_from(offset), whence) {
        (Ok(offset), libc::SEEK_DATA) => node.seek(n, offset, false),
        (Ok(offset), libc::SEEK_HOLE) => node.seek(n, offset, true),
        (Err(_), _) => Err(Error::NoData),
        _ => Err(Error::Invalid(format!("lseek whence {whence}"))),
    }
}

fn answer_seek(node: &Node, timer: &OpTimer, result: Result<u64>, reply: ReplyLseek) {
    node.counters().finish(timer, matches!(result, Ok(_) | Err(Error::NoData)));
    match result {
        Ok(at) => reply.offset(at.cast_signed()),
        Err(e) => reply.error(errno(&e, "lseek")),
    }
}

fn rename_mode(flags: RenameFlags) -> Result<RenameMode> {
    if flags.is_empty() {
        Ok(RenameMode::Replace)
    } else if flags == RenameFlags::RENAME_NOREPLACE {
        Ok(RenameMode::NoReplace)
    } else if flags == RenameFlags::RENAME_EXCHANGE {
        Ok(RenameMode::Exchange)
    } else {
        Err(Error::Invalid("this combination of rename flags is not offered".into()))
    }
}
