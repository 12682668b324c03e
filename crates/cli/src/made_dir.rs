//! Directories that a store needs, made with the permissions that they are to have whatever the umask is by then.

use std::fs::Permissions;
use std::io::{ErrorKind, Result};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use intarsia_cluster::claim;

use crate::launch::log_path;

/// Makes a directory that others must not enter, and those above it as `mkdir -p` does. Returns what was made, topmost
/// first.
pub(crate) fn private(dir: &Path) -> Result<Vec<PathBuf>> {
    let missing = missing(dir);
    if let Some(parent) = dir.parent() {
        std::fs::create_dir_all(parent)?;
    }
    one(dir, 0o700)?;
    Ok(missing)
}

/// Makes the directories from the topmost that is missing down to `dir`.
pub(crate) fn above(dir: &Path, mode: u32) -> Result<()> {
    missing(dir).iter().try_for_each(|missing| one(missing, mode))
}

/// Makes one directory, unless it is there.
pub(crate) fn one(dir: &Path, mode: u32) -> Result<()> {
    match std::fs::create_dir(dir) {
        Ok(()) => std::fs::set_permissions(dir, Permissions::from_mode(mode)),
        Err(e) if e.kind() == ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(e) => Err(e),
    }
}

/// Names the mount point that an `up` has made. It is ours to remove also when who made it was killed.
pub(crate) const MOUNT_POINT_MADE: &str = "mount-point-made";

/// Makes the mount point of the store in `dir`, and notes that first.
pub(crate) fn mount_point(dir: &Path, mount: &Path, mode: u32) -> Result<()> {
    std::fs::write(dir.join(MOUNT_POINT_MADE), mount.as_os_str().as_encoded_bytes())?;
    one(mount, mode)
}

/// The mount point that was made for the store in `dir`.
pub(crate) fn made_mount_point(dir: &Path) -> Option<PathBuf> {
    let path = std::fs::read(dir.join(MOUNT_POINT_MADE)).ok()?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(path)))
}

/// Removes the mount point that was made for the store in `dir`, unless something lies in it or is mounted there. `known`
/// is one that is known to be made, without a note where an earlier version did it.
pub(crate) fn remove_mount_point(dir: &Path, known: Option<&Path>) {
    if let Some(known) = known {
        let _ = std::fs::remove_dir(known);
    }
    let Some(mount) = made_mount_point(dir) else { return };
    if std::fs::remove_dir(&mount).is_ok() || !mount.exists() {
        let _ = std::fs::remove_file(dir.join(MOUNT_POINT_MADE));
    }
}

/// What is missing of a path, topmost first.
fn missing(dir: &Path) -> Vec<PathBuf> {
    let missing = dir.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
    let mut missing: Vec<_> = missing.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// Removes the directory of a store that was never founded, and what was made above it, of all of which `made` tells.
pub(crate) fn forget_unfounded(dir: &Path, made: &[PathBuf]) {
    if made.is_empty() || dir.join("store.json").exists() {
        return;
    }
    let lock = dir.join(claim::NODE);
    if claim::is_held(&lock) {
        return;
    }
    for left in [log_path(dir), lock] {
        let _ = std::fs::remove_file(left);
    }
    for dir in made.iter().rev() {
        // One that holds something stays.
        let _ = std::fs::remove_dir(dir);
    }
}
