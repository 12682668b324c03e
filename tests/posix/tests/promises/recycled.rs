//! A backing file that has had another owner never shows what that one wrote.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use intarsia_posix_tests::{Mapping, Mode, Settings, Store, in_both_modes};

const FILES: usize = 300;
const NEW_LEN_BYTES: usize = 20_000;

fn shows_no_old_bytes(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    // Some short enough to be folded, which frees their backing files, and some too long.
    for (round, len) in [3000, 3000, 16_000].into_iter().enumerate() {
        let secrets: Vec<_> =
            (0..FILES).map(|i| store.path(format!("secret{round}-{i}"))).collect();
        secrets.iter().for_each(|path| std::fs::write(path, vec![b'S'; len]).unwrap());
        if round % 2 == 0 {
            store.settle();
        }
        secrets.iter().for_each(|path| std::fs::remove_file(path).unwrap());
        look_for_old_bytes(&store, round);
    }
}

in_both_modes!(shows_no_old_bytes);

fn look_for_old_bytes(store: &Store, round: usize) {
    let at = |i: usize| store.path(format!("new{round}-{i}"));
    let files: Vec<File> = (0..FILES).map(|i| grown_file(&at(i), i)).collect();
    for (i, file) in files.iter().enumerate() {
        let mut bytes = vec![1; NEW_LEN_BYTES];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_is_new(&bytes, i);
        let mapping = Mapping::new(file, 0, NEW_LEN_BYTES).unwrap();
        assert_is_new(&mapping.load(0, NEW_LEN_BYTES), i);
    }
    drop(files);
    store.settle();
    (0..FILES).for_each(|i| assert_is_new(&std::fs::read(at(i)).unwrap(), i));
}

/// A file of ten bytes, somewhere; the rest is holes, made in each of three ways.
fn grown_file(path: &std::path::Path, i: usize) -> File {
    let file = OpenOptions::new().create_new(true).read(true).write(true).open(path).unwrap();
    let ten = [b'n'; 10];
    match i % 3 {
        0 => {
            file.write_all_at(&ten, 0).unwrap();
            file.set_len(NEW_LEN_BYTES as u64).unwrap();
        }
        1 => file.write_all_at(&ten, NEW_LEN_BYTES as u64 - 10).unwrap(),
        _ => {
            file.set_len(NEW_LEN_BYTES as u64).unwrap();
            file.write_all_at(&ten, 5000).unwrap();
        }
    }
    file
}

fn assert_is_new(bytes: &[u8], i: usize) {
    assert_eq!(bytes.len(), NEW_LEN_BYTES);
    assert_eq!(bytes.iter().filter(|b| **b == b'n').count(), 10, "file {i}");
    assert!(bytes.iter().all(|b| [0, b'n'].contains(b)), "file {i} shows old bytes");
}
