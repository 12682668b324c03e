//! One plain backing file, open. All positioned I/O of the store goes through here.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use intarsia_types::{Error, Result, Timestamp};
use rustix::fs::{FallocateFlags, Timespec, Timestamps};
use rustix::io::retry_on_intr;

use crate::device::{self, Access, Times, accessing};

/// What `fstat` says of a backing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackingStat {
    /// Length.
    pub size_bytes: u64,
    /// Disk use in 512-byte units.
    pub blocks_512: u64,
    /// Last write.
    pub mtime: Timestamp,
    /// Last change of any kind.
    pub ctime: Timestamp,
}

/// An open backing file.
#[derive(Debug)]
pub struct BackingFile(File);

impl BackingFile {
    /// Creates a file that must not exist, open for reading only, so that a lease can be asked of it.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDONLY | OFlags::CLOEXEC;
        let device = device::simulated();
        let admitted = device.map_or(Ok(()), |device| device.create(path));
        admitted
            .and_then(|()| Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?))
            .map(|fd| Self::opened(path, fd.into()))
            .map_err(|e| Error::io(format!("create {}", path.display()), e))
    }

    fn opened(path: &Path, file: File) -> Self {
        if let Some(device) = device::simulated() {
            device.opened(path, &file);
        }
        Self(file)
    }

    /// Opens an existing file; read-only unless `write`.
    pub(crate) fn open(path: &Path, write: bool) -> Result<Self> {
        OpenOptions::new()
            .read(true)
            .write(write)
            .custom_flags(libc::O_NOATIME)
            .open(path)
            .or_else(|_| OpenOptions::new().read(true).write(write).open(path))
            .map(|file| Self::opened(path, file))
            .map_err(|e| match e.kind() {
                // The store's own file is gone, which is damage; ENOENT would say that the name is.
                std::io::ErrorKind::NotFound => Error::io(
                    format!("backing file {} is missing", path.display()),
                    rustix::io::Errno::IO.into(),
                ),
                _ => Error::io(format!("open backing file {}", path.display()), e),
            })
    }

    /// Takes over a file that is open already.
    #[must_use]
    pub const fn of(file: File) -> Self {
        Self(file)
    }

    /// Copies the data of the whole file, leaving holes where they are, sharing blocks where the file
    /// system can, and sets the length of `target`, which is empty.
    ///
    /// # Errors
    /// [`Error::NoSpace`], else the system's own.
    pub fn copy_data_to(&self, target: &Self) -> Result<u64> {
        let size_bytes = self.stat()?.size_bytes;
        let mut at = 0;
        while at < size_bytes {
            let (data, end) = match self.seek(at, false) {
                Ok(data) => (data, self.seek(data, true)?),
                Err(Error::NoData) => break,
                Err(_) => (at, size_bytes), // no holes are told of here
            };
            self.copy_range_to(data, target, end)?;
            at = end;
        }
        target.set_len(size_bytes)?;
        Ok(size_bytes)
    }

    fn copy_range_to(&self, from: u64, target: &Self, end: u64) -> Result<()> {
        const STEP_BYTES: u64 = 1 << 30;
        let mut at = from;
        while at < end {
            let len = usize::try_from((end - at).min(STEP_BYTES)).unwrap_or(usize::MAX);
            match self.copy_to(at, target, at, len) {
                Ok(0) => return self.copy_through_memory(at, target, end),
                Ok(n) => at += n as u64,
                Err(Error::NoSpace(why)) => return Err(Error::NoSpace(why)),
                // Another file system, or one that cannot.
                Err(_) => return self.copy_through_memory(at, target, end),
            }
        }
        Ok(())
    }

    fn copy_through_memory(&self, from: u64, target: &Self, end: u64) -> Result<()> {
        const BUFFER_BYTES: u64 = 1 << 20;
        let mut buffer = vec![0; usize::try_from((end - from).min(BUFFER_BYTES)).unwrap_or(0)];
        let mut at = from;
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            let n = self.read_at(&mut buffer[..want], at)?;
            if n == 0 {
                break;
            }
            target.write_all_at(&buffer[..n], at)?;
            at += n as u64;
        }
        Ok(())
    }

    /// The standard library's view.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.0
    }

    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
    ///
    /// # Errors
    /// The system's own.
    pub fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let rest = &mut buffer[done..];
            let read = || self.0.read_at(rest, offset_bytes + done as u64);
            match accessing(&self.0, Access::Read, read) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("read backing file", e)),
            }
        }
        Ok(done)
    }

    /// Writes all of `data`.
    ///
    /// # Errors
    /// [`Error::NoSpace`] on a full disk, else the system's own.
    pub fn write_all_at(&self, data: &[u8], offset_bytes: u64) -> Result<()> {
        let write = || self.0.write_all_at(data, offset_bytes);
        accessing(&self.0, Access::Write, write).map_err(|e| Error::io("write backing file", e))
    }

    /// Sets the length.
    ///
    /// # Errors
    /// The system's own, EFBIG among them.
    pub fn set_len(&self, size_bytes: u64) -> Result<()> {
        let size = i64::try_from(size_bytes).map_err(|_| Error::FileTooLarge)?;
        let cut = || rustix::fs::ftruncate(&self.0, size.cast_unsigned());
        accessing(&self.0, Access::Resize, || Ok(retry_on_intr(cut)?))
            .map_err(|e| Error::io("truncate backing file", e))
    }

    /// Size, space and times now.
    ///
    /// # Errors
    /// The system's own.
    pub fn stat(&self) -> Result<BackingStat> {
        let meta = self.0.metadata().map_err(|e| Error::io("stat backing file", e))?;
        let time = |secs, nanos: i64| Timestamp { secs, nanos: u32::try_from(nanos).unwrap_or(0) };
        let simulated = device::simulated().and_then(|device| device.times(&self.0));
        let Times { mtime, ctime } = simulated.unwrap_or_else(|| Times {
            mtime: time(meta.mtime(), meta.mtime_nsec()),
            ctime: time(meta.ctime(), meta.ctime_nsec()),
        });
        Ok(BackingStat {
            size_bytes: meta.size(),
            blocks_512: device::blocks_512(&meta),
            mtime,
            ctime,
        })
    }

    /// Sets the time of the last write, so that later writes of passthrough holders show against it.
    ///
    /// # Errors
    /// The system's own.
    pub fn set_mtime(&self, mtime: Timestamp) -> Result<()> {
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
            last_modification: Timespec { tv_sec: mtime.secs, tv_nsec: i64::from(mtime.nanos) },
        };
        rustix::fs::futimens(&self.0, &times)
            .map_err(|e| Error::io("set time of backing file", e.into()))?;
        if let Some(device) = device::simulated() {
            device.set_mtime(&self.0, mtime);
        }
        Ok(())
    }

    /// Flushes to stable storage; `data_only` leaves out what is not needed to read the data back.
    ///
    /// # Errors
    /// The system's own. A failed flush is final: the kernel may have dropped the pages.
    pub fn sync(&self, data_only: bool) -> Result<()> {
        let sync = || if data_only { self.0.sync_data() } else { self.0.sync_all() };
        accessing(&self.0, Access::Sync, sync).map_err(|e| Error::io("flush backing file", e))
    }

    /// Allocates, zeroes or punches a range; `mode` as in `fallocate(2)`.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or EOPNOTSUPP from the file system.
    pub fn allocate(&self, mode: u32, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let flags = FallocateFlags::from_bits_retain(mode);
        let allocate = || rustix::fs::fallocate(&self.0, flags, offset_bytes, len_bytes);
        accessing(&self.0, Access::Write, || Ok(retry_on_intr(allocate)?))
            .map_err(|e| Error::io("allocate in backing file", e))
    }

    /// The next data (or hole) at or after `offset_bytes`.
    ///
    /// # Errors
    /// [`Error::NoData`] past the end.
    pub fn seek(&self, offset_bytes: u64, hole: bool) -> Result<u64> {
        use rustix::fs::SeekFrom;
        let from = if hole { SeekFrom::Hole(offset_bytes) } else { SeekFrom::Data(offset_bytes) };
        rustix::fs::seek(&self.0, from).map_err(|e| match e {
            rustix::io::Errno::NXIO => Error::NoData,
            other => Error::io("seek in backing file", other.into()),
        })
    }

    /// Copies a range inside the kernel, sharing blocks where the file system can; may copy less.
    ///
    /// # Errors
    /// The system's own.
    pub fn copy_to(
        &self,
        offset_bytes: u64,
        target: &Self,
        target_offset_bytes: u64,
        len_bytes: usize,
    ) -> Result<usize> {
        let (mut from, mut to) = (offset_bytes, target_offset_bytes);
        let (own, other) = (&self.0, &target.0);
        let mut copy =
            || rustix::fs::copy_file_range(own, Some(&mut from), other, Some(&mut to), len_bytes);
        let write = || accessing(other, Access::Write, || Ok(copy()?));
        accessing(own, Access::Read, write).map_err(|e| Error::io("copy between backing files", e))
    }

    /// Tells the kernel that the pages will not be needed again.
    pub fn drop_cache(&self) {
        // Advice only; a failure changes nothing.
        let _ = rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::DontNeed);
    }
}

impl AsFd for BackingFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
