//! The servers of one host and what is to be done with each of them next.

mod balancing;
mod logs;
mod returning;
mod standing;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use intarsia_types::{Durability, Error, Result};
use tracing::{info, warn};

use self::logs::Logs;
pub use self::standing::go_over;
use super::balance::Scene;
use super::redundancy::Redundancy;
use super::roster::{self, Hosts};
use super::view::View;
use super::{Begin, ServerState, Watch, own};
use crate::client::Connection;
use crate::deployment::{ServerAddress, ServerName};
use crate::formation::{Placed, replication_of, servers_per_host};
use crate::servers::{Replication, Server, Start};
use crate::topology::{Health, Peer, Role, ServerId, Topology};

/// Before a server that could not be started is started again.
const RETRY: Duration = Duration::from_secs(1);
/// A replica that was attached shows in every view after this.
const SETTLED: Duration = Duration::from_secs(5);
/// Between two orders that change who is primary. A server keeps the votes of its last election for twice
/// the node timeout (4 s) and would take them for those of the next, which then counts for nothing
/// (seen with Redis 7.0.15); so nobody is elected twice within this time by our order.
const BETWEEN_PROMOTIONS: Duration = Duration::from_secs(10);
pub(super) struct Host {
    watch: Watch,
    replication: Replication,
    /// As of the last look.
    hosts: Hosts,
    view: View,
    slots: Vec<Slot>,
    /// Servers of this host that began to follow a primary not long ago.
    placed: Vec<(Instant, ServerId, ServerAddress)>,
    /// Since when a shard has had no replica.
    wanting: HashMap<ServerId, Instant>,
    /// Since when this host has been one that is to have servers, and has none.
    unseated: Option<Instant>,
    /// Since when a replica of ours could relieve an added one.
    relieving: Option<Instant>,
    /// Since when a server of ours has been one too many.
    superfluous: HashMap<ServerName, Instant>,
    /// Since when a server of ours has followed a replica.
    chained: HashMap<ServerName, Instant>,
    /// Since when a server of ours has neither held slots nor followed a primary.
    idle: HashMap<ServerName, Instant>,
    /// Since when a primary has been dead without a successor.
    orphaned: HashMap<ServerId, Instant>,
    redundancy: Option<Redundancy>,
    last_promotion: Option<Instant>,
    /// Whether a server of ours may be elected as soon as it has copied everything.
    is_copying: bool,
    logs: Logs,
}

/// A server of this host, running or to be.
struct Slot {
    name: ServerName,
    address: ServerAddress,
    /// Its name in the Cluster, as far as known.
    id: Option<ServerId>,
    phase: Phase,
    /// Before this, the heir of its slots is not told again.
    next_order: Option<Instant>,
    /// When it was last seen to hold slots.
    last_primary: Option<Instant>,
    /// Since when its slots have had no heir.
    without_heir: Option<Instant>,
    /// Whether it may be barred from elections: until it is seen to have everything.
    is_unproven: bool,
}

impl Slot {
    const fn new(name: ServerName, address: ServerAddress, phase: Phase) -> Self {
        Self {
            name,
            address,
            id: None,
            phase,
            next_order: None,
            last_primary: None,
            without_heir: None,
            is_unproven: true,
        }
    }

    /// A server that runs has no place in the Cluster, and is to get one.
    fn return_to_cluster(&mut self) {
        let placeholder = Phase::Lost { not_before: Instant::now() };
        self.phase = match std::mem::replace(&mut self.phase, placeholder) {
            Phase::Serving(server) => Phase::Returning { server, next_meet: Instant::now() },
            other => other,
        };
    }
}

enum Phase {
    Serving(Server),
    /// The process is gone. `not_before` keeps one that cannot start from being tried without pause.
    Lost {
        not_before: Instant,
    },
    Returning {
        server: Server,
        next_meet: Instant,
    },
}

