//! How a server that died comes back, and who takes its place.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use intarsia_types::{Durability, Error, NodeId, Result};
use tracing::{info, warn};

use super::standing::is_barred;
use super::{BETWEEN_PROMOTIONS, Host, Phase, RETRY};
use crate::client::{Connection, Fields};
use crate::deployment::ServerAddress;
use crate::formation::{introduce_to, wanting_shard};
use crate::servers::{self, Replication, Server, Start};
use crate::supervision::balance;
use crate::topology::{Health, Peer, Role, SLOTS, ServerId, Topology};

/// Before a replica is told again to take over, while the others learn of it.
const BETWEEN_ORDERS: Duration = Duration::from_secs(2);
/// How long no view may show an heir before there is none: who follows whom spreads from server to
/// server, and for moments a server that was primary follows nobody in the eyes of another.
const NO_HEIR: Duration = Duration::from_secs(5);
/// A server may be without slots and primary for moments, while it is formed or changes sides.
const IDLE: Duration = Duration::from_secs(3);
/// A primary that has been dead for so long finds no successor by itself: an election takes a second or two, and a
/// replica that has been without its primary for 30 s stands for none (`cluster-replica-validity-factor`), also when
/// the votes were missing all that time.
const OVERDUE: Duration = Duration::from_secs(15);

impl Host {
    pub(super) fn bring_back(&mut self, index: usize, view: &Topology) {
        let Some(slot) = self.slots.get(index) else { return };
        match &slot.phase {
            Phase::Serving(_) => {}
            Phase::Lost { not_before } if *not_before > Instant::now() => {}
            Phase::Lost { .. } => self.start_again(index, view),
            Phase::Returning { .. } => self.join(index, view),
        }
    }

