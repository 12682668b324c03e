//! `up --hosts` and `down --hosts`: the same verb on every host of a deployment, at once.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use intarsia_cluster::deployment::{Deployment, Engine, Member};
use intarsia_cluster::formation::Survival;
use intarsia_cluster::hosts::HostList;
use intarsia_cluster::launch::Launcher;
use intarsia_lab::{Lab, LabName};
use intarsia_types::NodeId;
use serde_json::{Value, json};

use crate::cli::{Global, HostFlags, Up};
use crate::config::{self, Settings};
use crate::deployment;
use crate::exit::{Exit, Failure, Outcome};
use crate::launch::{self, Orders, Ready, Report};
use crate::output;
use crate::preflight::Conditions;

/// Stands for the host's name in paths, for hosts that share a file system.
const HOST: &str = "{host}";
/// Ports of a deployment: of the node, and the first for its metadata servers.
const NODE_PORT: u16 = 7400;
const SERVER_PORT: u16 = 7401;

/// A host that goes down with others waits for them.
const DOWN_PATIENCE: &str = "45s";

/// The hosts that the flags name, with their addresses, and how they are reached.
struct Hosts {
    members: Vec<(NodeId, IpAddr)>,
    /// How this program is started on one of them.
    launcher: Launcher,
}

impl Hosts {
    fn named(flags: &HostFlags) -> Outcome<Self> {
        let listed = match (&flags.hosts, &flags.hostfile) {
            (Some(text), _) => {
                Some(HostList::from_expression("--hosts", text).map_err(|e| usage(&e))?)
            }
            (None, Some(path)) => Some(HostList::from_file(path).map_err(|e| usage(&e))?),
            (None, None) => None,
        };
        match &flags.lab {
            Some(name) => Self::of_lab(name, listed.as_ref()),
            None => Self::of_network(listed.as_ref()),
        }
    }

    fn of_lab(name: &str, listed: Option<&HostList>) -> Outcome<Self> {
        let lab_name: LabName = name.parse().map_err(|e| usage(&e))?;
        let lab = Lab::open(&lab_name).map_err(|e| general(&e))?.ok_or_else(|| {
            Failure::usage(format!("there is no lab '{name}'; make one with 'intarsia lab up'"))
        })?;
        let wanted = match listed {
            Some(list) => list
                .hosts()
                .iter()
                .map(|host| lab.node(&host.0))
                .collect::<Result<_, _>>()
                .map_err(|e| usage(&e))?,
            None => lab.nodes().collect::<Vec<_>>(),
        };
        let members = wanted
            .into_iter()
            .map(|node| (NodeId(node.to_string()), IpAddr::V4(lab.address(node))))
            .collect();
        let words = ["lab", "exec", "--lab", name, "{host}", "--"].map(str::to_owned);
        let words = std::iter::once(program()?).chain(words).collect();
        Ok(Self { members, launcher: Launcher::Words(words) })
    }

    fn of_network(listed: Option<&HostList>) -> Outcome<Self> {
        let list = listed.ok_or_else(|| Failure::usage("no host is named"))?;
        let members = list
            .hosts()
            .iter()
            .map(|host| Ok((host.clone(), address_of(host)?)))
            .collect::<Outcome<_>>()?;
        Ok(Self { members, launcher: Launcher::Ssh { options: Vec::new() } })
    }

    /// This program with these arguments, on a host.
    fn command(&self, host: &NodeId, arguments: &[&str]) -> Outcome<Command> {
        let arguments = arguments.iter().map(|word| (*word).to_owned());
        let words: Vec<String> = std::iter::once(program()?).chain(arguments).collect();
        self.launcher.command(host, &words).map_err(|e| general(&e))
    }
}

/// The address by which all hosts reach this one.
fn address_of(host: &NodeId) -> Outcome<IpAddr> {
    let found = (host.0.as_str(), 0).to_socket_addrs().map_err(|e| {
        Failure::usage(format!("host {host} has no address ({e}); is the name right?"))
    })?;
    found.map(|address| address.ip()).find(|ip| !ip.is_loopback()).ok_or_else(|| {
        Failure::usage(format!(
            "host {host} has only a loopback address, by which no other host reaches it; see /etc/hosts"
        ))
    })
}