impl Host {
    pub(super) fn begin(watch: Watch, begin: Begin, timeout: Duration) -> Result<Self> {
        let keeper = watch.keeper();
        let mut slots = Vec::new();
        for name in own::servers(&watch, begin) {
            let settings = watch.settings(&name)?;
            let running = Server::adopt(name.clone(), settings.address, &settings.dir);
            let phase = match (running, begin) {
                (Some(server), _) => Phase::Serving(server),
                // Others have its shard; it comes back as any server that died.
                (None, Begin::Form(Start::Kept)) if has_lost_all(&settings) => {
                    Phase::Lost { not_before: Instant::now() }
                }
                (None, Begin::Form(start)) => {
                    Phase::Serving(Server::start(&watch.program, name.clone(), &settings, start)?)
                }
                (None, Begin::Join) => Phase::Lost { not_before: Instant::now() },
            };
            slots.push(Slot::new(name, settings.address, phase));
        }
        for slot in &mut slots {
            if let Phase::Serving(server) = &mut slot.phase {
                server.wait_until_answering(&keeper, timeout)?;
            }
        }
        let place = watch.deployment.hosts().position(|m| m.name == watch.host);
        Ok(Self {
            replication: replication_of(&watch.deployment),
            hosts: Hosts::unknown(),
            view: View::new(keeper, place.unwrap_or_default()),
            watch,
            slots,
            placed: Vec::new(),
            wanting: HashMap::new(),
            unseated: None,
            relieving: None,
            superfluous: HashMap::new(),
            chained: HashMap::new(),
            idle: HashMap::new(),
            orphaned: HashMap::new(),
            redundancy: None,
            last_promotion: None,
            is_copying: false,
            logs: Logs::new(),
        })
    }

    pub(super) fn states(&self) -> Vec<(ServerName, ServerState)> {
        self.slots.iter().map(|slot| (slot.name.clone(), slot.phase.state())).collect()
    }

    pub(super) fn is_calm(&self) -> bool {
        self.slots.iter().all(|s| s.phase.state() == ServerState::Serving)
    }

    /// Whether the next look shall not wait: a server is on its way back, or copies from its primary, and the shard has no
    /// heir until it is allowed to stand.
    pub(super) fn is_hasty(&self) -> bool {
        !self.is_calm() || self.is_copying
    }

    /// Descriptors that become readable when a server of this host ends.
    pub(super) fn descriptors(&self) -> Vec<OwnedFd> {
        self.slots.iter().filter_map(|s| s.phase.server()?.process().descriptor()).collect()
    }

    /// Whether there is something to look after: servers here, or those of a host that leaves.
    pub(super) fn is_busy(&self) -> bool {
        !self.slots.is_empty() || !self.wanting.is_empty() || self.hosts.is_any_leaving()
    }

    /// Does what can be done now.
    pub(super) fn step(&mut self) {
        self.notice_ends();
        self.look_at_hosts();
        if self.slots.is_empty() && !self.hosts.is_known() {
            // The node is not open yet. Hosts that start together must not all look for servers on all hosts.
            return;
        }
        self.force_logs();
        if self.replication == Replication::Alone {
            self.restart_with_data();
            if !self.hosts.is_any_leaving() && self.slots.len() < 2 {
                return;
            }
        }
        let Some(view) = self.look() else {
            warn!(host = %self.watch.host, "no metadata server of any host answers");
            self.redundancy = Some(Redundancy::default());
            if self.replication == Replication::Waived {
                self.restart_with_data();
            }
            return;
        };
        self.measure_redundancy(&view);
        self.note_complete(&view);
        self.let_stand(&view);
        self.take_up_added(&view);
        self.drop_replaced(&view);
        self.learn_ids(&view);
        self.forget_gone(&view);
        self.straighten(&view);
        self.take_up_idle(&view);
        self.promote_overdue(&view);
        for index in 0..self.slots.len() {
            self.bring_back(index, &view);
        }
        if self.is_calm() {
            self.balance(&view);
        }
    }

    /// Learns which hosts there are.
    fn look_at_hosts(&mut self) {
        self.hosts = match self.watch.roster.look() {
            Some(seen) => {
                roster::complete(&mut self.watch.deployment, &seen);
                Hosts::of(&seen)
            }
            None => Hosts::unknown(),
        };
    }

    const fn scene<'a>(&'a self, view: &'a Topology) -> Scene<'a> {
        Scene { deployment: &self.watch.deployment, view, hosts: &self.hosts }
    }

    pub(super) fn redundancy(&self) -> Option<Redundancy> {
        self.redundancy.clone()
    }

