//! What a host does for the whole Cluster: replicas for shards that lack one, primaries where they belong, and nothing
//! more than that.

use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::{BETWEEN_PROMOTIONS, Host, Phase, RETRY, Slot};
use crate::deployment::{MAX_SERVERS_PER_HOST, ServerName};
use crate::formation::servers_per_host;
use crate::servers::{Replication, Start};
use crate::supervision::{balance, own, relief, seats};
use crate::topology::{Peer, Role, Topology};

/// A replica that is one too many goes after so many times the wait for a lost one: a host that came
/// back may leave again.
const RETIRE_FACTOR: u32 = 6;
/// A replica that keeps up says so every second.
const LAG_MAX_S: u64 = 2;
/// After a change of primaries, who follows whom is settled within this time.
const CHAINED: Duration = Duration::from_secs(3);
/// How much longer each further host waits that could start a new server: the one before may be dead without anybody knowing.
const NEXT_CANDIDATE: Duration = Duration::from_secs(4);

impl Host {
    pub(super) fn balance(&mut self, view: &Topology) {
        self.replace_replica(view);
        if balance::without_replica(self.scene(view), self.replication).is_empty() {
            self.promote_own(view);
            self.take_seat(view);
        }
        self.relieve(view);
        self.retire(view);
    }

    /// Gives a replica to each shard that has none: one that can be spared, else a new server. A lost host leaves two
    /// such shards; while one waits for its time the other does too. While a host leaves nobody waits for it to come back.
    fn replace_replica(&mut self, view: &Topology) {
        let lacking = balance::without_replica(self.scene(view), self.replication);
        let ids: Vec<_> = lacking.iter().map(|primary| primary.id.clone()).collect();
        let first = lacking.first().map(|primary| (*primary).clone());
        self.wanting.retain(|id, _| ids.contains(id));
        for id in ids {
            self.wanting.entry(id).or_insert_with(Instant::now);
        }
        let Some(first) = first else { return };
        if balance::is_anyone_joining(view) || self.placed().is_unseen(view, &first.id) {
            return;
        }
        if let Some(surplus) = balance::surplus_replica(self.scene(view), &first).cloned() {
            let stays = owned(balance::who_stays(self.scene(view), &surplus));
            let is_ours = self.slots.iter().any(|s| s.address == surplus.address);
            if is_ours && self.is_backed(view, &surplus, &stays) {
                let moved = self.follow(&surplus.address, &first.id);
                info!(replica = %surplus.address, primary = %first.address, ?moved, "moves to a shard without a replica");
            }
            return;
        }
        let exchanged = balance::exchange(self.scene(view), &first);
        if let Some((replica, to)) = exchanged.map(|(replica, to)| (replica.clone(), to.clone())) {
            if self.slots.iter().any(|s| s.address == replica.address) {
                let moved = self.follow(&replica.address, &to.id);
                info!(replica = %replica.address, primary = %to.address, ?moved, "leaves a shard whose primary is on the same host");
            }
            return;
        }
        let candidates = seats::candidates(self.scene(view), &first);
        let place = candidates.iter().position(|host| *host == self.watch.host);
        let Some(place) = place.and_then(|place| u32::try_from(place).ok()) else { return };
        let is_hasty = self.hosts.is_any_leaving();
        let patience = if is_hasty { RETRY } else { self.watch.replace_after };
        let patience = patience + NEXT_CANDIDATE * place;
        if self.wanting.get(&first.id).is_some_and(|since| since.elapsed() >= patience) {
            self.add_server("a shard has no replica; starting a new server for it");
        }
    }

    /// Has servers of this host that follow a replica follow its primary, unless they find to it by themselves.
    pub(super) fn straighten(&mut self, view: &Topology) {
        let head = |slot: &Slot| {
            let own = view.by_address(slot.address.ip, slot.address.port)?;
            let head = balance::head_of_chain(view, own)?;
            Some((slot.name.clone(), slot.address, head.id.clone()))
        };
        let chained: Vec<_> = self.slots.iter().filter_map(head).collect();
        self.chained.retain(|name, _| chained.iter().any(|(chained, ..)| chained == name));
        for (name, address, head) in chained {
            let since = *self.chained.entry(name.clone()).or_insert_with(Instant::now);
            if since.elapsed() >= CHAINED {
                let moved = self.follow(&address, &head);
                info!(server = %name, primary = %head, ?moved, "followed a replica, and follows its primary now");
            }
        }
    }

    /// Starts a first server on this host where fewer hosts have servers than are to have some.
    fn take_seat(&mut self, view: &Topology) {
        let scene = self.scene(view);
        let is_ours = seats::free_seat(scene).as_ref() == Some(&self.watch.host);
        let is_free = is_ours && self.slots.is_empty() && !balance::is_anyone_joining(view);
        if self.replication == Replication::Alone || !is_free {
            self.unseated = None;
            return;
        }
        if self.unseated.get_or_insert_with(Instant::now).elapsed() >= self.watch.replace_after {
            self.add_server("this host takes its part of the metadata");
        }
    }

    /// Has a replica of this host follow a primary whose replicas were all added for lost hosts, so that these can go.
    fn relieve(&mut self, view: &Topology) {
        let due = relief::relief(self.scene(view), self.replication)
            .filter(|due| self.slots.iter().any(|slot| slot.address == due.replica.address))
            .map(|due| (due.replica.clone(), owned(due.stays), due.to.clone()));
        let Some((replica, stays, to)) = due else {
            self.relieving = None;
            return;
        };
        let since = *self.relieving.get_or_insert_with(Instant::now);
        if since.elapsed() < self.watch.replace_after || !self.is_backed(view, &replica, &stays) {
            return;
        }
        let moved = self.follow(&replica.address, &to.id);
        info!(replica = %replica.address, primary = %to.address, ?moved, "moves to a shard that has only added replicas");
        self.relieving = None;
    }

