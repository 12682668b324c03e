//! What labs this machine has: per lab a lock and a JSON file in `/run/intarsia/lab`.
//!
//! The place is fixed, because the names of network namespaces are the machine's too: with two registries, each
//! would take the other's labs for remains.
//!
//! The lock tells who is alive. A program holds it while it makes a lab, and as long as it owns one; the kernel
//! lets it go when the program dies, however it dies.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use intarsia_types::{Error, Result};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::name::LabName;
use crate::spec::Spec;

const DIR: &str = "/run/intarsia/lab";

/// How far a lab has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// It is being made by the holder of the lock.
    Making,
    /// It is whole, and goes when the holder of the lock does.
    Owned,
    /// It is whole, and stays until somebody takes it down.
    Kept,
}

/// What the registry says of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) spec: Spec,
    pub(crate) phase: Phase,
}

/// The lock of one name.
pub(crate) struct Claim {
    name: LabName,
    lock: File,
}

impl Claim {
    /// Takes the lock; `None` when a living program holds it.
    pub(crate) fn take(name: &LabName) -> Result<Option<Self>> {
        make_dir()?;
        let path = lock_path(name);
        let failed = |e| Error::io(path.display().to_string(), e);
        loop {
            // Read-only: tools get it as their standard output, and are not to write.
            let lock = OpenOptions::new()
                .read(true)
                .custom_flags(create_flag())
                .mode(0o600)
                .open(&path)
                .map_err(failed)?;
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(e) => return Err(failed(e.into())),
            }
            // Whoever held it before may have removed the file: then it locks nothing.
            let is_current = match (std::fs::metadata(&path), lock.metadata()) {
                (Ok(there), Ok(mine)) => there.ino() == mine.ino() && there.dev() == mine.dev(),
                _ => false,
            };
            if is_current {
                return Ok(Some(Self { name: name.clone(), lock }));
            }
        }
    }

    /// The lock, for the tools to hold too.
    pub(crate) const fn lock(&self) -> &File {
        &self.lock
    }

    /// Writes the entry, whole or not at all, with the hosts file beside it.
    pub(crate) fn write(&self, entry: &Entry) -> Result<()> {
        let text = serde_json::to_vec_pretty(entry)
            .map_err(|e| Error::io(entry_path(&self.name).display().to_string(), e.into()))?;
        replace(&entry_path(&self.name), &text)
    }

    /// Writes what `/etc/hosts` would be on a node.
    pub(crate) fn write_hosts(&self, spec: &Spec) -> Result<()> {
        let mut text = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        for node in spec.nodes() {
            text.push_str(&format!("{} {node}\n", spec.subnet().address(node)));
        }
        replace(&hosts_path(&self.name), text.as_bytes())
    }

    /// Removes all that the registry holds of the lab. The lock file goes last.
    pub(crate) fn remove(&self) -> Result<()> {
        for path in [entry_path(&self.name), hosts_path(&self.name), lock_path(&self.name)] {
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(Error::io(path.display().to_string(), e));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// `O_CREAT` for a file that is opened for reading only, which the standard library does not offer.
fn create_flag() -> i32 {
    i32::try_from(rustix::fs::OFlags::CREATE.bits()).unwrap_or_default()
}

/// The entry of a lab. One that cannot be read counts as none: what is there of the lab is remains.
pub(crate) fn entry(name: &LabName) -> Option<Entry> {
    let text = std::fs::read(entry_path(name)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The names that the registry knows, with an entry or only a lock.
pub(crate) fn names() -> Result<Vec<LabName>> {
    let files = match std::fs::read_dir(DIR) {
        Ok(files) => files,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(DIR, e)),
    };
    let stems = files.flatten().filter_map(|f| Some(f.path().file_stem()?.to_str()?.to_owned()));
    let mut names: Vec<LabName> = stems.filter_map(|s| s.parse().ok()).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// What `/etc/hosts` would be on a node.
pub(crate) fn hosts_path(name: &LabName) -> PathBuf {
    path(name, "hosts")
}

fn entry_path(name: &LabName) -> PathBuf {
    path(name, "json")
}

fn lock_path(name: &LabName) -> PathBuf {
    path(name, "lock")
}

fn path(name: &LabName, extension: &str) -> PathBuf {
    PathBuf::from(DIR).join(format!("{name}.{extension}"))
}

fn make_dir() -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(DIR).map_err(|e| Error::io(DIR, e))
}

/// A reader sees the old content or the new one. Only the holder of the lock writes.
fn replace(path: &std::path::Path, content: &[u8]) -> Result<()> {
    let temporary = path.with_extension("new");
    std::fs::write(&temporary, content)
        .and_then(|()| std::fs::rename(&temporary, path))
        .map_err(|e| Error::io(path.display().to_string(), e))
}
