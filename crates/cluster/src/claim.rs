//! A claim: a lock on a file that the kernel gives up with the process that holds it, and the proof of who that is.
//!
//! Three things of a host are claimed, each by a file beside what it is about:
//!
//! - the right to change what runs in a store's directory, by `up`, `down` and their like ([`VERB`]);
//! - the directory itself, by the node that serves it ([`NODE`]);
//! - the directory of a metadata server, by the server ([`crate::servers`]).
//!
//! A server does not know of claims: it gets the locked file as its standard input, and with it the lock, until it ends.
//! So nobody starts a second one beside it, and it is found again although nobody has written its number down.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use intarsia_types::{Error, Result};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::process::Process;

/// The file, in a store's directory, of whoever changes what runs there.
pub const VERB: &str = "verb.lock";
/// The file, in a store's directory, of the node that serves it.
pub const NODE: &str = "node.lock";

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Whoever only looks whether a claim is held is in the way for a moment.
const MOMENT: Duration = Duration::from_millis(100);

/// Who holds a claim, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// What it is doing: `up`, `down`, `starting`, `serving`.
    pub doing: String,
    /// The process.
    #[serde(flatten)]
    pub process: Process,
}

/// A claim that is held until it is dropped.
#[derive(Debug)]
pub struct Claim {
    file: File,
    path: PathBuf,
}

impl Claim {
    /// Claims the file at `path`, which is made if it is missing, for a process that is `doing` something. Waits for
    /// another holder no longer than `patience`.
    ///
    /// # Errors
    /// [`Error::Busy`] when another one holds it still, with what it is doing; else of the file system.
    pub fn take(path: &Path, doing: &str, patience: Duration) -> Result<Self> {
        let failed = |e| Error::io(format!("lock file {}", path.display()), e);
        let deadline = Instant::now() + patience.max(MOMENT);
        loop {
            let file = open(path).map_err(failed)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Whoever held it may have removed the file; then the lock is on nothing.
                Ok(()) if is_at(&file, path) => {
                    let mut claim = Self { file, path: path.to_owned() };
                    claim.say(doing)?;
                    return Ok(claim);
                }
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() >= deadline => {
                    return Err(Error::Busy(held_by(path)));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
                Err(error) => return Err(failed(error.into())),
            }
        }
    }

    /// Tells whoever asks what the holder is doing now.
    ///
    /// # Errors
    /// Of the file system.
    pub fn say(&mut self, doing: &str) -> Result<()> {
        let failed = |e| Error::io(format!("lock file {}", self.path.display()), e);
        let process = Process::current().map_err(failed)?;
        let holder = Holder { doing: doing.to_owned(), process };
        let text = toml::to_string(&holder).map_err(|e| Error::Engine(e.to_string()))?;
        let written = self.file.seek(SeekFrom::Start(0)).and_then(|_| {
            self.file.write_all(text.as_bytes())?;
            self.file.set_len(text.len() as u64)
        });
        written.map_err(failed)
    }

    /// The locked file, to be handed to another process; whoever of them ends last gives up the claim.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn share(&self) -> Result<File> {
        self.file.try_clone().map_err(|e| Error::io("share a lock", e))
    }

    /// Removes the file and gives the claim up.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether somebody holds the claim at `path`. A file that is not there is held by nobody.
#[must_use]
pub fn is_held(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let taken = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
    taken == Err(rustix::io::Errno::WOULDBLOCK)
}

/// Who holds the claim at `path`, if somebody does and says so.
#[must_use]
pub fn holder(path: &Path) -> Option<Holder> {
    let text = std::fs::read_to_string(path).ok().filter(|_| is_held(path))?;
    toml::from_str::<Holder>(&text).ok().filter(|holder| holder.process.is_running())
}

/// The processes that have the file at `path` open as their standard input: a server that was started with a claim.
#[must_use]
pub fn readers(path: &Path) -> Vec<Process> {
    let Ok(wanted) = std::fs::metadata(path) else { return Vec::new() };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_it = |pid: &u32| {
        let input = std::fs::metadata(format!("/proc/{pid}/fd/0"));
        input.is_ok_and(|input| (input.dev(), input.ino()) == (wanted.dev(), wanted.ino()))
    };
    numbers.filter(has_it).filter_map(|pid| Process::of(pid).ok().flatten()).collect()
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)
}

fn is_at(file: &File, path: &Path) -> bool {
    let there = std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
    let here = file.metadata().map(|meta| (meta.dev(), meta.ino()));
    matches!((there, here), (Ok(there), Ok(here)) if there == here)
}

fn held_by(path: &Path) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
    let holder = read.ok().and_then(|_| toml::from_str::<Holder>(&text).ok());
    let dir = path.parent().unwrap_or(path).display();
    match holder {
        Some(holder) => {
            format!("process {} holds {dir} ({})", holder.process.pid, holder.doing)
        }
        None => format!("another process holds {dir}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_claim_has_one_holder_who_says_what_it_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(VERB);
        assert!(!is_held(&path));
        let mut held = Claim::take(&path, "up", Duration::ZERO).unwrap();
        assert!(is_held(&path));
        held.say("down").unwrap();
        assert_eq!(holder(&path).unwrap().doing, "down");
        let why = Claim::take(&path, "up", Duration::ZERO).unwrap_err().to_string();
        assert!(why.contains("down") && why.contains(&std::process::id().to_string()), "{why}");
        drop(held);
        assert!(!is_held(&path) && holder(&path).is_none());
        Claim::take(&path, "up", Duration::ZERO).unwrap().remove();
        assert!(!path.exists());
    }

    #[test]
    fn a_process_that_got_the_file_holds_the_claim_and_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.lock");
        let claim = Claim::take(&path, "starting", Duration::ZERO).unwrap();
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::from(claim.share().unwrap()))
            .spawn()
            .unwrap();
        drop(claim);
        assert!(is_held(&path), "the child holds it");
        let found = readers(&path);
        assert_eq!(found.iter().map(|p| p.pid).collect::<Vec<_>>(), [child.id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_held(&path) && readers(&path).is_empty());
    }

    #[test]
    fn a_lock_on_a_file_that_was_removed_is_no_claim() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NODE);
        let first = Claim::take(&path, "serving", Duration::ZERO).unwrap();
        let second = std::thread::spawn({
            let path = path.clone();
            move || Claim::take(&path, "up", Duration::from_secs(30))
        });
        std::thread::sleep(PAUSE * 3);
        first.remove();
        let second = second.join().unwrap().unwrap();
        assert!(is_held(&path), "it is held by the file that is there");
        drop(second);
    }
}
