//! `down`: take a store down, whatever state it is in.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{fleet, purge, status};
use crate::cli::Down;
use crate::config;
use crate::control::{self, Request};
use crate::exit::{Exit, Failure, Outcome};
use crate::mounts::{self, Health, MountEntry};
use crate::registry::{Entry, Registry};
use crate::{holders, output, process, target};

/// What there is to take down.
enum Found {
    /// A store in the registry, its node alive or dead.
    Store(Box<Entry>),
    /// A mount of ours that no registry of this user knows.
    Mount(MountEntry),
    /// A store that is not up.
    Directory(std::path::PathBuf),
    /// Nothing at all, in words.
    Nothing(String),
}

pub(crate) fn run(arguments: &Down) -> Outcome<Exit> {
    if let Some(hosts) = fleet::Hosts::meant(&arguments.hosts)? {
        let mount = target::named(arguments.store.as_deref()).ok_or_else(|| {
            Failure::usage("with several hosts the mount point must be named, as for 'up'")
                .with_help("--this-host takes down what is here alone")
        })?;
        return fleet::down(&hosts, &mount, arguments.purge, arguments.force);
    }
    let timeout = config::duration(&arguments.timeout)
        .map_err(|e| Failure::usage(format!("--timeout: {e}")))?;
    let registry = Registry::of_user()?;
    let found = find(&registry, arguments.store.as_deref())?;
    if arguments.dry_run {
        return describe(&found, arguments);
    }
    match found {
        Found::Store(entry) => {
            let is_ended = take_down(&entry, &registry, arguments, timeout)?;
            match (arguments.purge, is_ended) {
                (true, true) => purge::purge(&purge::contents(&entry.dir, &entry.tiers)?)?,
                (true, false) => output::warn(
                    "the data is kept, because the node still works with it; run 'intarsia down --purge' on its directory later",
                ),
                (false, _) => {}
            }
        }
        Found::Mount(mount) => unmount_unregistered(&mount, arguments)?,
        Found::Directory(dir) if arguments.purge => {
            purge::purge(&purge::contents(&dir, &[])?)?;
        }
        Found::Directory(dir) => {
            output::message(&format!("The store in {} is not up; nothing to do.", dir.display()));
        }
        Found::Nothing(why) => output::message(&format!("{why}; nothing to do.")),
    }
    Ok(Exit::Ok)
}

fn find(registry: &Registry, path: Option<&Path>) -> Outcome<Found> {
    let Some(path) = target::named(path) else {
        return match registry.entries().is_empty() {
            true => Ok(Found::Nothing("no store is up".into())),
            false => Ok(Found::Store(Box::new(target::one(registry, None)?))),
        };
    };
    let path = mounts::canonical(&path).map_err(|e| Failure::io(path.display(), &e))?;
    if let Some(entry) = registry.by_mount(&path).or_else(|| registry.by_dir(&path)) {
        return Ok(Found::Store(Box::new(entry)));
    }
    Ok(match mounts::at(&path) {
        Some(mount) if mount.is_ours() => Found::Mount(mount),
        Some(mount) => {
            return Err(Failure::not_running(format!(
                "{} is a mount of type {}, none of ours",
                path.display(),
                mount.kind
            )));
        }
        None if path.join("store.json").exists() => Found::Directory(path),
        None => Found::Nothing(format!("no store is up at {}", path.display())),
    })
}

fn describe(found: &Found, arguments: &Down) -> Outcome<Exit> {
    let mut lines = Vec::new();
    match found {
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
        Found::Mount(mount) => lines.push(format!("unmount {}", mount.mount_point.display())),
        Found::Directory(dir) if arguments.purge => {
            lines.extend(purge::describe(&purge::contents(dir, &[])?));
        }
        Found::Directory(dir) => lines.push(format!("nothing: {} is not up", dir.display())),
        Found::Nothing(why) => lines.push(format!("nothing: {why}")),
    }
    output::data(&format!("Would:\n  {}", lines.join("\n  ")))?;
    Ok(Exit::Ok)
}

