//! Everything that can be known to be wrong before a store comes up, each with what to do about it.

mod places;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use intarsia_types::Durability;
use places::Identity;
pub(crate) use places::check_owner;
use rustix::fs::Access;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::config::Settings;
use crate::exit::{Failure, Outcome};
use crate::made_dir;
use crate::mounts::{self, Health, MountEntry};
use crate::process::{find_program, has_sys_admin, is_root};
use crate::registry::{Entry, Registry};

/// What `up` was asked for beyond the settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Conditions {
    /// Mount over a directory that holds files.
    pub(crate) nonempty: bool,
    /// The FUSE device.
    pub(crate) fuse_device: PathBuf,
}

/// What has to be done to bring the store up; nothing of it has been done yet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Mounts of dead nodes to take away first, topmost first.
    pub(crate) clear_stale_mounts: Vec<PathBuf>,
    /// Registry entries of dead nodes to take away first.
    pub(crate) clear_stale_entries: Vec<PathBuf>,
    pub(crate) make_mount_point: bool,
    /// Whether the mount point is ours to remove: made now, or by the dead node before.
    pub(crate) owns_mount_point: bool,
    pub(crate) found_store: bool,
    /// Tiers of the store that are neither named nor there.
    pub(crate) missing_tiers: Vec<PathBuf>,
    /// Tiers of a store of several hosts that are named, and of which nothing is there: their disks may not be mounted.
    #[serde(default)]
    pub(crate) gone_tiers: Vec<PathBuf>,
}

/// Looks at everything and changes nothing.
pub(crate) fn inspect(
    settings: &Settings,
    conditions: &Conditions,
    registry: &Registry,
) -> Outcome<Plan> {
    let mut plan = Plan::default();
    places::check_apart(settings)?;
    check_running(settings, registry, &mut plan)?;
    check_mount_point(settings, conditions, &mut plan)?;
    check_directories(settings, &mut plan)?;
    check_lower(settings)?;
    settings.rule_set()?;
    check_fuse(settings, &conditions.fuse_device)?;
    Ok(plan)
}

impl Plan {
    /// Refuses to go on without the tiers of which nothing is there, unless the user `accepts_loss`.
    ///
    /// # Errors
    /// Usage.
    pub(crate) fn check_gone_tiers(&self, host: &str, accepts_loss: bool) -> Outcome {
        match self.gone_tiers.first().filter(|_| !accepts_loss) {
            None => Ok(()),
            Some(dir) => Err(Failure::usage(format!(
                "the store has a tier at {} on {host}, and nothing of it is there",
                dir.display()
            ))
            .with_help(
                "is its disk mounted? If it was moved, name it where it is now; if it was replaced, go on without its files by --accept-loss",
            )),
        }
    }

    /// Clears what dead nodes left and makes the mount point with the given permissions.
    pub(crate) fn apply(&self, settings: &Settings, registry: &Registry, mode: u32) -> Outcome {
        for mount in &self.clear_stale_mounts {
            tracing::info!(mount = %mount.display(), "taking away the mount of a dead node");
            mounts::detach(mount)?;
        }
        for mount in &self.clear_stale_entries {
            registry.remove(mount);
        }
        // The node makes the tiers themselves.
        for above in settings.tiers.iter().filter_map(|tier| tier.dir.parent()) {
            made_dir::above(above, mode).map_err(|e| Failure::io(above.display(), &e))?;
        }
        if !self.make_mount_point {
            return Ok(());
        }
        let mount = &settings.mount;
        let above = mount.parent().map_or(Ok(()), |above| made_dir::above(above, mode));
        let made = above.and_then(|()| made_dir::mount_point(&settings.dir, mount, mode));
        made.map_err(|e| {
            Failure::io(format!("mount point {} cannot be made", mount.display()), &e)
                .with_help("name another place with --mount")
        })
    }
}

/// A second `up` on the same place; what a dead node left is noted for clearing.
fn check_running(settings: &Settings, registry: &Registry, plan: &mut Plan) -> Outcome {
    for entry in registry.entries() {
        let is_same_mount = entry.mount_point == settings.mount;
        let is_same_dir = entry.dir == settings.dir;
        if !is_same_mount && !is_same_dir {
            continue;
        }
        if !entry.process.has_ended() {
            return Err(already_running(&entry, is_same_mount, settings));
        }
        if let Some(mount) = mounts::at(&entry.mount_point).filter(MountEntry::is_ours)
            && !is_same_mount
            && mounts::health(&mount.mount_point) == Health::Dead
        {
            plan.clear_stale_mounts.push(entry.mount_point.clone());
        }
        plan.owns_mount_point |= is_same_mount && entry.made_mount_point;
        plan.clear_stale_entries.push(entry.mount_point.clone());
    }
    Ok(())
}

