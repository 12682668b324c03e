//! `down`: take a store down, whatever state it is in.

mod found;
pub(crate) mod part;

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use self::part::{Found, Manner, Part, Standing};
use super::{fleet, purge, status};
use crate::cli::Down;
use crate::config;
use crate::exit::{Exit, Failure, Outcome};
use crate::failpoint;
use crate::mounts;
use crate::registry::{Entry, Registry};
use crate::{holders, output, target};

/// How long a node may take to end without showing that it works, if the user does not say.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same for one that shows that it lives and says nothing new, as while a slow disk takes all that it has to write.
const CLOSING_PATIENCE: Duration = Duration::from_secs(600);
/// The same by force.
const FORCED: Duration = Duration::from_secs(30);
/// How long a node that was told to end by force may take.
const FORCE_PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn run(arguments: &Down) -> Outcome<Exit> {
    let manner = manner(arguments)?;
    if let Some(hosts) = fleet::Hosts::meant(&arguments.hosts)? {
        let mount = target::named(arguments.store.as_deref()).ok_or_else(|| {
            Failure::usage("with several hosts the mount point must be named, as for 'up'")
                .with_help("--this-host takes down what is here alone")
        })?;
        if arguments.lazy {
            return Err(Failure::usage("--lazy is for one host; say --this-host on each"));
        }
        return fleet::down(&hosts, &mount, arguments, manner);
    }
    let mut part = Part::find(arguments.store.as_deref(), arguments.dir.as_deref())?;
    if arguments.dry_run {
        return describe(&part, arguments);
    }
    part.claim(arguments.force)?;
    failpoint::reach("down-here:claimed");
    if arguments.lazy {
        return detach(&part, arguments);
    }
    let standing = if arguments.force { part.ask().unwrap_or(Standing::Up) } else { part.ask()? };
    if standing == Standing::Down && !arguments.purge {
        let dir = part.dir().map(Path::display);
        let shown = dir.map_or_else(String::new, |dir| format!(" in {dir}"));
        output::message(&format!("The store{shown} is not up; nothing to do."));
        return Ok(Exit::Ok);
    }
    if let Standing::Nothing(why) = standing {
        return nothing(&why, arguments);
    }
    let mut shown = Progress::default();
    let last = part.finish(manner, &mut |doing| shown.show("", &doing))?;
    failpoint::reach("down-here:finished");
    part.stop(arguments.purge)?;
    failpoint::reach("down-here:stopped");
    conclude(&part, last.as_ref(), arguments)
}

fn manner(arguments: &Down) -> Outcome<Manner> {
    let timeout = arguments.timeout.as_deref().map(config::duration).transpose();
    let timeout = timeout.map_err(|e| Failure::usage(format!("--timeout: {e}")))?;
    Ok(Manner {
        force: arguments.force,
        purge: arguments.purge,
        keep_servers: false,
        patience: timeout.unwrap_or(PATIENCE),
        closing: timeout.unwrap_or(if arguments.force { FORCED } else { CLOSING_PATIENCE }),
    })
}

/// There is nothing to take down, which is no failure; data that was to be deleted and is not found is one.
fn nothing(why: &str, arguments: &Down) -> Outcome<Exit> {
    if !arguments.purge {
        output::message(&format!("{why}; nothing to do."));
        return Ok(Exit::Ok);
    }
    Err(Failure::not_running(format!("{why}, and no store is known that was up there"))
        .with_help("name the store's directory: intarsia down --purge DIR"))
}

fn conclude(part: &Part, last: Option<&Value>, arguments: &Down) -> Outcome<Exit> {
    match (&part.found, last) {
        (Found::Store(entry), Some(last)) => summarise(entry, last, arguments)?,
        (Found::Store(entry), None) if !arguments.force => output::message(&format!(
            "The node of {} (pid {}) was dead; the place is clear again. The data {} in {}.",
            entry.mount_point.display(),
            entry.process.pid,
            if arguments.purge { "was" } else { "lies" },
            entry.dir.display()
        )),
        (Found::Directory(dir), _) if !arguments.purge => output::message(&format!(
            "Metadata servers in {} were left over and have ended.",
            dir.display()
        )),
        _ => {}
    }
    Ok(Exit::Ok)
}

/// Leaves the mount to the programs that use it.
fn detach(part: &Part, arguments: &Down) -> Outcome<Exit> {
    match &part.found {
        Found::Store(entry) if entry.process.is_running() => {
            mounts::detach(&entry.mount_point)?;
            let is_ended = entry.process.wait_until_gone(Duration::from_secs(1));
            output::message(&format!("{} is detached.", entry.mount_point.display()));
            if !is_ended {
                output::message(&format!(
                    "The node (pid {}) ends when the last program has closed its files.",
                    entry.process.pid
                ));
            }
            match (arguments.purge, is_ended) {
                (true, true) => {
                    purge::purge(&purge::contents(&entry.dir, &entry.tiers)?)?;
                    Registry::of_user()?.forget_gone();
                }
                (true, false) => output::warn(
                    "the data is kept, because the node still works with it; run 'intarsia down --purge' on its directory later",
                ),
                (false, _) => {}
            }
        }
        Found::Mount { mount, .. } => mounts::detach(&mount.mount_point)?,
        Found::Store(_) | Found::Directory(_) | Found::Nothing(_) => part.stop(arguments.purge)?,
    }
    Ok(Exit::Ok)
}

