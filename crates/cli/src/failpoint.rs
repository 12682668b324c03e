//! Points at which a process kills itself, so that tests can interrupt every verb at every step. For tests only.
//!
//! `INTARSIA_FAILPOINT=NAME` arms the point of that name, `NAME@HOST` arms it on one host. A process that reaches an
//! armed point ends by SIGKILL there, as in a crash. Where `INTARSIA_FAILPOINT_LOG` names a file, the process first
//! appends `NAME@HOST` to it, so that a test sees that the point was reached. Agents and nodes inherit both variables
//! from the verb that starts them, in a lab; without them a point costs one look at a variable that is set once.

use std::io::Write;
use std::sync::OnceLock;

use rustix::process::{Signal, getpid, kill_process};

/// All points, by the process that reaches them, in the order in which it does.
pub(crate) const POINTS: [&str; 51] = [
    // `up` over several hosts: the command itself.
    "up:began",
    "up:looked",
    "up:planned",
    "up:started",
    "up:staying",
    "up:stayed",
    // The same, with --join.
    "join:described",
    "join:recording",
    "join:recorded",
    // The agent of `up` on a host.
    "agent-up:claimed",
    "agent-up:looked",
    "agent-up:ordered",
    "agent-up:started",
    "agent-up:stayed",
    // `up` on one host.
    "up-here:claimed",
    "up-here:started",
    "up-here:stayed",
    // A node that starts.
    "node:claimed",
    "node:files-taken",
    "node:servers-started",
    "node:formed",
    "node:metadata-opened",
    "node:described",
    "node:store-opened",
    "node:hosts-told",
    "node:published",
    "node:mounted",
    "node:registered",
    "node:settled",
    // A node that ends.
    "node:unmounted",
    "node:closed",
    "node:servers-stopping",
    "node:ended",
    // `down` over several hosts: the command itself.
    "down:asked",
    "down:finished",
    "down:stopped",
    // The agent of `down` on a host.
    "agent-down:claimed",
    "agent-down:asked",
    "agent-down:finished",
    "agent-down:stopped",
    // `down` on one host.
    "down-here:claimed",
    "down-here:finished",
    "down-here:stopped",
    // Deleting the data.
    "purge:tiers-deleted",
    "purge:directories-deleted",
    "purge:files-deleted",
    // `leave`, in the node that does it.
    "leave:emptied",
    // Changes of the deployment's description in the metadata, and of its file.
    "description:joined",
    "description:forgetting",
    "description:forgot",
    "description:keeping",
];

/// The point that is armed, and the host it is armed on.
struct Armed {
    point: String,
    host: Option<String>,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
static HOST: OnceLock<String> = OnceLock::new();

/// Tells for which host this process works.
pub(crate) fn on_host(name: &str) {
    let _ = HOST.set(name.to_owned());
}

/// Ends this process if the point is armed.
pub(crate) fn reach(point: &str) {
    let Some(armed) = ARMED.get_or_init(|| parse(&std::env::var("INTARSIA_FAILPOINT").ok()?))
    else {
        return;
    };
    let host = HOST.get().map_or("", String::as_str);
    if armed.point == point && armed.host.as_ref().is_none_or(|wanted| wanted == host) {
        note(&format!("{point}@{host}\n"));
        let _ = kill_process(getpid(), Signal::KILL);
        // The signal may be delivered to another thread first.
        std::thread::park();
    }
}

fn parse(text: &str) -> Option<Armed> {
    let (point, host) = match text.split_once('@') {
        Some((point, host)) => (point, Some(host.to_owned())),
        None => (text, None),
    };
    (!point.is_empty()).then(|| Armed { point: point.to_owned(), host })
}

fn note(line: &str) {
    let Some(path) = std::env::var_os("INTARSIA_FAILPOINT_LOG") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn reached_in(dir: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                reached_in(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let calls = text.split("failpoint::reach(\"").skip(1);
            found.extend(calls.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
        }
    }

    #[test]
    fn the_list_has_every_point_of_the_code_and_no_other() {
        let mut found = Vec::new();
        reached_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        // The call above, in the text that is searched for.
        found.retain(|name| name.contains(':'));
        let in_code: BTreeSet<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(in_code, BTreeSet::from(POINTS));
    }

    #[test]
    fn a_point_is_armed_everywhere_or_on_one_host() {
        let armed = parse("up:looked@n2").unwrap();
        assert_eq!((armed.point.as_str(), armed.host.as_deref()), ("up:looked", Some("n2")));
        assert!(parse("up:looked").unwrap().host.is_none() && parse("").is_none());
    }
}
