//! The lower file system: a tree that is only read, entry by entry.
//!
//! Every path is walked from the root's descriptor without following links, so that nothing outside the tree
//! can be reached through it, whatever is changed there meanwhile.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use intarsia_types::{Error, FileKind, LowerStamp, Result, Timestamp};
use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::BackingFile;

/// Longest list of attribute names, and longest value, that the kernel hands out.
const XATTR_BYTES_MAX: usize = 64 << 10;
/// Access control lists; of other attributes only the users' are taken over.
const ACL_PREFIX: &[u8] = b"system.posix_acl_";
const USER_PREFIX: &[u8] = b"user.";

/// What an entry of the lower file system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowerEntry {
    /// Kind of file.
    pub kind: FileKind,
    /// Permission bits (07777).
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device file.
    pub rdev: u32,
    /// Disk use.
    pub blocks_512: u64,
    /// Last access.
    pub atime: Timestamp,
    /// Inode number, length and times, by which a change is seen.
    pub stamp: LowerStamp,
}

/// The root of a lower file system, held open.
#[derive(Debug)]
pub struct LowerTree {
    path: PathBuf,
    root: File,
}

impl LowerTree {
    /// Opens the tree below `path`.
    ///
    /// # Errors
    /// The system's own, naming the path; [`Error::NotDirectory`]-like ones when it is none.
    pub fn open(path: &Path) -> Result<Self> {
        let failed =
            |e: Errno| Error::io(format!("lower file system {}", path.display()), e.into());
        let root = rustix::fs::open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        Ok(Self { path: path.to_owned(), root: root.map_err(failed)?.into() })
    }

    /// Where the root is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What stands at `path`, relative to the root.
    ///
    /// # Errors
    /// [`Error::NotFound`] when nothing does; the system's own when that cannot be said.
    pub fn entry(&self, path: &[u8]) -> Result<LowerEntry> {
        let file = self.open_at(path, OFlags::PATH)?;
        self.describe(path, &file)
    }

    /// The names in a directory, without "." and "..".
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is gone or no directory any more, else the system's own.
    pub fn names(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let dir = self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let failed = |e| self.explain(path, e);
        let mut names = Vec::new();
        for entry in Dir::read_from(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// As [`entry`](Self::entry).
    pub fn read_link(&self, path: &[u8]) -> Result<Vec<u8>> {
        let link = self.open_at(path, OFlags::PATH)?;
        rustix::fs::readlinkat(&link, c"", Vec::new())
            .map(std::ffi::CString::into_bytes)
            .map_err(|e| self.explain(path, e))
    }

    /// Opens a regular file for reading, and says what it is.
    ///
    /// # Errors
    /// As [`entry`](Self::entry); [`Error::NotFound`] also when it is no regular file any more.
    pub fn open_file(&self, path: &[u8]) -> Result<(BackingFile, LowerEntry)> {
        // A FIFO in its place must not make us wait for a writer.
        let file = self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let entry = self.describe(path, &file)?;
        if entry.kind != FileKind::Regular {
            return Err(Error::NotFound);
        }
        Ok((BackingFile::of(file), entry))
    }

    /// The extended attributes of a regular file or directory that are taken over: the users' own and
    /// access control lists. None from a file system that has none.
    ///
    /// # Errors
    /// As [`entry`](Self::entry).
    pub fn xattrs(&self, path: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let file = match self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(file) => file,
            // What may not be read may still be shown.
            Err(Error::Io { source, .. })
                if source.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) =>
            {
                return Ok(Vec::new());
            }
            Err(e) => return Err(e),
        };
        let mut list = vec![0; XATTR_BYTES_MAX];
        let len = match rustix::fs::flistxattr(&file, &mut list[..]) {
            Ok(len) => len,
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
            Err(e) => return Err(self.explain(path, e)),
        };
        let mut found = Vec::new();
        for name in list[..len].split(|byte| *byte == 0) {
            if !name.starts_with(USER_PREFIX) && !name.starts_with(ACL_PREFIX) {
                continue;
            }
            let mut value = vec![0; XATTR_BYTES_MAX];
            match rustix::fs::fgetxattr(&file, name, &mut value[..]) {
                Ok(len) => value.truncate(len),
                Err(Errno::NODATA) => continue,
                Err(e) => return Err(self.explain(path, e)),
            }
            found.push((name.to_vec(), value));
        }
        Ok(found)
    }

    /// Opens what stands at `path`, level by level, following no link.
    fn open_at(&self, path: &[u8], flags: OFlags) -> Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let on_the_way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
        let mut at: Option<OwnedFd> = None;
        while let Some(name) = names.next() {
            let flags = if names.peek().is_some() { on_the_way } else { flags };
            let opened = match &at {
                Some(dir) => openat(dir, name, flags, Mode::empty()),
                None => openat(&self.root, name, flags, Mode::empty()),
            };
            at = Some(opened.map_err(|e| self.explain(path, e))?);
        }
        match at {
            Some(fd) => Ok(fd.into()),
            None => {
                self.require_root()?;
                openat(&self.root, c".", flags, Mode::empty())
                    .map(File::from)
                    .map_err(|e| self.explain(path, e))
            }
        }
    }

    fn describe(&self, path: &[u8], file: &File) -> Result<LowerEntry> {
        let meta = file.metadata().map_err(|e| Error::io(self.shown(path), e))?;
        let time = |secs, nanos: i64| Timestamp { secs, nanos: u32::try_from(nanos).unwrap_or(0) };
        let kind = meta.file_type();
        let kind = match () {
            () if kind.is_dir() => FileKind::Directory,
            () if kind.is_symlink() => FileKind::Symlink,
            () if kind.is_fifo() => FileKind::Fifo,
            () if kind.is_socket() => FileKind::Socket,
            () if kind.is_char_device() => FileKind::CharDevice,
            () if kind.is_block_device() => FileKind::BlockDevice,
            () => FileKind::Regular,
        };
        Ok(LowerEntry {
            kind,
            perm: u16::try_from(meta.mode() & 0o7777).unwrap_or(0),
            uid: meta.uid(),
            gid: meta.gid(),
            rdev: kernel_device(meta.rdev()),
            blocks_512: meta.blocks(),
            atime: time(meta.atime(), meta.atime_nsec()),
            stamp: LowerStamp {
                ino: meta.ino(),
                size_bytes: meta.len(),
                mtime: time(meta.mtime(), meta.mtime_nsec()),
                ctime: time(meta.ctime(), meta.ctime_nsec()),
            },
        })
    }

    fn shown(&self, path: &[u8]) -> String {
        let path = String::from_utf8_lossy(path);
        format!("lower file system: {}", self.path.join(path.as_ref()).display())
    }

    /// Nothing there is an answer only while the root is there.
    fn explain(&self, path: &[u8], error: Errno) -> Error {
        let is_absent = matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP);
        if !is_absent {
            return Error::io(self.shown(path), error.into());
        }
        self.require_root().err().unwrap_or(Error::NotFound)
    }

    fn require_root(&self) -> Result<()> {
        match self.root.metadata() {
            Ok(root) if root.nlink() > 0 => Ok(()),
            Ok(_) => Err(Error::io(
                format!("lower file system: {} was removed", self.path.display()),
                Errno::IO.into(),
            )),
            Err(e) => Err(Error::io(self.shown(b""), e)),
        }
    }
}

/// A device number in the kernel's own 32-bit form, as FUSE hands it on.
fn kernel_device(rdev: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}
