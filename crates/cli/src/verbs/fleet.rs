//! `up`, `down` and `status` over several hosts: the same on every host, at once.
//!
//! This program runs on each host as an [agent](super::agent), reached by `ssh`, by `srun` within a Slurm job,
//! or by `lab exec`. All hosts are looked at before anything is started on any of them. Within a job a
//! [launcher] stays behind, and the store ends when it does.

mod hosts;
mod join;
pub(crate) mod launcher;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use intarsia_cluster::deployment::{Deployment, Member};
use intarsia_cluster::formation::Survival;
use intarsia_cluster::launch::{Event, Launch, Stream};
use intarsia_types::NodeId;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) use hosts::Hosts;
use join::Joined;
pub(crate) use status::status;

use super::agent::Inspection;
use crate::cli::{Duty, Global, Up};
use crate::config::{self, Settings};
use crate::deployment::{self, Bundle, Existing};
use crate::exit::{Exit, Failure, Outcome};
use crate::launch::{Orders, Ready, Report};
use crate::output;
use crate::preflight::Conditions;

/// Stands for the host's name in paths, for hosts that share a file system.
const HOST: &str = "{host}";
/// How long a look at a host may take, `ssh` included.
const LOOK: Duration = Duration::from_secs(20);
/// What the way to a host may take beyond the time that a node has.
const WAY: Duration = Duration::from_secs(15);
/// A host that goes down with others waits for them.
const DOWN_PATIENCE: &str = "45s";
const DOWN_LIMIT: Duration = Duration::from_secs(90);
/// Hosts that are reached at once.
const AT_ONCE: usize = 1024;

/// What became of a verb on a host.
type Outcomes<T> = BTreeMap<NodeId, Outcome<T>>;

/// Brings a store up on all hosts, or on none.
pub(crate) fn up(hosts: &Hosts, arguments: &Up, global: &Global) -> Outcome<Exit> {
    if arguments.discard && !hosts.is_job {
        return Err(Failure::usage("--discard is for a store that ends with a job")
            .with_help("take the store down with 'intarsia down --purge'"));
    }
    let settings = config::load(arguments.settings.layers(), global.config.as_deref())?.settings;
    let all = hosts.members.iter().map(|(host, _)| (host.clone(), for_host(&settings, host)));
    let all: BTreeMap<NodeId, Settings> = all.collect();
    if hosts.share_files {
        check_apart(all.values())?;
    }
    let joined = arguments.join.as_deref();
    let joined = joined.map(|mount| Joined::with(mount, hosts, arguments.port)).transpose()?;
    let new = match &joined {
        Some(joined) => joined.bundle.clone(),
        None => describe(hosts, &settings, arguments)?,
    };
    let conditions = Conditions {
        nonempty: arguments.place.nonempty,
        fuse_device: arguments.place.fuse_device.clone(),
    };
    let orders = |bundle: &Bundle| -> BTreeMap<NodeId, Orders> {
        let order = |(host, settings): (&NodeId, &Settings)| {
            let orders = Orders {
                settings: settings.clone(),
                conditions: conditions.clone(),
                log_format: global.log_format,
                bundle: Some(bundle.clone()),
                discard: arguments.discard,
            };
            (host.clone(), orders)
        };
        all.iter().map(order).collect()
    };
    let seen = inspect(hosts, &orders(&new))?;
    let (bundle, is_new) = match &joined {
        Some(joined) => (new, joined.check(&seen)?),
        None => {
            let found = the_same_store(hosts, &seen)?;
            let is_new = found.is_none();
            (found.unwrap_or(new), is_new)
        }
    };
    if arguments.dry_run {
        return show_plan(hosts, &all, &seen, !is_new, arguments.json);
    }
    if let Some(warning) = Survival::of(all.len()).warning().filter(|_| joined.is_none()) {
        output::warn(warning);
    }
    let outcomes = start(hosts, &orders(&bundle), settings.wait + WAY)?;
    let exit = announce(hosts, &all, outcomes, is_new, arguments.json)?;
    joined.map_or(Ok(()), |joined| joined.record())?;
    Ok(exit)
}

/// The settings of one host: its name, also where `{host}` stands in a path.
fn for_host(settings: &Settings, host: &NodeId) -> Settings {
    let named = |path: &Path| PathBuf::from(placed(path, host));
    let mut settings = settings.clone();
    settings.name.clone_from(&host.0);
    settings.mount = named(&settings.mount);
    settings.dir = named(&settings.dir);
    for tier in &mut settings.tiers {
        tier.dir = named(&tier.dir);
    }
    settings.deployment = Some(settings.dir.join("deployment"));
    settings
}

fn placed(path: &Path, host: &NodeId) -> String {
    path.to_string_lossy().replace(HOST, &host.0)
}

