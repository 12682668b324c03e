//! Who keeps a mount busy: found by reading /proc alone, so that a hung mount cannot hang the search.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use serde::Serialize;

use crate::mounts::{self, MountEntry};
use crate::output::count;
use crate::process::{has_sys_admin, is_root};

/// A process that uses the mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    pub(crate) command: String,
    pub(crate) user: String,
    /// Such as `working directory /mnt/x`, `open file /mnt/x/a`.
    pub(crate) uses: Vec<String>,
}

/// The holders, and how many processes we were not allowed to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Survey {
    pub(crate) holders: Vec<Holder>,
    pub(crate) unreadable: usize,
}

/// Whether somebody uses the mount, or something is mounted below it. Changes nothing.
pub(crate) fn is_busy(mount_point: &Path) -> bool {
    /// A call that is just being answered holds the mount as well.
    const LOOKS: usize = 10;
    const PAUSE: Duration = Duration::from_millis(30);
    let Some(mount) = mounts::at(mount_point) else { return false };
    if !mounts::below(mount_point).is_empty() {
        return true;
    }
    if !has_sys_admin() {
        return !of(&mount).holders.is_empty();
    }
    is_held_elsewhere(&mount)
        || (0..LOOKS).all(|look| {
            if look > 0 {
                std::thread::sleep(PAUSE);
            }
            is_held(mount_point)
        })
}

/// The same file system mounted elsewhere: bound to another path, or copied into the mount namespace of a process, as
/// containers and `unshare --mount` do. It lives for as long as they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    /// A process that sees it.
    pid: u32,
    pub(crate) mount: MountEntry,
}

impl Copy {
    /// The path by which this process reaches it.
    pub(crate) fn path(&self) -> PathBuf {
        let inside = self.mount.mount_point.strip_prefix("/").unwrap_or(&self.mount.mount_point);
        Path::new("/proc").join(self.pid.to_string()).join("root").join(inside)
    }
}

/// All copies of a mount that we may see.
pub(crate) fn copies(of: &MountEntry) -> Vec<Copy> {
    let mut namespaces: BTreeMap<PathBuf, u32> = BTreeMap::new();
    for pid in pids() {
        if let Ok(namespace) = std::fs::read_link(format!("/proc/{pid}/ns/mnt")) {
            // The first one lives longest, more often than not.
            namespaces.entry(namespace).or_insert(pid);
        }
    }
    let seen = namespaces.into_values().flat_map(|pid| {
        let table = mounts::table_of(&pid.to_string());
        table.into_iter().map(move |mount| Copy { pid, mount })
    });
    seen.filter(|copy| copy.mount.device == of.device && copy.mount.id != of.id).collect()
}

/// Whether programs use a mount that has copies: the kernel would let it go here although they use one of those.
pub(crate) fn is_held_elsewhere(mount: &MountEntry) -> bool {
    let copies = copies(mount);
    !copies.is_empty() && !of_copies(mount, &copies).holders.is_empty()
}

/// Asks the kernel whether a mount could go, by marking it as one to expire, which a mount in use cannot be.
fn is_held(mount_point: &Path) -> bool {
    let marked = rustix::mount::unmount(mount_point, rustix::mount::UnmountFlags::EXPIRE);
    if marked == Err(Errno::AGAIN) {
        // A second mark would take it away; any use of it takes the mark off.
        let _ = mounts::health(mount_point);
    }
    marked == Err(Errno::BUSY)
}

/// Looks through all processes of this host.
pub(crate) fn of(mount: &MountEntry) -> Survey {
    of_copies(mount, &copies(mount))
}

/// The same where its copies are known.
pub(crate) fn of_copies(mount: &MountEntry, copies: &[Copy]) -> Survey {
    let users = user_names();
    let mut survey = Survey::default();
    let mut ids: Vec<u64> = copies.iter().map(|copy| copy.mount.id).collect();
    ids.push(mount.id);
    for pid in pids() {
        match uses(pid, mount, &ids) {
            None => survey.unreadable += 1,
            Some(uses) if uses.is_empty() => {}
            Some(uses) => survey.holders.push(Holder {
                pid,
                command: command(pid),
                user: user(pid, &users),
                uses,
            }),
        }
    }
    survey
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok())
}

/// How a process uses the mount or a copy of it, which have these numbers; `None` when we may not look.
fn uses(pid: u32, mount: &MountEntry, ids: &[u64]) -> Option<Vec<String>> {
    let base = PathBuf::from(format!("/proc/{pid}"));
    let inside = |name: &str| match std::fs::read_link(base.join(name)) {
        Ok(path) => Ok(mounts::is_on(&base.join(name), &mount.device).then_some(path)),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Err(e),
        Err(_) => Ok(None),
    };
    let mut uses = Vec::new();
    uses.extend(inside("cwd").ok()?.map(|p| format!("working directory {}", p.display())));
    let root = inside("root").unwrap_or_default();
    uses.extend(root.map(|p| format!("root directory {}", p.display())));
    uses.extend(open_files(&base, ids).map(|p| format!("open file {}", p.display())));
    uses.extend(mappings(&base, mount).into_iter().map(|p| format!("mapping of {p}")));
    Some(uses)
}

