//! Whose a directory is: the file that says of which store and which of its tiers, and the lock on it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use intarsia_types::{Error, Result, TierId};
use serde::{Deserialize, Serialize};

/// Version of the layout on disk.
pub(super) const FORMAT: u32 = 1;

/// What `DIR/tier.json` holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) format: u32,
    pub(super) store: String,
    pub(super) tier: TierId,
    /// Bytes in use at the last clean stop; absent while in use and after a crash.
    pub(super) used_bytes: Option<u64>,
    /// The mount that the tier is on while in use: see [`mount_identity`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mount: Option<String>,
}

/// What is the same for as long as the kernel keeps what was written to a directory: the machine's start, and the
/// mount. Before Linux 6.8 another mount can have the number of one that is gone.
pub(super) fn mount_identity(dir: &Path) -> Option<String> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    /// `STATX_MNT_ID_UNIQUE` and `STATX_MNT_ID` of the kernel's `linux/stat.h`.
    const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    const REUSED: StatxFlags = StatxFlags::from_bits_retain(0x1000);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let stat = statx(CWD, dir, AtFlags::empty(), UNIQUE | REUSED).ok()?;
    Some(format!("{} {}", boot.trim(), stat.stx_mnt_id))
}

/// Makes one directory, readable by us alone; its parent must exist, so that a typing error shows.
pub(super) fn make_directory(dir: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(e) => Err(Error::io(
            format!(
                "directory {} cannot be made (does its parent exist, may we write there?)",
                dir.display()
            ),
            e,
        )),
    }
}

pub(super) fn take_lock(dir: &Path) -> Result<File> {
    let path = dir.join("lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(|e| Error::io(format!("lock file {}", path.display()), e))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Busy(format!(
            "{} is in use by another node; run 'intarsia down' on its mount first",
            dir.display()
        ))),
        Err(e) => Err(Error::io(format!("lock {}", path.display()), e.into())),
    }
}

/// Which tier of `store` lies in a directory already; none in one that is new, another store's or unreadable.
#[must_use]
pub fn tier_at(dir: &Path, store: &str) -> Option<TierId> {
    let found = read_identity(dir).ok().flatten()?;
    (found.store == store).then_some(found.tier)
}

pub(super) fn read_identity(dir: &Path) -> Result<Option<Identity>> {
    let path = dir.join("tier.json");
    match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|e| {
            Error::Invalid(format!(
                "{} is damaged: {e}; restore it or remove the tier",
                path.display()
            ))
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(format!("read {}", path.display()), e)),
    }
}

pub(super) fn check_identity(
    dir: &Path,
    found: Option<&Identity>,
    store: &str,
    id: TierId,
) -> Result<()> {
    let Some(found) = found else { return Ok(()) };
    let refuse = |why: String| Err(Error::Invalid(format!("tier {}: {why}", dir.display())));
    if found.format != FORMAT {
        return refuse(format!(
            "written in format {}, this version reads format {FORMAT}",
            found.format
        ));
    }
    if found.store != store {
        return refuse(format!(
            "belongs to store {}, not to {store}; name another directory",
            found.store
        ));
    }
    if found.tier != id {
        return refuse(format!("is tier {} of the store, not {id}", found.tier));
    }
    Ok(())
}

/// A directory with other things in it is somebody's data, not an empty tier.
pub(super) fn refuse_foreign_content(dir: &Path) -> Result<()> {
    let fail = |e| Error::io(format!("list {}", dir.display()), e);
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        if !matches!(name.to_str(), Some("lock" | "tier.json.new" | "lost+found")) {
            return Err(Error::Invalid(format!(
                "directory {} is not empty (it holds '{}') and is no tier; name an empty or a new one",
                dir.display(),
                name.display()
            )));
        }
    }
    Ok(())
}
