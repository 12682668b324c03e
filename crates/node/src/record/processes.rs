//! Who does what: processes, by the threads that the kernel names.

use std::collections::HashMap;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;

use intarsia_sync::{Mutex, system_now};
use intarsia_trace::Process;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

/// A process is looked at again after so long: it may have become another program. Shells do that just after they fork, so one
/// that has been the same program for longer is looked at after longer, a share of that time.
const LOOK_AGAIN_NS: u64 = 5_000_000;
const LOOK_AGAIN_LATEST_NS: u64 = 50_000_000;
const LOOK_AGAIN_SHARE: u64 = 4;
/// Of its command line so much is kept.
const COMMAND_BYTES: usize = 256;
/// A line of `/proc/PID/stat` is shorter: 52 numbers and a name of 64 bytes at most.
const MOST_TOLD_BYTES: usize = 1536;
/// Processes known at a time; then all are met anew.
const MOST: usize = 1 << 14;
/// Units of times in `/proc/PID/stat`, the same on every Linux.
const TICK: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(super) struct Processes {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Processes of threads.
    threads: HashMap<u32, u32>,
    processes: HashMap<u32, Seen>,
    last_number: u64,
}

struct Seen {
    number: u64,
    began_ticks: u64,
    program: Vec<u8>,
    /// Since when it is known to be this program.
    since_ns: u64,
    looked_ns: u64,
}

impl Seen {
    fn needs_look(&self, at_ns: u64) -> bool {
        let same_for_ns = self.looked_ns.saturating_sub(self.since_ns);
        let pause_ns = (same_for_ns / LOOK_AGAIN_SHARE).clamp(LOOK_AGAIN_NS, LOOK_AGAIN_LATEST_NS);
        at_ns.saturating_sub(self.looked_ns) >= pause_ns
    }
}

/// Who did something.
#[derive(Default)]
pub(super) struct Met {
    /// Number in the log; 0 is unknown.
    pub(super) number: u64,
    pub(super) pid: u32,
    /// What the log has yet to tell of it.
    pub(super) news: Option<Process>,
    /// Tells its end, when it is met for the first time.
    pub(super) end: Option<OwnedFd>,
}

impl Processes {
    /// The process of a thread that is at work in a call now. The kernel is asked without the lock, so that calls of other
    /// processes do not wait for its answer.
    pub(super) fn meet(&self, thread: u32, at_ns: u64) -> Met {
        if thread == 0 {
            // The kernel itself, or one of a namespace that is none of ours.
            return Met::default();
        }
        let known = self.known.lock().pid_of(thread);
        let (pid, end) = known.map_or_else(|| asked(thread), |pid| (pid, None));
        if let Some(number) = self.known.lock().seen_lately(thread, pid, at_ns) {
            return Met { number, pid, ..Met::default() };
        }
        let now = told(pid, "stat").and_then(|line| Stat::parse(&line));
        let is_awaited = now.as_ref().is_some_and(|now| self.known.lock().would_be_news(pid, now));
        // Before it has a number: the log is told of a process before others of its threads do anything.
        let command = if is_awaited { command_of(pid) } else { Vec::new() };
        let looked = self.known.lock().look(pid, now.as_ref(), at_ns);
        let number = looked.number;
        let Some(Stat { program, parent_pid, began_ticks }) = now.filter(|_| looked.is_news) else {
            return Met { number, pid, ..Met::default() };
        };
        let end = looked.is_new.then(|| end.or_else(|| descriptor_of(pid))).flatten();
        let began_unix_ns = unix_ns(began_ticks);
        let news = Process { number, pid, parent_pid, began_unix_ns, at_ns, program, command };
        Met { number, pid, news: Some(news), end }
    }

    /// The process has ended; its number may be another one's from now on.
    pub(super) fn ended(&self, pid: u32, number: u64) {
        let mut known = self.known.lock();
        if known.processes.get(&pid).is_some_and(|seen| seen.number == number) {
            known.processes.remove(&pid);
            known.threads.retain(|_, of| *of != pid);
        }
    }
}

/// What became of a look at a process.
struct Looked {
    number: u64,
    /// The log has yet to be told of it, or of its program.
    is_news: bool,
    /// It was not met before.
    is_new: bool,
}

impl Known {
    fn pid_of(&self, thread: u32) -> Option<u32> {
        self.threads.get(&thread).copied()
    }

    /// The number of a process that needs no look; where it needs one, none but the caller looks for a while.
    fn seen_lately(&mut self, thread: u32, pid: u32, at_ns: u64) -> Option<u64> {
        if self.threads.len() >= MOST {
            self.threads.clear();
            self.processes.clear();
        }
        self.threads.insert(thread, pid);
        let seen = self.processes.get_mut(&pid)?;
        if !seen.needs_look(at_ns) {
            return Some(seen.number);
        }
        seen.looked_ns = at_ns;
        None
    }

    /// Whether the log has yet to be told of this process or its program.
    fn would_be_news(&self, pid: u32, now: &Stat) -> bool {
        let seen = self.processes.get(&pid);
        seen.is_none_or(|seen| seen.began_ticks != now.began_ticks || seen.program != now.program)
    }