    fn measure_redundancy(&mut self, view: &Topology) {
        let own = self.slots.iter().map(|slot| slot.address);
        let own: Vec<_> = own.filter_map(|at| view.by_address(at.ip, at.port)).collect();
        let mut out_of_sync = 0;
        for primary in own.into_iter().filter(|peer| peer.has_slots()) {
            let fields = self.view.with(&primary.address, |c| c.fields(&["INFO", "replication"]));
            let has_replica = fields.is_ok_and(|fields| {
                fields.numbered("slave").any(|replica| replica.contains("state=online"))
            });
            let has_heir = view.replicas_of(&primary.id).any(|replica| !replica.is_barred);
            out_of_sync += usize::from(!has_replica || !has_heir);
        }
        self.redundancy = Some(Redundancy::of(self.scene(view), out_of_sync));
    }

    /// Notes of servers that they have everything now: should the other copies be lost, theirs counts.
    fn note_complete(&mut self, view: &Topology) {
        for slot in &self.slots {
            let Phase::Serving(server) = &slot.phase else { continue };
            if server.is_complete() {
                continue;
            }
            let Some(peer) = view.by_address(slot.address.ip, slot.address.port) else { continue };
            let has_all = peer.has_slots()
                || matches!(peer.role, Role::Replica(_))
                    && self.view.with(&slot.address, has_copied_all).unwrap_or(false);
            if has_all && let Err(error) = server.note_complete() {
                warn!(server = %slot.name, %error, "that it has copied everything cannot be noted");
            }
        }
    }

    /// Has a server of this host follow a primary. What it has counts for nothing until it has copied everything.
    fn follow(&mut self, address: &ServerAddress, primary: &ServerId) -> Result<()> {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.address == *address) {
            slot.is_unproven = true;
            if let Some(server) = slot.phase.server() {
                server.note_incomplete()?;
            }
        }
        self.view.with(address, |c| go_over(c, primary))
    }

    fn notice_ends(&mut self) {
        for slot in &mut self.slots {
            let has_ended = match &mut slot.phase {
                Phase::Serving(server) | Phase::Returning { server, .. } => !server.is_running(),
                Phase::Lost { .. } => false,
            };
            if has_ended {
                warn!(server = %slot.name, address = %slot.address, "metadata server ended");
                self.view.renew(&slot.address);
                slot.phase = Phase::Lost { not_before: Instant::now() };
            }
        }
    }

    /// What a server says that is in the Cluster already; one that is returning knows nothing yet.
    fn look(&mut self) -> Option<Topology> {
        let serving = |s: &&Slot| s.phase.state() == ServerState::Serving;
        let own: Vec<ServerAddress> =
            self.slots.iter().filter(serving).map(|s| s.address).collect();
        let others = self.others();
        self.view.look(&own, &others)
    }

    /// Where the servers of the other hosts listen.
    fn others(&self) -> Vec<ServerAddress> {
        let deployment = &self.watch.deployment;
        let first = 0..servers_per_host(deployment);
        let elsewhere = deployment.hosts_to_ask().filter(|m| m.name != self.watch.host);
        elsewhere.flat_map(|m| first.clone().filter_map(|number| m.server(number).ok())).collect()
    }

    fn learn_ids(&mut self, view: &Topology) {
        for slot in self.slots.iter_mut().filter(|s| s.phase.state() == ServerState::Serving) {
            let there = view.by_address(slot.address.ip, slot.address.port);
            if let Some(peer) = there.filter(|p| p.health != Health::Failed) {
                slot.id = Some(peer.id.clone());
                if peer.has_slots() {
                    slot.last_primary = Some(Instant::now());
                }
            }
        }
    }

    /// Servers that this host added before its node ended: those that run go on under its watch, and the slots of one
    /// that is dead are to find their heir.
    fn take_up_added(&mut self, view: &Topology) {
        for peer in view.peers() {
            let name = self.watch.deployment.server_at(peer.address.ip, peer.address.port);
            let Some(name) = name.filter(|name| name.host == self.watch.host) else { continue };
            if self.slots.iter().any(|slot| slot.name == name) {
                continue;
            }
            let Ok(settings) = self.watch.settings(&name) else { continue };
            let phase = match Server::adopt(name.clone(), settings.address, &settings.dir) {
                Some(server) => Phase::Serving(server),
                None if peer.has_slots() && peer.health == Health::Failed => {
                    Phase::Lost { not_before: Instant::now() }
                }
                None => continue,
            };
            info!(server = %name, state = ?phase.state(), "was added before this node began");
            self.slots.push(Slot::new(name, settings.address, phase));
        }
    }

    /// A server that was added for a shard and died is not needed when another has its slots; nor is any of a host
    /// that leaves.
    fn drop_replaced(&mut self, view: &Topology) {
        let first = servers_per_host(&self.watch.deployment);
        let is_leaving = self.hosts.is_leaving(&self.watch.host);
        let is_replaced = |slot: &Slot| {
            let is_dead = matches!(slot.phase, Phase::Lost { .. });
            let old = slot.id.as_ref().and_then(|id| view.by_id(id));
            let has_heir = old.is_some_and(|old| returning::is_replaced(view, old));
            (slot.name.number >= first || is_leaving) && is_dead && has_heir
        };
        let (replaced, left) = self.slots.drain(..).partition(is_replaced);
        self.slots = left;
        for slot in replaced {
            own::give_up(&self.watch, &slot.name);
        }
    }

    /// Has the servers of this host forget those of hosts that have left for good.
    fn forget_gone(&mut self, view: &Topology) {
        let scene = self.scene(view);
        let is_gone = |peer: &&Peer| {
            peer.health == Health::Failed
                && !peer.has_slots()
                && scene.host_of(peer).is_some_and(|host| scene.hosts.is_gone(&host))
        };
        let gone: Vec<ServerId> =
            view.peers().iter().filter(is_gone).map(|p| p.id.clone()).collect();
        let own: Vec<ServerAddress> = self.slots.iter().map(|slot| slot.address).collect();
        for (id, address) in gone.iter().flat_map(|id| own.iter().map(move |own| (id, own))) {
            let _ = self.view.with(address, |c| c.ask::<()>(&["CLUSTER", "FORGET", &id.0]));
        }
    }

    /// For the only server of a deployment, and those of the only host that is left: nothing else has their data.
    fn restart_with_data(&mut self) {
        let begins_here = self.watch.deployment.begins_with_servers(&self.watch.host);
        for index in 0..self.slots.len() {
            let is_due = self.slots.get(index).is_some_and(|slot| {
                let is_lost =
                    matches!(slot.phase, Phase::Lost { not_before } if not_before <= Instant::now());
                // One without a name has nothing yet.
                is_lost && (slot.id.is_some() || begins_here)
            });
            if is_due {
                self.start(index, Start::Kept);
            }
        }
    }

    /// Forces the logs of changes out, once a second: see the servers' settings.
    fn force_logs(&mut self) {
        if self.watch.deployment.durability == Durability::Interval {
            let servers = self.slots.iter().filter_map(|slot| slot.phase.server());
            self.logs.force(servers);
        }
    }

    fn host_index(&self) -> Result<usize> {
        let host = &self.watch.host;
        let mut hosts = self.watch.deployment.hosts();
        hosts
            .position(|m| m.name == *host)
            .ok_or_else(|| Error::Invalid(format!("host {host} is not of this deployment")))
    }

    fn placed(&mut self) -> Placed {
        self.placed.retain(|(when, ..)| when.elapsed() < SETTLED);
        let mut placed = Placed::default();
        for (_, primary, replica) in &self.placed {
            placed.add(primary.clone(), *replica);
        }
        placed
    }
}

