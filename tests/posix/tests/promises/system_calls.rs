//! System calls that need a program of their own.

use std::path::PathBuf;
use std::process::Command;

use intarsia_posix_tests::{Mode, Settings, Store, find_program, in_both_modes, run, skip};

/// A program in C, built.
fn build(dir: &tempfile::TempDir, name: &str) -> Option<PathBuf> {
    let Some(compiler) = find_program("cc") else {
        skip("there is no C compiler");
        return None;
    };
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("programs").join(name);
    let program = dir.path().join(name);
    run(Command::new(compiler)
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(source.with_extension("c")));
    Some(program)
}

fn what_was_written_directly_and_asynchronously_is_what_is_read(mode: Mode) {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = build(&dir, "direct_write") else { return };
    let store = Store::start(Settings::new(mode));
    run(Command::new(program).arg(store.path("f")));
}

/// As a server of NFS does, and backup programs.
fn a_file_that_the_kernel_has_forgotten_is_opened_by_its_handle(mode: Mode) {
    if !rustix::process::geteuid().is_root() {
        return skip("root is needed, to open files by their handles");
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = build(&dir, "by_handle") else { return };
    let store = Store::start(Settings::new(mode));
    let (below, file) = (store.path("d/below"), store.path("d/below/f"));
    std::fs::create_dir_all(&below).unwrap();
    std::fs::write(&file, b"content").unwrap();
    run(Command::new(program).arg(store.mount()).arg(store.path("d")).args([below, file]));
}

/// By `readdir` and, where a program looks at what it lists, by the listing that brings attributes.
fn the_entry_of_the_parent_in_a_listing_has_the_parents_number(mode: Mode) {
    use std::os::unix::fs::MetadataExt;
    let store = Store::start(Settings::new(mode));
    let (outer, inner) = (store.path("outer"), store.path("outer/inner"));
    std::fs::create_dir_all(&inner).unwrap();
    for n in 0..5 {
        std::fs::write(inner.join(n.to_string()), b"x").unwrap();
    }
    let number = |path: &std::path::Path| std::fs::metadata(path).unwrap().ino();
    for _ in 0..3 {
        let mut listing = rustix::fs::Dir::new(std::fs::File::open(&inner).unwrap()).unwrap();
        let (mut own, mut parent) = (None, None);
        while let Some(entry) = listing.read().transpose().unwrap() {
            match entry.file_name().to_bytes() {
                b"." => own = Some(entry.ino()),
                b".." => parent = Some(entry.ino()),
                _ => {}
            }
        }
        assert_eq!((own, parent), (Some(number(&inner)), Some(number(&outer))));
        for n in 0..5 {
            number(&inner.join(n.to_string()));
        }
    }
}

in_both_modes!(
    what_was_written_directly_and_asynchronously_is_what_is_read,
    a_file_that_the_kernel_has_forgotten_is_opened_by_its_handle,
    the_entry_of_the_parent_in_a_listing_has_the_parents_number,
);
