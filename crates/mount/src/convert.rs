//! Between the kernel's types and ours.

use std::time::{Duration, SystemTime};

use fuser::{Errno, FileAttr, FileType, INodeNo, RenameFlags, TimeOrNow};
use intarsia_node::{NewName, RenameMode, SetTime, Telling, Validity};
use intarsia_types::{Attr, Error, FileKind, InodeId, Result, Timestamp};

/// While this node alone changes the store, what the kernel knows stays true until we change it.
const LONG: Duration = Duration::from_secs(86_400);
/// Long enough for one system call to use what its own lookup brought.
const BRIEF: Duration = Duration::from_millis(50);

pub(crate) const fn ino(n: INodeNo) -> InodeId {
    InodeId(n.0)
}

/// How long the kernel may keep what it is told now.
pub(crate) fn ttl(telling: &Telling<'_>, validity: Validity) -> Duration {
    match validity {
        Validity::Long => LONG,
        Validity::Leased(cover) => telling.lasts(cover),
        Validity::Brief => BRIEF,
        Validity::None => Duration::ZERO,
    }
}

/// How long it may keep the attributes of an inode that it is told as they are now, and takes for no newer ones.
pub(crate) fn attribute_ttl(telling: &Telling<'_>, ino: InodeId, validity: Validity) -> Duration {
    match validity {
        Validity::Leased(cover) => telling.attributes_last(ino, cover),
        _ => ttl(telling, validity),
    }
}

pub(crate) const fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

/// The kind in the format bits of a mode; regular for none, as `mknod(2)` has it.
pub(crate) const fn file_kind(mode: u32) -> Option<FileKind> {
    Some(match mode & libc::S_IFMT {
        0 | libc::S_IFREG => FileKind::Regular,
        libc::S_IFDIR => FileKind::Directory,
        libc::S_IFLNK => FileKind::Symlink,
        libc::S_IFIFO => FileKind::Fifo,
        libc::S_IFSOCK => FileKind::Socket,
        libc::S_IFCHR => FileKind::CharDevice,
        libc::S_IFBLK => FileKind::BlockDevice,
        _ => return None,
    })
}

pub(crate) fn file_attr(attr: &Attr, blksize: u32) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino.0),
        size: attr.size_bytes,
        blocks: attr.blocks_512,
        atime: attr.atime.into(),
        mtime: attr.mtime.into(),
        ctime: attr.ctime.into(),
        crtime: attr.btime.into(),
        kind: file_type(attr.kind),
        perm: attr.perm,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize,
        flags: 0,
    }
}

/// Of an entry of which nothing is told: of a name that does not exist, which the kernel remembers too, or of one in a
/// listing.
pub(crate) fn no_attributes() -> FileAttr {
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

pub(crate) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(t) => SetTime::At(kernel_time(t)),
    }
}

/// What the kernel sent. Before 1970 `fuser` counts the nanoseconds backwards from the second, where
/// the kernel means forwards; this puts them back.
fn kernel_time(time: SystemTime) -> Timestamp {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(_) => time.into(),
        Err(e) => {
            let before = e.duration();
            Timestamp {
                secs: before.as_secs().cast_signed().saturating_neg(),
                nanos: before.subsec_nanos(),
            }
        }
    }
}

/// The errno of an error, which is logged when it is ours to answer for.
pub(crate) fn errno(error: &Error, op: &'static str) -> Errno {
    if error.errno() == libc::ENFILE {
        tracing::error!(
            op,
            "{error}: this node has as many files open as it may; raise its limit (LimitNOFILE, ulimit -Hn)"
        );
    } else if error.is_internal() {
        tracing::error!(op, errno = error.errno(), "{error}");
    } else {
        tracing::trace!(op, errno = error.errno(), "{error}");
    }
    Errno::from_i32(error.errno())
}

/// What is to be made, with the mode bits of a request.
pub(crate) fn new_name(
    kind: FileKind,
    mode: u32,
    umask: u32,
    rdev: u32,
    target: Option<Vec<u8>>,
) -> NewName {
    let bits = |m: u32| u16::try_from(m & 0o7777).unwrap_or(0);
    NewName { kind, perm: bits(mode), umask: bits(umask), rdev, target }
}

/// How a rename treats what has the new name.
///
/// # Errors
/// [`Error::Invalid`].
pub(crate) fn rename_mode(flags: RenameFlags) -> Result<RenameMode> {
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
