//! Which store a verb means: the one named, the one of `INTARSIA_MOUNT`, or the only one.

use std::path::{Path, PathBuf};

use crate::exit::{Failure, Outcome};
use crate::mounts::{self, MountEntry};
use crate::registry::{Entry, Registry};

/// How the message begins that there is nothing.
pub(crate) const NOT_UP: &str = "no store is up";

/// The path that the user named, or that the environment names.
pub(crate) fn named(path: Option<&Path>) -> Option<PathBuf> {
    path.map(Path::to_owned)
        .or_else(|| std::env::var_os("INTARSIA_MOUNT").filter(|v| !v.is_empty()).map(PathBuf::from))
}

/// The entry of the store that `path` names: its mount point, its directory, or a path in the mount.
pub(crate) fn find(registry: &Registry, path: &Path) -> Outcome<Option<Entry>> {
    let path = mounts::canonical(path).map_err(|e| Failure::io(path.display(), &e))?;
    let found = registry.by_mount(&path).or_else(|| registry.by_dir(&path));
    Ok(found.or_else(|| {
        let inside = |e: &Entry| path.starts_with(&e.mount_point);
        registry.entries().into_iter().rev().find(inside)
    }))
}

/// The one store meant, running or not.
pub(crate) fn one(registry: &Registry, path: Option<&Path>) -> Outcome<Entry> {
    if let Some(path) = named(path) {
        let found = find(registry, &path)?;
        if found.is_none()
            && let Some(mount) = mounts::carrying(&path).filter(MountEntry::is_ours)
        {
            mount.check_user()?;
        }
        return found.ok_or_else(|| {
            Failure::not_running(format!("{NOT_UP} at {}", path.display()))
                .with_help("'intarsia status' lists the stores that are up")
        });
    }
    let mut entries = registry.entries();
    match (entries.pop(), entries.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => {
            Err(Failure::not_running(NOT_UP).with_help("'intarsia up DIRECTORY' brings one up"))
        }
        (Some(last), _) => {
            let all = entries.iter().chain([&last]);
            let list: Vec<_> = all.map(|e| e.mount_point.display().to_string()).collect();
            Err(Failure::usage(format!("several stores are up: {}", list.join(", ")))
                .with_help("name one, or set INTARSIA_MOUNT"))
        }
    }
}

/// The one store meant, which must run.
pub(crate) fn running(registry: &Registry, path: Option<&Path>) -> Outcome<Entry> {
    let entry = one(registry, path)?;
    if entry.process.is_running() {
        return Ok(entry);
    }
    Err(Failure::not_running(format!(
        "the node of {} (pid {}) is dead",
        entry.mount_point.display(),
        entry.process.pid
    ))
    .with_help(format!(
        "'intarsia up {0} --dir {1}' brings the store up again, 'intarsia down {0}' clears the place",
        entry.mount_point.display(),
        entry.dir.display()
    )))
}
