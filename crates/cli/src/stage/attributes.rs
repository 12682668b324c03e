//! What a copy takes over beside the bytes: permissions, owner, times, extended attributes.

use std::fs::Metadata;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::{Errno, Result};

/// Longest list of names, and longest value, that the kernel hands out.
const XATTR_BYTES_MAX: usize = 64 << 10;

/// Extended attributes by name: the users' own and access control lists.
pub(super) type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads the attributes of an open file or directory; none where there are none.
pub(super) fn xattrs(file: impl AsFd) -> Result<Xattrs> {
    let mut list = vec![0; XATTR_BYTES_MAX];
    let len = match rustix::fs::flistxattr(&file, &mut list[..]) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => 0,
        other => other?,
    };
    let mut found = Vec::new();
    for name in list[..len].split(|byte| *byte == 0) {
        if !name.starts_with(b"user.") && !name.starts_with(b"system.posix_acl_") {
            continue;
        }
        let mut value = vec![0; XATTR_BYTES_MAX];
        match rustix::fs::fgetxattr(&file, name, &mut value[..]) {
            Ok(len) => value.truncate(len),
            Err(Errno::NODATA) => continue,
            Err(e) => return Err(e),
        }
        found.push((name.to_vec(), value));
    }
    Ok(found)
}

/// Gives a copy the attributes of its source. The owner only as far as the caller may, as `cp -a` does.
pub(super) fn apply(file: impl AsFd, meta: &Metadata, xattrs: &Xattrs) -> std::io::Result<()> {
    own(meta, |uid, gid| rustix::fs::fchown(&file, uid, gid))?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(meta.mode() & 0o7777))?;
    for (name, value) in xattrs {
        set_xattr(file.as_fd(), name, value)?;
    }
    rustix::fs::futimens(&file, &times(meta))?;
    Ok(())
}

fn set_xattr(file: BorrowedFd<'_>, name: &[u8], value: &[u8]) -> std::io::Result<()> {
    // The copy may have inherited it, and a store refuses to set what it is not to be told.
    let mut has = vec![0; value.len() + 1];
    if rustix::fs::fgetxattr(file, name, &mut has[..]) == Ok(value.len())
        && has[..value.len()] == *value
    {
        return Ok(());
    }
    rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()).map_err(|e| {
        let name = String::from_utf8_lossy(name);
        let error = std::io::Error::from(e);
        std::io::Error::new(error.kind(), format!("extended attribute {name}: {error}"))
    })
}

/// Gives a copied symbolic link the owner and times of its source.
pub(super) fn apply_to_link(path: &Path, meta: &Metadata) -> std::io::Result<()> {
    let nofollow = AtFlags::SYMLINK_NOFOLLOW;
    own(meta, |uid, gid| rustix::fs::chownat(rustix::fs::CWD, path, uid, gid, nofollow))?;
    rustix::fs::utimensat(rustix::fs::CWD, path, &times(meta), nofollow)?;
    Ok(())
}

fn own(meta: &Metadata, chown: impl Fn(Option<Uid>, Option<Gid>) -> Result<()>) -> Result<()> {
    let (uid, gid) = (Uid::from_raw(meta.uid()), Gid::from_raw(meta.gid()));
    match chown(Some(uid), Some(gid)) {
        // Only root gives files away; a group of one's own may still be set.
        Err(Errno::PERM | Errno::INVAL) => match chown(None, Some(gid)) {
            Err(Errno::PERM | Errno::INVAL) => Ok(()),
            other => other,
        },
        other => other,
    }
}

fn times(meta: &Metadata) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: meta.atime(), tv_nsec: meta.atime_nsec() },
        last_modification: Timespec { tv_sec: meta.mtime(), tv_nsec: meta.mtime_nsec() },
    }
}

/// Sets the times of a copy alone.
pub(super) fn touch(file: impl AsFd, meta: &Metadata) -> std::io::Result<()> {
    Ok(rustix::fs::futimens(&file, &times(meta))?)
}
