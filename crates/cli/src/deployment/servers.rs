//! The metadata servers of this host: how they begin, and whom they see.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use intarsia_cluster::client::{Access, KEEPER_USER};
use intarsia_cluster::deployment::{Deployment, Member, ServerAddress, ServerName};
use intarsia_cluster::formation;
use intarsia_cluster::process::Process;
use intarsia_cluster::recovery::{self, Survivor};
use intarsia_cluster::secrets::Secrets;
use intarsia_cluster::servers::{self, Program, Start};
use intarsia_cluster::supervision::{Begin, HostSeen, Roster, Supervisor, Watch};
use intarsia_cluster::topology::ServerId;
use intarsia_meta::engines::RedisEngine;
use intarsia_node::{HostPresence, Node};
use intarsia_types::{Durability, NodeId, Result};

use super::bundle::key_path;
use super::engine::{engine_options, is_encrypted};
use crate::assembly::{Assembly, KeptServer};
use crate::failpoint;

/// How long a shard may be without a replica before a new server is started for it.
const REPLACE_AFTER: Duration = Duration::from_secs(5);
/// The same where it is known that nobody brings the lost replica back.
const REPLACE_AT_ONCE: Duration = Duration::from_millis(200);

/// The node, once it is open.
pub(super) type OpenNode = Arc<OnceLock<Weak<Node>>>;

/// The metadata servers of this host, if it has any.
#[derive(Default)]
pub(super) struct Servers {
    watch: Option<Supervisor>,
    /// Until they are stopped, or left to go on: with this, those end that were started here, which would outlive their
    /// supervisor. Those that ran before may be all that other hosts have, and go on.
    begun: Option<Begun>,
}

/// What was there before the servers of this host were started.
struct Begun {
    dir: PathBuf,
    earlier: Vec<Process>,
}

impl Servers {
    fn begin_in(dir: &Path) -> Self {
        let begun = Begun { dir: dir.to_owned(), earlier: servers::all_running(dir) };
        Self { watch: None, begun: Some(begun) }
    }

    /// The watch over them.
    pub(super) const fn watch(&self) -> Option<&Supervisor> {
        self.watch.as_ref()
    }

    /// Ends the watch over them, and lets them go on.
    pub(super) fn leave(mut self) {
        self.begun = None;
    }

    /// Ends the watch and stops all of them, keeping their data.
    pub(super) fn stop(mut self) -> Result<()> {
        if let Some(begun) = &mut self.begun {
            begun.earlier.clear();
        }
        self.take_back()
    }

    /// Ends the watch and stops those that were started here.
    pub(super) fn take_back(&mut self) -> Result<()> {
        drop(self.watch.take());
        let Some(Begun { dir, earlier }) = self.begun.take() else { return Ok(()) };
        servers::stop_all_but(&dir, &earlier).map(|_| ())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        if let Err(error) = self.take_back() {
            tracing::error!(%error, "the metadata servers of this host may still run");
        }
    }
}

/// The hosts as the node sees them, and as they are expected to be before it does.
pub(super) fn roster(node: &OpenNode, expected: Option<Vec<HostSeen>>) -> Roster {
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
pub(super) fn expected(
    deployment: &Deployment,
    assembly: Option<&Assembly>,
) -> Option<Vec<HostSeen>> {
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
pub(super) struct ServerStart<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) secrets: &'a Secrets,
    /// Where the deployment's files are.
    pub(super) files: &'a Path,
    pub(super) host: &'a NodeId,
    pub(super) dir: &'a Path,
    pub(super) deadline: Instant,
    pub(super) assembly: Option<&'a Assembly>,
}

impl ServerStart<'_> {
    pub(super) fn run(&self, roster: Roster) -> Result<Servers> {
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
        let mut servers = Servers::begin_in(self.dir);
        self.restore()?;
        let begin = self.begin(&watch);
        if begin == Begin::Join {
            tracing::info!(host = %self.host, "the metadata servers of this host begin anew as replicas");
        }
        servers.watch = Some(Supervisor::start(watch, begin, self.left())?);
        failpoint::reach("node:servers-started");
        self.form(begin)?;
        failpoint::reach("node:formed");
        Ok(servers)
    }

    /// Puts back what servers of this host had set aside, where nobody has a newer copy, and has those count for nothing
    /// whose copy is older than another.
    fn restore(&self) -> Result<()> {
        let restored = self.assembly.iter().flat_map(|assembly| &assembly.restored);
        for (_, number) in restored.filter(|(host, _)| host == self.host) {
            tracing::warn!(number, "a metadata server goes on with what it had set aside");
            servers::restore_aside(&self.dir.join(number.to_string()))?;
        }
        let kept = self.assembly.iter().flat_map(|assembly| &assembly.kept);
        for one in kept.filter(|one| one.host == *self.host && !one.is_complete) {
            servers::note_incomplete(&self.dir.join(one.number.to_string()))?;
        }
        self.assembly.map_or(Ok(()), |assembly| self.correct_maps(assembly))
    }

    /// Has the servers of this host forget where those were that do not begin again: others may come to these addresses.
    fn correct_maps(&self, assembly: &Assembly) -> Result<()> {
        if assembly.identities.is_empty() {
            return Ok(());
        }
        let comes_anew = |address: &ServerAddress| {
            let name = self.deployment.server_at(address.ip, address.port);
            name.is_some_and(|name| assembly.present.contains(&name.host))
        };
        let is_gone = |id: &ServerId, address: &ServerAddress| {
            !assembly.identities.contains(id) && comes_anew(address)
        };
        for one in assembly.kept.iter().filter(|one| one.host == *self.host) {
            let of_one = assembly
                .successors
                .iter()
                .filter(|(host, number, _)| (host, *number) == (&one.host, one.number));
            let learn: Vec<&ServerId> = of_one.map(|(.., of)| of).collect();
            servers::correct_map(&self.dir.join(one.number.to_string()), &is_gone, &learn)?;
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