fn describe(part: &Part, arguments: &Down) -> Outcome<Exit> {
    let mut lines = Vec::new();
    match &part.found {
        Found::Store(entry) => {
            let mount = entry.mount_point.display();
            lines.push(if entry.process.is_running() {
                format!("unmount {mount} and end the node (pid {})", entry.process.pid)
            } else {
                format!("clear {mount}, whose node (pid {}) is dead", entry.process.pid)
            });
            if arguments.purge {
                lines.extend(purge::describe(&purge::contents(&entry.dir, &entry.tiers)?));
            }
        }
        Found::Mount { mount, .. } => {
            lines.push(format!("unmount {}", mount.mount_point.display()));
        }
        Found::Directory(dir) if arguments.purge => {
            lines.extend(purge::describe(&purge::contents(dir, &[])?));
        }
        Found::Directory(dir) => lines.push(format!("nothing: {} is not up", dir.display())),
        Found::Nothing(why) => lines.push(format!("nothing: {why}")),
    }
    output::data(&format!("Would:\n  {}", lines.join("\n  ")))?;
    Ok(Exit::Ok)
}

/// What nodes do while they end, now and then as a line.
#[derive(Default)]
pub(crate) struct Progress {
    last: Option<(std::time::Instant, String)>,
}

impl Progress {
    /// Says what the node of `host` (none for the only one) is doing, unless something was said just now.
    pub(crate) fn show(&mut self, host: &str, doing: &Value) {
        /// Between two lines. What is done sooner is not worth one.
        const PAUSE: Duration = Duration::from_secs(2);
        let Some(text) = in_words(doing) else { return };
        let now = std::time::Instant::now();
        let (since, _) = self.last.get_or_insert_with(|| (now, String::new()));
        if now.duration_since(*since) < PAUSE {
            return;
        }
        let line = if host.is_empty() { text } else { format!("{host}: {text}") };
        output::message(&line);
        self.last = Some((now, line));
    }
}

/// What a node says that it is doing, in words; none for a mere sign of life.
pub(crate) fn in_words(doing: &Value) -> Option<String> {
    use intarsia_types::ByteCount;
    let step = doing.get("doing")?.as_str()?;
    let number = |field: &str| doing.get(field).and_then(Value::as_u64);
    let mut text = step.to_owned();
    if let Some(file) = doing.get("file").and_then(Value::as_str) {
        text.push_str(&format!(" {file}"));
    }
    if let (Some(done), Some(total)) = (number("bytes_done"), number("bytes_total")) {
        text.push_str(&format!(" ({} of {})", ByteCount(done), ByteCount(total)));
    }
    if let Some(left) = number("files_left").filter(|left| *left > 0) {
        text.push_str(&format!(", {left} files left"));
    }
    Some(text)
}

/// Takes down what is mounted here, whatever uses it; its metadata servers are the caller's.
pub(crate) fn by_force(mount: &Path) -> Outcome {
    let registry = Registry::of_user()?;
    let Some(entry) = registry.by_mount(mount) else { return Ok(()) };
    if entry.process.is_running() {
        let _ = mounts::detach(mount);
        entry.process.signal(Signal::TERM);
        if !entry.process.wait_until_gone(FORCE_PATIENCE) {
            entry.process.signal(Signal::KILL);
            let _ = entry.process.wait_until_gone(FORCE_PATIENCE);
        }
    }
    part::clear_place(&entry, &registry)
}

/// Names everybody who holds the mount.
fn busy(mount_point: &Path) -> Failure {
    let shown = mount_point.display();
    let mut lines: Vec<String> = Vec::new();
    if let Some(mount) = mounts::at(mount_point) {
        lines.extend(holders::describe(&holders::of(&mount)));
    }
    let below = mounts::below(mount_point);
    lines.extend(
        below.iter().map(|m| format!("a mount of type {} at {}", m.kind, m.mount_point.display())),
    );
    if lines.is_empty() {
        lines.push(
            "no process was found; it may have ended just now, or live in another mount namespace"
                .into(),
        );
    }
    Failure::busy(format!("{shown} is in use by\n  {}", lines.join("\n  "))).with_help(
        "end these programs and try again; --lazy leaves the mount to them, --force takes it from them",
    )
}

fn summarise(entry: &Entry, last: &Value, arguments: &Down) -> Outcome {
    let number = |field: &str| last.get(field).and_then(Value::as_u64).unwrap_or(0);
    if arguments.json {
        return output::json(&json!({
            "mount_point": entry.mount_point, "dir": entry.dir, "tiers": entry.tiers,
            "files": status::files(last), "used_bytes": status::used(last).0,
            "requests": number("requests"), "uptime_s": number("uptime_s"),
        }));
    }
    output::message(&format!(
        "{} is down after {}: {} files and directories, {} in the tiers, {} requests.",
        entry.mount_point.display(),
        humantime::format_duration(Duration::from_secs(number("uptime_s"))),
        status::files(last),
        status::used(last),
        number("requests"),
    ));
    if arguments.purge {
        return Ok(());
    }
    let tiers: Vec<_> = entry
        .tiers
        .iter()
        .filter(|t| !t.starts_with(&entry.dir))
        .map(|t| t.display().to_string())
        .collect();
    let also = if tiers.is_empty() { String::new() } else { format!(" and {}", tiers.join(", ")) };
    if last.get("durability").and_then(Value::as_str) == Some("memory") {
        output::message("Nothing of it lasts (durability memory).");
    } else {
        output::message(&format!("The data lies in {}{also}.", entry.dir.display()));
    }
    Ok(())
}
