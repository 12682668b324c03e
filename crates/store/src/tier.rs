//! A tier: one directory of this host, its backing files and its space.
//!
//! ```text
//! DIR/tier.json          who this tier belongs to, its number, its space at the last clean stop
//! DIR/lock               held with flock while a node uses the tier
//! DIR/data/HHHHHHHHH/…   backing files, 4,096 numbers to a directory, mode 0600
//! ```

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use intarsia_types::{BackingFileId, ByteCount, Error, Result, TierClass, TierId, TierSpec};
use parking_lot::Mutex;
use serde::Serialize;

use crate::device;
use crate::probe::{FileSystem, probe};
use crate::{BackingFile, PooledFile, is_unshared, replace_file};

pub(crate) mod identity;

use self::identity::{
    FORMAT, Identity, check_identity, make_directory, mount_identity, read_identity,
    refuse_foreign_content, take_lock,
};

/// Backing files to a directory.
const FILES_PER_DIRECTORY_SHIFT: u32 = 12;
/// Between two counts at rest, in times that the last one took.
const COUNT_PAUSE: u32 = 100;

/// How a tier is to be opened.
#[derive(Clone, Debug)]
pub struct TierOptions {
    /// Directory, class, capacity.
    pub spec: TierSpec,
    /// The number this tier has in the store.
    pub id: TierId,
    /// The store's own name; a tier of another store is refused.
    pub store: String,
    /// Free bytes below which new files go elsewhere and new opens get no passthrough.
    pub watermark: ByteCount,
}

/// Space of a tier in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Space {
    /// What the store may use.
    pub capacity_bytes: u64,
    /// What its backing files use.
    pub used_bytes: u64,
    /// What it can still use: the lesser of its own share and the file system's free space.
    pub free_bytes: u64,
}

/// What is known of a tier that nobody changes.
#[derive(Debug, Default)]
struct Rest {
    /// The number of changes when it was looked at last.
    seen: u64,
    /// And when it was counted.
    counted: u64,
    /// When that ended, and how long it took.
    last_count: Option<(Instant, Duration)>,
}

/// An open tier. Its lock on the directory ends with it.
#[derive(Debug)]
pub struct Tier {
    id: TierId,
    dir: PathBuf,
    class: TierClass,
    capacity: Option<ByteCount>,
    watermark: ByteCount,
    file_system: FileSystem,
    store: String,
    /// Bytes that the backing files use. Signed: two threads may account a shrink before its growth.
    used_bytes: AtomicI64,
    is_counted: AtomicBool,
    /// How often `used_bytes` was changed; wraps.
    changes: AtomicU64,
    rest: Mutex<Rest>,
    may_lack_writes: AtomicBool,
    /// The file system's free space, asked at most ten times a second.
    fs_free: Mutex<(std::time::Instant, u64)>,
    made_directories: Mutex<std::collections::HashSet<u64>>,
    _lock: File,
}

impl Tier {
    /// Opens the tier, making its directory when only the last part is missing.
    ///
    /// # Errors
    /// [`Error::Busy`] when another node uses it, [`Error::Invalid`] when it belongs to another store
    /// or a newer format, [`Error::ReadOnly`], or the system's own.
    pub fn open(options: TierOptions) -> Result<Self> {
        let TierOptions { spec, id, store, watermark } = options;
        let dir = spec.dir.clone();
        make_directory(&dir)?;
        let file_system =
            probe(&dir).map_err(|e| Error::io(format!("tier {}", dir.display()), e))?;
        if file_system.is_read_only {
            return Err(Error::ReadOnly(format!(
                "tier {} is on a read-only file system; remount it read-write or name another directory",
                dir.display()
            )));
        }
        let lock = take_lock(&dir)?;
        let identity = read_identity(&dir)?;
        check_identity(&dir, identity.as_ref(), &store, id)?;
        if identity.is_none() {
            refuse_foreign_content(&dir)?;
        }
        let used = identity.as_ref().and_then(|i| i.used_bytes);
        let is_new = identity.is_none();
        let mount_before = identity.as_ref().and_then(|i| i.mount.clone());
        let may_lack_writes = used.is_none() && !is_new && mount_before != mount_identity(&dir);
        let tier = Self {
            id,
            class: spec.class.unwrap_or(file_system.class),
            capacity: spec.capacity,
            watermark,
            file_system,
            store,
            used_bytes: AtomicI64::new(used.unwrap_or(0).cast_signed()),
            is_counted: AtomicBool::new(is_new || used.is_some()),
            changes: AtomicU64::new(0),
            rest: Mutex::default(),
            may_lack_writes: AtomicBool::new(may_lack_writes),
            fs_free: Mutex::new((std::time::Instant::now(), 0)),
            made_directories: Mutex::default(),
            _lock: lock,
            dir,
        };
        tier.write_identity(None)?;
        make_directory(&tier.dir.join("data"))?;
        tier.refresh_fs_free();
        Ok(tier)
    }

