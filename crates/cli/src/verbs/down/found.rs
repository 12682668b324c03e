//! What there is to take down on this host, by what the user named.

use std::path::{Path, PathBuf};

use crate::exit::{Failure, Outcome};
use crate::mounts::{self, MountEntry};
use crate::registry::{Entry, Registry};
use crate::target;
use crate::verbs::purge;

/// What was found.
pub(crate) enum Found {
    /// A store in the registry, its node alive or dead.
    Store(Box<Entry>),
    /// A mount of ours that no registry of this user knows.
    Mount(MountEntry),
    /// A store that is not up, by its directory. Servers of it may run.
    Directory(PathBuf),
    /// Nothing at all, in words.
    Nothing(String),
}

/// What the user named.
pub(super) struct Named {
    path: Option<PathBuf>,
    dir: Option<PathBuf>,
}

impl Named {
    pub(super) fn new(path: Option<&Path>, dir: Option<&Path>) -> Self {
        Self { path: target::named(path), dir: dir.map(Path::to_owned) }
    }

    /// What is there now.
    pub(super) fn find(&self, registry: &Registry) -> Outcome<Found> {
        let dir = self.dir.as_deref();
        let dir = dir.map(|dir| mounts::canonical(dir).unwrap_or_else(|_| dir.to_owned()));
        let Some(path) = &self.path else {
            return match (registry.entries().is_empty(), dir) {
                (_, Some(dir)) => Ok(by_directory(registry, dir)),
                (true, None) => Ok(Found::Nothing("no store is up".into())),
                (false, None) => Ok(Found::Store(Box::new(target::one(registry, None)?))),
            };
        };
        let path = mounts::canonical(path).map_err(|e| Failure::io(path.display(), &e))?;
        if let Some(entry) = registry.by_mount(&path).or_else(|| registry.by_dir(&path)) {
            return Ok(Found::Store(Box::new(entry)));
        }
        match mounts::at(&path) {
            Some(mount) if mount.is_ours() => return Ok(Found::Mount(mount)),
            Some(mount) => {
                return Err(Failure::not_running(format!(
                    "{} is a mount of type {}, none of ours",
                    path.display(),
                    mount.kind
                )));
            }
            None => {}
        }
        if let Some(dir) = dir {
            return Ok(by_directory(registry, dir));
        }
        if is_store(&path) {
            return Ok(Found::Directory(path));
        }
        Ok(match registry.last_at(&path) {
            Some(last) => Found::Directory(last.dir),
            None => Found::Nothing(format!("no store is up at {}", path.display())),
        })
    }
}

fn by_directory(registry: &Registry, dir: PathBuf) -> Found {
    match registry.by_dir(&dir) {
        Some(entry) => Found::Store(Box::new(entry)),
        None if is_store(&dir) => Found::Directory(dir),
        None => Found::Nothing(format!("no store lies in {}", dir.display())),
    }
}

/// Whether a store lies here, or what an interrupted `up` left of one.
pub(super) fn is_store(dir: &Path) -> bool {
    dir.join("store.json").exists() || purge::is_begun(dir)
}
