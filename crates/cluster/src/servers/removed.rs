//! Servers whose directory somebody has removed while they ran: their claim to it went with it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::LOCK;
use crate::process::Process;

/// What the kernel appends to the path of an open file that has no name any more.
const DELETED: &[u8] = b" (deleted)";

/// The servers that were started in directories below `parent` and whose directories are gone. A server has the claim to
/// its directory as its standard input, so nobody else's process is meant.
pub(super) fn running(parent: &Path) -> Vec<(PathBuf, Process)> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let of = |pid: u32| {
        let input = std::fs::read_link(format!("/proc/{pid}/fd/0")).ok()?;
        let dir = directory_of(&input).filter(|dir| dir.parent() == Some(parent))?.to_owned();
        Some((dir, Process::of(pid).ok()??))
    };
    pids.filter_map(of).collect()
}

/// The directory that a removed claim was in.
fn directory_of(input: &Path) -> Option<&Path> {
    let path = input.as_os_str().as_bytes().strip_suffix(DELETED)?;
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    (path.file_name()? == LOCK).then(|| path.parent()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_removed_claim_names_a_directory() {
        let of = |path: &str| directory_of(Path::new(path)).map(Path::to_owned);
        assert_eq!(of("/s/n1/servers/0/server.lock (deleted)"), Some("/s/n1/servers/0".into()));
        assert_eq!(of("/s/n1/servers/0/server.lock"), None);
        assert_eq!(of("/s/n1/servers/0/other (deleted)"), None);
    }
}
