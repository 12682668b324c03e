//! A process that works in a mount, for tests in which the node dies under it.
//!
//! ```text
//! posix-actor write DIR LOG SEED      change files until something fails, logging what was acknowledged
//! posix-actor hold DIR LOG FINISH     keep writing to what is open, until the file FINISH appears
//! posix-actor flock|fcntl FILE        try to lock a file; ends with 3 when another process has it locked
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, fcntl_lock, flock};
use rustix::io::Errno;

use intarsia_posix_tests::{Held, Mapping, close, write_until_failure};

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["write", dir, log, seed] => {
            let seed = seed.parse().map_err(io::Error::other)?;
            write_until_failure(Path::new(dir), Path::new(log), seed)
        }
        ["hold", dir, log, finish] => hold(Path::new(dir), Path::new(log), Path::new(finish)),
        ["flock", file] => lock(|| flock(open(file)?, FlockOperation::NonBlockingLockExclusive)),
        ["fcntl", file] => {
            lock(|| fcntl_lock(open(file)?, FlockOperation::NonBlockingLockExclusive))
        }
        _ => Err(io::Error::other("usage: posix-actor write DIR LOG SEED | hold DIR LOG FINISH")),
    }
}

/// Writes piece after piece through a descriptor, through a mapping whose descriptor is closed, and to
/// a file that has no name any more.
fn hold(dir: &Path, log: &Path, finish: &Path) -> io::Result<()> {
    let held = new_file(&dir.join(Held::WRITTEN))?;
    let mapped = new_file(&dir.join(Held::MAPPED))?;
    mapped.set_len(Held::LEN_BYTES as u64)?;
    let mut mapping = Mapping::new(&mapped, 0, Held::LEN_BYTES)?;
    close(mapped)?;
    let gone = new_file(&dir.join("gone"))?;
    std::fs::remove_file(dir.join("gone"))?;
    let mut log = File::create(log)?;
    for count in 0.. {
        if finish.exists() {
            break;
        }
        let (offset, bytes) = Held::piece(count);
        held.write_all_at(&bytes, offset as u64)?;
        gone.write_all_at(&bytes, offset as u64)?;
        mapping.store(offset, &bytes);
        writeln!(log, "{count}")?;
        // Many pieces to a crash are enough; the machine has other work.
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn open(file: &str) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(file, OFlags::RDWR, Mode::empty())
}

fn lock(attempt: impl Fn() -> rustix::io::Result<()>) -> io::Result<()> {
    match attempt() {
        Err(Errno::WOULDBLOCK | Errno::ACCESS) => std::process::exit(3),
        other => other.map_err(Into::into),
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create_new(true).read(true).write(true).open(path)
}
