//! A mapping outlives the close of its file, and so does writing.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use intarsia_posix_tests::{
    Mapping, Mode, Settings, Store, close, in_both_modes, pattern, wait_for,
};

fn keeps_writing_after_close(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    for len in [1000, 1 << 20] {
        let path = store.path(format!("mapped{len}"));
        std::fs::write(&path, vec![b'-'; len]).unwrap();
        let mut mapping = mapping_without_descriptor(&path, len);
        let mtime_before = mtime(&path);
        wait_until_others_are_folded(&store);
        // Through the process a short file stays beside its inode; the mapping is the kernel's own then.
        let has_backing = layout(&path).starts_with("local");
        assert!(has_backing || (mode == Mode::WriteBack && len <= 4096), "{}", layout(&path));
        for (round, at) in [0, len / 2, len - 10].into_iter().enumerate() {
            mapping.store(at, &pattern(round as u64, 10));
            assert_eq!(std::fs::read(&path).unwrap()[at..at + 10], pattern(round as u64, 10));
        }
        drop(mapping);
        store.settle();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), len);
        assert_eq!(path.metadata().unwrap().len(), len as u64);
        assert_eq!(bytes[len - 10..], pattern(2, 10));
        assert!(mtime(&path) >= mtime_before);
        assert_eq!(layout(&path) == "inline", len <= 4096, "{}", layout(&path));
    }
}

fn survives_a_restart(mode: Mode) {
    let mut store = Store::start(Settings::new(mode));
    let path = store.path("mapped");
    std::fs::write(&path, vec![b'-'; 100_000]).unwrap();
    let mut mapping = mapping_without_descriptor(&path, 100_000);
    mapping.store(50_000, &pattern(1, 5000));
    drop(mapping);
    store.remount();
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes.len() == 100_000 && bytes[50_000..55_000] == pattern(1, 5000));
}

/// Readers through descriptors and mappings see each other's writes at once.
fn is_coherent(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    let path = store.path("shared");
    std::fs::write(&path, vec![0; 65_536]).unwrap();
    let (mut one, other) =
        (mapping_without_descriptor(&path, 65_536), mapping_without_descriptor(&path, 65_536));
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    for i in 0..100 {
        let at = i * 600;
        one.store(at, &pattern(i as u64, 10));
        assert_eq!(other.load(at, 10), pattern(i as u64, 10));
        std::os::unix::fs::FileExt::write_all_at(&file, &pattern(i as u64 + 7, 10), at as u64 + 20)
            .unwrap();
        assert_eq!(one.load(at + 20, 10), pattern(i as u64 + 7, 10));
    }
}

in_both_modes!(keeps_writing_after_close, survives_a_restart, is_coherent);

fn mapping_without_descriptor(path: &Path, len: usize) -> Mapping {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mapping = Mapping::new(&file, 0, len).unwrap();
    close(file).unwrap();
    mapping
}

/// By then the finalizer has had its chance with everything closed before.
fn wait_until_others_are_folded(store: &Store) {
    let path = store.path("other");
    drop(File::create(&path).unwrap());
    std::fs::write(&path, "a few bytes").unwrap();
    wait_for("folding", Duration::from_secs(30), || (layout(&path) == "inline").then_some(()));
    std::fs::remove_file(&path).unwrap();
}

fn layout(path: &Path) -> String {
    let value = xattr::get(path, "user.intarsia.layout").unwrap().expect("a layout");
    String::from_utf8(value).unwrap()
}

fn mtime(path: &Path) -> (i64, i64) {
    let meta = path.metadata().unwrap();
    (meta.mtime(), meta.mtime_nsec())
}
