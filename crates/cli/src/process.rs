//! Processes of this host, named so that a reused number is not mistaken for the one we meant.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

/// A process by number, start time and boot: together they never name two processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Field 22 of `/proc/PID/stat`, in clock ticks since boot.
    pub(crate) start_ticks: u64,
    /// `/proc/sys/kernel/random/boot_id`; a registry under /tmp may outlive a boot.
    pub(crate) boot_id: String,
}

impl Process {
    /// This process.
    pub(crate) fn current() -> std::io::Result<Self> {
        let pid = std::process::id();
        let start_ticks =
            stat_of(pid)?.map(|s| s.start_ticks).ok_or(std::io::ErrorKind::NotFound)?;
        Ok(Self { pid, start_ticks, boot_id: boot_id()? })
    }

    /// Whether it still runs; a zombie does not.
    pub(crate) fn is_running(&self) -> bool {
        let is_same_boot = boot_id().is_ok_and(|id| id == self.boot_id);
        is_same_boot
            && matches!(stat_of(self.pid), Ok(Some(s)) if s.start_ticks == self.start_ticks && s.state != 'Z')
    }

    /// Waits until it has ended; false when it still runs at the deadline.
    pub(crate) fn wait_until_gone(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        while self.is_running() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// Sends a signal, if it still runs.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| self.is_running()) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

struct Stat {
    state: char,
    start_ticks: u64,
}

/// What `/proc/PID/stat` says; `None` when there is no such process.
fn stat_of(pid: u32) -> std::io::Result<Option<Stat>> {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => Ok(parse_stat(&text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        // ESRCH: it ended between open and read.
        Err(e) if e.raw_os_error() == Some(3) => Ok(None),
        Err(e) => Err(e),
    }
}

/// The command name stands in brackets and may hold anything, so counting starts after the last one.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let start_ticks = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start_ticks })
}

fn boot_id() -> std::io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
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
    fn knows_itself_and_not_a_reused_number() {
        let me = Process::current().unwrap();
        assert!(me.is_running());
        let other = Process { start_ticks: me.start_ticks + 1, ..me.clone() };
        assert!(!other.is_running());
        let before_boot = Process { boot_id: "another".into(), ..me };
        assert!(!before_boot.is_running());
    }

    #[test]
    fn a_process_that_ended_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let start_ticks = stat_of(child.id()).unwrap().unwrap().start_ticks;
        let process = Process { pid: child.id(), start_ticks, boot_id: boot_id().unwrap() };
        assert!(process.wait_until_gone(Duration::from_secs(10)), "even before it is reaped");
        child.wait().unwrap();
        assert!(!process.is_running());
    }

    #[test]
    fn a_command_name_with_brackets_does_not_confuse() {
        let text = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.state, stat.start_ticks), ('S', 777));
        assert!(parse_stat("").is_none());
    }

    #[test]
    fn waiting_is_bounded() {
        assert_eq!(bounded(Duration::from_secs(5), || 7), Some(7));
        let (_hold, never) = std::sync::mpsc::channel::<()>();
        assert_eq!(bounded(Duration::from_millis(10), move || never.recv().is_ok()), None);
    }
}
