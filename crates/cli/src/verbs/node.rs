//! `node`: the process behind a mount, in the foreground or detached by `up`.

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::assembly::Assembly;
use crate::cli::{Global, Node};
use crate::config::{self, Settings};
use crate::control::{Operations, Request, Server};
use crate::deployment::Membership;
use crate::ending::{EndOrder, Ending};
use crate::exit::{Exit, Failure, Outcome};
use crate::failpoint;
use crate::holders::{self, Survey};
use crate::launch::{self, Orders, Ready, Report};
use crate::preflight::{self, Conditions, Plan};
use crate::process::Process;
use crate::registry::{Entry, Registry, write_private};
use crate::runtime::{self, CheckOptions, Mounted, Store};
use crate::tenure::Tenure;
use crate::write_back::write_back;
use crate::{logging, made_dir, mounts, output};

use super::journal;

/// How often the metrics file is looked at.
const METRICS_INTERVAL: Duration = Duration::from_secs(10);
/// How long a signal waits for a busy mount before it detaches it.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);
/// How long writing back may take when the mount is detached.
const WRITE_BACK_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn run(arguments: &Node, global: &Global) -> Outcome<Exit> {
    if arguments.detached {
        return run_detached();
    }
    logging::start(global.log_format, logging::NODE_FILTER)?;
    let settings = config::load(arguments.settings.layers(), global.config.as_deref())?.settings;
    let conditions = Conditions {
        nonempty: arguments.place.nonempty,
        fuse_device: arguments.place.fuse_device.clone(),
    };
    let tenure = Tenure::begin(&settings)?;
    tenure.settle()?;
    let start = Start { assembly: None, tenure: &tenure };
    serve(&settings, &conditions, start, |ready| {
        output::message(&format!("The store is up at {}.", ready.mount_point.display()));
    })
}

/// Leaves the caller's session, takes orders from standard input and reports on standard output.
fn run_detached() -> Outcome<Exit> {
    let mut input = BufReader::new(std::io::stdin());
    let mut line = String::new();
    let read = input.read_line(&mut line).map_err(|e| Failure::io("orders", &e));
    let orders: Orders = read.and_then(|_| {
        serde_json::from_str(&line)
            .map_err(|e| Failure::usage(format!("--detached takes settings from 'up' only: {e}")))
    })?;
    // Fails only for the leader of a group; it is then in a group of its own, but in the session of the caller.
    let _ = rustix::process::setsid();
    let mut is_reported = false;
    failpoint::on_host(&orders.settings.name);
    let begun = Tenure::begin(&orders.settings).and_then(|tenure| {
        failpoint::reach("node:claimed");
        take_files(&orders)?;
        failpoint::reach("node:files-taken");
        logging::start(orders.log_format, logging::NODE_FILTER)?;
        Ok(tenure)
    });
    let outcome = begun.and_then(|tenure| {
        let start = Start { assembly: orders.assembly.as_ref(), tenure: &tenure };
        tenure.hold_on_to(input);
        serve(&orders.settings, &orders.conditions, start, |ready| {
            is_reported = true;
            report(&Report::Ready(ready));
        })
    });
    outcome.or_else(|failure| {
        tracing::error!(help = failure.help, "{}", failure.message);
        let exit = failure.exit;
        if !is_reported {
            report(&Report::Failed(failure));
        }
        Ok(exit)
    })
}

/// Puts the deployment's files in their place and the log into a file, for a node that was started from
/// another host.
fn take_files(orders: &Orders) -> Outcome {
    let (Some(bundle), Some(dir)) = (&orders.bundle, &orders.settings.deployment) else {
        return Ok(());
    };
    let failed = |e: &intarsia_types::Error| Failure::general(e.to_string());
    bundle.unpack(dir).map_err(|e| failed(&e))?;
    launch::log_to_file(&orders.settings.dir)
}

/// Tells `up`, and lets go of the pipe.
fn report(report: &Report) {
    if let Ok(line) = serde_json::to_string(report) {
        let _ = output::data(&line);
    }
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

/// How long a node that has ended waits until whoever asked for that has its answer: without one it was dead, as far as
/// `down` can tell. A busy machine may take seconds to wake the thread that sends it.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Why the node stops.
enum End {
    /// The mount is gone.
    Unmounted(Outcome),
    /// A signal asked twice, or the mount stayed busy.
    Abandoned,
}

/// With what a node begins.
#[derive(Clone, Copy)]
struct Start<'a> {
    assembly: Option<&'a Assembly>,
    tenure: &'a Tenure,
}

