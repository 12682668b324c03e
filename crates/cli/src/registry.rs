//! The running stores of this user: one JSON file per mount in a directory that only the user can read.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::config::path::escaped;
use crate::exit::{Failure, Outcome};
use crate::process::{Process, is_root};

/// A store that was brought up, and perhaps died since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) mount_point: PathBuf,
    pub(crate) dir: PathBuf,
    /// The directories of the tiers.
    pub(crate) tiers: Vec<PathBuf>,
    pub(crate) socket: PathBuf,
    #[serde(flatten)]
    pub(crate) process: Process,
    /// Version of the node.
    pub(crate) version: String,
    /// When it came up, ISO 8601.
    pub(crate) started: String,
    /// Whether `up` made the mount point, so that `down` removes it.
    pub(crate) made_mount_point: bool,
}

/// The directory of the entries.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    dir: PathBuf,
}

/// Held while a store comes up, so that two do not take the same place.
pub(crate) struct Lock {
    #[expect(dead_code, reason = "held for its lock")]
    file: File,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The extension of what is remembered of a store that is down.
const PUT_AWAY: &str = "down";

impl Registry {
    /// The registry of this user. The directory is made when the first entry is written.
    pub(crate) fn of_user() -> Outcome<Self> {
        let registry = Self { dir: directory() };
        registry.check_owner()?;
        Ok(registry)
    }

    /// Its directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    #[cfg(test)]
    pub(crate) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// All entries by mount point. A damaged file is reported in the log and passed over.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> =
            self.files("json").iter().filter_map(|path| read(path)).collect();
        entries.sort_by(|a, b| a.mount_point.cmp(&b.mount_point));
        entries
    }

    /// The entry of the store mounted here.
    pub(crate) fn by_mount(&self, mount_point: &Path) -> Option<Entry> {
        self.entries().into_iter().find(|e| e.mount_point == mount_point)
    }

    /// The entry of the store with its data here; one that runs comes first.
    pub(crate) fn by_dir(&self, dir: &Path) -> Option<Entry> {
        let mut found: Vec<Entry> = self.entries().into_iter().filter(|e| e.dir == dir).collect();
        found.sort_by_key(|e| !e.process.is_running());
        found.into_iter().next()
    }

    /// Writes an entry, whole or not at all.
    pub(crate) fn write(&self, entry: &Entry) -> Outcome {
        self.make()?;
        let path = self.file(&entry.mount_point);
        let text = serde_json::to_vec_pretty(entry)
            .map_err(|e| Failure::general(format!("registry entry: {e}")))?;
        write_private(&path, &text)
            .map_err(|e| Failure::io(format!("registry file {}", path.display()), &e))?;
        let _ = std::fs::remove_file(self.put_away_file(&entry.mount_point));
        self.forget_gone();
        Ok(())
    }

    /// Removes the entry of this mount, if there is one.
    pub(crate) fn remove(&self, mount_point: &Path) {
        let _ = std::fs::remove_file(self.file(mount_point));
    }