/// The descriptors whose `fdinfo` names one of these mounts.
fn open_files(base: &Path, ids: &[u64]) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(base.join("fdinfo")).into_iter().flatten().flatten();
    let fds = base.join("fd");
    entries
        .filter(move |e| {
            let info = std::fs::read_to_string(e.path()).unwrap_or_default();
            let id = info.lines().find_map(|l| l.strip_prefix("mnt_id:"));
            id.and_then(|id| id.trim().parse().ok()).is_some_and(|id| ids.contains(&id))
        })
        .filter_map(move |e| std::fs::read_link(fds.join(e.file_name())).ok())
}

/// Files mapped from the mount, each once. A mapping outlives the descriptor it was made from.
fn mappings(base: &Path, mount: &MountEntry) -> Vec<String> {
    let text = std::fs::read_to_string(base.join("maps")).unwrap_or_default();
    let device = map_device(&mount.device);
    let mut paths: Vec<String> = text
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let line_device = fields.nth(3)?;
            let path = line.get(line.find('/')?..)?;
            let is_inside = Path::new(path).starts_with(&mount.mount_point);
            (is_inside || device.as_deref() == Some(line_device)).then(|| path.to_owned())
        })
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// `maps` writes device numbers in hexadecimal, `mountinfo` in decimal.
fn map_device(device: &str) -> Option<String> {
    let (major, minor) = device.split_once(':')?;
    Some(format!("{:02x}:{:02x}", major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
}

fn command(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> =
        line.split(|b| *b == 0).filter(|w| !w.is_empty()).map(String::from_utf8_lossy).collect();
    let text = words.join(" ");
    if text.is_empty() {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        return name.trim().to_owned();
    }
    text.chars().take(80).collect()
}

fn user(pid: u32, names: &HashMap<u32, String>) -> String {
    match std::fs::metadata(format!("/proc/{pid}")) {
        Ok(meta) => names.get(&meta.uid()).cloned().unwrap_or_else(|| meta.uid().to_string()),
        Err(_) => "?".to_owned(),
    }
}

fn user_names() -> HashMap<u32, String> {
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let parse = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((fields.nth(1)?.parse().ok()?, name))
    };
    text.lines().filter_map(parse).collect()
}

/// The survey as lines for people.
pub(crate) fn describe(survey: &Survey) -> Vec<String> {
    let mut lines = Vec::new();
    for holder in &survey.holders {
        lines.push(format!("pid {} ({}), user {}:", holder.pid, holder.command, holder.user));
        let shown = holder.uses.iter().take(5);
        lines.extend(shown.map(|used| format!("    {used}")));
        if let Some(more) = holder.uses.len().checked_sub(5).filter(|n| *n > 0) {
            lines.push(format!("    and {more} more"));
        }
    }
    if survey.unreadable > 0 {
        let advice = if is_root() { "" } else { "; root sees more" };
        let number = count(survey.unreadable, "other program");
        lines.push(format!("({number} could not be examined{advice})"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts;

    /// The mount that carries a path, by the longest prefix.
    fn carrying(path: &Path) -> MountEntry {
        let all = mounts::table().into_iter().filter(|m| path.starts_with(&m.mount_point));
        all.max_by_key(|m| m.mount_point.as_os_str().len()).unwrap()
    }

    #[test]
    fn finds_the_open_file_and_the_working_directory_of_a_child() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let file = dir.join("held");
        std::fs::write(&file, "x").unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .current_dir(&dir)
            .stdin(std::fs::File::open(&file).unwrap())
            .spawn()
            .unwrap();
        let mount = carrying(&dir);
        let uses = uses(child.id(), &mount, &[mount.id]).unwrap();
        let name = command(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(uses.contains(&format!("working directory {}", dir.display())), "{uses:?}");
        assert!(uses.contains(&format!("open file {}", file.display())), "{uses:?}");
        assert!(name.contains("sleep"), "{name}");
    }

    #[test]
    fn a_mapped_program_is_a_holder() {
        let me = std::env::current_exe().unwrap().canonicalize().unwrap();
        let mount = carrying(&me);
        let mapped = mappings(Path::new("/proc/self"), &mount);
        assert!(mapped.iter().any(|p| Path::new(p) == me), "{mapped:?}");
        assert_eq!(map_device("0:52").as_deref(), Some("00:34"));
    }
}