fn serve(
    settings: &Settings,
    conditions: &Conditions,
    start: Start<'_>,
    announce: impl FnOnce(Ready),
) -> Outcome<Exit> {
    // All that the node makes is private; only the mount point is made as the caller would make it.
    let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    // From here on a signal waits for its turn and cannot leave half a store behind.
    let signals = Signals::new([SIGTERM, SIGINT]).map_err(|e| Failure::io("signals", &e))?;
    let registry = Registry::of_user()?;
    // Before the registry is locked: the other hosts, which this one waits for, may use the same one.
    let membership = runtime::join(settings, start.assembly)?;
    let lock = registry.lock(&settings.mount, settings.wait)?;
    let plan = preflight::inspect(settings, conditions, &registry)?;
    plan.apply(settings, &registry, 0o777 & !umask.as_raw_mode())?;
    let place = Place {
        settings,
        registry: &registry,
        is_made: plan.owns_mount_point,
        is_left: Cell::new(false),
    };
    let node = Running::start(settings, membership)?;
    let server = node.register(&place)?;
    failpoint::reach("node:registered");
    drop(lock);
    announce(node.ready(settings, &plan));
    let end = node.work(settings, signals);
    failpoint::reach("node:unmounted");
    // Unless somebody has asked for another end.
    let order = if start.tenure.is_settled() { EndOrder::default() } else { EndOrder::TAKEN_BACK };
    node.ending.begin(order);
    start.tenure.say("stopping");
    node.finish(settings);
    server.drain(ANSWERED_WITHIN);
    drop(server);
    // Whoever asked for that clears the place once the nodes of all hosts have ended.
    place.is_left.set(node.ending.order().keep_servers);
    drop(place);
    failpoint::reach("node:ended");
    match end {
        End::Unmounted(outcome) => outcome.map(|()| Exit::Ok),
        End::Abandoned => Ok(Exit::Ok),
    }
}

/// The mount point and the entry in the registry; both are cleaned up however the node ends.
struct Place<'a> {
    settings: &'a Settings,
    registry: &'a Registry,
    is_made: bool,
    /// Somebody else cleans up.
    is_left: Cell<bool>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.is_left.get() {
            return;
        }
        // Somebody may have cleared the entry and taken the place since.
        let entry = self.registry.by_mount(&self.settings.mount);
        if entry.is_some_and(|e| e.process.pid == std::process::id()) {
            self.registry.put_away(&self.settings.mount);
        }
        if self.is_made {
            made_dir::remove_mount_point(&self.settings.dir, Some(&self.settings.mount));
        }
    }
}

/// A node at work.
struct Running {
    store: Arc<Store>,
    mounted: Arc<Mounted>,
    ending: Arc<Ending>,
    /// What was mended before it was mounted, in words.
    mended: Option<String>,
}

impl Running {
    fn start(settings: &Settings, membership: Option<Membership>) -> Outcome<Self> {
        let mends = membership.as_ref().is_some_and(Membership::mends);
        let store = Arc::new(Store::open(settings, membership)?);
        // Nobody uses the store before all hosts are up.
        let mended = if mends { store.mend() } else { Ok(None) };
        let mounted = mended.and_then(|mended| Ok((Mounted::start(&store, settings)?, mended)));
        match mounted {
            Ok((mounted, mended)) => {
                failpoint::reach("node:mounted");
                Ok(Self { store, mounted: Arc::new(mounted), ending: Arc::default(), mended })
            }
            Err(failure) => {
                let _ = store.close(EndOrder::TAKEN_BACK, &mut |_| {});
                Err(failure)
            }
        }
    }

