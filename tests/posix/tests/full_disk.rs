//! A disk that fills up under the whole store, metadata included: clear errors, nothing lost, and
//! work again when space returns.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use intarsia_posix_tests::{
    DiskImage, Mode, Settings, Store, close, in_both_modes, pattern, skip, wait_for,
};

const DISK_BYTES: u64 = 96 << 20;
const DEADLINE: Duration = Duration::from_secs(60);

/// The disk fills up, is emptied a little, and the store goes on.
fn fill_and_recover(mode: Mode) {
    let Some((_disk, mut store)) = store_on_a_small_disk(mode) else { return };
    let mut files = Acknowledged::default();
    let grown = File::create(store.path("grown")).unwrap();
    files.fill(store.mount());
    take_the_rest(grown);
    change_metadata(store.mount());
    files.verify();
    files.remove_large_ones();
    std::fs::remove_file(store.path("grown")).unwrap();
    wait_for("room for new files", DEADLINE, || {
        let path = store.path("new");
        write_file(&path, &pattern(7, 100_000)).map(|()| files.note(path, 7, 100_000)).ok()
    });
    files.verify();
    store.stop();
    store.check();
    store.restart();
    files.verify();
}

/// A node that ends on a full disk starts on it again.
fn restart_on_a_full_disk(mode: Mode) {
    let Some((_disk, mut store)) = store_on_a_small_disk(mode) else { return };
    let mut files = Acknowledged::default();
    let grown = File::create(store.path("grown")).unwrap();
    files.fill(store.mount());
    take_the_rest(grown);
    store.kill();
    store.detach();
    store.restart();
    files.verify();
    files.remove_large_ones();
    store.remount();
    files.verify();
    store.stop();
    store.check();
}

in_both_modes!(fill_and_recover, restart_on_a_full_disk);

fn store_on_a_small_disk(mode: Mode) -> Option<(DiskImage, Store)> {
    let disk = DiskImage::mount(DISK_BYTES).map_err(|reason| skip(&reason)).ok()?;
    // The default watermark is larger than this disk and would leave no file to passthrough.
    let settings = Settings::new(mode).below(disk.path()).with("--watermark").with("8MiB");
    let store = Store::start(settings);
    Some((disk, store))
}

/// Files whose close said that all is well.
#[derive(Default)]
struct Acknowledged(BTreeMap<PathBuf, (u64, usize)>);

impl Acknowledged {
    fn note(&mut self, path: PathBuf, seed: u64, len: usize) {
        self.0.insert(path, (seed, len));
    }

    /// Writes files, ever smaller, until not even the smallest fits.
    fn fill(&mut self, dir: &Path) {
        for len in [4 << 20, 100_000, 5000, 100] {
            for seed in 0..20_000 {
                let path = dir.join(format!("{len}-{seed}"));
                match write_file(&path, &pattern(seed, len)) {
                    Ok(()) => self.note(path, seed, len),
                    Err(e) => {
                        assert_is_full("writing", &e);
                        // What did not fit is of no use to anybody.
                        let _ = std::fs::remove_file(&path);
                        break;
                    }
                }
            }
        }
        assert!(self.0.len() > 10, "only {} files", self.0.len());
    }

    fn verify(&self) {
        for (path, (seed, len)) in &self.0 {
            let found = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert!(found == pattern(*seed, *len), "{}: {} bytes", path.display(), found.len());
        }
    }

    fn remove_large_ones(&mut self) {
        let large: Vec<PathBuf> =
            self.0.iter().filter(|f| f.1.1 > 1 << 20).map(|f| f.0.clone()).collect();
        for path in large.iter().take(large.len() / 2) {
            std::fs::remove_file(path).unwrap();
            self.0.remove(path);
        }
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    close(file)
}

/// A file that is open already may take what was kept back from new ones; with passthrough down to the
/// last block of the disk.
fn take_the_rest(mut file: File) {
    let piece = pattern(1, 1 << 16);
    let error = loop {
        if let Err(e) = file.write_all(&piece).and_then(|()| file.sync_data()) {
            break e;
        }
    };
    assert_is_full("growing", &error);
    let _ = close(file);
}

/// Changes of names and attributes either work or say that the disk is full.
fn change_metadata(dir: &Path) {
    for i in 0..500 {
        let at = |kind: &str| dir.join(format!("{kind}{i}"));
        let outcomes = [
            ("mkdir", std::fs::create_dir(at("dir"))),
            ("create", OpenOptions::new().create_new(true).write(true).open(at("file")).map(drop)),
            ("symlink", std::os::unix::fs::symlink("x".repeat(1000), at("symlink"))),
            ("link", std::fs::hard_link(at("file"), at("link"))),
            ("rename", std::fs::rename(at("file"), at("renamed"))),
            ("chmod", std::fs::set_permissions(at("dir"), PermissionsExt::from_mode(0o700))),
            ("setxattr", xattr::set(at("dir"), "user.note", &[b'x'; 2000])),
        ];
        for (what, outcome) in outcomes {
            match outcome {
                // Follows from a refusal before it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => assert_is_full(what, &e),
                Ok(()) => {}
            }
        }
    }
}

fn assert_is_full(what: &str, error: &io::Error) {
    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{what}: {error}");
}