/// Brings a store up on all hosts, or on none.
pub(crate) fn up(arguments: &Up, global: &Global) -> Outcome<Exit> {
    let hosts = Hosts::named(&arguments.hosts)?;
    let settings = config::load(arguments.settings.layers(), global.config.as_deref())?.settings;
    let description = describe(&hosts, &settings, arguments.meta.as_deref())?;
    let all: Vec<Settings> =
        hosts.members.iter().map(|(host, _)| for_host(&settings, host)).collect();
    if arguments.hosts.lab.is_some() {
        check_apart(&all)?;
    }
    if arguments.dry_run {
        return show_plan(&hosts, &all, arguments.json);
    }
    if let Some(warning) = Survival::of(all.len()).warning() {
        output::warn(warning);
    }
    let bundle = deployment::found(&description).map_err(|e| general(&e))?;
    let conditions = Conditions {
        nonempty: arguments.place.nonempty,
        fuse_device: arguments.place.fuse_device.clone(),
    };
    let orders: Vec<Orders> = all
        .into_iter()
        .map(|settings| Orders {
            settings,
            conditions: conditions.clone(),
            log_format: global.log_format,
            bundle: Some(bundle.clone()),
        })
        .collect();
    let outcomes = on_all(&hosts, &orders);
    announce(&hosts, &orders, outcomes, arguments.json)
}

/// The settings of one host: its name, also where `{host}` stands in a path.
fn for_host(settings: &Settings, host: &NodeId) -> Settings {
    let named = |path: &Path| PathBuf::from(path.to_string_lossy().replace(HOST, &host.0));
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

/// Hosts that share a file system need places of their own.
fn check_apart(all: &[Settings]) -> Outcome {
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

fn describe(hosts: &Hosts, settings: &Settings, meta: Option<&str>) -> Outcome<Deployment> {
    let members = hosts.members.iter().map(|(name, address)| Member {
        name: name.clone(),
        address: *address,
        node_port: NODE_PORT,
        server_port: SERVER_PORT,
    });
    let engine = meta.map_or(Engine::Servers, |url| Engine::Url(url.to_owned()));
    Deployment::new(settings.durability, 1, engine, members.collect()).map_err(|e| usage(&e))
}

/// Starts a node on every host and waits for all of them.
fn on_all(hosts: &Hosts, orders: &[Orders]) -> Vec<Outcome<Ready>> {
    std::thread::scope(|scope| {
        let started: Vec<_> =
            orders.iter().map(|orders| scope.spawn(|| start(hosts, orders))).collect();
        started
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Failure::general("a thread panicked")))
            })
            .collect()
    })
}

fn start(hosts: &Hosts, orders: &Orders) -> Outcome<Ready> {
    let host = NodeId(orders.settings.name.clone());
    let failed = |e: &std::io::Error| Failure::io(format!("start a node on {host}"), e);
    let mut child = hosts
        .command(&host, &["node", "--detached"])?
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| failed(&e))?;
    if let Some(mut stdin) = child.stdin.take() {
        let text = serde_json::to_vec(orders).map_err(|e| Failure::general(e.to_string()))?;
        // A host that cannot be reached has closed its end; its message says why.
        let _ = stdin.write_all(&text);
    }
    // The node has a limit of its own; beyond it the way there is at fault.
    let patience = orders.settings.wait + Duration::from_secs(15);
    match launch::await_report(&mut child, patience) {
        Some(Report::Ready(ready)) => Ok(ready),
        Some(Report::Failed(failure)) => {
            Err(Failure { message: format!("{host}: {}", failure.message), ..failure })
        }
        None => {
            let _ = child.kill();
            let said = child.wait_with_output().map(|out| out.stderr).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            let last = said.lines().last().unwrap_or("it said nothing");
            Err(Failure::general(format!("{host}: no node came up: {last}")))
        }
    }
}

/// This program, which must be at the same place on every host.
fn program() -> Outcome<String> {
    let path = std::env::current_exe().map_err(|e| Failure::io("find this program", &e))?;
    Ok(path.to_string_lossy().into_owned())
}

