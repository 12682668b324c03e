//! `status`: the stores that are up, and the state of one.

use intarsia_types::ByteCount;
use serde_json::{Value, json};

use super::fleet;
use crate::cli::Status;
use crate::control::{self, Request};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{self, columns};
use crate::registry::{Entry, Registry};
use crate::{mounts, target};

pub(crate) fn run(arguments: &Status) -> Outcome<Exit> {
    let registry = Registry::of_user()?;
    let named = target::named(arguments.store.as_deref()).filter(|_| !arguments.all);
    if let (Some(path), false) = (&named, arguments.metrics)
        && let Some(hosts) = fleet::Hosts::meant(&arguments.hosts)?
    {
        return fleet::status(&hosts, path, arguments.json);
    }
    if arguments.metrics {
        let entry = target::running(&registry, named.as_deref())?;
        return metrics(&entry);
    }
    match named {
        Some(path) => {
            let seen = look(target::one(&registry, Some(&path))?);
            if arguments.json {
                output::json(&seen.json())?;
            } else {
                seen.show()?;
            }
            Ok(seen.exit())
        }
        None => all(&registry, arguments),
    }
}

fn metrics(entry: &Entry) -> Outcome<Exit> {
    let text = control::call(&entry.socket, &Request::Metrics, |_| {})?;
    output::data(text.as_str().unwrap_or_default())?;
    Ok(Exit::Ok)
}

fn all(registry: &Registry, arguments: &Status) -> Outcome<Exit> {
    let seen: Vec<Seen> = registry.entries().into_iter().map(look).collect();
    if arguments.json {
        output::json(&seen.iter().map(Seen::json).collect::<Vec<_>>())?;
    }
    match seen.as_slice() {
        [] => {
            let failure = Failure::not_running("no store is up")
                .with_help("'intarsia up DIRECTORY' brings one up");
            output::message(&format!("{}; {}", failure.message, failure.help.unwrap_or_default()));
            return Ok(failure.exit);
        }
        _ if arguments.json => {}
        [only] if !arguments.all => only.show()?,
        several => output::data(&columns(&list(several)))?,
    }
    Ok(seen.iter().map(Seen::exit).find(|e| *e != Exit::Ok).unwrap_or(Exit::Ok))
}

