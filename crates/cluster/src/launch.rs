//! A command on all hosts: by `srun` within a Slurm job, by `ssh`, or by a command of one's own.
//!
//! Each host has a process of the launcher here, whose output comes line by line with the host's name,
//! and whose standard input tells the other side that the launcher lives (see [`watchdog`](crate::watchdog)).

mod launcher;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use intarsia_types::{Error, NodeId, Result};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

pub use launcher::Launcher;

use crate::process::Process;
use crate::watchdog::HEARTBEAT;

/// How long a launcher's own process may take to end after it was asked to.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// What runs on one host.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The host.
    pub host: NodeId,
    /// The program and its arguments. No secrets: they show in the process lists of all hosts.
    pub command: Vec<String>,
    /// What it finds in its standard input; then that stays open, and a line end comes now and then.
    pub input: String,
}

impl fmt::Debug for Task {
    /// The input may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({}: {:?})", self.host, self.command)
    }
}

/// Commands for some hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// How they come there.
    pub launcher: Launcher,
    /// One for each host.
    pub tasks: Vec<Task>,
}

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Something that happened on a host.
#[derive(Clone, Debug)]
pub enum Event {
    /// It wrote a line.
    Line {
        /// The host.
        host: NodeId,
        /// Where it was written.
        stream: Stream,
        /// The line without its end.
        text: String,
    },
    /// The command ended there.
    Ended {
        /// The host.
        host: NodeId,
        /// How; the message of a failure names the host.
        result: std::result::Result<(), String>,
    },
}

/// Commands that run on some hosts. When this is dropped, their inputs close and they are to end.
#[derive(Debug)]
pub struct Session {
    events: Receiver<Event>,
    running: usize,
    /// The launcher's processes, each the leader of a group of its own.
    processes: Vec<Process>,
    closer: Closer,
    heart: Option<JoinHandle<()>>,
}

/// Closes the inputs of a session's hosts, from any thread.
#[derive(Clone, Debug)]
pub struct Closer(Sender<Beat>);

impl Closer {
    /// Closes the inputs; the session goes on until all hosts have ended.
    pub fn close(&self) {
        // Closed already when nobody listens.
        let _ = self.0.send(Beat::End);
    }
}

/// What the one who sends signs of life is told.
#[derive(Debug)]
enum Beat {
    Begin(NodeId, ChildStdin),
    /// A line for a host.
    Say(NodeId, String),
    End,
}

/// The last lines that a process wrote to its standard error.
type Said = VecDeque<String>;

impl Launch {
    /// Starts everything, and keeps the standard inputs open.
    #[must_use]
    pub fn start(&self) -> Session {
        let (sender, events) = mpsc::channel();
        let (beats, orders) = mpsc::channel();
        let start = |task| self.start_task(task, &sender, &beats);
        let processes = self.tasks.iter().filter_map(start).collect();
        let heart = std::thread::Builder::new().name("launch-heartbeat".into());
        let heart = heart.spawn(move || heartbeat(&orders)).ok();
        Session { events, running: self.tasks.len(), processes, closer: Closer(beats), heart }
    }

    /// Runs everything, no more than `parallel` at once, and returns the failures by host. On a host
    /// where it takes longer than `timeout` it is given up.
    pub fn run(
        &self,
        parallel: usize,
        timeout: Duration,
        mut on_event: impl FnMut(&Event),
    ) -> Vec<(NodeId, String)> {
        let waiting = Mutex::new(self.tasks.iter().collect::<VecDeque<_>>());
        let (sender, events) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..parallel.clamp(1, self.tasks.len().max(1)) {
                let (sender, waiting) = (sender.clone(), &waiting);
                scope.spawn(move || {
                    let next =
                        || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    while let Some(task) = next() {
                        self.run_task(task, timeout, &sender);
                    }
                });
            }
            drop(sender);
            let mut failures = Vec::new();
            for event in events {
                on_event(&event);
                if let Event::Ended { host, result: Err(message) } = event {
                    failures.push((host, message));
                }
            }
            failures
        })
    }

    fn run_task(&self, task: &Task, timeout: Duration, sender: &Sender<Event>) {
        let one = Self { launcher: self.launcher.clone(), tasks: vec![task.clone()] };
        let mut session = one.start();
        let deadline = Instant::now() + timeout;
        while let Some(event) = session.next(deadline.saturating_duration_since(Instant::now())) {
            let _ = sender.send(event);
        }
        if session.running > 0 {
            session.end_within(Duration::ZERO);
            let host = task.host.clone();
            let result = Err(format!("host {host}: no answer within {timeout:?}, given up"));
            let _ = sender.send(Event::Ended { host, result });
        }
    }

    fn start_task(
        &self,
        task: &Task,
        sender: &Sender<Event>,
        beats: &Sender<Beat>,
    ) -> Option<Process> {
        let host = task.host.clone();
        let mut child = match self.spawn(task) {
            Ok(child) => child,
            Err(error) => {
                let result = Err(format!("host {host}: {error}"));
                let _ = sender.send(Event::Ended { host, result });
                return None;
            }
        };
        let process = Process::of(child.id()).ok().flatten();
        if let Some(stdin) = child.stdin.take() {
            feed(task, stdin, beats.clone());
        }
        let output = child.stdout.take().map(|o| reader(o, Stream::Output, &host, sender));
        let error = child.stderr.take().map(|e| reader(e, Stream::Error, &host, sender));
        let (task, launcher) = (task.clone(), self.launcher.clone());
        let sender = sender.clone();
        std::thread::spawn(move || {
            let status = child.wait();
            output.map(JoinHandle::join);
            let said = error.and_then(|e| e.join().ok()).unwrap_or_default();
            let result = outcome(&launcher, &task, status, &said);
            let _ = sender.send(Event::Ended { host, result });
        });
        process
    }

    fn spawn(&self, task: &Task) -> Result<Child> {
        let mut command = self.launcher.command(&task.host, &task.command)?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A Ctrl-C at the terminal reaches us alone, and we end the hosts in order.
            .process_group(0)
            .spawn()
            .map_err(|e| Error::io(format!("start {}", command.get_program().display()), e))
    }
}

