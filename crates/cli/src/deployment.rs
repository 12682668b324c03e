//! A node of a store of several hosts: the metadata servers of its host, and the metadata that all hosts
//! hold together.

mod bundle;
mod engine;
mod servers;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use intarsia_cluster::deployment::{Deployment, Encrypt};
use intarsia_cluster::formation;
use intarsia_cluster::secrets::Secrets;
use intarsia_cluster::supervision::{Holding, Redundancy, Supervisor};
use intarsia_meta::MetaEngine;
use intarsia_node::{ClusterOptions, DeploymentKey, Node};
use intarsia_types::{Durability, Error, NodeId, Result};

use crate::assembly::Assembly;
use crate::description::{Description, Follower};
use crate::failpoint;

pub(crate) use bundle::{Bundle, Existing, found};
use bundle::{description_path, key_path, secrets_path};
use engine::open_engine;
use servers::{OpenNode, ServerStart, Servers, expected, roster};

/// How long the servers of a host outlive its node while no other node leaves the store: those that are
/// stopping too need them to the end.
const LEAVE_PATIENCE: Duration = Duration::from_secs(4);
/// And how long at most.
const LEAVE_LIMIT: Duration = Duration::from_secs(30);
/// How long servers that are copying are waited for before nobody watches over them any more.
const COPY_PATIENCE: Duration = Duration::from_secs(8);
/// Between two looks for whether others leave.
const PAUSE: Duration = Duration::from_millis(50);

/// What a node of a deployment holds while it is up.
pub(crate) struct Membership {
    pub(crate) options: ClusterOptions,
    servers: Servers,
    node: OpenNode,
    host: NodeId,
    deployment: Deployment,
    description: Description,
    follower: Option<Follower>,
    /// Hosts of the store that did not come up with it.
    absent: Vec<NodeId>,
    /// Whether this host mends what was left of names that are given up.
    mends: bool,
}

impl Membership {
    /// Whether metadata is on this host that no other would have without it, or may be.
    pub(crate) fn holds_metadata(&self) -> bool {
        self.has_replicas() && self.holding(&self.host).is_none_or(|holding| !holding.is_vacant())
    }

    /// What is known of the metadata servers, if hosts of this store run some.
    pub(crate) fn redundancy(&self) -> Option<Redundancy> {
        self.servers.watch().and_then(Supervisor::redundancy)
    }

    /// Whether a part of the metadata was given up, and this host is the one that mends the rest.
    pub(crate) const fn mends(&self) -> bool {
        self.mends
    }

    /// Whether the hosts run metadata servers of which each needs another host for its copy.
    pub(crate) fn has_replicas(&self) -> bool {
        formation::has_replicas(&self.deployment)
    }

    /// What a host still has of the metadata; none while that is not known, or where hosts run no servers.
    pub(crate) fn holding(&self, host: &NodeId) -> Option<Holding> {
        self.servers.watch()?.holding(host)
    }

    /// From now on the node tells which hosts there are.
    ///
    /// # Errors
    /// Of the metadata, in which those are marked as lost that did not come up.
    pub(crate) fn tell_of_hosts(&self, node: &Arc<Node>) -> Result<()> {
        node.give_up_hosts(&self.absent)?;
        let _ = self.node.set(Arc::downgrade(node));
        Ok(())
    }