/// Hosts that share a file system need places of their own.
fn check_apart<'s>(all: impl Iterator<Item = &'s Settings>) -> Outcome {
    let mut seen: BTreeMap<&Path, &str> = BTreeMap::new();
    for settings in all {
        for place in [&settings.mount, &settings.dir] {
            if let Some(other) = seen.insert(place, &settings.name) {
                return Err(Failure::usage(format!(
                    "{other} and {} would both use {}; put {HOST} into the mount point and the directories, as in /mnt/{HOST}",
                    settings.name,
                    place.display()
                )));
            }
        }
    }
    Ok(())
}

/// The files of a new deployment of these hosts.
fn describe(hosts: &Hosts, settings: &Settings, arguments: &Up) -> Outcome<Bundle> {
    let server_port = arguments.port.checked_add(1).ok_or_else(|| {
        Failure::usage("--port: a node and its metadata servers need 9 ports from there on")
    })?;
    let members = hosts.members.iter().map(|(name, address)| Member {
        name: name.clone(),
        address: *address,
        node_port: arguments.port,
        server_port,
    });
    let existing = existing(arguments)?;
    let members = members.collect();
    let described = Deployment::new(settings.durability, 1, existing.engine(), members);
    let mut described = described.map_err(|e| usage(&e))?;
    described.encrypt = arguments.encrypt;
    deployment::found(&described, &existing).map_err(|e| general(&e))
}

/// The metadata servers that the user names.
fn existing(arguments: &Up) -> Outcome<Existing> {
    let url = arguments.meta.clone().or_else(|| std::env::var("INTARSIA_META").ok());
    let url = url.filter(|url| !url.is_empty());
    let authority = match &arguments.meta_ca {
        Some(_) if !url.as_ref().is_some_and(|url| url.starts_with("rediss://")) => {
            return Err(Failure::usage("--meta-ca is for servers named by --meta rediss://…"));
        }
        Some(path) => {
            let text = std::fs::read_to_string(path);
            Some(text.map_err(|e| Failure::io(path.display(), &e))?)
        }
        None => None,
    };
    Ok(Existing { url, authority })
}

/// Looks at all hosts; a failure names all that stand in the way, and nothing has been changed.
fn inspect(
    hosts: &Hosts,
    orders: &BTreeMap<NodeId, Orders>,
) -> Outcome<BTreeMap<NodeId, Inspection>> {
    let launch = agents(hosts, orders, Duty::Inspect)?;
    let mut seen = BTreeMap::new();
    let mut failures = Vec::new();
    for (host, outcome) in ask::<Outcome<Inspection>>(&launch, LOOK) {
        let outcome = outcome.and_then(|found| {
            found.map_err(|failure| Failure {
                message: format!("host {host}: {}", failure.message),
                ..failure
            })
        });
        match outcome {
            Ok(inspection) => drop(seen.insert(host, inspection)),
            Err(failure) => failures.push(failure),
        }
    }
    let versions: BTreeSet<&str> = seen.values().map(|s| s.version.as_str()).collect();
    let own = env!("CARGO_PKG_VERSION");
    if failures.is_empty() && versions.iter().any(|version| *version != own) {
        let other = |(host, seen): (&NodeId, &Inspection)| {
            (seen.version != own).then(|| format!("{host} has {}", seen.version))
        };
        let others: Vec<String> = seen.iter().filter_map(other).collect();
        return Err(Failure::usage(format!(
            "this is version {own}, but {}; install the same on every host",
            others.join(", ")
        )));
    }
    worst(failures).map_or(Ok(seen), Err)
}

/// The first of several failures, with the messages of all.
fn worst(failures: Vec<Failure>) -> Option<Failure> {
    let said = |failure: &Failure| match &failure.help {
        Some(help) => format!("{} ({help})", failure.message),
        None => failure.message.clone(),
    };
    let message = failures.iter().map(said).collect::<Vec<_>>().join("\n");
    match <[Failure; 1]>::try_from(failures) {
        Ok([only]) => Some(only),
        Err(several) => {
            several.into_iter().next().map(|first| Failure { message, help: None, ..first })
        }
    }
}