fn list(seen: &[Seen]) -> Vec<Vec<String>> {
    let heading = ["MOUNT", "STATE", "PID", "FILES", "IN TIERS", "DIRECTORY"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for one in seen {
        rows.push(vec![
            one.entry.mount_point.display().to_string(),
            one.word().to_owned(),
            one.entry.process.pid.to_string(),
            one.status().map_or("-".into(), |s| files(s).to_string()),
            one.status().map_or("-".into(), |s| used(s).to_string()),
            one.entry.dir.display().to_string(),
        ]);
    }
    rows
}

/// A store as we found it.
pub(crate) struct Seen {
    pub(crate) entry: Entry,
    /// False after `down --lazy`, while programs still hold files open.
    is_mounted: bool,
    pub(crate) state: State,
}

pub(crate) enum State {
    Up(Value),
    Silent(Failure),
    Dead,
}

/// Looks at a store, with a bound on every wait.
pub(crate) fn look(entry: Entry) -> Seen {
    let state = if !entry.process.is_running() {
        State::Dead
    } else {
        match control::call(&entry.socket, &Request::Status, |_| {}) {
            Ok(status) => State::Up(status),
            Err(failure) => State::Silent(failure),
        }
    };
    let is_mounted = mounts::at(&entry.mount_point).is_some();
    Seen { entry, is_mounted, state }
}

impl Seen {
    pub(crate) fn word(&self) -> &'static str {
        match self.state {
            State::Up(_) if !self.is_mounted => "detached",
            State::Up(_) if self.lacks_metadata() => "without metadata",
            State::Up(_) => "up",
            State::Silent(_) => "silent",
            State::Dead => "dead",
        }
    }

    fn status(&self) -> Option<&Value> {
        match &self.state {
            State::Up(status) => Some(status),
            _ => None,
        }
    }

    /// Whether the node is up, and the metadata does not answer it.
    fn lacks_metadata(&self) -> bool {
        self.status().is_some_and(|status| status["metadata_trouble"].is_string())
    }

    fn exit(&self) -> Exit {
        match self.state {
            State::Up(_) if self.is_mounted && !self.lacks_metadata() => Exit::Ok,
            _ => Exit::Degraded,
        }
    }

    pub(crate) fn json(&self) -> Value {
        let mut value = json!({
            "mount_point": self.entry.mount_point,
            "dir": self.entry.dir,
            "pid": self.entry.process.pid,
            "version": self.entry.version,
            "started": self.entry.started,
        });
        if let (Some(all), Some(status)) =
            (value.as_object_mut(), self.status().and_then(Value::as_object))
        {
            all.extend(status.clone());
        }
        value["state"] = self.word().into();
        value
    }

    fn show(&self) -> Outcome {
        let style = output::Style::of_stdout();
        let mount = self.entry.mount_point.display();
        match &self.state {
            State::Up(status) => {
                let word = if self.is_mounted && !self.lacks_metadata() {
                    style.good(self.word())
                } else {
                    style.warning(self.word())
                };
                let head = format!("{word} at {mount}");
                output::data(&format!("{head}\n{}{}", columns(&facts(status)), tiers(status)))
            }
            State::Silent(failure) => {
                output::data(&format!("{} at {mount}", style.bad("silent")))?;
                output::failure(failure);
                Ok(())
            }
            State::Dead => {
                output::data(&format!("{} at {mount}", style.bad("dead")))?;
                output::message(&format!(
                    "The node (pid {}) has ended without being taken down. The data lies in {}.\n\
                     'intarsia up {mount} --dir {}' brings it up again, 'intarsia down {mount}' clears the place.",
                    self.entry.process.pid,
                    self.entry.dir.display(),
                    self.entry.dir.display(),
                ));
                Ok(())
            }
        }
    }
}

/// Files and directories, the root left out.
pub(crate) fn files(status: &Value) -> u64 {
    status.get("inodes").and_then(Value::as_u64).unwrap_or(0).saturating_sub(1)
}

/// What the files take in all tiers.
pub(crate) fn used(status: &Value) -> ByteCount {
    let tiers = status.get("tiers").and_then(Value::as_array).into_iter().flatten();
    ByteCount(tiers.filter_map(|t| t.get("used_bytes")?.as_u64()).sum())
}

/// The state of a node as rows, numbers in the units of their names.
pub(crate) fn facts(status: &Value) -> Vec<Vec<String>> {
    let text = |field: &str| plain(status.get(field));
    let number = |field: &str| status.get(field).and_then(Value::as_u64).unwrap_or(0);
    let bytes = |field: &str| ByteCount(number(field)).to_string();
    let passthrough = status.get("passthrough").map_or_else(String::new, |mode| {
        let word = if mode.get("in_force") == Some(&Value::Bool(true)) { "yes" } else { "no" };
        format!("{word} ({})", plain(mode.get("reason")))
    });
    let uptime = std::time::Duration::from_secs(number("uptime_s"));
    [
        ("node", format!("{} (pid {}, version {})", text("node"), text("pid"), text("version"))),
        ("directory", text("dir")),
        ("up for", humantime::format_duration(uptime).to_string()),
        ("durability", text("durability")),
        ("passthrough", passthrough),
        (
            "files",
            match &status["metadata_trouble"] {
                Value::String(why) => format!("unknown: {why}"),
                _ => format!("{} (directories included)", files(status)),
            },
        ),
        ("in tiers", used(status).to_string()),
        ("requests", text("requests")),
        (
            "opens",
            format!(
                "{} by the kernel alone, {} by the node",
                text("opens_passthrough"),
                text("opens_cached")
            ),
        ),
        (
            "not final",
            format!(
                "{} unsettled, {} not yet checksummed",
                text("unsettled"),
                text("not_yet_checksummed")
            ),
        ),
        ("of other hosts", kept(status)),
        (
            "copies",
            format!(
                "{} files ({}) wait for copies on other hosts",
                text("waiting_for_copies"),
                bytes("waiting_for_copies_bytes")
            ),
        ),
        (
            "metadata",
            format!(
                "{} of memory, {} on disk",
                bytes("metadata_memory_bytes"),
                bytes("metadata_disk_bytes")
            ),
        ),
    ]
    .into_iter()
    .chain(redundancy(&status["metadata_servers"]).map(|text| ("its servers", text)))
    .chain(hosts(status).map(|text| ("hosts", text)))
    .map(|(name, value)| vec![format!("  {name}"), value])
    .collect()
}

