//! What is left of a store on this machine: processes, mounts, listeners.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

fn processes() -> impl Iterator<Item = (i32, PathBuf)> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, entry.path()))
    });
    numbered.filter(move |(pid, _)| *pid != own)
}

/// Processes that hold a file below `dir`, or work in it. A guard and the writers of a test do not count.
pub(crate) fn holding(dir: &Path) -> Vec<i32> {
    let is_below = |link: PathBuf| fs::read_link(link).is_ok_and(|to| to.starts_with(dir));
    let holds = |proc: &Path| {
        let files = fs::read_dir(proc.join("fd")).into_iter().flatten().flatten();
        is_below(proc.join("cwd")) || files.into_iter().any(|file| is_below(file.path()))
    };
    let found = processes().filter(|(_, proc)| holds(proc) && !is_of_test(proc));
    found.map(|(pid, _)| pid).collect()
}

fn is_of_test(proc: &Path) -> bool {
    let line = fs::read(proc.join("cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).skip(1);
    words.next().is_some_and(|verb| [&b"guard"[..], b"writer"].contains(&verb))
}

/// Processes that a verb in this world started, by what they inherited.
pub(crate) fn of_world(dir: &Path) -> Vec<i32> {
    let mut variable = b"INTARSIA_RUNTIME_DIR=".to_vec();
    variable.extend_from_slice(dir.join("run").as_os_str().as_bytes());
    let has_it = |proc: &Path| {
        let all = fs::read(proc.join("environ")).unwrap_or_default();
        all.split(|byte| *byte == 0).any(|one| one == variable)
    };
    let found = processes().filter(|(_, proc)| has_it(proc) && !is_of_test(proc));
    let mut pids: Vec<i32> = found.map(|(pid, _)| pid).chain(holding(dir)).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Mounts below `dir`, the last one first.
pub(crate) fn mounts(dir: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = table.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    let mut found: Vec<PathBuf> = places.filter(|place| place.starts_with(dir)).collect();
    found.reverse();
    found
}

/// Processes that have this file as their standard input, as metadata servers have their claim.
pub(crate) fn with_input(path: &Path) -> Vec<i32> {
    let Ok(wanted) = fs::metadata(path) else { return Vec::new() };
    let has_it = |proc: &Path| {
        let input = fs::metadata(proc.join("fd/0"));
        input.is_ok_and(|one| (one.dev(), one.ino()) == (wanted.dev(), wanted.ino()))
    };
    processes().filter(|(_, proc)| has_it(proc)).map(|(pid, _)| pid).collect()
}

/// The process that a claim names, if it holds the file still.
pub(crate) fn claimed_by(path: &Path) -> Option<i32> {
    let pid = crate::pid_in(path)?;
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let holds = files.filter_map(|file| fs::read_link(file.path()).ok()).any(|to| to == path);
    holds.then_some(pid)
}

/// Processes, mounts and listeners of a world, in words.
pub(crate) fn in_words(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for pid in of_world(dir) {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // One that has just ended has none.
        if !line.is_empty() {
            found.push(format!("process {pid}: {}", line.trim_end()));
            found.extend(listens(pid).then(|| format!("process {pid} listens on a port")));
        }
    }
    let is_ours = |mount: &PathBuf| {
        let name = mount.file_name().and_then(OsStr::to_str);
        !name.is_some_and(|name| name.starts_with("tier-"))
    };
    // A small tier is a mount that the test made.
    let mounts = mounts(dir).into_iter().filter(is_ours);
    found.extend(mounts.map(|mount| format!("the mount {}", mount.display())));
    found
}

/// Whether a process has a listening socket, of those of its network.
fn listens(pid: i32) -> bool {
    const LISTEN: &str = "0A";
    let table = |name: &str| fs::read_to_string(format!("/proc/{pid}/net/{name}"));
    let rows = ["tcp", "tcp6"].map(|name| table(name).unwrap_or_default()).concat();
    let sockets: Vec<String> = rows
        .lines()
        .map(|row| row.split_whitespace().collect::<Vec<_>>())
        .filter(|row| row.get(3) == Some(&LISTEN))
        .filter_map(|row| Some(format!("socket:[{}]", row.get(9)?)))
        .collect();
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
    links.any(|link| sockets.iter().any(|socket| link.as_os_str() == OsStr::new(socket)))
}