fn outcome(
    launcher: &Launcher,
    task: &Task,
    status: std::io::Result<ExitStatus>,
    said: &Said,
) -> std::result::Result<(), String> {
    let host = &task.host;
    let status = status.map_err(|e| format!("host {host}: {e}"))?;
    if status.success() {
        return Ok(());
    }
    let program = task.command.first().map_or("", String::as_str);
    let all = said.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
    // Our own program says what went wrong before it says what helps.
    let error = said.iter().rev().find_map(|line| line.strip_prefix("error: "));
    let last = error.or_else(|| said.back().map(String::as_str));
    let what = last.map_or_else(|| status.to_string(), str::to_owned);
    let fix = launcher.fix(host, program, status.code(), &all);
    Err(match fix {
        Some(fix) => format!("host {host}: {what}; {fix}"),
        None => format!("host {host}: {what}"),
    })
}

/// Gives a process its input, and then into the hands of the one who sends signs of life.
fn feed(task: &Task, mut stdin: ChildStdin, beats: Sender<Beat>) {
    let (host, input) = (task.host.clone(), task.input.clone());
    std::thread::spawn(move || {
        // A process that reads nothing has its reasons, and says them.
        let _ = stdin.write_all(input.as_bytes());
        let _ = beats.send(Beat::Begin(host, stdin));
    });
}

/// Passes lines on as they come, and returns the last ones.
fn reader(
    from: impl Read + Send + 'static,
    stream: Stream,
    host: &NodeId,
    sender: &Sender<Event>,
) -> JoinHandle<Said> {
    /// A line is cut here, so that one without an end fills no memory.
    const LONGEST_BYTES: u64 = 1 << 20;
    const LINES_KEPT: usize = 5;
    let (host, sender) = (host.clone(), sender.clone());
    std::thread::spawn(move || {
        let mut said = Said::new();
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.by_ref().take(LONGEST_BYTES).read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            if !text.trim().is_empty() {
                said.push_back(text.clone());
            }
            if said.len() > LINES_KEPT {
                said.pop_front();
            }
            let _ = sender.send(Event::Line { host: host.clone(), stream, text });
            line.clear();
        }
        said
    })
}

