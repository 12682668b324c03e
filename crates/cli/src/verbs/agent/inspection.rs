//! What stands on a host before anything is started there.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use intarsia_cluster::deployment::Engine;
use intarsia_cluster::servers::{self, Kept, Program};
use intarsia_cluster::supervision;
use intarsia_types::NodeId;
use serde::{Deserialize, Serialize};

use super::{Orders, answer};
use crate::config::Settings;
use crate::deployment::Bundle;
use crate::exit::{Exit, Failure, Outcome};
use crate::launch;
use crate::preflight::{self, Plan};
use crate::process::Process;
use crate::registry::Registry;
use crate::tenure;
use crate::verbs::fleet::checks::check_reached;

/// What was found on a host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Inspection {
    pub(crate) version: String,
    pub(crate) plan: Plan,
    /// The files of the deployment that the store in the directory is a part of.
    pub(crate) bundle: Option<Bundle>,
    /// The node of this store that serves here already, at this mount point.
    pub(crate) running: Option<Process>,
    /// Whether metadata servers of it run here.
    pub(crate) has_servers: bool,
    /// The metadata servers whose data lies here.
    pub(crate) kept: Vec<Kept>,
    /// Whether the metadata servers that began here are elsewhere now.
    pub(crate) has_moved: bool,
    /// Hosts of the store that the user did not name, and whose nodes answer all the same.
    pub(crate) answering: Vec<NodeId>,
}

/// How long a host may take to take a connection.
const CONNECT: Duration = Duration::from_secs(1);

/// Looks, answers and changes nothing.
pub(super) fn run(orders: &mut Orders) -> Outcome<Exit> {
    let told: launch::Orders = orders.first()?;
    answer(&inspect(&told))?;
    Ok(Exit::Ok)
}

/// Everything that can be known to be wrong on this host.
pub(super) fn inspect(orders: &launch::Orders) -> Outcome<Inspection> {
    let settings = &orders.settings;
    let registry = Registry::of_user()?;
    let bundle = bundle_at(settings)?;
    let running = serving(settings, &registry);
    let has_servers = servers::is_any_running(&settings.dir.join("servers"));
    let plan = match running {
        Some(_) => Plan::default(),
        None => preflight::inspect(settings, &orders.conditions, &registry)?,
    };
    if let (Some(new), None) = (&orders.bundle, &running) {
        check_servers(settings, bundle.as_ref().unwrap_or(new), has_servers)?;
    }
    let version = env!("CARGO_PKG_VERSION").into();
    let answering = bundle.as_ref().map_or(Ok(Vec::new()), |b| answering(b, &orders.named))?;
    let servers_dir = settings.dir.join("servers");
    let (kept, has_moved) = (servers::kept(&servers_dir), supervision::has_moved(&servers_dir));
    Ok(Inspection { version, plan, bundle, running, has_servers, kept, has_moved, answering })
}

/// The hosts of the store, other than those named, whose nodes take connections.
fn answering(bundle: &Bundle, named: &[NodeId]) -> Outcome<Vec<NodeId>> {
    let deployment = bundle.deployment().map_err(|e| Failure::general(e.to_string()))?;
    let others = deployment.hosts().filter(|member| !named.contains(&member.name));
    let asked = others.map(|member| {
        let (host, place) = (member.name.clone(), (member.address, member.node_port).into());
        std::thread::spawn(move || TcpStream::connect_timeout(&place, CONNECT).ok().map(|_| host))
    });
    let asked: Vec<_> = asked.collect();
    Ok(asked.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect())
}

/// The node that serves what these settings describe, at the same place.
fn serving(settings: &Settings, registry: &Registry) -> Option<Process> {
    let process = tenure::serving(&settings.dir)?;
    let entry = registry.by_mount(&settings.mount)?;
    (entry.dir == settings.dir && entry.process == process).then_some(process)
}

/// The files of the deployment of which the store here is a part.
fn bundle_at(settings: &Settings) -> Outcome<Option<Bundle>> {
    let is_founded = settings.dir.join("store.json").exists();
    let there = settings.deployment.as_deref().filter(|_| is_founded);
    let bundle = there.and_then(Bundle::pack).transpose();
    bundle.map_err(|e| Failure::general(e.to_string()))
}

/// Whether what the deployment needs on this host is there and free.
fn check_servers(settings: &Settings, bundle: &Bundle, has_servers: bool) -> Outcome {
    let deployment = bundle.deployment().map_err(|e| Failure::general(e.to_string()))?;
    let Some(member) = deployment.member(&NodeId(settings.name.clone())) else { return Ok(()) };
    if let Engine::Url(url) = &deployment.engine {
        check_reached(url)?;
    }
    let mut ports = vec![member.node_port];
    if deployment.has_servers(&member.name) {
        Program::find().map_err(|e| Failure::general(e.to_string()))?;
        // Servers of this store that still run are taken over.
        if !has_servers {
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

/// Removes what an `up` left in a directory where it founded no store.
pub(super) fn forget_unfounded(dir: &Path) {
    if dir.join("store.json").exists() {
        return;
    }
    for name in ["servers", "deployment"] {
        let _ = std::fs::remove_dir_all(dir.join(name));
    }
}
