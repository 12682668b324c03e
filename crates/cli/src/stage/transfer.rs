//! One file: copied under a temporary name, verified, then given its own.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, FlockOperation, SeekFrom};

use super::attributes::{self, Xattrs};

/// Begins the temporary name of a file that is being copied.
const TEMPORARY: &str = ".intarsia-stage-";
/// Read and written at once.
const BUFFER_BYTES: usize = 1 << 20;
/// How often a file that changes under the copy is tried.
const ATTEMPTS: u32 = 3;

/// Whether a name is that of a copy that was cut short.
pub(super) fn is_temporary(name: &OsStr) -> bool {
    name.as_bytes().starts_with(TEMPORARY.as_bytes())
}

/// The temporary name for a file: always the same, so that the next run clears what one left behind.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    let hash = blake3::hash(name.as_bytes()).to_hex();
    let mut temporary = OsString::from(TEMPORARY);
    temporary.push(hash.as_str().get(..24).unwrap_or_default());
    path.with_file_name(temporary)
}

/// What was copied.
pub(super) struct Copied {
    /// The source as it was.
    pub(super) meta: Metadata,
    pub(super) sum: String,
    pub(super) xattrs: Xattrs,
}

/// Copies the file at `source` to `path`, replacing a file there. `progress` is told of bytes.
pub(super) fn copy(source: &Path, path: &Path, progress: &dyn Fn(u64)) -> Result<Copied> {
    for _ in 0..ATTEMPTS {
        if let Some(copied) = try_copy(source, path, progress)? {
            return Ok(copied);
        }
    }
    Err(Error::other("it keeps being changed while it is copied"))
}

/// `None` when the source was changed meanwhile.
fn try_copy(source: &Path, path: &Path, progress: &dyn Fn(u64)) -> Result<Option<Copied>> {
    let from = open_to_read(source)?;
    let meta = from.metadata()?;
    let xattrs = attributes::xattrs(&from)?;
    let part = Part::create(path)?;
    let sum = copy_bytes(&from, &part.file, meta.len(), progress)?;
    attributes::apply(&part.file, &meta, &xattrs)?;
    part.file.sync_all()?;
    // From the disk, where the kernel lets go of its pages.
    let _ = rustix::fs::fadvise(&part.file, 0, None, Advice::DontNeed);
    let back = part.file.metadata()?;
    if back.len() != meta.len() || sum_open(&part.file)? != sum {
        return Err(Error::new(ErrorKind::InvalidData, "what was written reads back different"));
    }
    if !is_same(&from.metadata()?, &meta) || !is_same(&std::fs::symlink_metadata(source)?, &meta) {
        return Ok(None);
    }
    part.publish(path, &meta)?;
    Ok(Some(Copied { meta, sum, xattrs }))
}

fn is_same(now: &Metadata, then: &Metadata) -> bool {
    let key = |m: &Metadata| (m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec());
    key(now) == key(then)
}

/// Opens for reading, without a change of the access time where that is allowed; never waits for a FIFO.
fn open_to_read(path: &Path) -> Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let open = |flags: rustix::fs::OFlags| {
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        OpenOptions::new().read(true).custom_flags(flags).open(path)
    };
    open(flags | rustix::fs::OFlags::NOATIME).or_else(|_| open(flags))
}

/// A file under its temporary name, removed unless it is published.
struct Part {
    file: File,
    path: PathBuf,
    is_published: bool,
}

impl Part {
    /// Makes the temporary file of `path`, or takes over one that was left behind.
    fn create(path: &Path) -> Result<Self> {
        let temporary = temporary(path);
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0))
                .open(&temporary)?;
            // Without locks nothing tells of another one; it would be verified all the same.
            let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            if locked == Err(rustix::io::Errno::AGAIN) {
                let why = "another 'intarsia stage' is copying it";
                return Err(Error::new(ErrorKind::ResourceBusy, why));
            }
            // Another one may have published or removed it before the lock.
            if file.metadata()?.nlink() == 0 {
                continue;
            }
            file.set_len(0)?;
            return Ok(Self { file, path: temporary, is_published: false });
        }
    }

    fn publish(mut self, path: &Path, meta: &Metadata) -> Result<()> {
        std::fs::rename(&self.path, path)?;
        self.is_published = true;
        // Reading back may have moved the time of the last access.
        attributes::touch(&self.file, meta)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Copies the data, leaves holes as they are, and sums all of it.
fn copy_bytes(from: &File, to: &File, len: u64, progress: &dyn Fn(u64)) -> Result<String> {
    let mut sum = Sum::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut at = 0;
    while at < len {
        let (data, end) = next_data(from, at, len)?;
        sum.add_zeros(data - at);
        progress(data - at);
        at = data;
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            let n = read_some(from, &mut buffer[..want], at)?;
            if n == 0 {
                return Err(Error::new(
                    ErrorKind::UnexpectedEof,
                    "it became shorter while it was copied",
                ));
            }
            to.write_all_at(&buffer[..n], at)?;
            sum.add(&buffer[..n]);
            progress(n as u64);
            at += n as u64;
        }
    }
    to.set_len(len)?;
    Ok(sum.finish())
}