/// True when the node has ended, false when it was left to its holders.
fn take_down(
    entry: &Entry,
    registry: &Registry,
    arguments: &Down,
    timeout: Duration,
) -> Outcome<bool> {
    if !entry.process.is_running() {
        clear(entry, registry)?;
        output::message(&format!(
            "The node of {} (pid {}) was dead; the place is clear again. The data lies in {}.",
            entry.mount_point.display(),
            entry.process.pid,
            entry.dir.display()
        ));
        return Ok(true);
    }
    if arguments.lazy {
        mounts::detach(&entry.mount_point)?;
        let is_ended = entry.process.wait_until_gone(Duration::from_secs(1));
        output::message(&format!("{} is detached.", entry.mount_point.display()));
        if !is_ended {
            output::message(&format!(
                "The node (pid {}) ends when the last program has closed its files.",
                entry.process.pid
            ));
        }
        return Ok(is_ended);
    }
    let status = match control::call(&entry.socket, &Request::Unmount, |_| {}) {
        Ok(status) => status,
        Err(failure) if arguments.force => {
            output::warn(&failure.message);
            return force(entry, registry, timeout).map(|()| true);
        }
        Err(failure) if failure.exit == Exit::Busy => return Err(busy(entry)),
        Err(failure) => return Err(failure),
    };
    if !entry.process.wait_until_gone(timeout) {
        return Err(Failure::general(format!(
            "{} is unmounted, but the node (pid {}) is still writing after {}",
            entry.mount_point.display(),
            entry.process.pid,
            humantime::format_duration(timeout)
        ))
        .with_help("wait for it, or give it longer with --timeout; --force ends it"));
    }
    summarise(entry, &status, arguments.json)?;
    Ok(true)
}

/// Ends the node although programs use the mount.
fn force(entry: &Entry, registry: &Registry, timeout: Duration) -> Outcome {
    if mounts::at(&entry.mount_point).is_some() {
        // With a hung node this waits for it; killing the node below frees the wait.
        let mount_point = entry.mount_point.clone();
        let detached =
            process::bounded(Duration::from_secs(5), move || mounts::detach(&mount_point));
        detached.unwrap_or(Ok(()))?;
    }
    entry.process.signal(Signal::TERM);
    if !entry.process.wait_until_gone(timeout) {
        output::warn(&format!("the node (pid {}) does not end; killing it", entry.process.pid));
        entry.process.signal(Signal::KILL);
        if !entry.process.wait_until_gone(Duration::from_secs(10)) {
            return Err(Failure::general(format!(
                "the node (pid {}) cannot be killed; the kernel holds it, perhaps for a disk",
                entry.process.pid
            )));
        }
    }
    clear(entry, registry)?;
    output::message(&format!(
        "{} was taken down by force. The data lies in {}.",
        entry.mount_point.display(),
        entry.dir.display()
    ));
    Ok(())
}

/// Takes down what is mounted here, whatever uses it.
pub(crate) fn by_force(mount: &Path) -> Outcome {
    let registry = Registry::of_user()?;
    match registry.by_mount(mount) {
        Some(entry) if entry.process.is_running() => {
            force(&entry, &registry, Duration::from_secs(5))
        }
        Some(entry) => clear(&entry, &registry),
        None => Ok(()),
    }
}

/// Removes what a dead node left: metadata servers, mount, socket, registry entry, mount point.
fn clear(entry: &Entry, registry: &Registry) -> Outcome {
    intarsia_cluster::servers::stop_all(&entry.dir.join("servers"))
        .map_err(|e| Failure::general(e.to_string()))?;
    while let Some(mount) = mounts::at(&entry.mount_point).filter(MountEntry::is_ours) {
        mounts::detach(&mount.mount_point)?;
    }
    let _ = std::fs::remove_file(&entry.socket);
    registry.remove(&entry.mount_point);
    if entry.made_mount_point {
        let _ = std::fs::remove_dir(&entry.mount_point);
    }
    Ok(())
}

fn unmount_unregistered(mount: &MountEntry, arguments: &Down) -> Outcome {
    let path = &mount.mount_point;
    if arguments.lazy || arguments.force || mounts::health(path) == Health::Dead {
        mounts::detach(path)?;
    } else {
        mounts::unmount(path).map_err(|failure| match failure.exit {
            Exit::Busy => busy_mount(path),
            _ => failure,
        })?;
    }
    output::message(&format!("{} is unmounted; its node was not registered here.", path.display()));
    Ok(())
}

fn busy(entry: &Entry) -> Failure {
    busy_mount(&entry.mount_point)
}

/// Names everybody who holds the mount.
fn busy_mount(mount_point: &Path) -> Failure {
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

fn summarise(entry: &Entry, last: &Value, as_json: bool) -> Outcome {
    let number = |field: &str| last.get(field).and_then(Value::as_u64).unwrap_or(0);
    if as_json {
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
