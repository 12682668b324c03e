//! `up`, `down` and `status` over several hosts: the same on every host, at once.
//!
//! This program runs on each host as an [agent](super::agent), reached by `ssh`, by `srun` within a Slurm job,
//! or by `lab exec`. All hosts are looked at before anything is started on any of them. Within a job a
//! [launcher] stays behind, and the store ends when it does.

pub(crate) mod checks;
mod conversation;
mod down;
mod hosts;
mod join;
pub(crate) mod launcher;
mod roster;
mod status;
mod up;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use intarsia_cluster::launch::{Event, Launch, Stream};
use intarsia_types::NodeId;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use down::down;
pub(crate) use hosts::Hosts;
pub(crate) use status::status;
pub(crate) use up::up;

use crate::cli::Duty;
use crate::config::Settings;
use crate::exit::{Failure, Outcome};

/// Stands for the host's name in paths, for hosts that share a file system.
const HOST: &str = "{host}";
/// How long a look at a host may take, `ssh` included.
const LOOK: Duration = Duration::from_secs(20);
/// Hosts that are reached at once.
const AT_ONCE: usize = 1024;

/// What became of a verb on a host.
type Outcomes<T> = BTreeMap<NodeId, Outcome<T>>;

impl Hosts {
    /// Agents with this duty on all hosts, each with its first orders.
    fn agents<T: Serialize>(
        &self,
        duty: Duty,
        mut orders: impl FnMut(&NodeId) -> Outcome<T>,
    ) -> Outcome<Launch> {
        let name = match duty {
            Duty::Inspect => "inspect",
            Duty::Up => "up",
            Duty::Down => "down",
            Duty::Keep => "keep",
            Duty::Points => "points",
        };
        self.launch(|host| {
            let text = serde_json::to_string(&orders(host)?);
            let text = text.map_err(|e| Failure::general(e.to_string()))?;
            Ok((vec!["agent".to_owned(), name.to_owned()], format!("{text}\n")))
        })
    }
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

fn usage(error: &impl std::fmt::Display) -> Failure {
    Failure::usage(error.to_string())
}

fn general(error: &impl std::fmt::Display) -> Failure {
    Failure::general(error.to_string())
}