    /// Starts the metadata servers of this host and opens what the servers of all hosts hold, once they
    /// are a cluster. `dir` has the deployment's files, `store_dir` what the host keeps of the store.
    ///
    /// # Errors
    /// A malformed file; servers that are missing when `wait` is over, by name.
    pub(crate) fn join(
        dir: &Path,
        host: &str,
        store_dir: &Path,
        wait: Duration,
        assembly: Option<&Assembly>,
    ) -> Result<Self> {
        let deadline = Instant::now() + wait;
        let deployment = Deployment::read(&description_path(dir))?;
        let secrets = Secrets::read(&secrets_path(dir))?;
        let host = NodeId(host.to_owned());
        let member = deployment.member(&host).cloned().ok_or_else(|| {
            let names: Vec<_> = deployment.hosts().map(|m| m.name.0.as_str()).collect();
            Error::Invalid(format!(
                "host {host} is not one of the deployment in {}, which has {}; give its name there with --name",
                dir.display(),
                names.join(", ")
            ))
        })?;
        let node = OpenNode::default();
        let servers = if deployment.has_servers(&host) {
            let start = ServerStart {
                deployment: &deployment,
                secrets: &secrets,
                files: dir,
                host: &host,
                dir: &store_dir.join("servers"),
                deadline,
                assembly,
            };
            start.run(roster(&node, expected(&deployment, assembly)))?
        } else {
            Servers::default()
        };
        let engine: Arc<dyn MetaEngine> =
            Arc::new(open_engine(&deployment, &secrets, dir, deadline)?);
        failpoint::reach("node:metadata-opened");
        let description = Description::new(&engine, &description_path(dir));
        let is_new_here = !store_dir.join("store.json").exists();
        let deployment = description.settle(&deployment, &member, is_new_here)?;
        failpoint::reach("node:described");
        let key = DeploymentKey::load(&key_path(dir))?;
        let is_all = deployment.encrypt == Encrypt::All;
        let options = ClusterOptions {
            engine,
            store: deployment.store.clone(),
            listen: (member.address, member.node_port).into(),
            network: None,
            key: if is_all { key.encrypting() } else { key },
        };
        let mends =
            assembly.is_some_and(|a| !a.emptied.is_empty() && a.present.first() == Some(&host));
        let absent = assembly.filter(|a| a.is_cold()).map(|a| a.absent.clone()).unwrap_or_default();
        Ok(Self {
            options,
            servers,
            host,
            deployment,
            description,
            follower: None,
            node,
            absent,
            mends,
        })
    }

    /// The store has been founded, or opened: what the hosts are is known to all from now on, and followed.
    pub(crate) fn follow_hosts(&mut self) -> Result<()> {
        self.description.publish(&self.deployment)?;
        self.follower = Some(Follower::start(self.description.clone())?);
        Ok(())
    }

    /// The store's description.
    pub(crate) fn description(&self) -> Description {
        self.description.clone()
    }

    /// The node has ended: if it has left the store for good, so does its host.
    fn note_end(&mut self) {
        drop(self.follower.take());
        let noted = self.description.forget(&self.host).and_then(|()| self.description.refresh());
        if let Err(error) = noted {
            tracing::warn!(%error, "the hosts of the store may have changed; the next start looks");
        }
    }

    /// Ends the watch over the metadata servers of this host, which go on.
    pub(crate) fn leave_servers(mut self) {
        self.note_end();
        if let Some(watch) = self.servers.watch()
            && self.deployment.durability != Durability::Memory
        {
            watch.settle(COPY_PATIENCE);
        }
        self.servers.leave();
    }

    /// Stops the metadata servers that were started here, for a node that is not to stay; those that ran before go on.
    pub(crate) fn take_back(mut self) -> Result<()> {
        self.note_end();
        self.servers.take_back()
    }

    /// Stops the metadata servers of this host; what they hold stays on its disk. When the whole store goes
    /// down, nodes of other hosts need them a moment longer, so this waits for those; not for long.
    pub(crate) fn leave(mut self) -> Result<()> {
        self.note_end();
        if self.servers.watch().is_some_and(|watch| !watch.states().is_empty()) {
            self.wait_for_others();
        }
        failpoint::reach("node:servers-stopping");
        self.servers.stop()
    }

    fn wait_for_others(&self) {
        let Ok(count) = intarsia_node::member_counter(&self.options.engine) else { return };
        let begun = Instant::now();
        let (mut members, mut changed) = (usize::MAX, begun);
        while members > 0 && changed.elapsed() < LEAVE_PATIENCE && begun.elapsed() < LEAVE_LIMIT {
            match count() {
                Ok(now) if now == members => std::thread::sleep(PAUSE),
                Ok(now) => (members, changed) = (now, Instant::now()),
                // Their servers are gone, so they are.
                Err(_) => return,
            }
        }
    }
}

/// Deployments for tests.
#[cfg(test)]
pub(crate) mod examples {
    use intarsia_cluster::deployment::{Deployment, Engine, Member};
    use intarsia_types::{Durability, NodeId};

    pub(crate) fn member(n: u8) -> Member {
        Member {
            name: NodeId(format!("n{n}")),
            address: [10, 0, 0, n].into(),
            node_port: 7400,
            server_port: 7401,
        }
    }

    pub(crate) fn store(hosts: u8) -> Deployment {
        let members = (1..=hosts).map(member).collect();
        Deployment::new(Durability::Interval, 2, Engine::Servers, members).unwrap()
    }
}