fn already_running(entry: &Entry, is_same_mount: bool, settings: &Settings) -> Failure {
    let mount = entry.mount_point.display();
    let pid = entry.process.pid;
    if mounts::at(&entry.mount_point).is_none() {
        return Failure::busy(format!(
            "the node of {mount} (pid {pid}, data in {}) still serves programs that hold files open",
            entry.dir.display()
        ))
        .with_help(format!("wait for them, or run 'intarsia down --force {mount}' first"));
    }
    let message = if is_same_mount {
        format!("a store is already up at {mount} (pid {pid}, data in {})", entry.dir.display())
    } else {
        format!("the store in {} is already up at {mount} (pid {pid})", settings.dir.display())
    };
    Failure::busy(message)
        .with_help(format!("use it as it is, or run 'intarsia down {mount}' first"))
}

fn check_mount_point(settings: &Settings, conditions: &Conditions, plan: &mut Plan) -> Outcome {
    let path = &settings.mount;
    let shown = path.display();
    if let Some(mount) = mounts::at(path) {
        return check_existing_mount(&mount, plan);
    }
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            plan.make_mount_point = true;
            plan.owns_mount_point = true;
            check_ancestor(path, "the mount point")
        }
        Err(e) => Err(Failure::io(format!("mount point {shown}"), &e)),
        Ok(meta) if !meta.is_dir() => {
            Err(Failure::usage(format!("the mount point {shown} is not a directory"))
                .with_help("name a directory, or a new name, with --mount"))
        }
        Ok(meta) => {
            check_mount_point_owner(path, &meta)?;
            plan.owns_mount_point |=
                made_dir::made_mount_point(&settings.dir).as_deref() == Some(path.as_path());
            if conditions.nonempty { Ok(()) } else { check_empty(path) }
        }
    }
}

fn check_existing_mount(mount: &MountEntry, plan: &mut Plan) -> Outcome {
    let shown = mount.mount_point.display();
    if mount.is_ours() && mounts::health(&mount.mount_point) == Health::Dead {
        plan.clear_stale_mounts.push(mount.mount_point.clone());
        return Ok(());
    }
    let failure = Failure::busy(format!("{shown} is already a mount of type {}", mount.kind));
    Err(if mount.is_ours() {
        failure.with_help(format!("it is a store of another user or container; 'intarsia down {shown}' takes it down where it may"))
    } else {
        failure.with_help("name another place with --mount")
    })
}

fn check_mount_point_owner(path: &Path, meta: &std::fs::Metadata) -> Outcome {
    if is_root() || rustix::fs::access(path, Access::WRITE_OK).is_ok() {
        return Ok(());
    }
    Err(Failure::general(format!(
        "the mount point {} belongs to user {} (mode {:03o}) and you may not write there",
        path.display(),
        meta.uid(),
        meta.permissions().mode() & 0o777
    ))
    .with_help("mounting without root needs a directory that you may write"))
}

fn check_empty(path: &Path) -> Outcome {
    let mut entries = std::fs::read_dir(path)
        .map_err(|e| Failure::io(format!("mount point {}", path.display()), &e))?;
    let Some(Ok(first)) = entries.next() else { return Ok(()) };
    Err(Failure::usage(format!(
        "the mount point {} is not empty: it holds '{}', which the mount would hide",
        path.display(),
        first.file_name().display()
    ))
    .with_help("name an empty or a new directory, or say --nonempty"))
}

/// Files of ours that may lie in a directory before its store is founded.
const OWN_FILES: [&str; 10] = [
    made_dir::MOUNT_POINT_MADE,
    "verb.lock",
    "node.lock",
    "node.log",
    "control.sock",
    "metrics.prom",
    "store.json.new",
    "lost+found",
    "deployment",
    "servers",
];

fn check_directories(settings: &Settings, plan: &mut Plan) -> Outcome {
    plan.found_store = !settings.dir.join("store.json").exists();
    check_directory(&settings.dir, "the store's directory", "--dir")?;
    let identity = Identity::of(&settings.dir);
    check_lasting(settings, &identity)?;
    plan.missing_tiers = identity.check_tiers(settings)?;
    plan.gone_tiers = identity.gone_tiers(settings)?;
    if plan.found_store && settings.dir.is_dir() {
        check_not_foreign(&settings.dir)?;
    }
    for tier in &settings.tiers {
        // A tier below the store's directory is made with it.
        if !tier.dir.starts_with(&settings.dir) {
            check_directory(&tier.dir, "the tier", "--tier")?;
            places::check_tier_not_foreign(&tier.dir)?;
        }
    }
    Ok(())
}

/// It is read as the user who runs the node, who must be able to.
fn check_lower(settings: &Settings) -> Outcome {
    let Some(dir) = &settings.lower else {
        return match settings.overflow {
            false => Ok(()),
            true => Err(Failure::usage("an overflow needs a lower file system")
                .with_help("name one with --lower")),
        };
    };
    if settings.overflow {
        check_writable(dir, "the lower file system, for the overflow,")?;
    }
    std::fs::read_dir(dir).map(|_| ()).map_err(|e| {
        Failure::io(format!("the lower file system {}", dir.display()), &e)
            .with_help("name a directory that you may read with --lower")
    })
}

