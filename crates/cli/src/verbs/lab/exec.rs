//! `lab exec`: run a program on a node, or on all.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use intarsia_lab::{Lab, Node};
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{failure, target};
use crate::cli::LabExec;
use crate::exit::{Exit, Failure, Outcome};
use crate::process::{code_of, hold};

pub(crate) fn run(arguments: &LabExec) -> Outcome<Exit> {
    let lab = target(&arguments.target)?;
    match &arguments.node {
        Some(name) => {
            let node = lab.node(name).map_err(|e| failure(&e))?;
            // Comes back only when it fails: the program takes our place.
            let error = command(&lab, node, arguments)?.exec();
            Err(Failure::io("nsenter", &error).with_help("install the package util-linux"))
        }
        None => on_all(&lab, arguments),
    }
}

fn command(lab: &Lab, node: Node, arguments: &LabExec) -> Outcome<Command> {
    let Some((program, rest)) = arguments.command.split_first() else {
        return Err(Failure::usage("no program was given"));
    };
    let mut command = match arguments.names {
        true => lab.command_with_names(node, program),
        false => lab.command(node, program),
    };
    command.args(rest);
    Ok(command)
}

fn on_all(lab: &Lab, arguments: &LabExec) -> Outcome<Exit> {
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(|e| Failure::io("signals", &e))?;
    let handle = signals.handle();
    let mut running = Vec::new();
    let mut first_failure = None;
    for node in lab.nodes() {
        match start(lab, node, arguments) {
            Ok(child) => running.push((node, child)),
            Err(failure) => {
                first_failure = Some(failure);
                break;
            }
        }
    }
    let held: Arc<Vec<OwnedFd>> = Arc::new(running.iter().filter_map(|(_, c)| hold(c)).collect());
    if first_failure.is_some() {
        signal_all(&held, Signal::TERM);
    }
    let passed_on = Arc::clone(&held);
    let passer = std::thread::spawn(move || {
        for number in signals.forever() {
            if let Some(signal) = Signal::from_named_raw(number) {
                signal_all(&passed_on, signal);
            }
        }
    });
    let codes = finish_all(running);
    handle.close();
    let _ = passer.join();
    if let Some(failure) = first_failure {
        return Err(failure);
    }
    match codes.into_iter().find(|code| *code != 0) {
        // The programs have ended and all is said, so nothing is left to be undone.
        Some(code) => std::process::exit(i32::from(code)),
        None => Ok(Exit::Ok),
    }
}

fn start(lab: &Lab, node: Node, arguments: &LabExec) -> Outcome<Child> {
    command(lab, node, arguments)?
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| Failure::io("nsenter", &e))
}

fn signal_all(processes: &[OwnedFd], signal: Signal) {
    for process in processes {
        // It may have ended.
        let _ = rustix::process::pidfd_send_signal(process, signal);
    }
}

/// The exit codes of all, in the order of the nodes.
fn finish_all(running: Vec<(Node, Child)>) -> Vec<u8> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = running
            .into_iter()
            .map(|(node, child)| scope.spawn(move || finish(node, child)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap_or(Exit::Failure as u8)).collect()
    })
}

/// Passes on what a child writes until it has ended; its exit code, as a shell would give it.
fn finish(node: Node, mut child: Child) -> u8 {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let status = std::thread::scope(|scope| {
        scope.spawn(|| prefixed(node, out, std::io::stdout));
        scope.spawn(|| prefixed(node, err, std::io::stderr));
        child.wait()
    });
    status.map_or(Exit::Failure as u8, code_of)
}

/// Writes each line with the node's name before it, whole.
fn prefixed<W: Write>(node: Node, from: Option<impl Read>, to: impl Fn() -> W) {
    let Some(from) = from else { return };
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        let mut whole = format!("{node}: ").into_bytes();
        whole.append(&mut line);
        // A reader that has gone away is no failure; the program is still heard to its end.
        let _ = to().write_all(&whole);
    }
}