    /// The tier's number.
    #[must_use]
    pub const fn id(&self) -> TierId {
        self.id
    }

    /// The tier's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the tier was in use when its file system was last unmounted or its host lost power: what was
    /// written shortly before may not have reached the disk.
    #[must_use]
    pub fn may_lack_writes(&self) -> bool {
        self.may_lack_writes.load(Ordering::Acquire)
    }

    /// Nothing depends any more on what may not have reached the disk. Until then each start is told anew.
    ///
    /// # Errors
    /// The system's own.
    pub fn trust(&self) -> Result<()> {
        self.may_lack_writes.store(false, Ordering::Release);
        self.write_identity(None)
    }

    /// What the tier is made of.
    #[must_use]
    pub const fn class(&self) -> TierClass {
        self.class
    }

    /// The file system below.
    #[must_use]
    pub const fn file_system(&self) -> &FileSystem {
        &self.file_system
    }

    /// Makes a new, empty backing file.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Exists`]-like system errors when the number is taken.
    pub fn create(&self, id: BackingFileId) -> Result<BackingFile> {
        let group = id.0 >> FILES_PER_DIRECTORY_SHIFT;
        if !self.made_directories.lock().contains(&group) {
            make_directory(&self.group_dir(group))?;
            self.made_directories.lock().insert(group);
        }
        BackingFile::create(&self.path(id))
    }

    /// Makes several new files until one cannot be made: those that were made, and why there are not more.
    pub fn create_all(&self, ids: &[BackingFileId]) -> (Vec<PooledFile>, Result<()>) {
        let mut made = Vec::with_capacity(ids.len());
        for &id in ids {
            match self.create(id) {
                Ok(file) => made.push(PooledFile { id, file }),
                Err(error) => return (made, Err(error)),
            }
        }
        (made, Ok(()))
    }

    /// Puts the names of new files on stable storage.
    ///
    /// # Errors
    /// The system's own.
    pub fn sync_names(&self, ids: &[BackingFileId]) -> Result<()> {
        let groups: std::collections::BTreeSet<u64> =
            ids.iter().map(|id| id.0 >> FILES_PER_DIRECTORY_SHIFT).collect();
        for dir in groups.into_iter().map(|g| self.group_dir(g)).chain([self.dir.join("data")]) {
            File::open(&dir)
                .and_then(|d| d.sync_all())
                .map_err(|e| Error::io(format!("sync {}", dir.display()), e))?;
            if let Some(device) = device::simulated() {
                device.names_synced(&dir);
            }
        }
        Ok(())
    }

    /// Opens a backing file for reading, or for both.
    ///
    /// # Errors
    /// The system's own.
    pub fn open_file(&self, id: BackingFileId, write: bool) -> Result<BackingFile> {
        BackingFile::open(&self.path(id), write)
    }