/// Sends a byte to each host now and then, and lines when told to, until told to stop; then the inputs close.
fn heartbeat(orders: &Receiver<Beat>) {
    let mut inputs: HashMap<NodeId, ChildStdin> = HashMap::new();
    // Lines for hosts that are still being given their first input.
    let mut early: HashMap<NodeId, String> = HashMap::new();
    let mut next = Instant::now() + HEARTBEAT;
    loop {
        match orders.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(Beat::Begin(host, mut input)) => {
                if let Some(lines) = early.remove(&host) {
                    let _ = input.write_all(lines.as_bytes());
                }
                inputs.insert(host, input);
            }
            // One that ended has no use for it, and its end is told otherwise.
            Ok(Beat::Say(host, line)) => match inputs.get_mut(&host) {
                Some(input) => drop(input.write_all(line.as_bytes())),
                None => early.entry(host).or_default().push_str(&line),
            },
            Err(RecvTimeoutError::Timeout) => {
                for input in inputs.values() {
                    // One that does not read must not keep the others from their signs of life.
                    let _ = rustix::io::ioctl_fionbio(input, true);
                    let _ = rustix::io::write(input, b"\n");
                    let _ = rustix::io::ioctl_fionbio(input, false);
                }
                next = Instant::now() + HEARTBEAT;
            }
            Ok(Beat::End) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Session {
    /// The next event, waited for no longer than `timeout`; `None` then, and when all have ended.
    pub fn next(&mut self, timeout: Duration) -> Option<Event> {
        if self.running == 0 {
            return None;
        }
        let event = self.events.recv_timeout(timeout).ok()?;
        if matches!(event, Event::Ended { .. }) {
            self.running -= 1;
        }
        Some(event)
    }

    /// How many hosts have not ended.
    #[must_use]
    pub const fn running(&self) -> usize {
        self.running
    }

    /// Writes a line to the standard input of a host.
    pub fn say(&self, host: &NodeId, line: &str) {
        let _ = self.closer.0.send(Beat::Say(host.clone(), format!("{line}\n")));
    }

    /// What closes the inputs, so that the hosts end.
    #[must_use]
    pub fn closer(&self) -> Closer {
        self.closer.clone()
    }

    /// Closes the inputs, so that all hosts end, and ends the launcher's processes that stay longer
    /// than a few seconds.
    pub fn end(&mut self) {
        self.end_within(END_PATIENCE);
    }

    fn end_within(&mut self, patience: Duration) {
        self.closer.close();
        if let Some(heart) = self.heart.take() {
            let _ = heart.join();
        }
        let deadline = Instant::now() + patience;
        for process in &self.processes {
            let left = deadline.saturating_duration_since(Instant::now());
            if !process.wait_until_gone(left) {
                end_group(process);
            }
        }
        self.running = 0;
    }
}

/// Ends a launcher's process and what it started here.
fn end_group(leader: &Process) {
    let group = i32::try_from(leader.pid).ok().and_then(Pid::from_raw);
    for signal in [Signal::TERM, Signal::KILL] {
        // While the leader runs its number is its group's and nobody else's.
        if let Some(group) = group.filter(|_| leader.is_running()) {
            let _ = rustix::process::kill_process_group(group, signal);
        }
        if leader.wait_until_gone(END_PATIENCE) {
            return;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(hosts: &[&str], words: &[&str], script: &str) -> Launch {
        let task = |host: &&str| Task {
            host: NodeId((*host).into()),
            command: vec!["sh".into(), "-c".into(), script.into()],
            input: "hello\n".into(),
        };
        Launch {
            launcher: Launcher::Words(words.iter().map(|w| (*w).to_owned()).collect()),
            tasks: hosts.iter().map(task).collect(),
        }
    }

    #[test]
    fn lines_and_failures_name_their_host() {
        let launch = launch(
            &["a", "b", "c"],
            &["env", "HOST={host}"],
            "echo at $HOST; [ $HOST != b ] || exit 3",
        );
        let mut lines = Vec::new();
        let failures = launch.run(2, Duration::from_secs(20), |event| {
            if let Event::Line { host, text, .. } = event {
                lines.push(format!("{host}: {text}"));
            }
        });
        lines.sort();
        assert_eq!(lines, ["a: at a", "b: at b", "c: at c"]);
        assert_eq!(failures.len(), 1);
        let (host, message) = failures.first().unwrap();
        assert!(host.0 == "b" && message.contains("host b") && message.contains('3'), "{message}");
    }

    #[test]
    fn a_host_that_takes_too_long_is_given_up_and_named() {
        let launch = launch(&["slow"], &[], "sleep 60");
        let started = Instant::now();
        let failures = launch.run(1, Duration::from_millis(200), |_| {});
        assert!(failures.first().unwrap().1.contains("host slow"), "{failures:?}");
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_launcher_that_is_not_there_is_named_for_each_host() {
        let launch = launch(&["a", "b"], &["/no/such/launcher"], "");
        let failures = launch.run(8, Duration::from_secs(5), |_| {});
        assert_eq!(failures.len(), 2);
        assert!(failures.iter().all(|(h, m)| m.contains(&h.0) && m.contains("/no/such/launcher")));
    }

    #[test]
    fn hosts_are_told_lines_one_by_one() {
        let launch = launch(&["a", "b"], &[], "read first; echo $first; read second; echo $second");
        let mut session = launch.start();
        session.say(&NodeId("b".into()), "good day");
        let mut heard = Vec::new();
        while heard.len() < 3 {
            match session.next(Duration::from_secs(20)) {
                Some(Event::Line { host, text, .. }) => heard.push(format!("{host}: {text}")),
                Some(Event::Ended { .. }) => {}
                None => panic!("{heard:?}"),
            }
        }
        heard.sort();
        assert_eq!(heard, ["a: hello", "b: good day", "b: hello"]);
    }

    #[test]
    fn a_session_ends_its_hosts_by_closing_their_inputs() {
        let launch = launch(&["a"], &[], "echo up; cat >/dev/null; echo bye");
        let mut session = launch.start();
        assert!(
            matches!(session.next(Duration::from_secs(20)), Some(Event::Line { text, .. }) if text == "up")
        );
        let started = Instant::now();
        session.end();
        assert!(started.elapsed() < END_PATIENCE, "it was not killed");
        assert_eq!(session.running(), 0);
    }
}
