//! Processes of this host, named so that a reused number is not mistaken for the one we meant.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

/// A process by number, start time and boot: together they never name two processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The process number.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`, in clock ticks since boot.
    pub start_ticks: u64,
    /// `/proc/sys/kernel/random/boot_id`; a record on a disk outlives a boot.
    pub boot_id: String,
}

impl Process {
    /// The running process with this number; `None` when there is none.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn of(pid: u32) -> std::io::Result<Option<Self>> {
        let Some(stat) = stat_of(pid)?.filter(|stat| stat.state != 'Z') else { return Ok(None) };
        Ok(Some(Self { pid, start_ticks: stat.start_ticks, boot_id: boot_id()? }))
    }

    /// This process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn current() -> std::io::Result<Self> {
        Self::of(std::process::id())?.ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// Whether it still runs; a zombie does not.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.stat().is_some_and(|stat| stat.state != 'Z')
    }

    /// Whether it was killed, or ends by itself, and the kernel still closes what it has open.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        let is_killed = || {
            std::fs::read_to_string(format!("/proc/{}/status", self.pid))
                .is_ok_and(|status| has_pending(&status, Signal::KILL))
        };
        self.stat().is_some_and(|stat| stat.is_exiting || is_killed())
    }

    /// Whether it has ended. One that was killed, or ends by itself, is gone in a moment: it is waited for.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        /// What the kernel may need to close what a process has open that was killed.
        const KILLED: Duration = Duration::from_secs(10);
        /// Between its last instruction and the moment from which the kernel says that it ends.
        const LOOKED: Duration = Duration::from_millis(100);
        self.wait_until_gone(if self.is_ending() { KILLED } else { LOOKED })
    }

    /// What `/proc` says of it, as long as it is there and no other process with its number.
    fn stat(&self) -> Option<Stat> {
        boot_id().ok().filter(|id| *id == self.boot_id)?;
        stat_of(self.pid).ok()?.filter(|stat| stat.start_ticks == self.start_ticks)
    }

    /// A descriptor that becomes readable when the process ends; `None` when it has ended.
    ///
    /// Once it is open the number cannot pass to another process unnoticed, so the check comes after.
    #[must_use]
    pub fn descriptor(&self) -> Option<OwnedFd> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw)?;
        let descriptor = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        self.stat().is_some_and(|stat| !stat.is_over()).then_some(descriptor)
    }

    /// Sends a signal, if it still runs: never to another process that took over its number.
    pub fn signal(&self, signal: Signal) {
        if let Some(descriptor) = self.descriptor() {
            let _ = rustix::process::pidfd_send_signal(descriptor, signal);
        }
    }

    /// Waits until it has ended; false when it still runs after `timeout`.
    #[must_use]
    pub fn wait_until_gone(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        loop {
            let Some(descriptor) = self.descriptor() else { return true };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            wait_readable(&mut [PollFd::new(&descriptor, PollFlags::IN)], left);
        }
    }

    /// Asks it to end and, when it has not after `patience`, ends it. Returns whether it is gone.
    #[must_use]
    pub fn end(&self, patience: Duration) -> bool {
        /// What the kernel may need to end a process that is in a system call.
        const KILL: Duration = Duration::from_secs(5);
        self.signal(Signal::TERM);
        if self.wait_until_gone(patience) {
            return true;
        }
        self.signal(Signal::KILL);
        self.wait_until_gone(KILL)
    }
}

