//! Starting a node in the background: settings through its standard input, readiness back through
//! its standard output, its log on its standard error. Nothing of it shows on a command line.
//!
//! The node's standard input stays open, as a [`Tether`], until whoever started the node says that it is to stay. A
//! node whose tether breaks before that ends by itself, so that an `up` that was killed leaves none behind.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use intarsia_types::NodeId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::assembly::Assembly;
use crate::cli::LogFormat;
use crate::config::Settings;
use crate::deployment::Bundle;
use crate::exit::{Failure, Outcome};
use crate::preflight::Conditions;
use crate::process::Process;

/// A log larger than this is set aside when the next node starts.
const LOG_ROTATE_BYTES: u64 = 16 << 20;
/// Has the allocator leave huge pages alone. Each of a node's sixty threads has a heap of its own; the kernel would fill
/// two megabytes with zeros for every one of them, which is most of what starting a node costs, and keep them.
const NO_HUGE_PAGES: (&str, &str) = ("MIMALLOC_ALLOW_THP", "0");
/// Log lines shown when a node fails to start.
const LOG_LINES_SHOWN: usize = 10;

/// What a detached node is told.
#[derive(Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) settings: Settings,
    pub(crate) conditions: Conditions,
    pub(crate) log_format: LogFormat,
    /// The deployment's files, for a host that does not have them yet.
    pub(crate) bundle: Option<Bundle>,
    /// How the hosts begin together, where an `up` over several hosts has looked at all of them.
    #[serde(default)]
    pub(crate) assembly: Option<Assembly>,
    /// Whether the data goes when the store goes down.
    pub(crate) discard: bool,
    /// Whether this host comes first: of several `up` at once, who has the claim of the first host goes on.
    #[serde(default)]
    pub(crate) comes_first: bool,
    /// The hosts that the user named.
    #[serde(default)]
    pub(crate) named: Vec<NodeId>,
}

/// What a node says of itself once programs can work in the mount, or why they never will.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Report {
    Ready(Ready),
    Failed(Failure),
}

/// A store that is up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) mount_point: PathBuf,
    pub(crate) dir: PathBuf,
    pub(crate) pid: u32,
    pub(crate) mode: Value,
    /// What was cleared or made on the way.
    pub(crate) notes: Vec<String>,
}

/// What the one who started a node holds until it says that the node is to stay. When it is dropped, the node ends.
pub(crate) struct Tether {
    stdin: ChildStdin,
    child: Child,
}

/// What a node reads when it is to stay.
pub(crate) const STAY: &str = "stay";

impl Tether {
    /// Has the node stay.
    pub(crate) fn release(mut self) -> Outcome {
        writeln!(self.stdin, "{STAY}").map_err(|e| Failure::io("the node ended at once", &e))
    }

    /// The node.
    pub(crate) fn process(&self) -> Option<Process> {
        Process::of(self.child.id()).ok().flatten()
    }

    /// Has the node end, and waits for that; one that takes longer than `patience` is killed.
    pub(crate) fn cut(self, patience: Duration) {
        let Self { stdin, mut child } = self;
        drop(stdin);
        let process = Process::of(child.id()).ok().flatten();
        if process.is_some_and(|process| !process.wait_until_gone(patience)) {
            let _ = child.kill();
        }
        let _ = child.wait();
    }
}