/// The next stretch of data from `at` on; both ends are `len` when only a hole is left.
fn next_data(file: &File, at: u64, len: u64) -> Result<(u64, u64)> {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) if data < len => {
            let end = rustix::fs::seek(file, SeekFrom::Hole(data)).unwrap_or(len);
            Ok((data, end.clamp(data, len)))
        }
        Ok(_) | Err(rustix::io::Errno::NXIO) => Ok((len, len)),
        // A file system that tells of no holes.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok((at, len)),
        Err(e) => Err(e.into()),
    }
}

fn read_some(file: &File, buffer: &mut [u8], at: u64) -> Result<usize> {
    loop {
        match file.read_at(buffer, at) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The sum of a file's content.
pub(crate) fn sum_file(path: &Path) -> Result<String> {
    sum_open(&open_to_read(path)?)
}

fn sum_open(file: &File) -> Result<String> {
    let len = file.metadata()?.len();
    let mut sum = Sum::new();
    let mut buffer = vec![0; BUFFER_BYTES.min(usize::try_from(len).unwrap_or(usize::MAX)).max(1)];
    let mut at = 0;
    while at < len {
        let (data, end) = next_data(file, at, len)?;
        sum.add_zeros(data - at);
        at = data;
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
            let n = read_some(file, &mut buffer[..want], at)?;
            if n == 0 {
                return Err(Error::new(
                    ErrorKind::UnexpectedEof,
                    "it became shorter while it was read",
                ));
            }
            sum.add(&buffer[..n]);
            at += n as u64;
        }
    }
    Ok(sum.finish())
}

/// BLAKE3 of what is added.
struct Sum(blake3::Hasher);

impl Sum {
    fn new() -> Self {
        Self(blake3::Hasher::new())
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn add_zeros(&mut self, mut count: u64) {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        while count > 0 {
            let n = usize::try_from(count).unwrap_or(usize::MAX).min(ZEROS.len());
            self.add(&ZEROS[..n]);
            count -= n as u64;
        }
    }

    fn finish(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

/// Makes a symbolic link, replacing what is no directory.
pub(super) fn symlink(target: &Path, path: &Path, meta: &Metadata) -> Result<()> {
    replace(path, |temporary| {
        std::os::unix::fs::symlink(target, temporary)?;
        attributes::apply_to_link(temporary, meta)
    })
}

/// Makes another name of `first`, replacing what is no directory.
pub(super) fn hard_link(first: &Path, path: &Path) -> Result<()> {
    replace(path, |temporary| std::fs::hard_link(first, temporary))
}

fn replace(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let temporary = temporary(path);
    match std::fs::remove_file(&temporary) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let replaced = make(&temporary).and_then(|()| std::fs::rename(&temporary, path));
    // Also when both were names of one file, which a rename leaves alone.
    let _ = std::fs::remove_file(&temporary);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_bytes_holes_and_attributes_of_its_source() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let file = File::create(&from).unwrap();
        file.set_len(16 << 20).unwrap();
        file.write_all_at(&[7; 70_000], 5 << 20).unwrap();
        let past = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
        file.set_modified(past).unwrap();
        std::fs::write(&to, "in the way").unwrap();
        // What a killed run left.
        std::fs::write(temporary(&to), vec![1; 20 << 20]).unwrap();
        let copied = copy(&from, &to, &|_| {}).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), std::fs::read(&from).unwrap());
        assert_eq!(copied.sum, blake3::hash(&std::fs::read(&from).unwrap()).to_hex().as_str());
        assert_eq!(sum_file(&to).unwrap(), copied.sum);
        let meta = std::fs::metadata(&to).unwrap();
        assert_eq!(meta.modified().unwrap(), past);
        assert!(meta.blocks() < 1024, "{} blocks for a hole", meta.blocks());
        assert!(!temporary(&to).exists());
    }

    #[test]
    fn what_cannot_be_published_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::write(&from, "x").unwrap();
        std::fs::create_dir(&to).unwrap();
        assert!(copy(&from, &to, &|_| {}).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
