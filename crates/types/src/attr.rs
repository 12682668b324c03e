//! What `stat` tells of a file.

use serde::{Deserialize, Serialize};

use crate::{InodeId, Timestamp};

/// The kind of a file. The numbers are stored: never change one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum FileKind {
    /// Regular file.
    Regular = 0,
    /// Directory.
    Directory = 1,
    /// Symbolic link.
    Symlink = 2,
    /// Named pipe.
    Fifo = 3,
    /// Unix socket.
    Socket = 4,
    /// Character device.
    CharDevice = 5,
    /// Block device.
    BlockDevice = 6,
}

impl FileKind {
    /// The kind with this stored number.
    #[must_use]
    pub const fn from_number(n: u8) -> Option<Self> {
        Some(match n {
            0 => Self::Regular,
            1 => Self::Directory,
            2 => Self::Symlink,
            3 => Self::Fifo,
            4 => Self::Socket,
            5 => Self::CharDevice,
            6 => Self::BlockDevice,
            _ => return None,
        })
    }
}

/// The attributes of one inode, as `stat` shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: InodeId,
    /// Kind of file.
    pub kind: FileKind,
    /// Permission bits including set-uid, set-gid and sticky (07777).
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Hard links; for a directory 2 plus its sub-directories.
    pub nlink: u32,
    /// Device number of a device file, in the kernel's 32-bit encoding.
    pub rdev: u32,
    /// Length in bytes.
    pub size_bytes: u64,
    /// Disk use in units of 512 bytes.
    pub blocks_512: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
}
