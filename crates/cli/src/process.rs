//! Processes of this host and what they may do.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::Duration;

pub(crate) use intarsia_cluster::process::Process;
use rustix::process::{Pid, PidfdFlags};

use crate::exit::Exit;

/// Holds a child, so that a signal never meets another process that was given its number.
pub(crate) fn hold(child: &Child) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(child.id()).ok()?)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// The exit code of a child as a shell gives it.
pub(crate) fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|number| 128 + number));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::Failure as u8)
}

/// Whether we act with the rights of the superuser.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this process holds CAP_SYS_ADMIN, which mounting without a helper and passthrough need.
pub(crate) fn has_sys_admin() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|text| {
            let line = text.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
            u64::from_str_radix(line.trim(), 16).ok()
        })
        .is_some_and(|caps| caps >> CAP_SYS_ADMIN & 1 == 1)
}

/// The first executable of this name on PATH or where system tools lie.
pub(crate) fn find_program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"];
    std::env::split_paths(&path)
        .chain(usual.iter().map(std::path::PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|p| rustix::fs::access(p, rustix::fs::Access::EXEC_OK).is_ok() && Path::is_file(p))
}

/// Runs `work` on a thread of its own and waits no longer than `timeout`.
///
/// A dead or hung file system can block any system call on a path; the thread is then left behind.
/// A node does not ask its own mount so: see [`write_back`](crate::write_back).
pub(crate) fn bounded<T: Send + 'static>(
    timeout: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(work());
    });
    receiver.recv_timeout(timeout).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_bounded() {
        assert_eq!(bounded(Duration::from_secs(5), || 7), Some(7));
        let (_hold, never) = std::sync::mpsc::channel::<()>();
        assert_eq!(bounded(Duration::from_millis(10), move || never.recv().is_ok()), None);
    }
}
