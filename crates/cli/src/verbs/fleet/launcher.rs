//! `launcher`: the process that stays behind `up` within a job and holds its store's life.
//!
//! It holds the standard inputs of all agents open. When it ends, whatever the reason, these close, and each
//! host takes its part of the store down.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use intarsia_cluster::launch::{Event, Launch, Session, Stream};
use intarsia_types::NodeId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Outcomes;
use crate::exit::{Exit, Failure, Outcome};
use crate::launch::Report;
use crate::registry::Registry;
use crate::{output, process};

/// How long hosts may take to end their parts.
const LEAVE: Duration = Duration::from_secs(60);
/// A wait without a bound is divided into these.
const STEP: Duration = Duration::from_secs(3600);

/// What the launcher is told: the agents to start, and how long they may take to report.
type Mission = (Launch, Duration);
/// What it answers once all have reported: reports, or why there is none.
type Answers = BTreeMap<NodeId, Result<Report, Failure>>;

/// Starts a launcher for these agents and returns what they report. The launcher stays, unless one failed.
pub(super) fn start(launch: &Launch, limit: Duration) -> Outcome<Outcomes<Report>> {
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
    let mut session = launch.start();
    let closer = session.closer();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            closer.close();
        }
    });
    let answers = reports(&mut session, &launch, limit);
    let is_up = answers.values().all(|a| matches!(a, Ok(Report::Ready(_))));
    if !is_up {
        session.closer().close();
        wait_for_end(&mut session, LEAVE);
    }
    let line = serde_json::to_string(&answers).map_err(|e| Failure::general(e.to_string()))?;
    output::data(&line)?;
    if is_up {
        let_go();
        while session.running() > 0 {
            wait_for_end(&mut session, STEP);
        }
    }
    Ok(Exit::Ok)
}

/// The first line of each host, or why there is none.
fn reports(session: &mut Session, launch: &Launch, limit: Duration) -> Answers {
    let deadline = Instant::now() + limit;
    let mut answers = Answers::new();
    while answers.len() < launch.tasks.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        let Some(event) = session.next(left) else { break };
        match event {
            Event::Line { host, stream: Stream::Output, text } => {
                let read = serde_json::from_str(&text);
                let report =
                    read.map_err(|e| Failure::general(format!("host {host}: {text} ({e})")));
                answers.entry(host).or_insert(report);
            }
            Event::Line { host, text, .. } => output::message(&format!("{host}: {text}")),
            Event::Ended { host, result } => {
                let why = result.err().unwrap_or_else(|| format!("host {host}: it said nothing"));
                answers.entry(host).or_insert(Err(Failure::general(why)));
            }
        }
    }
    for task in &launch.tasks {
        let host = &task.host;
        let silent = || Err(Failure::general(format!("host {host}: no answer within {limit:?}")));
        answers.entry(host.clone()).or_insert_with(silent);
    }
    answers
}

/// Passes on to the log what hosts say, until all have ended or the time is up.
fn wait_for_end(session: &mut Session, limit: Duration) {
    let deadline = Instant::now() + limit;
    while let Some(event) = session.next(deadline.saturating_duration_since(Instant::now())) {
        match event {
            Event::Line { host, text, .. } => output::message(&format!("{host}: {text}")),
            Event::Ended { result: Err(why), .. } => output::message(&why),
            Event::Ended { .. } => {}
        }
    }
}

/// Lets `up` come back.
fn let_go() {
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}