    /// Starts a server that died, once its shard does not need it.
    fn start_again(&mut self, index: usize, view: &Topology) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let old = known_as(view, slot.id.as_ref(), &slot.address);
        let start = match old {
            None => Start::Empty,
            Some(old) => {
                slot.id = Some(old.id.clone());
                let Some(start) = self.how_to_start(index, old, view) else { return };
                start
            }
        };
        if start == Start::Empty && self.is_needed_by_others(index, view) {
            return;
        }
        let Some(slot) = self.slots.get_mut(index) else { return };
        // It will not come back under its name, and must not count as a replica until all notice.
        let forgotten = slot.id.take_if(|_| start == Start::Empty);
        self.start(index, start);
        if let Some(old) = forgotten {
            self.forget(&old, view);
        }
    }

    /// What a dead server that the Cluster knows as `old` starts with; none as long as its shard still sees to itself.
    fn how_to_start(&mut self, index: usize, old: &Peer, view: &Topology) -> Option<Start> {
        // What lies there may be older disks of the host, and of another shard.
        let is_of_old = self.goes_by(index).is_none_or(|id| id == old.id);
        match heir(view, old) {
            Heir::Promoted => match &old.role {
                Role::Replica(primary) => self.how_to_start_replica(index, view.by_id(primary)),
                Role::Primary(_) => Some(Start::Empty),
            },
            // There is no other copy, so what it has on its disk is the best there is.
            Heir::None if is_of_old && self.has_data(index) => {
                self.has_waited(index).then_some(Start::Kept)
            }
            // An empty server there would take the address away from the one that is gone: the others would then know of
            // none, never give it up, and elect nobody in its place (seen with Redis 7.0.15).
            Heir::None => None,
            Heir::Waiting if is_of_old && self.has_only_copy(index, old, view) => {
                self.has_waited(index).then_some(Start::Kept)
            }
            Heir::Waiting => {
                self.slots.get_mut(index)?.without_heir = None;
                if let Some(replica) = balance::sole_replica(view, &old.id) {
                    self.promote_heir(index, &replica.address);
                }
                None
            }
        }
    }

    /// Whether any server that is up, other than the one that `view` is from, says that a dead server is still needed: a
    /// server that took over a moment ago may be a replica yet in the eyes of another, or not known at all. An empty one at
    /// its address would have its slots forgotten with its name, and its replica would never be elected.
    fn is_needed_by_others(&mut self, index: usize, view: &Topology) -> bool {
        let Some(slot) = self.slots.get(index) else { return false };
        let (id, address) = (slot.id.clone(), slot.address);
        let is_witness = |peer: &&Peer| peer.health == Health::Up && !peer.is_self;
        let witnesses: Vec<_> =
            view.peers().iter().filter(is_witness).map(|peer| peer.address).collect();
        witnesses.iter().filter(|witness| **witness != address).any(|witness| {
            let says = self.view.of(witness);
            says.is_ok_and(|says| {
                known_as(&says, id.as_ref(), &address)
                    .is_some_and(|old| !matches!(heir(&says, old), Heir::Promoted))
            })
        })
    }

    /// The name in the Cluster of what lies in the directory of a server.
    fn goes_by(&self, index: usize) -> Option<ServerId> {
        Topology::author_of(&servers::map_of(&self.dir_of(index)?))
    }

    /// Whether a server has something to go on with; in memory alone none ever has.
    fn has_data(&self, index: usize) -> bool {
        self.watch.deployment.durability == Durability::Memory
            || self.dir_of(index).is_some_and(|dir| servers::has_data(&dir))
    }

    /// A replica begins empty only when there is somebody to copy from. Where its primary is dead, what it has may be the
    /// only copy of the shard: it comes back with that, and stands for election.
    fn how_to_start_replica(&mut self, index: usize, primary: Option<&Peer>) -> Option<Start> {
        let dir = self.dir_of(index)?;
        let primary = primary.filter(|_| servers::is_complete(&dir));
        let Some(primary) = primary.filter(|primary| primary.has_slots()) else {
            return Some(Start::Empty);
        };
        // Another server may listen there by now.
        let there = self.view.with(&primary.address, |c| c.ask::<String>(&["CLUSTER", "MYID"]));
        if there.is_ok_and(|id| id == primary.id.0) {
            return Some(Start::Empty);
        }
        (primary.health == Health::Failed).then_some(Start::Kept)
    }

    /// Whether all replicas of a dead primary of ours answer, and none of them has ever copied anything.
    fn has_only_copy(&mut self, index: usize, old: &Peer, view: &Topology) -> bool {
        let is_whole = self.dir_of(index).is_some_and(|dir| servers::is_complete(&dir));
        let mut heirs =
            view.replicas_of(&old.id).filter(|replica| replica.health != Health::Failed);
        is_whole
            && old.has_slots()
            && heirs.all(|heir| self.view.with(&heir.address, has_copied_nothing).unwrap_or(false))
    }

    /// Whether a server has been without an heir for long enough to know that none is coming.
    fn has_waited(&mut self, index: usize) -> bool {
        let Some(slot) = self.slots.get_mut(index) else { return false };
        let since = slot.without_heir.get_or_insert_with(Instant::now);
        self.replication == Replication::Waived || since.elapsed() >= NO_HEIR
    }

    fn dir_of(&self, index: usize) -> Option<PathBuf> {
        let name = &self.slots.get(index)?.name;
        Some(self.watch.dir.join(name.number.to_string()))
    }

    /// Has the sole replica of our dead primary take its place: see the module's first page.
    fn promote_heir(&mut self, index: usize, replica: &ServerAddress) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        if slot.next_order.is_some_and(|t| t > Instant::now()) {
            return;
        }
        slot.next_order = Some(Instant::now() + BETWEEN_ORDERS);
        let result = self.view.with(replica, |connection| {
            let replication = connection.fields(&["INFO", "replication"])?;
            let is_copying = replication.get("master_sync_in_progress") != Some("0");
            if is_copying || !was_linked(&replication) || is_barred(connection)? {
                return Err(Error::Engine("it has not copied everything".into()));
            }
            connection.ask::<()>(&["CLUSTER", "FAILOVER", "TAKEOVER"])
        });
        let dead = &slot.name;
        match result {
            Ok(()) => info!(%dead, %replica, "the replica takes over"),
            Err(error) => {
                warn!(%dead, %replica, %error, "the replica cannot take over");
            }
        }
    }

    /// Brings servers into the Cluster that run, and hold nothing and follow nobody: all hosts went down while they were
    /// on their way, or being added for a shard. As long as one is idle nobody adds another.
    pub(super) fn take_up_idle(&mut self, view: &Topology) {
        if !view.is_of_a_member() || view.assigned_slots() != usize::from(SLOTS) {
            return;
        }
        let serving = self.slots.iter().filter(|slot| matches!(slot.phase, Phase::Serving(_)));
        let has_place = |peer: &Peer| peer.has_slots() || matches!(peer.role, Role::Replica(_));
        let idle: Vec<_> = serving
            .filter(|slot| {
                !view.by_address(slot.address.ip, slot.address.port).is_some_and(has_place)
            })
            .map(|slot| (slot.name.clone(), slot.address))
            .collect();
        self.idle.retain(|name, _| idle.iter().any(|(idle, _)| idle == name));
        for (name, address) in idle {
            let since = *self.idle.entry(name.clone()).or_insert_with(Instant::now);
            // What the others know of it may be old.
            let is_due = since.elapsed() >= IDLE
                && self.view.of(&address).is_ok_and(|own| !own.is_of_a_member());
            let Some(slot) = self.slots.iter_mut().find(|slot| slot.name == name && is_due) else {
                continue;
            };
            warn!(server = %name, "runs without a place in the Cluster, and gets one");
            slot.return_to_cluster();
        }
    }

    pub(super) fn start(&mut self, index: usize, start: Start) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let started = self.watch.settings(&slot.name).and_then(|settings| {
            Server::start(&self.watch.program, slot.name.clone(), &settings, start)
        });
        self.view.renew(&slot.address);
        slot.without_heir = None;
        slot.last_primary = None;
        slot.is_unproven = true;
        slot.phase = match (started, start) {
            (Ok(server), Start::Kept) => {
                warn!(server = %slot.name, "started again with its data");
                Phase::Serving(server)
            }
            (Ok(server), Start::Empty) => {
                info!(server = %slot.name, "started empty");
                Phase::Returning { server, next_meet: Instant::now() }
            }
            (Err(error), _) => {
                warn!(server = %slot.name, %error, "metadata server cannot be started");
                Phase::Lost { not_before: Instant::now() + RETRY }
            }
        };
    }

    /// Brings a server that started empty into the Cluster, as a replica.
    fn join(&mut self, index: usize, view: &Topology) {
        if let Err(error) = self.try_join(index, view) {
            info!(%error, "a metadata server cannot join yet");
        }
    }

    fn try_join(&mut self, index: usize, view: &Topology) -> Result<()> {
        let host = self.host_index()?;
        let placed = self.placed();
        let Some(slot) = self.slots.get_mut(index) else { return Ok(()) };
        let Phase::Returning { next_meet, .. } = &mut slot.phase else { return Ok(()) };
        let own = match self.view.of(&slot.address) {
            Ok(own) => own,
            // It has only just started.
            Err(_) => return Ok(()),
        };
        let Some(myself) = own.myself() else { return Ok(()) };
        if own.is_of_a_member() {
            let new = myself.id.clone();
            self.finish_joining(index, new);
            return Ok(());
        }
        let primaries = view.primaries();
        let is_informed = primaries.iter().all(|p| own.by_id(&p.id).is_some_and(Peer::has_slots));
        if !is_informed {
            let guide = primaries.iter().find(|p| p.health == Health::Up);
            if let Some(guide) = guide.filter(|_| *next_meet <= Instant::now()) {
                *next_meet = Instant::now() + RETRY;
                return self.view.with(&slot.address, |c| introduce_to(c, &guide.address));
            }
            return Ok(());
        }
        let deployment = &self.watch.deployment;
        let counts = |host: &NodeId| !self.hosts.is_leaving(host);
        let Some(primary) = wanting_shard(deployment, view, host, &placed, counts) else {
            return Ok(());
        };
        let (address, name) = (slot.address, slot.name.clone());
        self.follow(&address, &primary)?;
        info!(server = %name, %primary, "follows");
        self.placed.push((Instant::now(), primary, address));
        Ok(())
    }

    fn finish_joining(&mut self, index: usize, new: ServerId) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        slot.id = Some(new);
        let placeholder = Phase::Lost { not_before: Instant::now() };
        slot.phase = match std::mem::replace(&mut slot.phase, placeholder) {
            Phase::Returning { server, .. } => Phase::Serving(server),
            other => other,
        };
    }

    /// Has all servers that are up forget one that will not come back under its name.
    pub(super) fn forget(&mut self, old: &ServerId, view: &Topology) {
        let own = self.slots.iter().map(|s| s.address);
        let mut all: Vec<ServerAddress> = view
            .peers()
            .iter()
            .filter(|p| p.health == Health::Up)
            .map(|p| p.address)
            .chain(own)
            .collect();
        all.sort_unstable();
        all.dedup();
        for address in all {
            // One that never knew it, or that cannot be reached, needs no more.
            let _ = self.view.with(&address, |c| c.ask::<()>(&["CLUSTER", "FORGET", &old.0]));
        }
    }

    /// Has the best of several replicas stand for election where that is overdue. The other servers vote (CLUSTER
    /// FAILOVER FORCE), so of two that stand one is elected. What was acknowledged is on all replicas that were in
    /// sync, so the one that has most, of all of them, has it.
    pub(super) fn promote_overdue(&mut self, view: &Topology) {
        let dead: Vec<ServerId> = balance::dead_primaries(view).map(|p| p.id.clone()).collect();
        self.orphaned.retain(|id, _| dead.contains(id));
        for id in dead {
            let since = *self.orphaned.entry(id.clone()).or_insert_with(Instant::now);
            if since.elapsed() < OVERDUE {
                continue;
            }
            let Some(best) = self.most_complete_replica(view, &id) else { continue };
            if !self.has_copy(&best) {
                continue;
            }
            // Not again before the votes of this election are forgotten.
            self.orphaned.insert(id, Instant::now() + BETWEEN_PROMOTIONS - OVERDUE);
            let stood = self.view.with(&best, |c| c.ask::<()>(&["CLUSTER", "FAILOVER", "FORCE"]));
            warn!(replica = %best, ?stood, "nobody took over from a dead primary; the replica stands for election");
        }
    }

    /// The replica of a dead primary that has copied most; none unless all of them say how much they have, of the
    /// same history.
    fn most_complete_replica(&mut self, view: &Topology, id: &ServerId) -> Option<ServerAddress> {
        let mut history = None;
        let mut best = None;
        for replica in view.replicas_of(id) {
            if replica.health != Health::Up {
                return None;
            }
            let said = self.view.with(&replica.address, |connection| {
                Ok((is_barred(connection)?, connection.fields(&["INFO", "replication"])?))
            });
            let (is_barred, fields) = said.ok()?;
            // What it has may be of another shard.
            if is_barred {
                continue;
            }
            let of = fields.get("master_replid")?.to_owned();
            if *history.get_or_insert_with(|| of.clone()) != of {
                return None;
            }
            let has_copied = fields.get("master_sync_in_progress") == Some("0");
            let copied = fields.number("slave_repl_offset").filter(|_| has_copied)?;
            best = best.max(Some((copied, replica.id.clone(), replica.address)));
        }
        best.map(|(_, _, address)| address)
    }

    /// Whether a server of ours has what its primary had: noted on its disk, or as it says.
    fn has_copy(&mut self, address: &ServerAddress) -> bool {
        let own = self.slots.iter().find(|slot| slot.address == *address);
        let Some(server) = own.and_then(|slot| slot.phase.server()) else { return false };
        let says = |connection: &mut Connection| {
            let was_linked = was_linked(&connection.fields(&["INFO", "replication"])?);
            Ok(was_linked && !is_barred(connection)?)
        };
        server.is_complete() || self.view.with(address, says).unwrap_or(false)
    }
}