/// The files of the store that lies on these hosts already, if one does: that and no other comes up.
fn the_same_store(hosts: &Hosts, seen: &BTreeMap<NodeId, Inspection>) -> Outcome<Option<Bundle>> {
    let mut found: BTreeMap<String, (Bundle, Deployment, Vec<&str>)> = BTreeMap::new();
    for (host, inspection) in seen {
        let Some(bundle) = &inspection.bundle else { continue };
        let there = bundle.deployment().map_err(|e| general(&e))?;
        let entry = found
            .entry(there.store.clone())
            .or_insert_with(|| (bundle.clone(), there.clone(), Vec::new()));
        entry.2.push(&host.0);
        // Hosts know those that were there when they joined.
        for joined in there.joined {
            if entry.1.member(&joined.name).is_none() {
                entry.1 = entry.1.clone().with_joined(joined).map_err(|e| general(&e))?;
            }
        }
    }
    let help = "name the hosts of the store, another --dir, or purge what is there";
    if found.len() > 1 {
        let parts = found.into_iter().map(|(store, (_, _, on))| {
            format!("{} of {}", on.join(", "), store.get(..8).unwrap_or_default())
        });
        return Err(Failure::usage(format!(
            "the hosts hold parts of different stores: {}",
            parts.collect::<Vec<_>>().join("; ")
        ))
        .with_help(help));
    }
    let Some((bundle, there, _)) = found.into_values().next() else { return Ok(None) };
    let known: BTreeMap<_, _> = there.hosts().map(|m| (&m.name, m.address)).collect();
    let named: BTreeMap<_, _> = hosts.members.iter().map(|(name, ip)| (name, *ip)).collect();
    if known != named {
        let list = there.hosts().map(|m| format!("{} ({})", m.name, m.address));
        return Err(Failure::usage(format!(
            "the store that lies there is of the hosts {}, and these are not all the same",
            list.collect::<Vec<_>>().join(", ")
        ))
        .with_help(help));
    }
    bundle.describing(&there).map(Some).map_err(|e| general(&e))
}

/// Agents with this duty on all hosts.
fn agents(hosts: &Hosts, orders: &BTreeMap<NodeId, Orders>, duty: Duty) -> Outcome<Launch> {
    let name = match duty {
        Duty::Inspect => "inspect",
        Duty::Start => "start",
        Duty::Keep => "keep",
    };
    hosts.launch(|host| {
        let orders = orders.get(host).ok_or_else(|| Failure::general("a host without orders"))?;
        let text = serde_json::to_string(orders).map_err(|e| Failure::general(e.to_string()))?;
        Ok((vec!["agent".to_owned(), name.to_owned()], format!("{text}\n")))
    })
}

/// Runs something on all hosts; each answers with JSON on its standard output, or says why not.
fn ask<T: DeserializeOwned>(launch: &Launch, limit: Duration) -> Outcomes<T> {
    let mut said: BTreeMap<NodeId, String> = BTreeMap::new();
    let failures = launch.run(AT_ONCE, limit, |event| {
        if let Event::Line { host, stream: Stream::Output, text } = event {
            let all = said.entry(host.clone()).or_default();
            all.push_str(text);
            all.push('\n');
        }
    });
    let mut failures: BTreeMap<NodeId, String> = failures.into_iter().collect();
    let read = |host: &NodeId| {
        let text = said.remove(host).unwrap_or_default();
        let answer = serde_json::from_str(&text);
        answer.map_err(|error| {
            let why = failures.remove(host);
            Failure::general(why.unwrap_or_else(|| format!("host {host}: no answer ({error})")))
        })
    };
    let hosts: Vec<NodeId> = launch.tasks.iter().map(|task| task.host.clone()).collect();
    let mut read = read;
    hosts.into_iter().map(|host| (host.clone(), read(&host))).collect()
}

/// Starts a node on every host and waits for all of them.
fn start(
    hosts: &Hosts,
    orders: &BTreeMap<NodeId, Orders>,
    limit: Duration,
) -> Outcome<Outcomes<Ready>> {
    let reports: Outcomes<Report> = if hosts.is_job {
        launcher::start(&agents(hosts, orders, Duty::Keep)?, limit)?
    } else {
        ask(&agents(hosts, orders, Duty::Start)?, limit)
    };
    let read = |(host, outcome): (NodeId, Outcome<Report>)| {
        let ready = outcome.and_then(|report| match report {
            Report::Ready(ready) => Ok(ready),
            Report::Failed(failure) => {
                Err(Failure { message: format!("host {host}: {}", failure.message), ..failure })
            }
        });
        (host, ready)
    };
    Ok(reports.into_iter().map(read).collect())
}