fn announce(
    hosts: &Hosts,
    orders: &[Orders],
    outcomes: Vec<Outcome<Ready>>,
    as_json: bool,
) -> Outcome<Exit> {
    let (ready, failures): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    let mut failures: Vec<Failure> = failures.into_iter().filter_map(Result::err).collect();
    if let Some(first) = failures.pop() {
        for failure in &failures {
            output::warn(&failure.message);
        }
        take_down(hosts, orders.iter().map(|orders| &orders.settings));
        return Err(first);
    }
    let ready: Vec<Ready> = ready.into_iter().filter_map(Result::ok).collect();
    let named: Vec<Value> = hosts
        .members
        .iter()
        .zip(&ready)
        .map(|((host, address), ready)| {
            json!({ "host": host.0, "address": address, "mount_point": ready.mount_point,
                    "dir": ready.dir, "pid": ready.pid, "mode": ready.mode })
        })
        .collect();
    if as_json {
        output::json(&named)?;
        return Ok(Exit::Ok);
    }
    for ((host, address), ready) in hosts.members.iter().zip(&ready) {
        output::message(&format!("{host} ({address}): {}", ready.mount_point.display()));
    }
    output::message(&format!("The store is up on {} hosts.", ready.len()));
    if let Some(first) = ready.first() {
        let mount = first.mount_point.display().to_string();
        output::data(&format!("export INTARSIA_MOUNT={}", output::shell_quoted(&mount)))?;
    }
    Ok(Exit::Ok)
}

/// After a failure nothing is to stay up; what cannot be taken down is said.
fn take_down<'s>(hosts: &Hosts, all: impl Iterator<Item = &'s Settings>) {
    for settings in all {
        let host = NodeId(settings.name.clone());
        let mount = settings.mount.to_string_lossy();
        let Ok(mut command) = hosts.command(&host, &["down", &mount, "--force"]) else { return };
        if let Err(error) = command.stdin(Stdio::null()).output() {
            output::warn(&format!("{host}: cannot take the store down: {error}"));
        }
    }
}

/// Takes the store down on all hosts.
pub(crate) fn down(flags: &HostFlags, mount: &Path, purge: bool) -> Outcome<Exit> {
    let hosts = Hosts::named(flags)?;
    let command = |host: &NodeId| {
        let place = mount.to_string_lossy().replace(HOST, &host.0);
        let mut words = vec!["down", &place, "--timeout", DOWN_PATIENCE];
        words.extend(purge.then_some("--purge"));
        hosts.command(host, &words)
    };
    let commands = hosts.members.iter().map(|(host, _)| Ok((host, command(host)?)));
    let commands = commands.collect::<Outcome<Vec<_>>>()?;
    let mut failed = Vec::new();
    std::thread::scope(|scope| {
        let running: Vec<_> = commands
            .into_iter()
            .map(|(host, mut command)| {
                scope.spawn(move || (host, command.stdin(Stdio::null()).output()))
            })
            .collect();
        for thread in running {
            match thread.join() {
                Ok((host, Ok(output))) if !output.status.success() => {
                    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                    failed.push(format!("{host}: {said}"));
                }
                Ok((host, Err(error))) => failed.push(format!("{host}: {error}")),
                Ok(_) => {}
                Err(_) => failed.push("a thread panicked".into()),
            }
        }
    });
    if failed.is_empty() {
        output::message(&format!("The store is down on {} hosts.", hosts.members.len()));
        return Ok(Exit::Ok);
    }
    Err(Failure::general(failed.join("\n")))
}

fn show_plan(hosts: &Hosts, all: &[Settings], as_json: bool) -> Outcome<Exit> {
    if as_json {
        output::json(&json!({ "hosts": all }))?;
        return Ok(Exit::Ok);
    }
    let lines: Vec<String> = hosts
        .members
        .iter()
        .zip(all)
        .map(|((host, address), settings)| {
            format!(
                "on {host} ({address}): keep data in {}, mount at {}",
                settings.dir.display(),
                settings.mount.display()
            )
        })
        .collect();
    output::data(&format!("Would:\n  {}", lines.join("\n  ")))?;
    Ok(Exit::Ok)
}

fn usage(error: &impl std::fmt::Display) -> Failure {
    Failure::usage(error.to_string())
}

fn general(error: &impl std::fmt::Display) -> Failure {
    Failure::general(error.to_string())
}