/// A store that was founded in memory keeps its names there whatever it is told later.
fn check_lasting(settings: &Settings, identity: &Identity) -> Outcome {
    if !identity.is_volatile || settings.durability == Durability::Memory {
        return Ok(());
    }
    let dir = settings.dir.display();
    Err(Failure::usage(format!(
        "the store in {dir} was made with durability memory and cannot become {}",
        settings.durability
    ))
    .with_help(format!("say --durability memory, or run 'intarsia down --purge {dir}' first")))
}

fn check_directory(dir: &Path, what: &str, flag: &str) -> Outcome {
    let shown = dir.display();
    match std::fs::metadata(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => check_ancestor(dir, what),
        Err(e) => Err(Failure::io(format!("{what} {shown}"), &e)),
        Ok(meta) if !meta.is_dir() => {
            Err(Failure::usage(format!("{what} {shown} is not a directory"))
                .with_help(format!("name a directory with {flag}")))
        }
        Ok(_) => {
            check_owner(dir, what)?;
            check_writable(dir, what)
        }
    }
}

/// The nearest existing directory above must take the new one.
fn check_ancestor(path: &Path, what: &str) -> Outcome {
    let existing = path.ancestors().skip(1).find(|a| a.exists());
    existing.map_or(Ok(()), |a| {
        check_writable(a, &format!("{what} {} must be made, but", path.display()))
    })
}

fn check_writable(dir: &Path, what: &str) -> Outcome {
    let why = match rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => return Ok(()),
        Err(Errno::ROFS) => "is on a read-only file system",
        Err(Errno::ACCESS) => "cannot be written by you",
        Err(e) => return Err(Failure::io(format!("{what} {}", dir.display()), &e.into())),
    };
    Err(Failure::general(format!("{what} {} {why}", dir.display()))
        .with_help("name a directory that you may write, or change its permissions or mount"))
}

/// A directory with other things in it is somebody's data, not a new store.
fn check_not_foreign(dir: &Path) -> Outcome {
    let entries = std::fs::read_dir(dir).map_err(|e| Failure::io(dir.display(), &e))?;
    let names = entries.flatten().map(|e| e.file_name());
    match names.into_iter().find(|n| !OWN_FILES.iter().any(|own| n == own)) {
        None => Ok(()),
        Some(name) => Err(Failure::usage(format!(
            "{} holds other data ('{}') and is no store",
            dir.display(),
            name.display()
        ))
        .with_help("name an empty or a new directory with --dir; nothing was changed")),
    }
}

/// The device, the helper and the permissions that mounting needs.
pub(crate) fn check_fuse(settings: &Settings, device: &Path) -> Outcome {
    check_device(device)?;
    if has_sys_admin() {
        return Ok(());
    }
    if is_root() {
        return Err(Failure::general(
            "root without the capability CAP_SYS_ADMIN may not mount (a container, most likely)",
        )
        .with_help(CONTAINER));
    }
    if find_program("fusermount3").is_none() {
        return Err(Failure::general(
            "fusermount3 was not found, and mounting without root needs it",
        )
        .with_help("install the package fuse3: apt install fuse3, or dnf install fuse3"));
    }
    if settings.allow_other && !fuse_conf_allows_other() {
        return Err(Failure::general(
            "allow_other is set, but /etc/fuse.conf does not permit it to users other than root",
        )
        .with_help(
            "say --no-allow-other, or have root add the line 'user_allow_other' to /etc/fuse.conf",
        ));
    }
    Ok(())
}

const CONTAINER: &str = "in a container: start it with --device /dev/fuse --cap-add SYS_ADMIN (and --security-opt apparmor=unconfined where AppArmor is on)";

fn check_device(device: &Path) -> Outcome {
    let shown = device.display();
    if !device.exists() {
        let help = if in_container() {
            CONTAINER.to_owned()
        } else {
            "load the kernel module as root: modprobe fuse; and install the package fuse3"
                .to_owned()
        };
        return Err(Failure::general(format!(
            "{shown} does not exist: this kernel offers no FUSE here"
        ))
        .with_help(help));
    }
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(device);
    match opened {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied && !is_root() => {
            Err(Failure::io(format!("{shown} cannot be opened by you"), &e)
                .with_help("as root: chmod 666 /dev/fuse (on most systems it is so; the package fuse3 sees to it)"))
        }
        Err(e) => {
            let help = if in_container() {
                CONTAINER
            } else {
                "load the kernel module as root: modprobe fuse"
            };
            Err(Failure::io(format!("{shown} cannot be opened"), &e).with_help(help))
        }
    }
}

/// Good guesses are enough: this chooses between two pieces of advice.
pub(crate) fn in_container() -> bool {
    ["/.dockerenv", "/run/.containerenv"].iter().any(|p| Path::new(p).exists())
        || std::env::var_os("container").is_some()
}

pub(crate) fn fuse_conf_allows_other() -> bool {
    let text = std::fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    text.lines().any(|l| l.trim() == "user_allow_other")
}
