//! A file without a name lives until its last descriptor is closed; then its space returns.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use intarsia_posix_tests::{Mode, Settings, Store, in_both_modes, pattern, wait_for};

const LEN_BYTES: usize = 16 << 20;

fn lives_until_its_last_close(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    let path = store.path("doomed");
    let mut file = OpenOptions::new().create_new(true).read(true).write(true).open(&path).unwrap();
    let bytes = pattern(1, LEN_BYTES);
    file.write_all(&bytes).unwrap();
    file.sync_all().unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(!path.exists());
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    file.write_all(b"more").unwrap();
    let mut found = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut found).unwrap();
    assert!(found[..LEN_BYTES] == bytes && &found[LEN_BYTES..] == b"more");
    assert!(used_bytes(&store) >= LEN_BYTES as u64);
    drop(file);
    wait_for("the space's return", Duration::from_secs(30), || {
        (used_bytes(&store) < 1 << 20).then_some(())
    });
}

fn survives_a_rename_over_it(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    for len in [100, 100_000] {
        std::fs::write(store.path("old"), pattern(1, len)).unwrap();
        std::fs::write(store.path("new"), pattern(2, len)).unwrap();
        let mut old = File::open(store.path("old")).unwrap();
        std::fs::rename(store.path("new"), store.path("old")).unwrap();
        let mut found = Vec::new();
        old.read_to_end(&mut found).unwrap();
        assert!(found == pattern(1, len), "the open file has changed");
        assert!(std::fs::read(store.path("old")).unwrap() == pattern(2, len));
        assert_eq!(old.metadata().unwrap().nlink(), 0);
        assert!(!store.path("new").exists());
    }
}

in_both_modes!(lives_until_its_last_close, survives_a_rename_over_it);

fn used_bytes(store: &Store) -> u64 {
    let vfs = rustix::fs::statvfs(store.mount()).unwrap();
    (vfs.f_blocks - vfs.f_bfree) * vfs.f_frsize
}
