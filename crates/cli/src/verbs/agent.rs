//! `agent`: the part of a verb over several hosts that runs on each of them.
//!
//! Its orders are the first line of its standard input. What it finds out it writes to standard output, as one line
//! of JSON; nothing of it shows on a command line.

use std::io::BufRead;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use intarsia_cluster::servers::{self, Program};
use intarsia_cluster::watchdog::{self, SILENCE};
use intarsia_types::NodeId;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{down, purge};
use crate::cli::{Agent, Duty};
use crate::config::Settings;
use crate::deployment::Bundle;
use crate::exit::{Exit, Failure, Outcome};
use crate::launch::{self, Orders, Report};
use crate::output;
use crate::preflight::{self, Plan};
use crate::process::Process;
use crate::registry::Registry;

/// How long a node may take to leave before it is made to.
const LEAVE: Duration = Duration::from_secs(20);

/// What stands on a host before anything is started there.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Inspection {
    pub(crate) version: String,
    pub(crate) plan: Plan,
    /// The files of the deployment that the store in the directory is a part of.
    pub(crate) bundle: Option<Bundle>,
}

pub(crate) fn run(arguments: &Agent) -> Outcome<Exit> {
    let orders = orders()?;
    match arguments.duty {
        Duty::Inspect => {
            say(&inspect(&orders))?;
            Ok(Exit::Ok)
        }
        Duty::Start => {
            let is_gone = Arc::new(AtomicBool::new(false));
            let told = Arc::clone(&is_gone);
            on_launcher_gone(move || told.store(true, Ordering::Relaxed));
            start(&orders, || !is_gone.load(Ordering::Relaxed)).map(|_| Exit::Ok)
        }
        Duty::Keep => keep(&orders),
    }
}

/// The first line. What comes after it is for the watchdog, which reads signs of life and no content.
fn orders() -> Outcome<Orders> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|e| Failure::io("orders", &e))?;
    serde_json::from_str(&line)
        .map_err(|e| Failure::usage(format!("an agent takes orders from 'up' only: {e}")))
}

fn say(answer: &impl Serialize) -> Outcome {
    let line = serde_json::to_string(answer).map_err(|e| Failure::general(e.to_string()))?;
    output::data(&line)
}

/// Everything that can be known to be wrong on this host.
fn inspect(orders: &Orders) -> Outcome<Inspection> {
    let settings = &orders.settings;
    let plan = preflight::inspect(settings, &orders.conditions, &Registry::of_user()?)?;
    let there = settings.deployment.as_deref().filter(|_| settings.dir.join("store.json").exists());
    let bundle = there.and_then(Bundle::pack).transpose();
    let bundle = bundle.map_err(|e| Failure::general(e.to_string()))?;
    if let Some(new) = &orders.bundle {
        check_servers(settings, bundle.as_ref().unwrap_or(new))?;
    }
    Ok(Inspection { version: env!("CARGO_PKG_VERSION").into(), plan, bundle })
}

/// Whether what the deployment needs on this host is there and free.
fn check_servers(settings: &Settings, bundle: &Bundle) -> Outcome {
    let deployment = bundle.deployment().map_err(|e| Failure::general(e.to_string()))?;
    let Some(member) = deployment.member(&NodeId(settings.name.clone())) else { return Ok(()) };
    let mut ports = vec![member.node_port];
    if deployment.has_servers(&member.name) {
        Program::find().map_err(|e| Failure::general(e.to_string()))?;
        // Servers of this store that still run are taken over.
        if !servers::is_any_running(&settings.dir.join("servers")) {
            let addresses = (0..2).filter_map(|number| member.server(number).ok());
            ports.extend(addresses.flat_map(|a| [a.port, a.bus_port]));
        }
    }
    for port in ports {
        TcpListener::bind((member.address, port)).map_err(|e| {
            Failure::io(format!("port {port} of {}", member.address), &e).with_help(
                "another store may use it; give this one others with --port, or see that the address is this host's",
            )
        })?;
    }
    Ok(())
}

