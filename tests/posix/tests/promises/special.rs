//! FIFOs, sockets and locks.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

use intarsia_posix_tests::{Mode, Settings, Store, in_both_modes};
use rustix::fs::{CWD, FileType, FlockOperation, fcntl_lock, flock, mknodat};

fn fifos_connect(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    let path = store.path("fifo");
    mknodat(CWD, &path, FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(path.symlink_metadata().unwrap().file_type().is_fifo());
    let text = std::thread::scope(|scope| {
        scope.spawn(|| OpenOptions::new().write(true).open(&path).unwrap().write_all(b"through"));
        let mut text = String::new();
        File::open(&path).unwrap().read_to_string(&mut text).unwrap();
        text
    });
    assert_eq!(text, "through");
}

fn sockets_connect(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    let path = store.path("socket");
    let listener = UnixListener::bind(&path).unwrap();
    assert!(path.symlink_metadata().unwrap().file_type().is_socket());
    UnixStream::connect(&path).unwrap().write_all(b"through").unwrap();
    let mut text = String::new();
    listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
    assert_eq!(text, "through");
}

fn locks_exclude(mode: Mode) {
    let store = Store::start(Settings::new(mode));
    let path = store.path("locked");
    let file = File::create(&path).unwrap();
    for how in ["flock", "fcntl"] {
        assert!(other_process_locks(how, &path), "{how} of a free file");
        lock(how, &file, true);
        assert!(!other_process_locks(how, &path), "{how} of a locked file");
        lock(how, &file, false);
        assert!(other_process_locks(how, &path), "{how} of a file that is free again");
    }
}

in_both_modes!(fifos_connect, sockets_connect, locks_exclude);

fn lock(how: &str, file: &File, takes: bool) {
    let operation = if takes {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingUnlock
    };
    match how {
        "flock" => flock(file, operation).unwrap(),
        _ => fcntl_lock(file, operation).unwrap(),
    }
}

fn other_process_locks(how: &str, path: &Path) -> bool {
    let mut actor = Command::new(env!("CARGO_BIN_EXE_posix-actor"));
    match actor.arg(how).arg(path).status().unwrap().code() {
        Some(0) => true,
        Some(3) => false,
        other => panic!("the actor ended with {other:?}"),
    }
}