    /// Opens the control socket and enters the store into the registry; on failure the mount goes again.
    fn register(&self, place: &Place<'_>) -> Outcome<Server> {
        let settings = place.settings;
        let registered = || {
            let socket = settings.dir.join("control.sock");
            let operations = Arc::new(Desk {
                store: Arc::clone(&self.store),
                mounted: Arc::clone(&self.mounted),
                ending: Arc::clone(&self.ending),
                mount_point: settings.mount.clone(),
            });
            let server = Server::start(&socket, operations)?;
            place.registry.write(&Entry {
                mount_point: settings.mount.clone(),
                dir: settings.dir.clone(),
                tiers: settings.tiers.iter().map(|t| t.dir.clone()).collect(),
                socket,
                process: Process::current().map_err(|e| Failure::io("/proc/self/stat", &e))?,
                version: env!("CARGO_PKG_VERSION").into(),
                started: now(),
                made_mount_point: place.is_made,
            })?;
            Ok(server)
        };
        registered().inspect_err(|_| {
            let _ = mounts::detach(&settings.mount);
            let _ = self.store.close(EndOrder::TAKEN_BACK, &mut |_| {});
        })
    }

    fn ready(&self, settings: &Settings, plan: &Plan) -> Ready {
        let cleared = plan.clear_stale_mounts.iter().map(|m| {
            format!("A dead node had left its mount at {}; it was taken away.", m.display())
        });
        let missing = plan.missing_tiers.iter().map(|dir| {
            format!(
                "The tier {} is not there; its files give EIO until it is named and there again.",
                dir.display()
            )
        });
        Ready {
            mount_point: settings.mount.clone(),
            dir: settings.dir.clone(),
            pid: std::process::id(),
            mode: self.mounted.mode(),
            notes: cleared.chain(missing).chain(self.mended.clone()).collect(),
        }
    }

    /// Serves until the mount is gone or a signal gives up on it.
    fn work(&self, settings: &Settings, mut signals: Signals) -> End {
        let (sender, ended) = mpsc::channel();
        let unmounted = sender.clone();
        let (mounted, ending) = (Arc::clone(&self.mounted), Arc::clone(&self.ending));
        std::thread::spawn(move || {
            let waiting = |survey: &Survey| {
                let doing = format!("waiting for {}", holders::describe(survey).join(" "));
                ending.tell(json!({ "doing": doing }));
            };
            unmounted.send(End::Unmounted(mounted.wait(waiting)))
        });
        let mounted = Arc::clone(&self.mounted);
        let mount_point = settings.mount.clone();
        std::thread::spawn(move || {
            if signals.forever().next().is_some() && !leave(&mounted, &mount_point, &mut signals) {
                let _ = sender.send(End::Abandoned);
            }
        });
        let metrics_path = settings.dir.join("metrics.prom");
        let mut last = String::new();
        loop {
            match ended.recv_timeout(METRICS_INTERVAL) {
                Ok(end) => return end,
                Err(mpsc::RecvTimeoutError::Disconnected) => return End::Abandoned,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.write_metrics(&metrics_path, &mut last);
                }
            }
        }
    }

    /// Writes the metrics file when something has changed.
    fn write_metrics(&self, path: &std::path::Path, last: &mut String) {
        let metrics = self.store.metrics();
        if metrics == *last {
            return;
        }
        match write_private(path, metrics.as_bytes()) {
            Ok(()) => *last = metrics,
            Err(error) => tracing::warn!(path = %path.display(), %error, "metrics file"),
        }
    }

    /// Writes the last metrics and a summary, then closes the store.
    fn finish(&self, settings: &Settings) {
        self.ending.tell(json!({ "doing": "writing down how the store stands" }));
        self.write_metrics(&settings.dir.join("metrics.prom"), &mut String::new());
        match self.store.status() {
            Ok(status) => write_summary(settings, &status),
            Err(failure) => tracing::warn!("last status: {}", failure.message),
        }
        let closed =
            self.store.close(self.ending.order(), &mut |progress| self.ending.tell(progress));
        match &closed {
            Ok(()) => tracing::info!(mount = %settings.mount.display(), "closed"),
            Err(failure) => tracing::error!("closing the store: {}", failure.message),
        }
        self.ending.finish(closed);
    }
}

/// In a batch job nothing scrapes, so the last state stays behind as a file.
fn write_summary(settings: &Settings, status: &Value) {
    let summary = json!({ "ended": now(), "mount_point": settings.mount, "status": status });
    let path = settings.dir.join("last-run.json");
    if let Err(error) = write_private(&path, format!("{summary:#}\n").as_bytes()) {
        tracing::warn!(path = %path.display(), %error, "summary file");
    }
}