/// Starts a node and says what became of it; of a failure nothing stays that had not been there, and of a
/// node that nobody wants any more once it is up nothing runs.
fn start(orders: &Orders, is_wanted: impl Fn() -> bool) -> Outcome<Process> {
    let outcome = launch::start(orders).and_then(|ready| {
        let node = Process::of(ready.pid).ok().flatten();
        match (is_wanted(), node) {
            (true, Some(node)) => Ok((ready, node)),
            (true, None) => Err(Failure::general("the node ended at once")),
            (false, node) => {
                node.map(|node| end(&node, &orders.settings, false)).transpose()?;
                Err(Failure::general("whoever asked for the node is gone"))
            }
        }
    });
    let report = match &outcome {
        Ok((ready, _)) => Report::Ready(ready.clone()),
        Err(failure) => {
            forget_unfounded(&orders.settings);
            Report::Failed(failure.clone())
        }
    };
    say(&report)?;
    outcome.map(|(_, node)| node)
}

/// Does something when the other end of our input is closed, or silent for too long.
fn on_launcher_gone(work: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        watchdog::wait(std::io::stdin(), Some(SILENCE));
        work();
    });
}

/// Servers and secrets of a store that was never founded here.
fn forget_unfounded(settings: &Settings) {
    let dir = &settings.dir;
    stop_servers(settings);
    if dir.join("store.json").exists() {
        return;
    }
    let _ = std::fs::remove_dir_all(dir.join("servers"));
    let _ = std::fs::remove_dir_all(dir.join("deployment"));
}

fn stop_servers(settings: &Settings) {
    if let Err(error) = servers::stop_all(&settings.dir.join("servers")) {
        output::warn(&error.to_string());
    }
}

/// What an agent that keeps a node waits for.
enum Happening {
    /// Whoever holds our input is gone, or the job ends.
    LauncherGone,
    NodeGone,
}

/// Starts a node, and has it end with its launcher.
fn keep(orders: &Orders) -> Outcome<Exit> {
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|e| Failure::io("signals", &e))?;
    // Until it is up its launcher is not watched: it is soon.
    let node = start(orders, || true)?;
    let (sender, happenings) = mpsc::channel();
    let told = sender.clone();
    on_launcher_gone(move || drop(told.send(Happening::LauncherGone)));
    let told = sender.clone();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _ = told.send(Happening::LauncherGone);
        }
    });
    watch(node.clone(), sender);
    let settings = &orders.settings;
    while let Ok(happening) = happenings.recv() {
        match happening {
            Happening::LauncherGone => break,
            Happening::NodeGone if is_clear(settings) => break,
            // Its servers go on, as on any host whose node dies.
            Happening::NodeGone => output::warn(&format!(
                "the node of {} ended without being taken down; its log is {}",
                settings.mount.display(),
                launch::log_path(&settings.dir).display()
            )),
        }
    }
    end(&node, settings, orders.discard)
}

fn watch(node: Process, told: Sender<Happening>) {
    /// A wait without a bound is divided into these.
    const STEP: Duration = Duration::from_secs(3600);
    std::thread::spawn(move || {
        while !node.wait_until_gone(STEP) {}
        let _ = told.send(Happening::NodeGone);
    });
}

/// Whether the node was taken down in order: then it has left the registry.
fn is_clear(settings: &Settings) -> bool {
    Registry::of_user().is_ok_and(|registry| registry.by_mount(&settings.mount).is_none())
}

/// Ends the node, in order where that is possible, and leaves nothing running and nothing mounted.
fn end(node: &Process, settings: &Settings, discard: bool) -> Outcome<Exit> {
    node.signal(Signal::TERM);
    let _ = node.wait_until_gone(LEAVE);
    let cleared = if is_clear(settings) { Ok(()) } else { down::by_force(&settings.mount) };
    stop_servers(settings);
    if discard {
        let tiers: Vec<_> = settings.tiers.iter().map(|t| t.dir.clone()).collect();
        purge::purge(&purge::contents(&settings.dir, &tiers)?)?;
    }
    cleared.map(|()| Exit::Ok)
}