/// A server by the name it had, or by where it listened if it told nobody its name.
fn known_as<'a>(
    view: &'a Topology,
    id: Option<&ServerId>,
    address: &ServerAddress,
) -> Option<&'a Peer> {
    match id {
        Some(id) => view.by_id(id),
        None => view.by_address(address.ip, address.port),
    }
}

/// What becomes of the slots of a server that died.
enum Heir {
    /// It holds none, and nobody copies from its place any more.
    Promoted,
    /// A replica is about to be promoted, or has not noticed yet.
    Waiting,
    /// It holds slots, and no replica is left.
    None,
}

fn heir(view: &Topology, old: &Peer) -> Heir {
    let has_heirs = view.replicas_of(&old.id).any(|r| r.health != Health::Failed);
    let has_heirs = has_heirs || (old.has_slots() && balance::is_anyone_joining(view));
    match (old.has_slots(), has_heirs) {
        (_, true) => Heir::Waiting,
        (true, false) => Heir::None,
        (false, false) => Heir::Promoted,
    }
}

/// Whether a dead server is not needed: another has its slots, or it was a replica of one that lives.
pub(super) fn is_replaced(view: &Topology, old: &Peer) -> bool {
    let has_primary = match &old.role {
        Role::Replica(primary) => view.by_id(primary).is_none_or(|p| p.health == Health::Up),
        Role::Primary(_) => true,
    };
    has_primary && matches!(heir(view, old), Heir::Promoted)
}

/// Whether a replica has been in step with its primary since it started.
fn was_linked(replication: &Fields) -> bool {
    replication.get("master_link_status") == Some("up")
        || replication.number("master_link_down_since_seconds").is_some()
}

/// Whether a replica has nothing: it started empty, or came from another shard, and its primary died before it had copied.
/// One that is barred is elected by nobody, so what the primary has is the newest there is.
fn has_copied_nothing(connection: &mut Connection) -> Result<bool> {
    if is_barred(connection)? {
        return Ok(true);
    }
    let was_linked = was_linked(&connection.fields(&["INFO", "replication"])?);
    Ok(!was_linked && connection.ask::<u64>(&["DBSIZE"])? == 0)
}
