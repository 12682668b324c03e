//! What stands for the disks where they are simulated: it is told of every access to a backing file, and can refuse it.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

use intarsia_types::Timestamp;

const PAGE_BYTES: u64 = 4096;

/// What is about to happen to a backing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its bytes are read.
    Read,
    /// Its bytes change.
    Write,
    /// Its length changes, for which a disk needs no room.
    Resize,
    /// It is forced to stable storage.
    Sync,
}

/// When a backing file was written and changed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Last write, or what was set.
    pub mtime: Timestamp,
    /// Last change of any kind.
    pub ctime: Timestamp,
}

/// Disks that are simulated. Bytes lie in real files all the same.
pub trait Device: Send + Sync + std::fmt::Debug {
    /// Before a file is made at `path`.
    ///
    /// # Errors
    /// What the disk says.
    fn create(&self, path: &Path) -> io::Result<()>;

    /// The file at `path` was made or opened.
    fn opened(&self, path: &Path, file: &File);

    /// Before an access.
    ///
    /// # Errors
    /// What the disk says.
    fn admit(&self, file: &File, access: Access) -> io::Result<()>;

    /// An access that was admitted is done.
    fn done(&self, file: &File, access: Access);

    /// The names in a directory are on stable storage.
    fn names_synced(&self, directory: &Path);

    /// The time of the last write was set.
    fn set_mtime(&self, file: &File, mtime: Timestamp);

    /// On the simulation's clock; `None` for a file that is none of the store's.
    fn times(&self, file: &File) -> Option<Times>;
}

static DEVICE: OnceLock<Box<dyn Device>> = OnceLock::new();

/// From now on all tiers of this process lie on `device`. The first one stays.
pub fn simulate(device: Box<dyn Device>) {
    // Whoever simulates does it once for each process.
    let _ = DEVICE.set(device);
}

pub(crate) fn simulated() -> Option<&'static dyn Device> {
    DEVICE.get().map(|device| &**device)
}

/// How much of a disk a file takes, in blocks of 512 bytes. Simulated disks know no holes: what a real file system makes of them
/// is not the same in each run.
pub(crate) fn blocks_512(meta: &Metadata) -> u64 {
    match simulated() {
        Some(_) => meta.size().div_ceil(PAGE_BYTES) * (PAGE_BYTES / 512),
        None => meta.blocks(),
    }
}

/// Does `work`, an access to `file`.
pub(crate) fn accessing<T>(
    file: &File,
    access: Access,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let Some(device) = simulated() else { return work() };
    device.admit(file, access)?;
    let outcome = work()?;
    device.done(file, access);
    Ok(outcome)
}
