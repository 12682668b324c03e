//! What the file system under a tier can do, found out by looking.

use std::path::Path;

use intarsia_types::TierClass;

/// The file system that carries a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Its name, such as `ext4`, from the mount table.
    pub kind: String,
    /// The class to assume when the user names none.
    pub class: TierClass,
    /// Whether the kernel's FUSE passthrough may stand on it (not on a stacked file system).
    pub is_stackable: bool,
    /// Whether it is mounted read-only.
    pub is_read_only: bool,
}

/// Looks up the file system that carries `dir`.
///
/// # Errors
/// When the directory cannot be examined.
pub fn probe(dir: &Path) -> std::io::Result<FileSystem> {
    let stat = rustix::fs::stat(dir)?;
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let vfs = rustix::fs::statvfs(dir)?;
    let kind = mount_kind(major, minor).unwrap_or_else(|| "unknown".to_owned());
    let class = match kind.as_str() {
        "tmpfs" | "ramfs" => TierClass::Memory,
        _ if is_rotational(major, minor) => TierClass::Disk,
        _ => TierClass::Ssd,
    };
    let is_stackable = !matches!(kind.as_str(), "overlay" | "ecryptfs" | "fuse" | "unknown")
        && !kind.starts_with("fuse.");
    let is_read_only = vfs.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
    Ok(FileSystem { kind, class, is_stackable, is_read_only })
}

/// The type in `/proc/self/mountinfo` of the mount with this device number.
fn mount_kind(major: u32, minor: u32) -> Option<String> {
    let wanted = format!("{major}:{minor}");
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    table.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        (left.split(' ').nth(2)? == wanted).then(|| right.split(' ').next().map(str::to_owned))?
    })
}

/// Unknown devices count as spinning: the careful assumption.
fn is_rotational(major: u32, minor: u32) -> bool {
    let base = format!("/sys/dev/block/{major}:{minor}");
    ["/queue/rotational", "/../queue/rotational"]
        .iter()
        .find_map(|suffix| std::fs::read_to_string(format!("{base}{suffix}")).ok())
        .is_none_or(|text| text.trim() != "0")
}
