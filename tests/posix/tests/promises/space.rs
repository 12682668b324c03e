//! A tier with a capacity: ENOSPC at its end, honest numbers, and work again when files go.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use intarsia_posix_tests::{Mode, Settings, Store, close, in_both_modes, pattern, wait_for};

const MIB: u64 = 1 << 20;
const CAPACITY_BYTES: u64 = 64 * MIB;

fn ends_and_returns(mode: Mode) {
    let store =
        Store::start(Settings::new(mode).with_capacity("64MiB").with("--watermark").with("8MiB"));
    for round in 0..3 {
        let before = space(&store);
        assert_eq!(before.total_bytes, CAPACITY_BYTES);
        assert!(before.free_bytes > CAPACITY_BYTES - 2 * MIB, "{before:?} in round {round}");
        let files = fill(&store);
        let full = space(&store);
        assert!((56..=66).contains(&files), "{files} files of 1 MiB in {CAPACITY_BYTES} bytes");
        assert!(full.free_bytes < 2 * MIB, "{full:?}");
        for i in 0..files {
            assert!(std::fs::read(store.path(i.to_string())).unwrap() == piece(i), "file {i}");
            std::fs::remove_file(store.path(i.to_string())).unwrap();
        }
        wait_for("the space's return", Duration::from_secs(30), || {
            write(&store, "again", &piece(1)).ok()
        });
        std::fs::remove_file(store.path("again")).unwrap();
        store.settle();
    }
}

in_both_modes!(ends_and_returns);

#[derive(Debug)]
struct Space {
    total_bytes: u64,
    free_bytes: u64,
}

fn space(store: &Store) -> Space {
    let vfs = rustix::fs::statvfs(store.mount()).unwrap();
    Space { total_bytes: vfs.f_blocks * vfs.f_frsize, free_bytes: vfs.f_bavail * vfs.f_frsize }
}

/// Writes files until none fits; their number.
fn fill(store: &Store) -> u64 {
    for i in 0.. {
        if let Err(e) = write(store, &i.to_string(), &piece(i)) {
            assert_eq!(e.kind(), io::ErrorKind::StorageFull, "{e}");
            let _ = std::fs::remove_file(store.path(i.to_string()));
            return i;
        }
    }
    unreachable!("the tier has an end");
}

fn write(store: &Store, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(store.path(name))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    close(file)
}

fn piece(i: u64) -> Vec<u8> {
    pattern(i, 1 << 20)
}
