//! Each kernel request becomes one call on the node and one reply.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags,
    INodeNo, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, RequestId, TimeOrNow,
    WriteFlags,
};
use intarsia_node::{AttrChange, LockKind, LockSpan, NameChange, Op, SetMode};
use intarsia_types::{Error, FileKind};

use super::answers::as_told;
use super::opening::{is_writer, number, runs};
use super::xattrs::{joined, set_mode};
use super::{Adapter, caller};
use crate::convert::{attribute_ttl, file_kind, ino, new_name, rename_mode, set_time};
use crate::locks::{LockCall, span};

impl Filesystem for Adapter {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        self.agree(config);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let timer = Self::start_in(req, parent, Op::Lookup);
        match self.node.lookup(ino(parent), name.as_bytes()) {
            Err(Error::NotFound) => self.absent(&timer, parent, reply),
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
        let result = self.node.attributes(ino(n)).inspect(|(attr, _)| {
            self.node.drop_old_pages(attr.ino);
        });
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
        self.answer_open(req, n, flags, reply);
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
        let new = new_name(FileKind::Regular, mode, umask, 0, None);
        self.answer_create(req, (parent, name), &new, OpenFlags(flags), reply);
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
        self.answer_read(req, n, fh, (offset, size), reply);
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
        self.answer_write(req, (n, fh), offset, data, write_flags, reply);
    }

    fn flush(
        &self,
        req: &Request,
        n: INodeNo,
        _fh: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.answer_flush(n, owner, Self::start(req, Op::Flush), reply);
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
        let n = ino(n);
        if runs(flags) {
            self.node.end_running(n);
        }
        self.node.record_close(n, number(fh));
        if self.node.release(n, is_writer(fh)) {
            self.count_reader(n);
        }
        self.node.close_lock_handle(n, fh.0);
        self.empty(&timer, "release", Ok(()), reply);
    }

    fn fsync(&self, req: &Request, n: INodeNo, _fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.answer_fsync(n, datasync, Self::start(req, Op::FSync), reply);
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
        self.answer_statfs(req, reply);
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
        let result = self.node.set_xattr(ino(n), name.as_bytes(), value, set_mode(flags));
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
        let result = self.node.list_xattr(ino(n)).map(joined);
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
        self.answer_allocate(n, (offset, length), mode, timer, reply);
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
        self.answer_seek(n, offset, whence, Self::start(req, Op::LSeek), reply);
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
        let call = LockCall::new((n, fh), LockKind::Record, (owner, pid), typ, span(start, end));
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
        let ticket = sleep.then_some(req.unique().0);
        let call = LockCall::new((n, fh), LockKind::Record, (owner, pid), typ, span(start, end));
        let call = LockCall { ticket, ..call };
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
        let ticket = sleep.then_some(req.unique().0);
        let call = LockCall::new((n, fh), LockKind::Whole, (owner, pid), typ, LockSpan::ALL);
        let call = LockCall { ticket, ..call };
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
        self.answer_copy((ino_in, offset_in), (ino_out, offset_out), len, timer, reply);
    }
}