    /// Removes a backing file; whoever still has it open keeps it, nobody else finds it again.
    ///
    /// # Errors
    /// The system's own; a file that is gone already is fine.
    pub fn remove(&self, id: BackingFileId) -> Result<()> {
        tracing::trace!(file = %id, tier = %self.id, "a backing file is removed");
        match std::fs::remove_file(self.path(id)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io(format!("remove backing file {id}"), e))
            }
            _ => Ok(()),
        }
    }

    /// Empties a file for its next owner, if nobody else has it open; `None` when somebody has.
    ///
    /// Truncation comes before the new owner, so old bytes can never show; a truncated file has no blocks.
    ///
    /// # Errors
    /// The system's own.
    pub fn recycle(&self, id: BackingFileId, file: BackingFile) -> Result<Option<BackingFile>> {
        if !is_unshared(file.file()).unwrap_or(false) {
            return Ok(None);
        }
        self.open_file(id, true)?.set_len(0)?;
        Ok(Some(file))
    }

    /// The numbers of all backing files on disk, in no order.
    ///
    /// # Errors
    /// The system's own.
    pub fn scan(&self, mut each: impl FnMut(BackingFileId, u64)) -> Result<()> {
        let fail = |e| Error::io(format!("scan tier {}", self.dir.display()), e);
        for group in std::fs::read_dir(self.dir.join("data")).map_err(fail)? {
            for entry in std::fs::read_dir(group.map_err(fail)?.path()).map_err(fail)? {
                let entry = entry.map_err(fail)?;
                let Some(id) = entry.file_name().to_str().and_then(parse_file_name) else {
                    tracing::warn!(path = %entry.path().display(), "foreign file in a tier, left alone");
                    continue;
                };
                match entry.metadata() {
                    Ok(meta) => each(id, device::blocks_512(&meta) * 512),
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                    Err(e) => return Err(fail(e)),
                }
            }
        }
        Ok(())
    }

    /// Whether the space in use is known (it is after a clean stop, and after a recount).
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.is_counted.load(Ordering::Acquire)
    }

    /// Counts the space in use anew from the disk.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn recount(&self) -> Result<u64> {
        let mut total = 0;
        self.scan(|_, bytes| total += bytes)?;
        self.used_bytes.store(total.cast_signed(), Ordering::Release);
        self.is_counted.store(true, Ordering::Release);
        Ok(total)
    }

    /// As [`recount`](Self::recount), if the accounting does not change between the last call and the end of the count,
    /// and `is_idle` says that nobody writes what is not accounted yet. Whether it counted.
    ///
    /// What a file takes when it is removed can differ from what it took when it was accounted: the file system
    /// allocates late, and for itself. So the sum drifts, and is put right when nobody is at work. To be called
    /// every half minute or so.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn recount_at_rest(&self, is_idle: impl FnOnce() -> bool) -> Result<bool> {
        let mut rest = self.rest.lock();
        let now = self.changes.load(Ordering::Acquire);
        let is_still = std::mem::replace(&mut rest.seen, now) == now;
        let is_dear =
            rest.last_count.is_some_and(|(ended, took)| ended.elapsed() < took * COUNT_PAUSE);
        if !is_still || now == rest.counted || is_dear || !self.is_counted() || !is_idle() {
            return Ok(false);
        }
        let begun = Instant::now();
        let mut total = 0;
        self.scan(|_, bytes| total += bytes)?;
        if self.changes.load(Ordering::Acquire) != now {
            return Ok(false);
        }
        self.used_bytes.store(total.cast_signed(), Ordering::Release);
        rest.counted = now;
        rest.last_count = Some((Instant::now(), begun.elapsed()));
        Ok(true)
    }

    /// Notes that a file's use went from `before` to `after`, in 512-byte blocks.
    pub fn account(&self, before_512: u64, after_512: u64) {
        let delta = (after_512.cast_signed() - before_512.cast_signed()) * 512;
        self.used_bytes.fetch_add(delta, Ordering::AcqRel);
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Capacity, use and what is left.
    #[must_use]
    pub fn space(&self) -> Space {
        let used_bytes = self.used_bytes.load(Ordering::Acquire).max(0).cast_unsigned();
        let fs_free = self.fs_free_bytes();
        let capacity_bytes = self.capacity.map_or(used_bytes + fs_free, |c| c.0);
        let free_bytes = capacity_bytes.saturating_sub(used_bytes).min(fs_free);
        Space { capacity_bytes, used_bytes, free_bytes }
    }

    /// Whether `bytes` more fit.
    #[must_use]
    pub fn fits(&self, bytes: u64) -> bool {
        self.space().free_bytes >= bytes
    }

    /// Whether the tier is below its watermark: new files go elsewhere, new opens go through the process.
    /// A small tier keeps an eighth of itself free, not a watermark made for large ones.
    #[must_use]
    pub fn is_low(&self) -> bool {
        self.is_low_without(0)
    }

    /// Whether it would be below its watermark with `bytes` of what it holds given back.
    #[must_use]
    pub fn is_low_without(&self, bytes: u64) -> bool {
        let space = self.space();
        let free_bytes = space.free_bytes.saturating_add(bytes);
        free_bytes < self.watermark.0.min(space.capacity_bytes / 8)
    }

    /// Flushes everything on the tier's file system to stable storage.
    ///
    /// # Errors
    /// The system's own.
    pub fn sync(&self) -> Result<()> {
        let fail = |e| Error::io(format!("sync tier {}", self.dir.display()), e);
        let dir = File::open(&self.dir).map_err(fail)?;
        rustix::fs::syncfs(&dir).map_err(|e| fail(e.into()))
    }

    /// Records a clean stop, so that the next start needs no recount.
    ///
    /// # Errors
    /// The system's own.
    pub fn close(&self) -> Result<()> {
        let used = self.is_counted().then(|| self.space().used_bytes);
        self.write_identity(used)
    }

    fn path(&self, id: BackingFileId) -> PathBuf {
        self.group_dir(id.0 >> FILES_PER_DIRECTORY_SHIFT).join(id.to_string())
    }

    fn group_dir(&self, group: u64) -> PathBuf {
        self.dir.join("data").join(format!("{group:013x}"))
    }

    fn fs_free_bytes(&self) -> u64 {
        let (asked, free) = *self.fs_free.lock();
        if asked.elapsed() < std::time::Duration::from_millis(100) {
            return free;
        }
        self.refresh_fs_free()
    }

    fn refresh_fs_free(&self) -> u64 {
        let free = rustix::fs::statvfs(&self.dir).map_or(0, |v| v.f_bavail * v.f_frsize);
        *self.fs_free.lock() = (std::time::Instant::now(), free);
        free
    }

    fn write_identity(&self, used_bytes: Option<u64>) -> Result<()> {
        let identity = Identity {
            format: FORMAT,
            store: self.store.clone(),
            tier: self.id,
            used_bytes,
            mount: mount_identity(&self.dir).filter(|_| !self.may_lack_writes()),
        };
        let text = serde_json::to_vec_pretty(&identity)
            .map_err(|e| Error::Invalid(format!("tier identity: {e}")))?;
        replace_file(&self.dir.join("tier.json"), &text)
    }
}

