//! The processes inside a lab, and ending them.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use intarsia_types::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::Serialize;

use crate::namespace::{self, Identity, Namespace};

/// How long a process may take to end by itself, and then to be ended.
const GRACE: Duration = Duration::from_secs(5);

/// A process that runs in a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Occupant {
    /// The node it runs on; `hub` for the bridge's namespace.
    pub place: String,
    /// Its number.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
}

/// The processes inside these namespaces, the caller left out.
///
/// A process belongs where its main thread is; a thread that visits a namespace does not make its process an
/// occupant.
pub(crate) fn inside(namespaces: &[Namespace]) -> Result<Vec<Occupant>> {
    let places: Vec<(Identity, String)> =
        namespaces.iter().filter_map(|n| Some((n.identity()?, n.place()))).collect();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").map_err(|e| Error::io("/proc", e))?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let home = network_of(pid);
        let place = places.iter().find(|(identity, _)| Some(*identity) == home);
        if let Some((_, place)) = place.filter(|_| pid != std::process::id()) {
            found.push(Occupant { place: place.clone(), pid, command: command_of(pid) });
        }
    }
    found.sort_by_key(|o| o.pid);
    Ok(found)
}

/// Ends the processes inside these namespaces: SIGTERM, and SIGKILL for what runs 5 s later. Returns those that it
/// ended.
///
/// # Errors
/// `Busy` when some still run after 5 s more, because the kernel waits for something on their behalf.
pub(crate) fn end(namespaces: &[Namespace]) -> Result<Vec<Occupant>> {
    let found = inside(namespaces)?;
    let mut ended = found.clone();
    signal_and_wait(&found, namespaces, Signal::TERM, Instant::now() + GRACE);
    let deadline = Instant::now() + GRACE;
    loop {
        let left = inside(namespaces)?;
        if left.is_empty() {
            return Ok(ended);
        }
        if Instant::now() >= deadline {
            return Err(Error::Busy(format!("these cannot be ended: {}", listed(&left))));
        }
        // Also what was started meanwhile.
        signal_and_wait(&left, namespaces, Signal::KILL, deadline);
        ended.extend(left.into_iter().filter(|o| !found.contains(o)));
    }
}

/// The processes in one line, of many the first.
pub(crate) fn listed(occupants: &[Occupant]) -> String {
    const SHOWN: usize = 8;
    let texts = occupants.iter().take(SHOWN);
    let texts = texts.map(|o| format!("{} on {} ({})", o.pid, o.place, o.command));
    let mut list = texts.collect::<Vec<_>>().join(", ");
    if let Some(more) = occupants.len().checked_sub(SHOWN).filter(|n| *n > 0) {
        list.push_str(&format!(" and {more} more"));
    }
    list
}

fn signal_and_wait(all: &[Occupant], namespaces: &[Namespace], signal: Signal, deadline: Instant) {
    let held: Vec<OwnedFd> = all.iter().filter_map(|o| hold(o.pid, namespaces)).collect();
    for process in &held {
        // It may have ended meanwhile.
        let _ = rustix::process::pidfd_send_signal(process, signal);
    }
    for process in &held {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else { continue };
        let _ = rustix::event::poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout));
    }
}

/// Holds a process so that its number cannot come to mean another, and only then looks where it lives.
fn hold(pid: u32, namespaces: &[Namespace]) -> Option<OwnedFd> {
    let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let process = rustix::process::pidfd_open(number, PidfdFlags::empty()).ok()?;
    let home = network_of(pid)?;
    namespaces.iter().any(|n| n.identity() == Some(home)).then_some(process)
}

/// `None` for a process that is gone, and for a zombie.
fn network_of(pid: u32) -> Option<Identity> {
    namespace::identity_of(format!("/proc/{pid}/ns/net"))
}

fn command_of(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> =
        line.split(|b| *b == 0).filter(|w| !w.is_empty()).map(String::from_utf8_lossy).collect();
    let text = words.join(" ");
    if text.is_empty() { "?".to_owned() } else { text.chars().take(80).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_that_is_not_there_has_no_occupants() {
        let nowhere = [Namespace::of_hub(&"no-such-lab".parse().unwrap())];
        assert_eq!(inside(&nowhere).unwrap(), []);
        assert_eq!(end(&nowhere).unwrap(), []);
        assert!(hold(std::process::id(), &nowhere).is_none(), "a process outside is never held");
    }
}