/// Starts a node and waits until it is ready or has failed, no longer than `settings.wait`, and no longer than somebody
/// wants it.
pub(crate) fn start(orders: &Orders, is_wanted: impl FnMut() -> bool) -> Outcome<(Ready, Tether)> {
    let dir = &orders.settings.dir;
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| {
        Failure::io(format!("the store's directory {} cannot be made", dir.display()), &e)
    })?;
    let log_path = log_path(dir);
    let log = open_log(&log_path).map_err(|e| Failure::io(log_path.display(), &e))?;
    let failed = |e: &std::io::Error| Failure::io("start the node", e);
    let mut child = spawn(log).map_err(|e| failed(&e))?;
    let mut stdin = child.stdin.take().ok_or_else(|| Failure::general("no pipe to the node"))?;
    let told = serde_json::to_string(orders).map_err(|e| Failure::general(e.to_string()))?;
    writeln!(stdin, "{told}").map_err(|e| failed(&e))?;
    match await_report(&mut child, orders.settings.wait, is_wanted) {
        Some(Report::Ready(ready)) => Ok((ready, Tether { stdin, child })),
        Some(Report::Failed(failure)) => {
            drop(stdin);
            let _ = child.wait();
            Err(failure)
        }
        None => Err(failed_silently(&mut child, &log_path, orders.settings.wait)),
    }
}

fn spawn(log: File) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["node", "--detached"])
        .env(NO_HUGE_PAGES.0, NO_HUGE_PAGES.1)
        // The node must not keep the caller's directory busy.
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        // What ends the caller by its group, as Ctrl-C does, ends the node in order, by its tether.
        .process_group(0)
        .spawn()
}

/// What the node behind `child` says of itself first; none when it says nothing in time, or nobody wants it any more.
pub(crate) fn await_report(
    child: &mut Child,
    timeout: Duration,
    mut is_wanted: impl FnMut() -> bool,
) -> Option<Report> {
    /// Between two looks whether somebody still waits.
    const STEP: Duration = Duration::from_millis(200);
    let stdout = child.stdout.take()?;
    let (sender, said) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line).map(|_| line);
        let _ = sender.send(read);
    });
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match said.recv_timeout(left.min(STEP)) {
            Ok(line) => return serde_json::from_str(&line.ok()?).ok(),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) if left.is_zero() || !is_wanted() => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

/// The node ended without a word, or is silent still; then it is ended.
fn failed_silently(child: &mut Child, log: &Path, timeout: Duration) -> Failure {
    let ended = wait_briefly(child);
    let message = match ended {
        Some(status) => format!("the node ended before it was ready ({status})"),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            format!(
                "the node was not ready within {} and was ended",
                humantime::format_duration(timeout)
            )
        }
    };
    let lines = last_lines(log, LOG_LINES_SHOWN);
    let tail = if lines.is_empty() { String::new() } else { format!(":\n{}", lines.join("\n")) };
    Failure::general(format!("{message}{tail}"))
        .with_help(format!("the whole log is {}; --wait gives it more time", log.display()))
}

/// A closed pipe comes a moment before the end of the process.
fn wait_briefly(child: &mut Child) -> Option<std::process::ExitStatus> {
    for _ in 0..50 {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Where the node of this store logs.
pub(crate) fn log_path(dir: &Path) -> PathBuf {
    dir.join("node.log")
}

/// Sends this process's messages to the log of the store in `dir`.
pub(crate) fn log_to_file(dir: &Path) -> Outcome {
    let path = log_path(dir);
    let failed = |e: &std::io::Error| Failure::io(path.display(), e);
    let log = open_log(&path).map_err(|e| failed(&e))?;
    rustix::stdio::dup2_stderr(&log).map_err(|e| failed(&e.into()))
}

fn open_log(path: &Path) -> std::io::Result<File> {
    if std::fs::metadata(path).is_ok_and(|m| m.len() > LOG_ROTATE_BYTES) {
        std::fs::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// The end of a text file, read from its last 64 KiB.
pub(crate) fn last_lines(path: &Path, count: usize) -> Vec<String> {
    use std::io::{Read, Seek, SeekFrom};
    let Ok(mut file) = File::open(path) else { return Vec::new() };
    let length = file.metadata().map_or(0, |m| m.len());
    let mut bytes = Vec::new();
    let read = file
        .seek(SeekFrom::Start(length.saturating_sub(64 << 10)))
        .and_then(|_| file.take(64 << 10).read_to_end(&mut bytes));
    if read.is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().to_vec()
}
