//! A node of a store of several hosts: the metadata servers of its host, and the metadata that all hosts
//! hold together.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use intarsia_cluster::client::{Access, CLIENT_USER, KEEPER_USER};
use intarsia_cluster::deployment::{
    Deployment, Encrypt, Engine, Member, Secret, Secrets, ServerAddress, ServerName,
};
use intarsia_cluster::formation;
use intarsia_cluster::recovery::{self, Survivor};
use intarsia_cluster::servers::{Program, Replication, Start};
use intarsia_cluster::supervision::{
    Begin, Holding, HostSeen, Redundancy, Roster, Supervisor, Watch,
};
use intarsia_meta::MetaEngine;
use intarsia_meta::engines::{RedisEngine, RedisOptions, RedisTls};
use intarsia_node::{ClusterOptions, DeploymentKey, HostPresence, Node};
use intarsia_types::{Durability, Error, NodeId, Result};
use serde::{Deserialize, Serialize};

use crate::assembly::{Assembly, KeptServer};
use crate::description::{Description, Follower};
use crate::failpoint;

/// Between two looks for metadata servers that are still being formed into a cluster.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the servers of a host outlive its node while no other node leaves the store: those that are
/// stopping too need them to the end.
const LEAVE_PATIENCE: Duration = Duration::from_secs(4);
/// And how long at most.
const LEAVE_LIMIT: Duration = Duration::from_secs(30);
/// How long a shard may be without a replica before a new server is started for it.
const REPLACE_AFTER: Duration = Duration::from_secs(5);

/// The same where it is known that nobody brings the lost replica back.
const REPLACE_AT_ONCE: Duration = Duration::from_millis(200);

/// The files of a deployment as they travel to a host: through a pipe, never on a command line.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Bundle {
    description: String,
    secrets: String,
    key: String,
    /// The authority that signed the certificates of metadata servers that exist.
    authority: Option<String>,
}

impl std::fmt::Debug for Bundle {
    /// The rest is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bundle").field("description", &self.description).finish_non_exhaustive()
    }
}

impl Bundle {
    /// Files with nothing secret in them.
    #[cfg(test)]
    pub(crate) fn for_tests(deployment: &Deployment) -> Self {
        let description = deployment.to_text().unwrap();
        Self { description, secrets: String::new(), key: String::new(), authority: None }
    }

    /// The files in this directory, if a deployment has put them there.
    pub(crate) fn pack(dir: &Path) -> Option<Result<Self>> {
        let path = description_path(dir);
        path.exists().then(|| {
            let read = intarsia_cluster::private::read_file;
            Ok(Self {
                description: read(&path)?,
                secrets: read(&secrets_path(dir))?,
                key: read(&key_path(dir))?,
                authority: authority_path(dir)
                    .exists()
                    .then(|| read(&authority_path(dir)))
                    .transpose()?,
            })
        })
    }

    /// The deployment that they are of.
    pub(crate) fn deployment(&self) -> Result<Deployment> {
        Deployment::parse(&self.description)
    }

    /// The same files with another description of the deployment.
    pub(crate) fn describing(&self, deployment: &Deployment) -> Result<Self> {
        Ok(Self { description: deployment.to_text()?, ..self.clone() })
    }

    /// Puts the files into a directory of this host that only its owner can enter.
    pub(crate) fn unpack(&self, dir: &Path) -> Result<()> {
        intarsia_cluster::private::make_dir(dir)?;
        let write = intarsia_cluster::private::write_file;
        write(&description_path(dir), self.description.as_bytes())?;
        write(&secrets_path(dir), self.secrets.as_bytes())?;
        write(&key_path(dir), self.key.as_bytes())?;
        match &self.authority {
            Some(authority) => write(&authority_path(dir), authority.as_bytes()),
            None => Ok(()),
        }
    }
}

fn description_path(dir: &Path) -> PathBuf {
    dir.join("deployment.toml")
}

fn secrets_path(dir: &Path) -> PathBuf {
    dir.join("secrets.toml")
}

fn key_path(dir: &Path) -> PathBuf {
    dir.join("key.pem")
}

fn authority_path(dir: &Path) -> PathBuf {
    dir.join("meta-ca.pem")
}

/// Metadata servers that exist.
#[derive(Default)]
pub(crate) struct Existing {
    /// Where one of them is, with user and password; none when the hosts run servers of their own.
    pub(crate) url: Option<String>,
    /// The authority that signed their certificates, in PEM; else those that the system trusts.
    pub(crate) authority: Option<String>,
}

impl Existing {
    /// Where they are, without what nobody else may know.
    pub(crate) fn engine(&self) -> Engine {
        self.url.as_deref().map_or(Engine::Servers, |url| Engine::Url(without_user(url)))
    }
}

/// A URL without user and password.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    let (place, path) = rest.split_at(end);
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    format!("{scheme}://{place}{path}")
}

/// The files of a new deployment, with passwords and a key of its own.
pub(crate) fn found(deployment: &Deployment, existing: &Existing) -> Result<Bundle> {
    let mut secrets = Secrets::generate(&deployment.store)?;
    secrets.url = existing.url.clone().map(Secret::new);
    Ok(Bundle {
        description: deployment.to_text()?,
        secrets: secrets.to_text()?,
        key: DeploymentKey::generate()?,
        authority: existing.authority.clone(),
    })
}

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