impl Phase {
    const fn state(&self) -> ServerState {
        match self {
            Self::Serving(_) => ServerState::Serving,
            Self::Lost { .. } => ServerState::Lost,
            Self::Returning { .. } => ServerState::Returning,
        }
    }

    const fn server(&self) -> Option<&Server> {
        match self {
            Self::Serving(server) | Self::Returning { server, .. } => Some(server),
            Self::Lost { .. } => None,
        }
    }
}

/// Whether a server that is to go on with what it had has nothing, though other hosts have.
fn has_lost_all(settings: &crate::servers::Settings) -> bool {
    settings.replication != Replication::Alone
        && settings.durability != Durability::Memory
        && !crate::servers::has_data(&settings.dir)
}

/// Whether a replica has everything that its primary has, but for what is on its way.
fn has_copied_all(connection: &mut Connection) -> Result<bool> {
    let fields = connection.fields(&["INFO", "replication"])?;
    let has_all = fields.get("master_link_status") == Some("up")
        && fields.get("master_sync_in_progress") == Some("0");
    // After a copy of everything its log is written anew; until then the disk has what was before.
    let log = connection.fields(&["INFO", "persistence"])?;
    let is_idle = |field: &str| log.number(field).is_none_or(|busy| busy == 0);
    Ok(has_all && is_idle("aof_rewrite_in_progress") && is_idle("aof_rewrite_scheduled"))
}
