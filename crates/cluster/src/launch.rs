//! A command on all hosts: by `srun` within a Slurm job, by `ssh`, or by a command of one's own.
//!
//! Each host has a process of the launcher here, whose output comes line by line with the host's name,
//! and whose standard input tells the other side that the launcher lives (see [`watchdog`](crate::watchdog)).

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use intarsia_types::{Error, NodeId, Result};
use rustix::process::{Pid, Signal};

use crate::process::Process;
use crate::watchdog::HEARTBEAT;

/// How long a launcher's own process may take to end after it was asked to.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// By what a command comes to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// A step of the Slurm job that we are in, beside whatever else runs in it.
    Srun,
    /// `ssh` without questions: keys or host-based authentication must be set up.
    Ssh {
        /// More options, such as `-p 2222`.
        options: Vec<String>,
    },
    /// Any other: words in which `{host}` stands for the host; the command's words follow.
    Words(Vec<String>),
}

/// A command for some hosts.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The hosts.
    pub hosts: Vec<NodeId>,
    /// How it comes there.
    pub launcher: Launcher,
    /// The program and its arguments. No secrets: they show in the process lists of all hosts.
    pub command: Vec<String>,
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

impl Launcher {
    /// `srun` within a Slurm job, else `ssh`. `variable` looks up the environment.
    #[must_use]
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        if variable("SLURM_JOB_ID").is_some_and(|id| !id.is_empty()) {
            Self::Srun
        } else {
            Self::Ssh { options: Vec::new() }
        }
    }

    /// The process to run here so that `command` runs on this host; standard streams are the caller's.
    ///
    /// # Errors
    /// When there is nothing to run.
    pub fn command(&self, host: &NodeId, command: &[String]) -> Result<Command> {
        let words = self.words(host, command)?;
        let mut words = words.iter();
        let mut command = Command::new(words.next().map_or("", String::as_str));
        command.args(words);
        Ok(command)
    }

    /// What is run here for this host.
    fn words(&self, host: &NodeId, command: &[String]) -> Result<Vec<String>> {
        let own = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let mut words = match self {
            Self::Srun => {
                let mut words = own(&["srun", "--overlap", "--nodes=1", "--ntasks=1"]);
                words.extend(own(&["--unbuffered", "--quiet", "--cpu-bind=none"]));
                words.push(format!("--nodelist={host}"));
                words.push("--".into());
                words
            }
            Self::Ssh { options } => {
                let mut words =
                    own(&["ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=8"]);
                words.extend(own(&["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]));
                words.extend(options.iter().cloned());
                words.extend(["--".to_owned(), host.0.clone()]);
                // The other side's shell reads it.
                words.push(command.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" "));
                return Ok(words);
            }
            Self::Words(words) => words.iter().map(|w| w.replace("{host}", &host.0)).collect(),
        };
        words.extend(command.iter().cloned());
        if words.is_empty() {
            return Err(Error::Invalid("there is no command to launch".into()));
        }
        Ok(words)
    }
}

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A command that runs on some hosts. When this is dropped, their inputs close and they are to end.
#[derive(Debug)]
pub struct Session {
    events: Receiver<Event>,
    running: usize,
    /// The launcher's processes, each the leader of a group of its own.
    processes: Vec<Process>,
    heart: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Launch {
    /// Starts the command on all hosts, and keeps their standard inputs open.
    #[must_use]
    pub fn start(&self) -> Session {
        let (sender, events) = mpsc::channel();
        let mut inputs = Vec::new();
        let mut processes = Vec::new();
        for host in &self.hosts {
            let (process, input) = self.start_on(host, &sender);
            inputs.extend(input);
            processes.extend(process);
        }
        let heart = heartbeat(inputs);
        Session { events, running: self.hosts.len(), processes, heart }
    }

    /// Runs the command on all hosts, on no more than `parallel` at once, and returns the failures by
    /// host. On a host where it takes longer than `timeout` it is given up.
    pub fn run(
        &self,
        parallel: usize,
        timeout: Duration,
        mut on_event: impl FnMut(&Event),
    ) -> Vec<(NodeId, String)> {
        let waiting = Mutex::new(self.hosts.iter().collect::<VecDeque<_>>());
        let (sender, events) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..parallel.clamp(1, self.hosts.len().max(1)) {
                let (sender, waiting) = (sender.clone(), &waiting);
                scope.spawn(move || {
                    let next =
                        || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    while let Some(host) = next() {
                        self.run_on(host, timeout, &sender);
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

    fn run_on(&self, host: &NodeId, timeout: Duration, sender: &Sender<Event>) {
        let one = Self { hosts: vec![host.clone()], ..self.clone() };
        let mut session = one.start();
        let deadline = Instant::now() + timeout;
        while let Some(event) = session.next(deadline.saturating_duration_since(Instant::now())) {
            let _ = sender.send(event);
        }
        if session.running > 0 {
            session.end();
            let result = Err(format!("host {host}: not done within {timeout:?}, given up"));
            let _ = sender.send(Event::Ended { host: host.clone(), result });
        }
    }

    fn start_on(
        &self,
        host: &NodeId,
        sender: &Sender<Event>,
    ) -> (Option<Process>, Option<ChildStdin>) {
        match self.spawn(host) {
            Ok(mut child) => {
                let input = child.stdin.take();
                let process = Process::of(child.id()).ok().flatten();
                let readers = readers(&mut child, host, sender);
                let (host, sender) = (host.clone(), sender.clone());
                std::thread::spawn(move || {
                    let status = child.wait();
                    readers.into_iter().for_each(|r| drop(r.join()));
                    let result = outcome(&host, status);
                    let _ = sender.send(Event::Ended { host, result });
                });
                (process, input)
            }
            Err(error) => {
                let result = Err(format!("host {host}: {error}"));
                let _ = sender.send(Event::Ended { host: host.clone(), result });
                (None, None)
            }
        }
    }

    fn spawn(&self, host: &NodeId) -> Result<Child> {
        let mut command = self.launcher.command(host, &self.command)?;
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

fn outcome(host: &NodeId, status: std::io::Result<ExitStatus>) -> std::result::Result<(), String> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("host {host}: {status}")),
        Err(error) => Err(format!("host {host}: {error}")),
    }
}

fn readers(child: &mut Child, host: &NodeId, sender: &Sender<Event>) -> Vec<JoinHandle<()>> {
    let output = child.stdout.take().map(|o| reader(o, Stream::Output, host, sender));
    let error = child.stderr.take().map(|e| reader(e, Stream::Error, host, sender));
    output.into_iter().chain(error).collect()
}

fn reader(
    from: impl Read + Send + 'static,
    stream: Stream,
    host: &NodeId,
    sender: &Sender<Event>,
) -> JoinHandle<()> {
    /// A line is cut here, so that one without an end fills no memory.
    const LONGEST_BYTES: u64 = 64 << 10;
    let (host, sender) = (host.clone(), sender.clone());
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.by_ref().take(LONGEST_BYTES).read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            let _ = sender.send(Event::Line { host: host.clone(), stream, text });
            line.clear();
        }
    })
}

/// Sends a byte to each host now and then, until told to stop; then the inputs close.
fn heartbeat(inputs: Vec<ChildStdin>) -> Option<(Sender<()>, JoinHandle<()>)> {
    for input in &inputs {
        // One that does not read must not keep the others from their signs of life.
        let _ = rustix::io::ioctl_fionbio(input, true);
    }
    let (stop, stopped) = mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name("launch-heartbeat".into()).spawn(move || {
        while stopped.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
            for input in &inputs {
                let _ = rustix::io::write(input, b"\n");
            }
        }
    });
    thread.ok().map(|thread| (stop, thread))
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

    /// Closes the inputs, so that all hosts end, and ends the launcher's processes that stay longer
    /// than a few seconds.
    pub fn end(&mut self) {
        if let Some((stop, thread)) = self.heart.take() {
            drop(stop);
            let _ = thread.join();
        }
        let deadline = Instant::now() + END_PATIENCE;
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
        Launch {
            hosts: hosts.iter().map(|h| NodeId((*h).into())).collect(),
            launcher: Launcher::Words(words.iter().map(|w| (*w).to_owned()).collect()),
            command: vec!["sh".into(), "-c".into(), script.into()],
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

    #[test]
    fn ssh_gets_one_quoted_word() {
        let ssh = Launcher::Ssh { options: vec!["-p".into(), "22".into()] };
        let command = ["echo".to_owned(), "it's $HOME".to_owned()];
        let words = ssh.words(&NodeId("n1".into()), &command).unwrap();
        assert!(words.windows(2).any(|w| w == ["--", "n1"]));
        assert_eq!(words.last().unwrap(), r"'echo' 'it'\''s $HOME'");
    }

    #[test]
    fn slurm_is_used_within_its_jobs_only() {
        let inside = Launcher::of_environment(|name| (name == "SLURM_JOB_ID").then(|| "7".into()));
        assert_eq!(inside, Launcher::Srun);
        assert!(matches!(Launcher::of_environment(|_| None), Launcher::Ssh { .. }));
    }
}