fn parse_file_name(name: &str) -> Option<BackingFileId> {
    (name.len() == 16).then(|| u64::from_str_radix(name, 16).ok().map(BackingFileId))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(dir: &Path) -> TierOptions {
        TierOptions {
            spec: TierSpec { dir: dir.to_path_buf(), class: None, capacity: None },
            id: TierId(0),
            store: "test".into(),
            watermark: ByteCount(0),
        }
    }

    #[test]
    fn a_recycled_file_shows_no_old_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let tier = Tier::open(options(&dir.path().join("tier"))).unwrap();
        let id = BackingFileId(5);
        let file = tier.create(id).unwrap();
        tier.open_file(id, true).unwrap().write_all_at(b"secret", 0).unwrap();
        let reader = tier.open_file(id, false).unwrap();
        assert!(tier.recycle(id, file).unwrap().is_none(), "a reader holds it");
        drop(reader);
        let file = tier.open_file(id, false).unwrap();
        let file = tier.recycle(id, file).unwrap().expect("nobody holds it");
        assert_eq!(file.stat().unwrap().size_bytes, 0);
        tier.open_file(id, true).unwrap().set_len(6).unwrap();
        let mut buffer = [1; 6];
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 6);
        assert_eq!(buffer, [0; 6]);
    }

    #[test]
    fn a_backing_file_that_is_gone_is_an_io_error() {
        let dir = tempfile::tempdir().unwrap();
        let tier = Tier::open(options(&dir.path().join("tier"))).unwrap();
        let error = tier.open_file(BackingFileId(7), false).unwrap_err();
        assert_eq!(error.errno(), libc::EIO, "{error}");
    }

    #[test]
    fn a_second_node_another_store_and_foreign_data_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tier");
        let tier = Tier::open(options(&path)).unwrap();
        assert!(matches!(Tier::open(options(&path)), Err(Error::Busy(_))));
        drop(tier);
        let other = TierOptions { store: "other".into(), ..options(&path) };
        assert!(matches!(Tier::open(other), Err(Error::Invalid(_))));
        std::fs::write(dir.path().join("precious"), "x").unwrap();
        assert!(matches!(Tier::open(options(dir.path())), Err(Error::Invalid(_))));
        assert!(Tier::open(options(&dir.path().join("no/parent"))).is_err());
    }

    #[test]
    fn space_survives_a_clean_stop_and_is_recounted_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tier");
        let tier = Tier::open(options(&path)).unwrap();
        tier.create(BackingFileId(1)).unwrap();
        let file = tier.open_file(BackingFileId(1), true).unwrap();
        file.write_all_at(&[7; 100_000], 0).unwrap();
        file.sync(false).unwrap();
        let blocks = file.stat().unwrap().blocks_512;
        tier.account(0, blocks);
        tier.close().unwrap();
        drop(tier);
        let tier = Tier::open(options(&path)).unwrap();
        assert!(tier.is_counted());
        assert_eq!(tier.space().used_bytes, blocks * 512);
        drop(tier); // no close: as after a crash
        let tier = Tier::open(options(&path)).unwrap();
        assert!(!tier.is_counted());
        assert_eq!(tier.recount().unwrap(), blocks * 512);
        assert_eq!(tier.space().used_bytes, blocks * 512);
    }

    #[test]
    fn a_sum_that_drifted_is_put_right_at_rest() {
        let dir = tempfile::tempdir().unwrap();
        let tier = Tier::open(options(&dir.path().join("tier"))).unwrap();
        tier.create(BackingFileId(1)).unwrap();
        let file = tier.open_file(BackingFileId(1), true).unwrap();
        file.write_all_at(&[7; 100_000], 0).unwrap();
        file.sync(false).unwrap();
        let used = file.stat().unwrap().blocks_512 * 512;
        tier.account(0, 4096);
        assert!(!tier.recount_at_rest(|| true).unwrap(), "it has only just changed");
        assert!(!tier.recount_at_rest(|| false).unwrap(), "somebody writes");
        assert_eq!(tier.space().used_bytes, 4096 * 512);
        assert!(tier.recount_at_rest(|| true).unwrap());
        assert_eq!(tier.space().used_bytes, used);
        assert!(!tier.recount_at_rest(|| true).unwrap(), "nothing has changed since");
    }

    #[test]
    fn capacity_bounds_what_fits() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(&dir.path().join("tier"));
        options.spec.capacity = Some(ByteCount::mib(1));
        let tier = Tier::open(options).unwrap();
        assert!(tier.fits(1 << 20));
        tier.account(0, 1024);
        assert!(tier.fits(1 << 19));
        assert!(!tier.fits((1 << 19) + 1));
    }
}
