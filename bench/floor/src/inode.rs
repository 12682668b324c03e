//! One file, directory, link or special node in memory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use fuser::{Errno, FileAttr, FileType, INodeNo};
use parking_lot::RwLock;

use crate::directory::Directory;

/// Above this growth a file moves to fresh zero pages instead of being filled with zeros,
/// which keeps `truncate` and `fallocate` cheap until the bytes are written.
const LAZY_GROWTH_BYTES: usize = 1 << 20;

const S_ISUID: u16 = 0o4000;
const S_ISGID: u16 = 0o2000;
const S_IXGRP: u16 = 0o0010;

/// What an inode holds besides its attributes.
#[derive(Debug)]
pub(crate) enum Body {
    File(Vec<u8>),
    Directory(Directory),
    Symlink(PathBuf),
    /// A FIFO, socket or device: the kernel does the work.
    Special,
}

#[derive(Debug)]
pub(crate) struct Inode {
    /// How often the kernel was given this inode and has not yet forgotten it.
    lookups: AtomicU64,
    pub(crate) state: RwLock<State>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) attr: FileAttr,
    pub(crate) body: Body,
    pub(crate) xattrs: BTreeMap<OsString, Vec<u8>>,
}

/// Who creates an inode, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Birth {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u32,
}

impl Inode {
    pub(crate) fn new(ino: u64, birth: Birth, body: Body) -> Self {
        let now = SystemTime::now();
        let size = match &body {
            Body::Symlink(target) => target.as_os_str().len() as u64,
            _ => 0,
        };
        let attr = FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind: kind_of(&body, birth.mode),
            perm: permissions(birth.mode),
            nlink: if matches!(body, Body::Directory(_)) { 2 } else { 1 },
            uid: birth.uid,
            gid: birth.gid,
            rdev: birth.rdev,
            blksize: 4096,
            flags: 0,
        };
        let state = RwLock::new(State { attr, body, xattrs: BTreeMap::new() });
        Self { lookups: AtomicU64::new(0), state }
    }

    pub(crate) fn add_lookup(&self) {
        self.lookups.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn drop_lookups(&self, count: u64) {
        self.lookups.fetch_sub(count, Ordering::SeqCst);
    }

    /// Neither a name nor the kernel holds this inode any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.state.read().attr.nlink == 0 && self.lookups.load(Ordering::SeqCst) == 0
    }
}

impl State {
    pub(crate) fn directory(&self) -> Result<&Directory, Errno> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(crate) fn directory_mut(&mut self) -> Result<&mut Directory, Errno> {
        match &mut self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(crate) fn bytes(&self) -> Result<&Vec<u8>, Errno> {
        match &self.body {
            Body::File(bytes) => Ok(bytes),
            Body::Directory(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> Result<&mut Vec<u8>, Errno> {
        match &mut self.body {
            Body::File(bytes) => Ok(bytes),
            Body::Directory(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn resize(&mut self, length: usize) -> Result<(), Errno> {
        let bytes = self.bytes_mut()?;
        if length > bytes.capacity() && length - bytes.len() > LAZY_GROWTH_BYTES {
            let mut grown = vec![0; length];
            grown[..bytes.len()].copy_from_slice(bytes);
            *bytes = grown;
        } else {
            bytes.resize(length, 0);
        }
        self.note_length();
        Ok(())
    }

    pub(crate) fn write(&mut self, offset: usize, data: &[u8]) -> Result<(), Errno> {
        let end = offset + data.len();
        let length = self.bytes()?.len();
        if offset == length {
            self.bytes_mut()?.extend_from_slice(data);
        } else {
            if end > length {
                self.resize(end)?;
            }
            self.bytes_mut()?[offset..end].copy_from_slice(data);
        }
        self.note_length();
        self.touch();
        Ok(())
    }

    fn note_length(&mut self) {
        if let Body::File(bytes) = &self.body {
            self.attr.size = bytes.len() as u64;
            self.attr.blocks = self.attr.size.div_ceil(512);
        }
    }

    /// The content changed now.
    pub(crate) fn touch(&mut self) {
        let now = SystemTime::now();
        self.attr.mtime = now;
        self.attr.ctime = now;
    }

    /// The attributes changed now.
    pub(crate) fn touch_attr(&mut self) {
        self.attr.ctime = SystemTime::now();
    }

    /// A change of owner or content takes the right to run as the owner away.
    pub(crate) fn drop_privileges(&mut self) {
        if matches!(self.body, Body::File(_)) {
            self.attr.perm &= !S_ISUID;
            if self.attr.perm & S_IXGRP != 0 {
                self.attr.perm &= !S_ISGID;
            }
        }
    }

    /// New nodes in a set-group-ID directory take its group.
    pub(crate) fn inherit(&self, mut birth: Birth, is_directory: bool) -> Birth {
        if self.attr.perm & S_ISGID != 0 {
            birth.gid = self.attr.gid;
            if is_directory {
                birth.mode |= u32::from(S_ISGID);
            }
        }
        birth
    }
}

/// The permission bits of a mode, without the bits of the file type.
pub(crate) fn permissions(mode: u32) -> u16 {
    u16::try_from(mode & 0o7777).unwrap_or(0)
}

fn kind_of(body: &Body, mode: u32) -> FileType {
    match body {
        Body::File(_) => FileType::RegularFile,
        Body::Directory(_) => FileType::Directory,
        Body::Symlink(_) => FileType::Symlink,
        Body::Special => match mode & libc::S_IFMT {
            libc::S_IFCHR => FileType::CharDevice,
            libc::S_IFBLK => FileType::BlockDevice,
            libc::S_IFSOCK => FileType::Socket,
            _ => FileType::NamedPipe,
        },
    }
}
