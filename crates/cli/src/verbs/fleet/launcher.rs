//! `launcher`: the process that stays behind `up` within a job and holds its store's life.
//!
//! It holds the standard inputs of all agents open. When it ends, whatever the reason, these close, and each
//! host takes its part of the store down.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use intarsia_cluster::launch::Launch;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Outcomes;
use super::conversation::Conversation;
use crate::exit::{Exit, Failure, Outcome};
use crate::launch::Ready;
use crate::registry::Registry;
use crate::verbs::agent::UpStep;
use crate::{output, process};

/// How long hosts may take to end their parts.
const LEAVE: Duration = Duration::from_secs(60);
/// How long a host may take to confirm that its node stays.
const STAY: Duration = Duration::from_secs(20);
/// A wait without a bound is divided into these.
const STEP: Duration = Duration::from_secs(3600);

/// What the launcher is told: the agents to start, and how long they may take to report.
type Mission = (Launch, Duration);
/// What it answers once all have reported: what is ready, or why it is not.
type Answers = Outcomes<Ready>;

/// Starts a launcher for these agents and returns what they report. The launcher stays, unless one failed.
pub(super) fn start(launch: &Launch, limit: Duration) -> Outcome<Outcomes<Ready>> {
    let failed = |e: &std::io::Error| Failure::io("start the launcher", e);
    let log = log_path()?;
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&log);
    let program = std::env::current_exe().map_err(|e| failed(&e))?;
    let mut child = Command::new(program)
        .arg("launcher")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(file.map_err(|e| Failure::io(log.display(), &e))?)
        .spawn()
        .map_err(|e| failed(&e))?;
    let mission =
        serde_json::to_vec(&(launch, limit)).map_err(|e| Failure::general(e.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&mission).map_err(|e| failed(&e))?;
    }
    let stdout = child.stdout.take().ok_or_else(|| Failure::general("no pipe to the launcher"))?;
    let line = process::bounded(limit + LEAVE, move || {
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).map(|_| line)
    });
    let line = line.and_then(Result::ok).unwrap_or_default();
    let answers: Answers = serde_json::from_str(&line).map_err(|e| {
        Failure::general(format!("the launcher said nothing ({e})"))
            .with_help(format!("its log is {}", log.display()))
    })?;
    Ok(answers)
}

/// Where the launcher of this process logs.
fn log_path() -> Outcome<PathBuf> {
    let dir = Registry::of_user()?.dir().to_owned();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.map_err(|e| Failure::io(dir.display(), &e))?;
    Ok(dir.join(format!("launcher-{}.log", std::process::id())))
}

pub(crate) fn run() -> Outcome<Exit> {
    let (launch, limit): Mission = serde_json::from_reader(std::io::stdin().lock())
        .map_err(|e| Failure::usage(format!("a launcher takes orders from 'up' only: {e}")))?;
    // It stays when the shell of `up` goes.
    let _ = rustix::process::setsid();
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|e| Failure::io("signals", &e))?;
    let mut agents = Conversation::begin(&launch);
    let closer = agents.closer();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            closer.close();
        }
    });
    let hosts = agents.hosts().to_vec();
    let mut answers: Answers = agents.hear(&hosts, limit, |_, _| {});
    let is_up = answers.values().all(Result::is_ok);
    if is_up {
        hosts.iter().for_each(|host| agents.tell(host, &UpStep::Stay));
        for (host, stays) in agents.hear::<()>(&hosts, STAY, |_, _| {}) {
            if let Err(failure) = stays {
                answers.insert(host, Err(failure));
            }
        }
    }
    let is_up = answers.values().all(Result::is_ok);
    if !is_up {
        agents.end(LEAVE);
    }
    let line = serde_json::to_string(&answers).map_err(|e| Failure::general(e.to_string()))?;
    output::data(&line)?;
    if is_up {
        let_go();
        while !agents.wait_for_end(STEP) {}
    }
    Ok(Exit::Ok)
}

/// Lets `up` come back.
fn let_go() {
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}
