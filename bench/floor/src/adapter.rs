//! From kernel request to tree operation to reply.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::counts::{Counts, Op};
use crate::inode::{Birth, State, permissions};
use crate::tree::{Place, Tree, index};

/// Nothing changes behind the kernel's back, so it may trust what it knows for long.
const TRUST: Duration = Duration::from_secs(3600);
const GENERATION: Generation = Generation(0);
const MAX_WRITE_BYTES: u32 = 1 << 20;
const MAX_BACKGROUND: u16 = 64;
const BLOCK_BYTES: u32 = 4096;
const COPY_STEP_BYTES: u64 = 16 << 20;

const WANTED: [InitFlags; 7] = [
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_ASYNC_DIO,
];

/// How the file system presents itself to the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) writeback: bool,
    pub(crate) lean: bool,
}

#[derive(Debug)]
pub(crate) struct Adapter {
    tree: Tree,
    counts: Arc<Counts>,
    mode: Mode,
}

impl Adapter {
    pub(crate) fn new(tree: Tree, counts: Arc<Counts>, mode: Mode) -> Self {
        Self { tree, counts, mode }
    }

    /// In lean mode ENOSYS tells the kernel once that it never needs to ask again.
    fn unless_lean(&self) -> Result<(), Errno> {
        if self.mode.lean { Err(Errno::ENOSYS) } else { Ok(()) }
    }

    fn open_flags(&self) -> FopenFlags {
        FopenFlags::FOPEN_KEEP_CACHE
    }

    fn read_state<T>(
        &self,
        ino: INodeNo,
        read: impl FnOnce(&State) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        read(&self.tree.inode(ino.0)?.state.read())
    }

    fn change_state<T>(
        &self,
        ino: INodeNo,
        change: impl FnOnce(&mut State) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        change(&mut self.tree.inode(ino.0)?.state.write())
    }

    fn truncate_on_open(&self, ino: INodeNo, flags: OpenFlags) -> Result<(), Errno> {
        if flags.0 & libc::O_TRUNC == 0 {
            return Ok(());
        }
        self.change_state(ino, |state| {
            self.tree.resize(state, 0)?;
            state.touch();
            Ok(())
        })
    }

    fn copy_range(
        &self,
        from: INodeNo,
        from_offset: u64,
        to: INodeNo,
        to_offset: u64,
        length: u64,
    ) -> Result<u32, Errno> {
        let length = length.min(COPY_STEP_BYTES);
        // Copied out first, because source and destination may be one file.
        let data =
            self.read_state(from, |state| Ok(part(state.bytes()?, from_offset, length)?.to_vec()))?;
        self.change_state(to, |state| self.tree.write(state, to_offset, &data))?;
        u32::try_from(data.len()).map_err(|_| Errno::EFBIG)
    }

    fn allocate(
        &self,
        state: &mut State,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<(), Errno> {
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let clears = mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0;
        let known =
            libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
        if mode & !known != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if clears {
            let bytes = state.bytes_mut()?;
            let end = index(end)?.min(bytes.len());
            let start = index(offset)?.min(end);
            bytes[start..end].fill(0);
            state.touch();
        }
        if !keep_size && end > state.attr.size {
            self.tree.resize(state, end)?;
            state.touch();
        }
        Ok(())
    }
}

/// The bytes of a file from `offset` on, at most `length` of them.
fn part(bytes: &[u8], offset: u64, length: u64) -> Result<&[u8], Errno> {
    let start = index(offset)?.min(bytes.len());
    let end = index(offset.saturating_add(length))?.min(bytes.len());
    Ok(&bytes[start..end])
}

fn place(parent: INodeNo, name: &OsStr) -> Place<'_> {
    Place { parent: parent.0, name }
}

fn birth(request: &Request, mode: u32, rdev: u32) -> Birth {
    Birth { mode, uid: request.uid(), gid: request.gid(), rdev }
}