/// Whether the metadata servers would go on without a host, and if not, why.
fn redundancy(servers: &Value) -> Option<String> {
    let count = |field: &str| servers[field].as_u64().unwrap_or(0);
    let shards = servers.as_object().map(|_| count("shards"))?;
    if servers["survives_loss"] == true {
        return Some(format!("{shards} shards, each with a replica in sync; any host may be lost"));
    }
    if shards == 0 {
        return Some("no server answers".into());
    }
    let lacking = [
        ("without a primary", count("without_primary")),
        ("without a replica", count("without_replica")),
        ("still copied from here", count("out_of_sync")),
    ];
    let mut why: Vec<_> = lacking
        .into_iter()
        .filter(|(_, number)| *number > 0)
        .map(|(what, number)| format!("{number} {what}"))
        .collect();
    let most = &servers["most_primaries"];
    if let (Some(host), Some(number)) = (most[0].as_str(), most[1].as_u64())
        && number * 2 >= shards
    {
        why.push(format!("{number} with their primary on {host}"));
    }
    Some(format!("of {shards} shards {}; no host may be lost now", why.join(", ")))
}

/// The hosts of a store of several, by what they are doing.
fn hosts(status: &Value) -> Option<String> {
    let hosts = status.get("hosts")?.as_array().filter(|hosts| !hosts.is_empty())?;
    let mut by_state: Vec<(String, Vec<String>)> = Vec::new();
    for host in hosts {
        let (name, state) = (plain(host.get("host")), plain(host.get("state")));
        match by_state.iter_mut().find(|(known, _)| *known == state) {
            Some((_, names)) => names.push(name),
            None => by_state.push((state, vec![name])),
        }
    }
    let said =
        by_state.into_iter().map(|(state, names)| format!("{}: {}", state, names.join(", ")));
    Some(said.collect::<Vec<_>>().join("; "))
}

/// What is kept of other hosts' files.
fn kept(status: &Value) -> String {
    let number = |name: &str| status["remote_cache"][name].as_u64().unwrap_or(0);
    let bytes = ByteCount(number("bytes"));
    format!("{} files kept here, {bytes}; {} opens served", number("files"), number("hits"))
}

/// The tiers as a table.
pub(crate) fn tiers(status: &Value) -> String {
    let heading = ["  TIER", "CLASS", "USED", "FREE", "FILE SYSTEM", "DIRECTORY"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for tier in status.get("tiers").and_then(Value::as_array).into_iter().flatten() {
        let bytes =
            |f: &str| ByteCount(tier.get(f).and_then(Value::as_u64).unwrap_or(0)).to_string();
        let low =
            if tier.get("is_low") == Some(&Value::Bool(true)) { " (nearly full)" } else { "" };
        rows.push(vec![
            format!("  {}", plain(tier.get("tier"))),
            plain(tier.get("class")),
            bytes("used_bytes"),
            format!("{}{low}", bytes("free_bytes")),
            plain(tier.get("file_system")),
            plain(tier.get("dir")),
        ]);
    }
    columns(&rows)
}

/// A JSON value without quotes; nothing for a missing one.
pub(crate) fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