    /// Whether the primary that a replica follows says of one that stays that it has copied everything, and still does.
    /// What the servers tell each other comes later, and says nothing of copying.
    fn is_backed(&mut self, view: &Topology, replica: &Peer, stays: &[Peer]) -> bool {
        let Role::Replica(of) = &replica.role else { return false };
        let Some(primary) = view.by_id(of) else { return false };
        let fields = self.view.with(&primary.address, |c| c.fields(&["INFO", "replication"]));
        fields.is_ok_and(|fields| {
            fields.numbered("slave").any(|line| stays.iter().any(|one| is_in_sync(line, one)))
        })
    }

    fn add_server(&mut self, why: &str) {
        let is_free = |number: &u16| !self.slots.iter().any(|s| s.name.number == *number);
        let Some(number) = (0..MAX_SERVERS_PER_HOST).find(is_free) else { return };
        let name = ServerName { host: self.watch.host.clone(), number };
        let Ok(settings) = self.watch.settings(&name) else { return };
        warn!(server = %name, "{why}");
        let phase = Phase::Lost { not_before: Instant::now() };
        self.slots.push(Slot::new(name, settings.address, phase));
        self.start(self.slots.len() - 1, Start::Empty);
    }

    /// Makes a replica of this host primary when the host has none and another has two, or the host of the primary
    /// leaves: by the servers' own hand-over, in which the old primary waits until the new one has everything.
    fn promote_own(&mut self, view: &Topology) {
        if self.last_promotion.is_some_and(|t| t.elapsed() < BETWEEN_PROMOTIONS) {
            return;
        }
        let due = balance::due_promotion(self.scene(view), &self.watch.host);
        let Some(replica) = due.map(|p| p.address) else { return };
        let was_primary =
            |s: &Slot| s.last_primary.is_some_and(|t| t.elapsed() < BETWEEN_PROMOTIONS);
        if self.slots.iter().any(|s| s.address == replica && was_primary(s)) {
            return;
        }
        let ordered = self.view.with(&replica, |connection| {
            let replication = connection.fields(&["INFO", "replication"])?;
            if replication.get("master_link_status") == Some("up") {
                connection.ask::<()>(&["CLUSTER", "FAILOVER"]).map(|()| true)
            } else {
                Ok(false)
            }
        });
        match ordered {
            Ok(false) => {}
            Ok(true) => {
                self.last_promotion = Some(Instant::now());
                info!(%replica, "asks to become primary, because this host has none, or the other leaves");
            }
            Err(error) => info!(%replica, %error, "cannot become primary yet"),
        }
    }

    /// Stops a server of which there is one too many: that replaced one of a lost host, when the host is back and nobody
    /// needs it; that is on a host beyond those that are to have some; or any of a host that leaves.
    fn retire(&mut self, view: &Topology) {
        let first = servers_per_host(&self.watch.deployment);
        let scene = self.scene(view);
        let is_leaving = self.hosts.is_leaving(&self.watch.host);
        let is_needless = seats::is_needless(scene, &self.watch.host);
        let extra = self.slots.iter().find_map(|slot| {
            let peer = slot.id.as_ref().and_then(|id| view.by_id(id))?;
            let may_go = slot.name.number >= first || is_needless;
            let is_extra = may_go && balance::is_superfluous(scene, self.replication, peer);
            is_extra.then(|| (slot.name.clone(), peer.clone()))
        });
        let Some((name, peer)) = extra else {
            self.superfluous.clear();
            return;
        };
        let stays = owned(seats::who_stays_for_good(self.scene(view), &peer));
        let patience = self.watch.replace_after * if is_leaving { 0 } else { RETIRE_FACTOR };
        let since = *self.superfluous.entry(name.clone()).or_insert_with(Instant::now);
        let is_alone = self.replication == Replication::Alone;
        if since.elapsed() < patience || !(is_alone || self.is_backed(view, &peer, &stays)) {
            return;
        }
        let Some(index) = self.slots.iter().position(|s| s.name == name) else { return };
        let slot = self.slots.remove(index);
        info!(server = %slot.name, "is one too many and stops");
        self.view.renew(&slot.address);
        match slot.phase {
            Phase::Serving(server) => match server.stop() {
                Ok(()) => own::give_up(&self.watch, &slot.name),
                Err(error) => warn!(server = %slot.name, %error, "cannot be stopped"),
            },
            Phase::Lost { .. } => own::give_up(&self.watch, &slot.name),
            Phase::Returning { .. } => {}
        }
        if let Some(id) = slot.id {
            self.forget(&id, view);
        }
    }
}

fn owned(peers: Vec<&Peer>) -> Vec<Peer> {
    peers.into_iter().cloned().collect()
}

/// Whether a line of what a primary says of its replicas is of this one, and it keeps up.
fn is_in_sync(line: &str, replica: &Peer) -> bool {
    let field =
        |name: &str| line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let lag_s = field("lag").and_then(|lag| lag.parse::<u64>().ok());
    field("ip") == Some(&replica.address.ip.to_string())
        && field("port") == Some(&replica.address.port.to_string())
        && field("state") == Some("online")
        && lag_s.is_some_and(|lag| lag <= LAG_MAX_S)
}