fn time(change: TimeOrNow) -> SystemTime {
    match change {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

fn answer_entry(reply: ReplyEntry, outcome: Result<FileAttr, Errno>) {
    match outcome {
        Ok(attr) => reply.entry(&TRUST, &attr, GENERATION),
        Err(error) => reply.error(error),
    }
}

fn answer_attr(reply: ReplyAttr, outcome: Result<FileAttr, Errno>) {
    match outcome {
        Ok(attr) => reply.attr(&TRUST, &attr),
        Err(error) => reply.error(error),
    }
}

fn answer_empty(reply: ReplyEmpty, outcome: Result<(), Errno>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn answer_xattr(reply: ReplyXattr, capacity: u32, value: Result<Vec<u8>, Errno>) {
    let value = match value {
        Ok(value) => value,
        Err(error) => return reply.error(error),
    };
    match u32::try_from(value.len()) {
        Ok(length) if capacity == 0 => reply.size(length),
        Ok(length) if length <= capacity => reply.data(&value),
        _ => reply.error(Errno::ERANGE),
    }
}

/// Attributes that say only that a name does not exist: the kernel remembers number 0 as "none".
fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
        crtime: SystemTime::UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

/// The two entries that every directory lists first, with their cookies.
fn dots(
    ino: INodeNo,
    parent: u64,
    after: u64,
) -> impl Iterator<Item = (INodeNo, u64, &'static str)> {
    [(ino, 1, "."), (INodeNo(parent), 2, "..")]
        .into_iter()
        .filter(move |(_, cookie, _)| *cookie > after)
}

#[allow(clippy::too_many_arguments, reason = "the trait gives each field of a request by itself")]
impl Filesystem for Adapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel without one of them only makes the floor slower.
        for capability in WANTED {
            let _ = config.add_capabilities(capability);
        }
        if self.mode.writeback {
            config
                .add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE)
                .map_err(|_| io::Error::other("this kernel has no write-back cache for FUSE"))?;
        }
        if self.mode.lean {
            let _ = config.add_capabilities(InitFlags::FUSE_NO_OPEN_SUPPORT);
            let _ = config.add_capabilities(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        }
        let _ = config.set_max_write(MAX_WRITE_BYTES);
        let _ = config.set_max_background(MAX_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.counts.add(Op::Lookup);
        match self.tree.lookup(place(parent, name)) {
            Err(error) if error == Errno::ENOENT => reply.entry(&TRUST, &absent(), GENERATION),
            outcome => answer_entry(reply, outcome),
        }
    }

    fn forget(&self, _request: &Request, ino: INodeNo, lookups: u64) {
        // The library unpacks batches, so this counts inodes rather than messages.
        self.counts.add(Op::Forget);
        self.tree.forget(ino.0, lookups);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        self.counts.add(Op::GetAttr);
        answer_attr(reply, self.tree.attr(ino.0));
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
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
        self.counts.add(Op::SetAttr);
        let outcome = self.change_state(ino, |state| {
            if let Some(size) = size {
                self.tree.resize(state, size)?;
                state.touch();
                if request.uid() != 0 {
                    state.drop_privileges();
                }
            }
            if uid.is_some() || gid.is_some() {
                state.drop_privileges();
            }
            let attr = &mut state.attr;
            attr.perm = mode.map_or(attr.perm, permissions);
            attr.uid = uid.unwrap_or(attr.uid);
            attr.gid = gid.unwrap_or(attr.gid);
            attr.atime = atime.map_or(attr.atime, time);
            attr.mtime = mtime.map_or(attr.mtime, time);
            attr.ctime = ctime.unwrap_or_else(SystemTime::now);
            Ok(*attr)
        });
        answer_attr(reply, outcome);
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        self.counts.add(Op::ReadLink);
        match self.tree.read_link(ino.0) {
            Ok(target) => reply.data(target.as_os_str().as_encoded_bytes()),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.counts.add(Op::MkNod);
        let birth = birth(request, mode, rdev);
        answer_entry(reply, self.tree.create(place(parent, name), birth));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        self.counts.add(Op::MkDir);
        let birth = birth(request, mode, 0);
        answer_entry(reply, self.tree.make_directory(place(parent, name), birth));
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.counts.add(Op::Unlink);
        answer_empty(reply, self.tree.unlink(place(parent, name)));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.counts.add(Op::RmDir);
        answer_empty(reply, self.tree.remove_directory(place(parent, name)));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.counts.add(Op::SymLink);
        let birth = birth(request, 0o777, 0);
        answer_entry(reply, self.tree.symlink(place(parent, name), target, birth));
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.counts.add(Op::Rename);
        let (from, to) = (place(parent, name), place(new_parent, new_name));
        answer_empty(reply, self.tree.rename(from, to, flags));
    }

    fn link(
        &self,
        _request: &Request,
        ino: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.counts.add(Op::Link);
        answer_entry(reply, self.tree.link(ino.0, place(new_parent, new_name)));
    }

    fn open(&self, _request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.counts.add(Op::Open);
        match self.unless_lean().and_then(|()| self.truncate_on_open(ino, flags)) {
            Ok(()) => reply.opened(FileHandle(0), self.open_flags()),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.counts.add(Op::Read);
        let inode = match self.tree.inode(ino.0) {
            Ok(inode) => inode,
            Err(error) => return reply.error(error),
        };
        // Answered under the lock, so that the bytes go to the kernel without a copy of ours.
        let state = inode.state.read();
        match state.bytes().and_then(|bytes| part(bytes, offset, u64::from(size))) {
            Ok(data) => reply.data(data),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.counts.add(Op::Write);
        let outcome = self.change_state(ino, |state| {
            self.tree.write(state, offset, data)?;
            if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                state.drop_privileges();
            }
            Ok(())
        });
        match outcome.and_then(|()| u32::try_from(data.len()).map_err(|_| Errno::EFBIG)) {
            Ok(length) => reply.written(length),
            Err(error) => reply.error(error),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.counts.add(Op::Flush);
        answer_empty(reply, self.unless_lean());
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.counts.add(Op::Release);
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.counts.add(Op::FSync);
        answer_empty(reply, self.unless_lean());
    }

    fn opendir(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.counts.add(Op::OpenDir);
        match self.unless_lean() {
            Ok(()) => reply.opened(FileHandle(0), self.open_flags() | FopenFlags::FOPEN_CACHE_DIR),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.counts.add(Op::ReadDir);
        let outcome = self.read_state(ino, |state| {
            let directory = state.directory()?;
            for (number, cookie, name) in dots(ino, directory.parent, offset) {
                if reply.add(number, cookie, FileType::Directory, name) {
                    return Ok(());
                }
            }
            for (cookie, entry) in directory.after(offset) {
                if reply.add(INodeNo(entry.ino), cookie, entry.kind, &entry.name) {
                    break;
                }
            }
            Ok(())
        });
        match outcome {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.counts.add(Op::ReadDirPlus);
        let outcome = self.read_state(ino, |state| {
            let directory = state.directory()?;
            for (number, cookie, name) in dots(ino, directory.parent, offset) {
                // The kernel takes no attributes from these two.
                let attr = FileAttr { ino: number, ..state.attr };
                if reply.add(number, cookie, name, &TRUST, &attr, GENERATION) {
                    return Ok(());
                }
            }
            for (cookie, entry) in directory.after(offset) {
                let child = self.tree.inode(entry.ino)?;
                let attr = child.state.read().attr;
                if reply.add(attr.ino, cookie, &entry.name, &TRUST, &attr, GENERATION) {
                    break;
                }
                child.add_lookup();
            }
            Ok(())
        });
        match outcome {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.counts.add(Op::ReleaseDir);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.counts.add(Op::FSyncDir);
        answer_empty(reply, self.unless_lean());
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        self.counts.add(Op::StatFs);
        let usage = self.tree.usage();
        let blocks = usage.capacity_bytes / u64::from(BLOCK_BYTES);
        let free = blocks.saturating_sub(usage.used_bytes.div_ceil(u64::from(BLOCK_BYTES)));
        let free_inodes = u64::from(u32::MAX);
        let inodes = usage.inodes + free_inodes;
        reply.statfs(blocks, free, free, inodes, free_inodes, BLOCK_BYTES, 255, BLOCK_BYTES);
    }

    fn setxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.counts.add(Op::SetXattr);
        let outcome = self.unless_lean().and_then(|()| {
            if name.as_encoded_bytes().starts_with(b"system.") {
                return Err(Errno::EOPNOTSUPP);
            }
            self.change_state(ino, |state| {
                let exists = state.xattrs.contains_key(name);
                match flags {
                    libc::XATTR_CREATE if exists => return Err(Errno::EEXIST),
                    libc::XATTR_REPLACE if !exists => return Err(Errno::ENODATA),
                    _ => {}
                }
                state.xattrs.insert(name.to_os_string(), value.to_vec());
                state.touch_attr();
                Ok(())
            })
        });
        answer_empty(reply, outcome);
    }

    fn getxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        self.counts.add(Op::GetXattr);
        let value = self.unless_lean().and_then(|()| {
            self.read_state(ino, |state| state.xattrs.get(name).cloned().ok_or(Errno::ENODATA))
        });
        answer_xattr(reply, size, value);
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.counts.add(Op::ListXattr);
        let names = self.unless_lean().and_then(|()| {
            self.read_state(ino, |state| {
                let mut names = Vec::new();
                for name in state.xattrs.keys() {
                    names.extend_from_slice(name.as_encoded_bytes());
                    names.push(0);
                }
                Ok(names)
            })
        });
        answer_xattr(reply, size, names);
    }

    fn removexattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.counts.add(Op::RemoveXattr);
        let outcome = self.unless_lean().and_then(|()| {
            self.change_state(ino, |state| {
                state.xattrs.remove(name).ok_or(Errno::ENODATA)?;
                state.touch_attr();
                Ok(())
            })
        });
        answer_empty(reply, outcome);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        self.counts.add(Op::Create);
        // The kernel opens with CREATE only a name that it knows to be absent.
        let birth = birth(request, libc::S_IFREG | (mode & 0o7777), 0);
        match self.tree.create(place(parent, name), birth) {
            Ok(attr) => {
                reply.created(&TRUST, &attr, GENERATION, FileHandle(0), self.open_flags());
            }
            Err(error) => reply.error(error),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.counts.add(Op::FAllocate);
        let outcome = self.change_state(ino, |state| self.allocate(state, offset, length, mode));
        answer_empty(reply, outcome);
    }

    fn lseek(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.counts.add(Op::Lseek);
        // The whole file counts as data; its only hole begins at its end.
        let outcome = self.tree.attr(ino.0).and_then(|attr| {
            let size = i64::try_from(attr.size).map_err(|_| Errno::EOVERFLOW)?;
            match whence {
                _ if offset < 0 || offset >= size => Err(Errno::ENXIO),
                libc::SEEK_DATA => Ok(offset),
                libc::SEEK_HOLE => Ok(size),
                _ => Err(Errno::EINVAL),
            }
        });
        match outcome {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(error),
        }
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        from: INodeNo,
        _from_fh: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _to_fh: FileHandle,
        to_offset: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.counts.add(Op::CopyFileRange);
        match self.copy_range(from, from_offset, to, to_offset, length) {
            Ok(copied) => reply.written(copied),
            Err(error) => reply.error(error),
        }
    }
}