fn announce(
    hosts: &Hosts,
    all: &BTreeMap<NodeId, Settings>,
    outcomes: Outcomes<Ready>,
    is_new: bool,
    as_json: bool,
) -> Outcome<Exit> {
    let mut ready = BTreeMap::new();
    let mut failures = Vec::new();
    for (host, outcome) in outcomes {
        match outcome {
            Ok(one) => drop(ready.insert(host, one)),
            Err(failure) => failures.push(failure),
        }
    }
    if let Some(failure) = worst(failures) {
        // After a failure nothing is to stay up; of a new store nothing is to stay at all.
        for left in take_down(hosts, all, is_new) {
            output::warn(&left);
        }
        return Err(failure);
    }
    let lines = hosts.members.iter().filter_map(|(h, address)| Some((h, address, ready.get(h)?)));
    if as_json {
        let named: Vec<Value> = lines
            .map(|(host, address, ready)| {
                json!({ "host": host.0, "address": address, "mount_point": ready.mount_point,
                        "dir": ready.dir, "pid": ready.pid, "mode": ready.mode })
            })
            .collect();
        output::json(&named)?;
        return Ok(Exit::Ok);
    }
    for (host, address, ready) in lines {
        output::message(&format!("{host} ({address}): {}", ready.mount_point.display()));
    }
    let until = if hosts.is_job { ", until the job ends" } else { "" };
    let count = output::count(ready.len(), "host");
    output::message(&format!("The store is up on {count}{until}."));
    let here = config::host_name();
    let first = hosts.members.first().and_then(|(host, _)| ready.get(host));
    if let Some(one) = ready.get(&NodeId(here)).or(first) {
        let mount = one.mount_point.display().to_string();
        output::data(&format!("export INTARSIA_MOUNT={}", output::shell_quoted(&mount)))?;
    }
    Ok(Exit::Ok)
}

/// Takes down whatever came up, and returns what could not be.
fn take_down(hosts: &Hosts, all: &BTreeMap<NodeId, Settings>, is_new: bool) -> Vec<String> {
    let launch = hosts.launch(|host| {
        let mount = all.get(host).map_or_else(String::new, |s| s.mount.display().to_string());
        let mut words = vec!["down".to_owned(), mount, "--this-host".into(), "--force".into()];
        words.extend(is_new.then(|| "--purge".to_owned()));
        Ok((words, String::new()))
    });
    match launch {
        Ok(launch) => {
            let failures = launch.run(AT_ONCE, DOWN_LIMIT, |_| {});
            failures.into_iter().map(|(_, why)| why).collect()
        }
        Err(failure) => vec![failure.message],
    }
}

/// Takes the store down on all hosts.
pub(crate) fn down(hosts: &Hosts, mount: &Path, purge: bool, force: bool) -> Outcome<Exit> {
    let launch = hosts.launch(|host| {
        let mut words = vec!["down".to_owned(), placed(mount, host), "--this-host".into()];
        words.extend(["--timeout".to_owned(), DOWN_PATIENCE.into()]);
        words.extend(purge.then(|| "--purge".to_owned()));
        words.extend(force.then(|| "--force".to_owned()));
        Ok((words, String::new()))
    })?;
    let mut said: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
    let failed = launch.run(AT_ONCE, DOWN_LIMIT, |event| {
        if let Event::Line { host, stream: Stream::Error, text } = event {
            said.entry(host.clone()).or_default().push(text.clone());
        }
    });
    if failed.is_empty() {
        output::message(&format!("The store is down on {} hosts.", hosts.members.len()));
        return Ok(Exit::Ok);
    }
    let line = |(host, why): &(NodeId, String)| match said.get(host) {
        // What a host says itself may be several lines, of which the last is not the first in weight.
        Some(lines) if lines.len() > 1 => format!("{host}: {}", lines.join("\n  ")),
        _ => why.clone(),
    };
    Err(Failure::general(failed.iter().map(line).collect::<Vec<_>>().join("\n")))
}

fn show_plan(
    hosts: &Hosts,
    all: &BTreeMap<NodeId, Settings>,
    seen: &BTreeMap<NodeId, Inspection>,
    is_found: bool,
    as_json: bool,
) -> Outcome<Exit> {
    if as_json {
        let plans: BTreeMap<&str, _> = seen.iter().map(|(h, s)| (h.0.as_str(), &s.plan)).collect();
        let settings: Vec<&Settings> = all.values().collect();
        output::json(&json!({ "hosts": settings, "plans": plans, "found": is_found }))?;
        return Ok(Exit::Ok);
    }
    let verb = if is_found { "open" } else { "found" };
    let line = |(host, address): &(NodeId, _)| {
        let settings = all.get(host)?;
        Some(format!(
            "on {host} ({address}): {verb} the store in {}, mount it at {}",
            settings.dir.display(),
            settings.mount.display()
        ))
    };
    let lines: Vec<String> = hosts.members.iter().filter_map(line).collect();
    output::data(&format!("Would:\n  {}", lines.join("\n  ")))?;
    Ok(Exit::Ok)
}

fn usage(error: &impl std::fmt::Display) -> Failure {
    Failure::usage(error.to_string())
}

fn general(error: &impl std::fmt::Display) -> Failure {
    Failure::general(error.to_string())
}