/// Waits until one of the descriptors is ready, no longer than `timeout`; a signal may end it early.
pub fn wait_readable(descriptors: &mut [PollFd<'_>], timeout: Duration) {
    let timeout = Timespec::try_from(timeout).ok();
    // An error is a signal (waiting goes on at the caller) or a bad descriptor (it shows in use).
    let _ = rustix::event::poll(descriptors, timeout.as_ref());
}

/// Of the flags in `/proc/PID/stat` (`include/linux/sched.h`).
const PF_EXITING: u32 = 4;

struct Stat {
    state: char,
    threads: u64,
    start_ticks: u64,
    is_exiting: bool,
}

impl Stat {
    /// Whether all of it has ended and only its parent has not heard of that. Its first thread may end before the others,
    /// which have its files open and hold its locks until they end too.
    const fn is_over(&self) -> bool {
        self.state == 'Z' && self.threads <= 1
    }
}

/// What `/proc/PID/stat` says; `None` when there is no such process.
fn stat_of(pid: u32) -> std::io::Result<Option<Stat>> {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => Ok(parse_stat(&text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        // ESRCH: it ended between open and read.
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(None),
        Err(e) => Err(e),
    }
}

/// The command name stands in brackets and may hold anything, so counting starts after the last one.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let flags: u32 = fields.nth(5)?.parse().ok()?;
    let threads = fields.nth(10)?.parse().ok()?;
    let start_ticks = fields.nth(1)?.parse().ok()?;
    Some(Stat { state, threads, start_ticks, is_exiting: flags & PF_EXITING != 0 })
}

/// Whether a signal waits for a process, as its `/proc/PID/status` says.
fn has_pending(status: &str, signal: Signal) -> bool {
    let masks = status.lines().filter_map(|line| {
        let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    masks.fold(0, |all, mask| all | mask) >> (signal.as_raw() - 1) & 1 == 1
}

fn boot_id() -> std::io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_itself_and_not_a_reused_number() {
        let me = Process::current().unwrap();
        assert!(me.is_running() && me.descriptor().is_some());
        let other = Process { start_ticks: me.start_ticks + 1, ..me.clone() };
        assert!(!other.is_running() && other.descriptor().is_none());
        let before_boot = Process { boot_id: "another".into(), ..me };
        assert!(!before_boot.is_running());
        // It would end this test.
        other.signal(Signal::KILL);
        before_boot.signal(Signal::KILL);
    }

    #[test]
    fn a_process_that_ended_is_gone_even_before_it_is_reaped() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::of(child.id()).unwrap().unwrap();
        assert!(!process.wait_until_gone(Duration::from_millis(20)));
        assert!(process.end(Duration::from_secs(10)));
        assert_eq!(Process::of(child.id()).unwrap(), None);
        child.wait().unwrap();
        assert!(!process.is_running());
    }

    #[test]
    fn one_that_was_killed_is_told_from_one_that_goes_on() {
        let me = Process::current().unwrap();
        assert!(!me.is_ending());
        let status = |own, all| format!("Threads:\t3\nSigPnd:\t{own:016x}\nShdPnd:\t{all:016x}\n");
        let is_killed = |own, all| has_pending(&status(own, all), Signal::KILL);
        assert!(is_killed(0x100, 0) && is_killed(0, 0x4100));
        assert!(!is_killed(0, 0) && !is_killed(0x80, 0x200));
        let stat = |flags| format!("7 (a) b) S 1 7 7 0 -1 {flags} 1 2 3 4 5 6 7 8 20 0 1 0 4711 0");
        let parsed = |flags| parse_stat(&stat(flags)).unwrap();
        assert_eq!((parsed(0x40_0004).is_exiting, parsed(0x40_0100).is_exiting), (true, false));
        assert_eq!(parsed(0).start_ticks, 4711);
    }

    #[test]
    fn one_whose_first_thread_has_ended_runs_until_the_last_has() {
        let stat =
            |threads| format!("7 (node) Z 1 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 {threads} 0 4711 0");
        let is_over = |threads| parse_stat(&stat(threads)).unwrap().is_over();
        assert!(is_over(1) && !is_over(2));
    }

    #[test]
    fn one_that_was_killed_is_waited_for_and_one_that_goes_on_is_not() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::of(child.id()).unwrap().unwrap();
        assert!(!process.has_ended());
        child.kill().unwrap();
        assert!(process.has_ended());
        child.wait().unwrap();
    }

    #[test]
    fn one_that_does_not_listen_is_ended() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "trap '' TERM; echo; while :; do sleep 60; done"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        let process = Process::of(child.id()).unwrap().unwrap();
        assert!(process.end(Duration::from_millis(50)));
        child.wait().unwrap();
    }

    #[test]
    fn a_command_name_with_brackets_does_not_confuse() {
        let text = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.state, stat.start_ticks), ('S', 777));
        assert!(parse_stat("").is_none());
    }
}