/// The node, once it is open.
type OpenNode = Arc<OnceLock<Weak<Node>>>;

/// The metadata servers of this host, if it has any. They would outlive their supervisor, so they are
/// stopped with this.
struct Servers(Option<Supervisor>);

impl Servers {
    fn stop(&mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), Supervisor::stop)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::error!(%error, "the metadata servers of this host may still run");
        }
    }
}

impl Membership {
    /// What is known of the metadata servers, if hosts of this store run some.
    pub(crate) fn redundancy(&self) -> Option<Redundancy> {
        self.servers.0.as_ref().and_then(Supervisor::redundancy)
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
        self.servers.0.as_ref()?.holding(host)
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
            Servers(None)
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
        drop(self.servers.0.take());
    }

    /// Stops the metadata servers of this host; what they hold stays on its disk. When the whole store goes
    /// down, nodes of other hosts need them a moment longer, so this waits for those; not for long.
    pub(crate) fn leave(mut self) -> Result<()> {
        self.note_end();
        if self.servers.0.as_ref().is_some_and(|servers| !servers.states().is_empty()) {
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

/// The hosts as the node sees them, and as they are expected to be before it does.
fn roster(node: &OpenNode, expected: Option<Vec<HostSeen>>) -> Roster {
    let node = Arc::clone(node);
    let seen = |host: HostPresence| HostSeen {
        name: host.name,
        address: host.address,
        is_alive: host.is_alive,
        is_leaving: host.is_leaving,
    };
    Roster::new(move || {
        let Some(node) = node.get() else { return expected.clone() };
        let hosts = node.upgrade()?.host_presences()?;
        Some(hosts.into_iter().map(seen).collect())
    })
}

/// The hosts of a store that begins again: what is missing of its servers must be made up for before any node can open the
/// metadata.
fn expected(deployment: &Deployment, assembly: Option<&Assembly>) -> Option<Vec<HostSeen>> {
    let assembly = assembly.filter(|assembly| assembly.is_cold())?;
    let seen = |member: &Member| HostSeen {
        name: member.name.clone(),
        address: Some((member.address, member.node_port).into()),
        is_alive: assembly.present.contains(&member.name),
        is_leaving: false,
    };
    Some(deployment.hosts().map(seen).collect())
}

/// What the metadata servers of a host start with.
struct ServerStart<'a> {
    deployment: &'a Deployment,
    secrets: &'a Secrets,
    /// Where the deployment's files are.
    files: &'a Path,
    host: &'a NodeId,
    dir: &'a Path,
    deadline: Instant,
    assembly: Option<&'a Assembly>,
}

impl ServerStart<'_> {
    fn run(&self, roster: Roster) -> Result<Servers> {
        let lacks = self.assembly.is_some_and(|a| a.is_cold() && a.lacks_servers);
        let watch = Watch {
            program: Program::find()?,
            deployment: self.deployment.clone(),
            secrets: self.secrets.clone(),
            key_file: self.key_file(),
            host: self.host.clone(),
            dir: self.dir.to_owned(),
            memory: None,
            replace_after: if lacks { REPLACE_AT_ONCE } else { REPLACE_AFTER },
            roster,
        };
        self.restore()?;
        let begin = self.begin(&watch);
        if begin == Begin::Join {
            tracing::info!(host = %self.host, "the metadata servers of this host begin anew as replicas");
        }
        let servers = Servers(Some(Supervisor::start(watch, begin, self.left())?));
        failpoint::reach("node:servers-started");
        self.form(begin)?;
        failpoint::reach("node:formed");
        Ok(servers)
    }

    /// Puts back what servers of this host had set aside, where nobody has a newer copy.
    fn restore(&self) -> Result<()> {
        let restored = self.assembly.iter().flat_map(|assembly| &assembly.restored);
        for (_, number) in restored.filter(|(host, _)| host == self.host) {
            tracing::warn!(number, "a metadata server goes on with what it had set aside");
            intarsia_cluster::servers::restore_aside(&self.dir.join(number.to_string()))?;
        }
        Ok(())
    }

    fn begin(&self, watch: &Watch) -> Begin {
        let start = if self.dir.exists() { Start::Kept } else { Start::Empty };
        match self.assembly {
            Some(assembly) if assembly.is_founding => Begin::Form(Start::Empty),
            Some(assembly) if assembly.is_cold() && start == Start::Empty => Begin::Join,
            Some(assembly) if assembly.is_cold() => Begin::Form(start),
            // What its servers had the others have, however short a time they have been up.
            Some(assembly)
                if assembly.is_running && start == Start::Empty && self.had_servers() =>
            {
                Begin::Join
            }
            Some(_) | None => watch.how_to_begin(start),
        }
    }

    /// Whether servers began on this host whose shards have copies on others.
    fn had_servers(&self) -> bool {
        self.deployment.begins_with_servers(self.host) && formation::has_replicas(self.deployment)
    }

    /// Makes one Cluster of all servers, on the first of the hosts that are there.
    fn form(&self, begin: Begin) -> Result<()> {
        let is_there = |host: &NodeId| self.assembly.is_none_or(|a| a.present.contains(host));
        let first = self.deployment.hosts_to_ask().find(|member| is_there(&member.name));
        if first.is_none_or(|first| first.name != *self.host) {
            return Ok(());
        }
        let password = self.secrets.keeper_password.clone();
        let keeper = Access { user: KEEPER_USER, password, key_file: self.key_file() };
        match self.assembly {
            Some(assembly) if assembly.is_founding => {
                formation::form(self.deployment, &keeper, self.left())
            }
            Some(assembly) if assembly.is_cold() => {
                if self.deployment.durability != Durability::Memory {
                    let survivors: Vec<Survivor> = assembly.kept.iter().map(survivor).collect();
                    let emptied = &assembly.emptied;
                    recovery::recover(self.deployment, &keeper, &survivors, emptied, self.left())?;
                }
                formation::form_again(self.deployment, &keeper, self.left())?;
                self.give_up(&assembly.emptied)
            }
            Some(_) => Ok(()),
            None => match begin {
                Begin::Form(Start::Empty) => formation::form(self.deployment, &keeper, self.left()),
                Begin::Form(Start::Kept) => {
                    formation::form_again(self.deployment, &keeper, self.left())
                }
                Begin::Join => Ok(()),
            },
        }
    }

    /// Makes parts of the metadata of which no copy is left parts of the store again, with nothing in them.
    fn give_up(&self, emptied: &[(u16, u16)]) -> Result<()> {
        if emptied.is_empty() {
            return Ok(());
        }
        let lost: Vec<_> = emptied.iter().map(|(first, last)| *first..=*last).collect();
        RedisEngine::give_up(&engine_options(self.deployment, self.secrets, self.files)?, &lost)
    }

    fn key_file(&self) -> Option<PathBuf> {
        is_encrypted(self.deployment).then(|| key_path(self.files))
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

fn survivor(kept: &KeptServer) -> Survivor {
    let name = ServerName { host: kept.host.clone(), number: kept.number };
    Survivor { name, is_complete: kept.is_complete }
}

fn is_encrypted(deployment: &Deployment) -> bool {
    deployment.engine == Engine::Servers && deployment.encrypt != Encrypt::Off
}

fn open_engine(
    deployment: &Deployment,
    secrets: &Secrets,
    files: &Path,
    deadline: Instant,
) -> Result<RedisEngine> {
    let options = engine_options(deployment, secrets, files)?;
    loop {
        match RedisEngine::open(&options) {
            // The first host makes the cluster; until then there is nothing to open.
            Err(error @ Error::Engine(_)) if Instant::now() + PAUSE < deadline => {
                tracing::debug!(%error, "the metadata servers are not ready");
                std::thread::sleep(PAUSE);
            }
            outcome => return outcome,
        }
    }
}

fn engine_options(
    deployment: &Deployment,
    secrets: &Secrets,
    files: &Path,
) -> Result<RedisOptions> {
    let urls = match &deployment.engine {
        Engine::Url(url) => {
            vec![secrets.url.as_ref().map_or_else(|| url.clone(), |url| url.reveal().to_owned())]
        }
        Engine::Servers => {
            let scheme = if is_encrypted(deployment) { "rediss" } else { "redis" };
            let places = (0..2).flat_map(|number| {
                deployment.hosts_to_ask().map(move |member| member.server(number))
            });
            places.map(|place| Ok(url_of(scheme, place?, secrets))).collect::<Result<_>>()?
        }
    };
    Ok(RedisOptions {
        urls,
        tls: trusted(deployment, files)?,
        store: deployment.store.clone(),
        require_replica: formation::replication_of(deployment) == Replication::Required,
        ..RedisOptions::default()
    })
}

/// Whose metadata servers are believed; none for those that the system trusts.
fn trusted(deployment: &Deployment, files: &Path) -> Result<Option<RedisTls>> {
    let read = |path: &Path| intarsia_cluster::private::read_file(path).map(String::into_bytes);
    if is_encrypted(deployment) {
        return Ok(Some(RedisTls::Deployment(read(&key_path(files))?)));
    }
    let path = authority_path(files);
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(RedisTls::Authority { authority: read(&path)?, identity: None }))
}

fn url_of(scheme: &str, server: ServerAddress, secrets: &Secrets) -> String {
    let password = secrets.client_password.reveal();
    let place = SocketAddr::new(server.ip, server.port);
    format!("{scheme}://{CLIENT_USER}:{password}@{place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_no_user_and_no_password() {
        for (url, plain) in [
            ("rediss://me:se@cret@h:6379/0", "rediss://h:6379/0"),
            ("redis://h:6379", "redis://h:6379"),
            ("redis://:secret@[::1]:1", "redis://[::1]:1"),
        ] {
            assert_eq!(without_user(url), plain);
        }
    }
}

/// Deployments for tests.
#[cfg(test)]
pub(crate) mod examples {
    use super::{Deployment, Durability, Engine, Member, NodeId};

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