/// Unmounts for a signal. False when the mount was detached and the node is to end without waiting.
fn leave(mounted: &Mounted, mount_point: &std::path::Path, signals: &mut Signals) -> bool {
    let deadline = Instant::now() + BUSY_PATIENCE;
    let mut is_first = true;
    loop {
        match mounted.unmount() {
            Ok(()) => return true,
            Err(failure) if failure.exit == Exit::Busy => {}
            Err(failure) => {
                tracing::warn!("unmount: {}", failure.message);
                return false;
            }
        }
        if is_first && let Some(mount) = mounts::at(mount_point) {
            let lines = holders::describe(&holders::of(&mount));
            tracing::warn!(holders = lines.join(" "), "the mount is busy; waiting");
        }
        is_first = false;
        if Instant::now() >= deadline || signals.pending().next().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    tracing::warn!("the mount stays busy; detaching it");
    // What the kernel still holds for programs that keep files open.
    if let Some(mount) = mounts::at(mount_point) {
        write_back(mount_point, &mount.device, WRITE_BACK_TIMEOUT);
    }
    let _ = mounts::detach(mount_point);
    false
}

/// Answers the control socket.
struct Desk {
    store: Arc<Store>,
    mounted: Arc<Mounted>,
    ending: Arc<Ending>,
    mount_point: std::path::PathBuf,
}

impl Desk {
    fn status(&self) -> Outcome<Value> {
        let mut status = self.store.status()?;
        if let Some(fields) = status.as_object_mut() {
            fields.insert("mount_point".into(), json!(self.mount_point));
            fields.insert("passthrough".into(), self.mounted.mode());
        }
        Ok(status)
    }
}

impl Desk {
    /// Takes the mount down and follows the node to its end; one who asks again meanwhile just follows.
    fn end(&self, order: EndOrder, progress: &mut dyn FnMut(Value)) -> Outcome<Value> {
        let last = self.store.status().unwrap_or(Value::Null);
        if self.ending.begin(order) {
            self.mounted.unmount().inspect_err(|_| self.ending.take_back())?;
        }
        self.ending.follow(progress)?;
        Ok(last)
    }
}

impl Operations for Desk {
    fn perform(&self, request: Request, progress: &mut dyn FnMut(Value)) -> Outcome<Value> {
        match request {
            Request::Status => self.status(),
            Request::Metrics => Ok(self.store.metrics().into()),
            Request::Rules => Ok(self.store.rules().into()),
            Request::SetRules { rules } => {
                self.store.set_rules(&rules)?;
                tracing::info!(count = rules.len(), "rules replaced");
                Ok(Value::Null)
            }
            Request::Locate { paths } => {
                self.store.locate(&paths, progress);
                Ok(Value::Null)
            }
            Request::Tag { hints, paths } => {
                self.store.tag(&hints, &paths, progress)?;
                Ok(Value::Null)
            }
            Request::Record { detail } => self.store.record(detail),
            Request::Check { repair, content } => {
                self.store.check(CheckOptions { repair, content }, progress)
            }
            Request::Lost { forget } => self.store.lost(forget, progress),
            Request::Balance { dry_run: true, speeds, tiers, .. } => {
                self.store.plan_balance(&speeds, &tiers)
            }
            Request::Balance { bytes_per_s, speeds, tiers, journal, .. } => {
                let report = self.store.balance(&speeds, &tiers, bytes_per_s, progress)?;
                journal::keep(report, journal.as_deref())
            }
            Request::MoveBack { journal, bytes_per_s } => {
                let moved = journal::read(&journal)?;
                journal::keep(self.store.move_back(&moved, bytes_per_s, progress)?, None)
            }
            Request::Leave { host, bytes_per_s } => {
                self.store.empty_host(&host, bytes_per_s, progress)
            }
            Request::Stay { host } => self.store.keep_host(&host),
            Request::Unmount { keep_servers, discard } => {
                self.end(EndOrder { keep_servers, discard, takes_back: false }, progress)
            }
        }
    }
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
