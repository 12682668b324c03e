//! What there is to take down on this host, by what the user named.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::control::{self, Request};
use crate::exit::{Failure, Outcome};
use crate::mounts::{self, MountEntry};
use crate::registry::{Entry, Registry};
use crate::verbs::purge;
use crate::{made_dir, target, tenure};

/// What was found.
pub(crate) enum Found {
    /// A store in the registry, its node alive or dead; or one that the registry has lost, and whose node runs.
    Store(Box<Entry>),
    /// A mount of ours that no registry of this user knows, and the store's directory where the user named it.
    Mount { mount: MountEntry, dir: Option<PathBuf> },
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
        let mount = mounts::at(&path);
        // Nothing is looked for in a mount, whose node may hang.
        let lost = dir.iter().chain(mount.is_none().then_some(&path));
        let mut lost = lost.filter(|dir| registry.by_dir(dir).is_none());
        if let Some(entry) = lost.find_map(|dir| unregistered(dir, &path)) {
            return Ok(Found::Store(Box::new(entry)));
        }
        match mount {
            Some(mount) if mount.is_ours() => {
                let dir = dir.filter(|dir| is_of(&mount, dir));
                return Ok(Found::Mount { mount, dir });
            }
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
    match registry.by_dir(&dir).or_else(|| unregistered(&dir, &dir)) {
        Some(entry) => Found::Store(Box::new(entry)),
        None if is_store(&dir) => Found::Directory(dir),
        None => Found::Nothing(format!("no store lies in {}", dir.display())),
    }
}

/// Whether a mount is that of the store in a directory: its source has the beginning of the store's name.
fn is_of(mount: &MountEntry, dir: &Path) -> bool {
    let short = mount.source.strip_prefix("intarsia-").filter(|short| !short.is_empty());
    let store = purge::store_in(dir);
    short.zip(store).is_some_and(|(short, store)| store.starts_with(short))
}

/// Whether a store lies here, or what an interrupted `up` left of one.
pub(super) fn is_store(dir: &Path) -> bool {
    dir.join("store.json").exists() || purge::is_begun(dir)
}

/// The store in a directory whose node works though the registry does not know it: its record was removed. What it would
/// say is told by the directory, the mount table, and the node itself. Where nobody tells its mount point, it is `path`.
fn unregistered(dir: &Path, path: &Path) -> Option<Entry> {
    let process = tenure::working(dir)?;
    let socket = dir.join("control.sock");
    let is_ours = |path: &Path| mounts::at(path).is_some_and(|mount| mount.is_ours());
    let made = made_dir::made_mount_point(dir);
    let seen = made.iter().map(PathBuf::as_path).chain([path]).find(|path| is_ours(path));
    let mount_point = seen.map(Path::to_owned).or_else(|| {
        let status = control::call(&socket, &Request::Status, |_| {}).ok()?;
        status.get("mount_point").and_then(Value::as_str).map(PathBuf::from)
    });
    let mount_point = mount_point.unwrap_or_else(|| path.to_owned());
    Some(Entry {
        made_mount_point: made.as_ref() == Some(&mount_point),
        mount_point,
        dir: dir.to_owned(),
        // They are in the description of the store as well.
        tiers: Vec::new(),
        socket,
        process,
        version: String::new(),
        started: String::new(),
    })
}