    /// Takes the lock of a mount point, waiting no longer than `timeout`. Stores at other places come up meanwhile.
    pub(crate) fn lock(&self, mount_point: &Path, timeout: Duration) -> Outcome<Lock> {
        self.make()?;
        let path = self.dir.join(format!("{}.lock", escaped(mount_point)));
        let deadline = Instant::now() + timeout;
        loop {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(&path)
                .map_err(|e| Failure::io(path.display(), &e))?;
            let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
            match rustix::fs::flock(&file, exclusive) {
                // Whoever held it has removed the file.
                Ok(()) if is_at(&file, &path) => return Ok(Lock { file, path }),
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() >= deadline => {
                    return Err(Failure::busy(format!(
                        "another store is just coming up at {}; try again",
                        mount_point.display()
                    )));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(Failure::io(path.display(), &error.into())),
            }
        }
    }

    /// Remembers where the data of a store lies that is down now, so that it is found by its mount point. What is
    /// remembered of data that is gone is forgotten.
    pub(crate) fn put_away(&self, mount_point: &Path) {
        let _ = std::fs::rename(self.file(mount_point), self.put_away_file(mount_point));
        self.forget_gone();
    }

    /// Forgets what is remembered of data that is gone.
    pub(crate) fn forget_gone(&self) {
        for path in self.files(PUT_AWAY) {
            if read(&path).is_none_or(|entry| !is_there(&entry)) {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// The store that was mounted here last, if it is down and its data is still there.
    pub(crate) fn last_at(&self, mount_point: &Path) -> Option<Entry> {
        let path = self.put_away_file(mount_point);
        let last = read(&path).filter(is_there);
        if last.is_none() {
            let _ = std::fs::remove_file(path);
        }
        last
    }

    fn files(&self, extension: &str) -> Vec<PathBuf> {
        let files = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        files.map(|f| f.path()).filter(|p| p.extension().is_some_and(|e| e == extension)).collect()
    }

    fn put_away_file(&self, mount_point: &Path) -> PathBuf {
        self.dir.join(format!("{}.{PUT_AWAY}", escaped(mount_point)))
    }

    fn file(&self, mount_point: &Path) -> PathBuf {
        self.dir.join(format!("{}.json", escaped(mount_point)))
    }

    fn make(&self) -> Outcome {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(|e| Failure::io(format!("registry {}", self.dir.display()), &e))?;
        self.check_owner()
    }

    /// Below /tmp anybody could have made the directory first.
    fn check_owner(&self) -> Outcome {
        let Ok(meta) = std::fs::symlink_metadata(&self.dir) else { return Ok(()) };
        let is_mine = meta.uid() == rustix::process::geteuid().as_raw();
        let is_private = meta.permissions().mode() & 0o022 == 0;
        if meta.is_dir() && is_mine && is_private {
            return Ok(());
        }
        Err(Failure::general(format!(
            "the registry {} is not a directory of yours that only you can write",
            self.dir.display()
        ))
        .with_help(
            "remove it, or set XDG_RUNTIME_DIR or INTARSIA_RUNTIME_DIR to a directory of yours",
        ))
    }
}

/// `$INTARSIA_RUNTIME_DIR`, `/run/intarsia` for root, `$XDG_RUNTIME_DIR/intarsia`, `/tmp/intarsia-UID`.
///
/// Root comes before XDG, because `sudo` and cron give root different XDG directories.
fn directory() -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    if let Some(dir) = variable("INTARSIA_RUNTIME_DIR") {
        return dir;
    }
    if is_root() {
        return "/run/intarsia".into();
    }
    match variable("XDG_RUNTIME_DIR").filter(|d| d.is_dir()) {
        Some(dir) => dir.join("intarsia"),
        None => format!("/tmp/intarsia-{}", rustix::process::geteuid().as_raw()).into(),
    }
}

/// Whether the data of a store that is down is still there.
fn is_there(entry: &Entry) -> bool {
    entry.dir.join("store.json").exists()
}

fn is_at(file: &File, path: &Path) -> bool {
    let there = std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
    let here = file.metadata().map(|meta| (meta.dev(), meta.ino()));
    matches!((there, here), (Ok(there), Ok(here)) if there == here)
}

fn read(path: &Path) -> Option<Entry> {
    let text = std::fs::read(path).ok()?;
    serde_json::from_slice(&text)
        .inspect_err(
            |error| tracing::warn!(path = %path.display(), %error, "damaged registry file"),
        )
        .ok()
}

/// Writes a file of mode 0600 so that a reader sees the old content or the new one.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let temporary = PathBuf::from(name);
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).mode(0o600);
    options.open(&temporary)?.write_all(content)?;
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(mount_point: &str, dir: &str) -> Entry {
        Entry {
            mount_point: mount_point.into(),
            dir: dir.into(),
            tiers: vec![],
            socket: Path::new(dir).join("control.sock"),
            process: Process::current().unwrap(),
            version: "0".into(),
            started: "2026-01-01T00:00:00Z".into(),
            made_mount_point: false,
        }
    }

    #[test]
    fn entries_are_found_by_mount_and_by_directory() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::at(&dir.path().join("registry"));
        assert!(registry.entries().is_empty());
        registry.write(&entry("/mnt/b", "/data/b")).unwrap();
        registry.write(&entry("/mnt/a", "/data/a")).unwrap();
        assert_eq!(registry.entries().len(), 2);
        assert_eq!(registry.by_mount(Path::new("/mnt/a")).unwrap(), entry("/mnt/a", "/data/a"));
        assert_eq!(registry.by_dir(Path::new("/data/b")).unwrap().mount_point, Path::new("/mnt/b"));
        std::fs::write(dir.path().join("registry/x.json"), "{").unwrap();
        assert_eq!(registry.entries().len(), 2, "a damaged file is passed over");
        registry.remove(Path::new("/mnt/a"));
        assert!(registry.by_mount(Path::new("/mnt/a")).is_none());
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registry");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Registry::at(&path).write(&entry("/m", "/d")).is_err());
    }

    #[test]
    fn the_lock_of_a_mount_point_has_one_holder() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::at(&dir.path().join("registry"));
        let (here, there) = (Path::new("/mnt/a"), Path::new("/mnt/b"));
        let held = registry.lock(here, Duration::ZERO).unwrap();
        assert!(registry.lock(here, Duration::ZERO).is_err());
        assert!(registry.lock(there, Duration::ZERO).is_ok());
        drop(held);
        assert!(registry.lock(here, Duration::ZERO).is_ok());
        assert_eq!(std::fs::read_dir(registry.dir()).unwrap().count(), 0, "no file is left");
    }

    #[test]
    fn a_store_that_is_down_is_found_as_long_as_its_data_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::at(&dir.path().join("registry"));
        let store = dir.path().join("store");
        std::fs::create_dir(&store).unwrap();
        std::fs::write(store.join("store.json"), "{}").unwrap();
        let known = entry("/mnt/a", store.to_str().unwrap());
        registry.write(&known).unwrap();
        registry.put_away(Path::new("/mnt/a"));
        assert!(registry.entries().is_empty());
        assert_eq!(registry.last_at(Path::new("/mnt/a")), Some(known));
        std::fs::remove_file(store.join("store.json")).unwrap();
        assert_eq!(registry.last_at(Path::new("/mnt/a")), None);
        let count = || std::fs::read_dir(registry.dir()).unwrap().count();
        assert_eq!(count(), 0, "whoever sees that its data is gone drops the record");
        // So do those who come by with another store.
        registry.write(&entry("/mnt/a", store.to_str().unwrap())).unwrap();
        std::fs::write(store.join("store.json"), "{}").unwrap();
        registry.put_away(Path::new("/mnt/a"));
        assert_eq!(count(), 1);
        std::fs::remove_file(store.join("store.json")).unwrap();
        registry.write(&entry("/mnt/b", "/data/b")).unwrap();
        registry.remove(Path::new("/mnt/b"));
        assert_eq!(count(), 0);
    }
}