    /// Notes what the kernel tells of a process; nothing where that is gone.
    fn look(&mut self, pid: u32, now: Option<&Stat>, at_ns: u64) -> Looked {
        let Some(now) = now else {
            let number = self.processes.get(&pid).map_or(0, |seen| seen.number);
            return Looked { number, is_news: false, is_new: false };
        };
        let same = self.processes.get_mut(&pid).filter(|seen| seen.began_ticks == now.began_ticks);
        if let Some(seen) = same {
            let is_news = seen.program != now.program;
            if is_news {
                seen.program.clone_from(&now.program);
                seen.since_ns = at_ns;
            }
            return Looked { number: seen.number, is_news, is_new: false };
        }
        self.last_number += 1;
        let (number, program) = (self.last_number, now.program.clone());
        let (began_ticks, since_ns, looked_ns) = (now.began_ticks, at_ns, at_ns);
        self.processes.insert(pid, Seen { number, began_ticks, program, since_ns, looked_ns });
        Looked { number, is_news: true, is_new: true }
    }
}

/// The process of a thread, and what tells its end where that was the question. The kernel gives a descriptor of a process by
/// its first thread alone: most processes have no other one, and to ask for it costs a tenth of what reading `/proc` does.
fn asked(thread: u32) -> (u32, Option<OwnedFd>) {
    match descriptor_of(thread) {
        Some(end) => (thread, Some(end)),
        None => (process_of(thread).unwrap_or(thread), None),
    }
}

/// A descriptor of a process, by its first thread.
fn descriptor_of(thread: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(thread).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// What the kernel tells of a process, as far as one read gives it: its program waits meanwhile.
fn told(pid: u32, what: &str) -> Option<Vec<u8>> {
    let mut text = vec![0; MOST_TOLD_BYTES];
    let read = std::fs::File::open(format!("/proc/{pid}/{what}")).ok()?.read(&mut text).ok()?;
    text.truncate(read);
    Some(text)
}

/// The process that a thread is of.
fn process_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

fn command_of(pid: u32) -> Vec<u8> {
    let mut command = told(pid, "cmdline").unwrap_or_default();
    command.truncate(COMMAND_BYTES);
    command
}

/// A moment that the kernel tells in ticks since it began, in nanoseconds since 1970.
fn unix_ns(ticks: u64) -> u64 {
    let up = clock_gettime(ClockId::Boottime);
    let up = Duration::new(
        u64::try_from(up.tv_sec).unwrap_or_default(),
        u32::try_from(up.tv_nsec).unwrap_or_default(),
    );
    let began = TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX));
    let now = system_now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let at = now.saturating_sub(up.saturating_sub(began));
    u64::try_from(at.as_nanos()).unwrap_or_default()
}

/// The part of `/proc/PID/stat` that is used here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    program: Vec<u8>,
    parent_pid: u32,
    began_ticks: u64,
}

impl Stat {
    fn parse(line: &[u8]) -> Option<Self> {
        // A program's name may hold anything, brackets too.
        let open = line.iter().position(|byte| *byte == b'(')?;
        let close = line.iter().rposition(|byte| *byte == b')').filter(|close| *close > open)?;
        let rest = std::str::from_utf8(&line[close + 1..]).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let parent_pid = fields.nth(1)?.parse().ok()?;
        let began_ticks = fields.nth(17)?.parse().ok()?;
        Some(Self { program: line[open + 1..close].to_vec(), parent_pid, began_ticks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_once_by_any_of_its_threads() {
        let processes = Processes::default();
        let own = std::process::id();
        let met = processes.meet(own, 1);
        let news = met.news.unwrap();
        assert_eq!((met.number, met.pid, news.pid), (1, own, own));
        assert!(met.end.is_some());
        let now = unix_ns(u64::from(u32::MAX)).max(1);
        assert!(news.began_unix_ns > 0 && now > 0);
        let thread = std::thread::spawn(move || {
            let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            (thread, process_of(thread))
        });
        let (thread, process) = thread.join().unwrap();
        assert_ne!(thread, own);
        assert_eq!(process, Some(own));
        let again = processes.meet(own, LOOK_AGAIN_NS * 3);
        assert_eq!((again.number, again.news.is_some(), again.end.is_some()), (1, false, false));
    }

    #[test]
    fn a_process_is_looked_at_less_often_the_longer_it_is_the_same_program() {
        let ms = 1_000_000;
        let after = |since_ns, looked_ns| {
            let seen = Seen { number: 1, began_ticks: 1, program: Vec::new(), since_ns, looked_ns };
            (1..100).find(|pause_ms| seen.needs_look(looked_ns + pause_ms * ms)).unwrap()
        };
        assert_eq!(after(0, 0), 5);
        assert_eq!(after(0, 20 * ms), 5);
        assert_eq!(after(0, 100 * ms), 25);
        assert_eq!(after(0, 60_000 * ms), 50);
        assert_eq!(after(60_000 * ms, 60_000 * ms), 5);
    }

    #[test]
    fn the_kernel_and_processes_that_are_gone_are_nobody() {
        let processes = Processes::default();
        assert_eq!(processes.meet(0, 1).number, 0);
        assert_eq!(processes.meet(u32::MAX, 1).number, 0);
    }

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_program_is_called() {
        let fields = "S 42 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 9 9";
        let line = format!("17 (a) b (c) {fields}");
        let stat = Stat::parse(line.as_bytes()).unwrap();
        let expected = Stat { program: b"a) b (c".to_vec(), parent_pid: 42, began_ticks: 777 };
        assert_eq!(stat, expected);
        for bad in ["", "17 a S 1", ")(", "1 (x) S", "1 (x) S y 1"] {
            assert_eq!(Stat::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
