//! The Cluster of a store that comes up without some of its servers: what survives takes the place of what does not.
//!
//! A host may be missing, or come with empty disks. For each shard whose primary did not survive, a replica that had
//! copied everything takes over by itself (CLUSTER FAILOVER TAKEOVER): there may be too few primaries for an election.
//! That is safe because nothing else of the store runs, and whoever brings it up has said which hosts are there. A
//! server that comes back later finds its slots taken under a later epoch, and follows.
//!
//! A replica that never finished copying is not used: it may lack what was acknowledged. What such a replica had before it
//! began to copy was set aside, and is put back where no other copy survives. It is the newest if nobody can have changed
//! its shard since: a primary takes no changes without a replica that has everything. Otherwise the user decides, as for
//! the copy of a server that was away while its shard went on elsewhere, be it as the primary or as one of several replicas.
//!
//! All of this is decided from the servers' files before any of them is started ([`plan`]), and carried out when they run
//! ([`recover`]).

mod behind;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use intarsia_types::{Error, NodeId, Result};

use crate::client::{Access, Connection};
use crate::deployment::{Deployment, ServerName};
use crate::formation::{connect, introduce_to};
use crate::servers::Kept;
use crate::topology::{Peer, Role, SLOTS, ServerId, Topology};

/// Between two looks at servers that learn from each other.
const PAUSE: Duration = Duration::from_millis(50);
/// Before servers that have not taken over are told again.
const ORDER_AGAIN: Duration = Duration::from_secs(3);
/// The slots of the partition that has the root of all names and what describes the store: the first of 64.
const LAST_OF_ROOT: u16 = SLOTS / 64 - 1;
/// Servers tell each other who holds which slots once a second.
const HEARSAY: Duration = Duration::from_secs(15);

/// A server whose data is on the disk of a host that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Which one.
    pub name: ServerName,
    /// Whether it was a primary, or had copied everything from one.
    pub is_complete: bool,
}

/// What one server knows: who it is itself, and all others.
struct Witness {
    survivor: Survivor,
    view: Topology,
}

/// What is to be done for the Cluster to be whole again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Remedy {
    /// Replicas that take over, by their places among the survivors.
    heirs: Vec<usize>,
    /// Primaries that are gone without an heir.
    orphans: Vec<ServerId>,
    /// Slots of which no copy survives that had everything.
    lost: Vec<(u16, u16)>,
    /// The hosts that may have copies of these.
    missed: BTreeSet<NodeId>,
}

/// What is to be put back before the servers start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Servers that go on with what they had set aside, put back.
    pub restored: Vec<ServerName>,
    /// Servers that had everything and shall not take over: others have more, or as much.
    pub passed_over: Vec<ServerName>,
    /// The names under which servers begin again with what they have.
    pub identities: BTreeSet<ServerId>,
    /// Servers that go on with an older copy, with the names of the last primaries of their shards.
    pub successors: Vec<(ServerName, ServerId)>,
    /// Slots of which no copy is left, and whose names are given up.
    pub emptied: Vec<(u16, u16)>,
    /// What may be missing then, in words; none when nothing is.
    pub warning: Option<String>,
}

/// Finds a copy of each shard in what lies on the disks of the hosts that are there. `accepts_loss` tells that an older
/// copy will do where there is no other.
///
/// # Errors
/// Where a shard has no copy, or only an older one that was not asked for: which part of the names that is, and
/// on which hosts there were others.
pub fn plan(deployment: &Deployment, kept: &[(NodeId, Kept)], accepts_loss: bool) -> Result<Plan> {
    let mut witnesses: Vec<Witness> =
        kept.iter().filter_map(|(host, k)| witness_of(host, k)).collect();
    if witnesses.is_empty() {
        return Ok(Plan::default());
    }
    let (passed_over, mut older) = behind::choose_heirs(kept, &mut witnesses);
    let mut plan = Plan { passed_over, ..Plan::default() };
    for id in remedy(deployment, &witnesses).orphans {
        let Some(found) = best_older(kept, &witnesses, &id) else { continue };
        if !found.is_newest {
            older.push((found.survivor.name.host.clone(), found.since_s));
        }
        if found.is_aside {
            plan.restored.push(found.survivor.name.clone());
        }
        plan.successors.push((found.survivor.name.clone(), id));
        witnesses.retain(|witness| witness.survivor.name != found.survivor.name);
        witnesses.push(Witness { survivor: found.survivor, view: found.as_heir });
    }
    plan.pass_over_deposed(&witnesses);
    plan.identities = identities(kept, &plan.restored);
    let remedy = remedy(deployment, &witnesses);
    if !remedy.lost.is_empty() {
        let has_root = remedy.lost.iter().any(|(first, _)| *first <= LAST_OF_ROOT);
        if !accepts_loss || has_root {
            return Err(unserved(deployment, &remedy, has_root));
        }
        plan.warning = Some(format!(
            "{} are gone, of which no copy is left; what led to them is taken away, and files that have lost their names are put into lost+found",
            share_of_names(&remedy.lost)
        ));
        plan.emptied = remedy.lost;
    }
    if older.is_empty() {
        return Ok(plan);
    }
    let listed = older.iter().map(|(host, since_s)| format!("{host}, of {}", utc(*since_s)));
    let listed = listed.collect::<Vec<_>>().join("; ");
    let what = format!(
        "of a part of the names only an older copy is on the hosts that are there ({listed}); what was changed since then is not in it"
    );
    if !accepts_loss {
        return Err(Error::Invalid(format!(
            "{what}: bring the store up with the host that has the newest, or go on with the older copy by --accept-loss"
        )));
    }
    plan.warning = Some(plan.warning.map_or(what.clone(), |gone| format!("{gone}\n{what}")));
    Ok(plan)
}

impl Plan {
    /// Passes over those that take themselves for primaries of slots which others hold under later epochs: they copy from these.
    fn pass_over_deposed(&mut self, witnesses: &[Witness]) {
        let owners = last_owners(witnesses);
        let is_deposed = |me: &Peer| me.has_slots() && !owners.contains_key(&me.id);
        let deposed = witnesses.iter().filter(|w| w.view.myself().is_some_and(is_deposed));
        let names = deposed.map(|w| &w.survivor.name);
        let others = names.filter(|name| self.successors.iter().all(|(heir, _)| heir != *name));
        self.passed_over.extend(others.cloned());
    }
}

/// The names of the servers that have data, and of those that go on with what they had set aside.
fn identities(kept: &[(NodeId, Kept)], restored: &[ServerName]) -> BTreeSet<ServerId> {
    let id = |(host, kept): &(NodeId, Kept)| {
        let is_restored =
            restored.iter().any(|name| name.host == *host && name.number == kept.number);
        let map = match &kept.aside {
            Some(aside) if is_restored => &aside.map,
            _ if kept.has_data => &kept.map,
            _ => return None,
        };
        Topology::author_of(map)
    };
    kept.iter().filter_map(id).collect()
}

fn utc(since_s: i64) -> String {
    let since = Duration::from_secs(u64::try_from(since_s).unwrap_or_default());
    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + since).to_string()
}

fn witness_of(host: &NodeId, kept: &Kept) -> Option<Witness> {
    let name = ServerName { host: host.clone(), number: kept.number };
    let survivor = Survivor { name, is_complete: kept.is_complete };
    Some(Witness { survivor, view: Topology::parse_file(&kept.map).ok()? })
}

/// A copy that stands in for a primary which is gone without an heir.
struct Found {
    survivor: Survivor,
    /// What its server will know of the Cluster once it has heard of the last primary.
    as_heir: Topology,
    /// It was set aside, and has to be put back.
    is_aside: bool,
    is_newest: bool,
    epoch: u64,
    since_s: i64,
}

/// The newest copy of the shard of a primary: what somebody has set aside, or what a server has that was away while
/// another became the primary.
fn best_older(kept: &[(NodeId, Kept)], witnesses: &[Witness], id: &ServerId) -> Option<Found> {
    let peers = || witnesses.iter().flat_map(|witness| witness.view.all());
    let last = peers().filter(|peer| peer.id == *id).max_by_key(|peer| peer.config_epoch)?;
    let owners = last_owners(witnesses);
    let found = copies(kept).filter_map(|copy| {
        let view = Topology::parse_file(copy.map).ok()?;
        let myself = view.myself()?;
        let reign = match &myself.role {
            Role::Primary(_) => myself,
            Role::Replica(primary) => view.all().find(|peer| peer.id == *primary)?,
        };
        if !reign.shares_slots(last) || (!copy.is_aside && owners.contains_key(&reign.id)) {
            return None;
        }
        // Nobody else was a replica of the last primary, so it took no changes; or nobody followed this one.
        let is_here = |peer: &Peer| {
            (peer.address.ip, peer.address.port) == (myself.address.ip, myself.address.port)
        };
        let is_alone = peers().filter(|peer| peer.is_replica_of(id)).all(is_here);
        let followed_at_once =
            reign.id == *id || view.all().any(|p| p.id == *id && p.is_replica_of(&reign.id));
        Some(Found {
            survivor: Survivor { name: copy.name.clone(), is_complete: true },
            as_heir: view.clone().with_myself_following(last),
            is_aside: copy.is_aside,
            is_newest: copy.is_aside && is_alone && followed_at_once,
            epoch: reign.config_epoch,
            since_s: copy.since_s,
        })
    });
    found.max_by_key(|found| (found.is_newest, found.epoch, found.since_s))
}

/// What lies in the directory of a server and had everything of a shard once.
struct Copy<'k> {
    name: ServerName,
    /// What the server knew of the Cluster then.
    map: &'k str,
    is_aside: bool,
    since_s: i64,
}

fn copies(kept: &[(NodeId, Kept)]) -> impl Iterator<Item = Copy<'_>> {
    kept.iter().filter_map(|(host, kept)| {
        let name = ServerName { host: host.clone(), number: kept.number };
        match &kept.aside {
            Some(aside) => {
                Some(Copy { name, map: &aside.map, is_aside: true, since_s: aside.since_s })
            }
            None if kept.is_complete => {
                Some(Copy { name, map: &kept.map, is_aside: false, since_s: kept.since_s })
            }
            None => None,
        }
    })
}

/// Has the surviving servers serve all slots, once they have read what is on their disks. Slots that are `emptied` go to
/// one of them with nothing in them.
///
/// # Errors
/// When a survivor does not answer within `timeout`, or some slots have no copy left: the message says which part
/// of the names that is, and which hosts are missed.
pub fn recover(
    deployment: &Deployment,
    access: &Access,
    survivors: &[Survivor],
    emptied: &[(u16, u16)],
    timeout: Duration,
) -> Result<()> {
    let deadline = Instant::now() + timeout;
    let mut seats = Vec::new();
    for survivor in survivors {
        let address = address_of(deployment, &survivor.name)?;
        let connection = connect(access, &address, deadline)
            .map_err(|e| Error::Engine(format!("{} is missing: {e}", survivor.name)))?;
        seats.push(connection);
    }
    introduce_all(&mut seats)?;
    let remedy = settled_remedy(deployment, survivors, emptied, &mut seats, deadline)?;
    take_over(&remedy, &mut seats)?;
    wait_until_served(deployment, survivors, emptied, &mut seats, deadline)
}

/// Makes the survivors known to each other: one that goes on with what it had set aside goes by the name of before, which
/// the others have forgotten, and nobody tells a stranger who has its slots now.
fn introduce_all(seats: &mut [Connection]) -> Result<()> {
    let Some(first) = seats.first().map(|seat| *seat.address()) else { return Ok(()) };
    seats.iter_mut().skip(1).try_for_each(|seat| introduce_to(seat, &first))
}

fn take_over(remedy: &Remedy, seats: &mut [Connection]) -> Result<()> {
    for heir in &remedy.heirs {
        let Some(seat) = seats.get_mut(*heir) else { continue };
        tracing::warn!(server = %seat.address(), "takes the place of a primary that is not there");
        seat.ask::<()>(&["CLUSTER", "FAILOVER", "TAKEOVER"])?;
    }
    Ok(())
}

/// Has the first primary that is there hold the slots that are given up, once it holds slots of its own.
fn take_empty(
    witnesses: &[Witness],
    emptied: &[(u16, u16)],
    seats: &mut [Connection],
) -> Result<()> {
    let holds = |witness: &Witness| witness.view.myself().is_some_and(Peer::has_slots);
    let Some(place) = witnesses.iter().position(holds) else { return Ok(()) };
    let (Some(witness), Some(seat)) = (witnesses.get(place), seats.get_mut(place)) else {
        return Ok(());
    };
    for (first, last) in emptied {
        if witness.view.myself().is_some_and(|me| me.holds(*first)) {
            continue;
        }
        tracing::warn!(server = %seat.address(), first, last, "takes slots of which no copy is left");
        let (first, last) = (first.to_string(), last.to_string());
        // Whose they were is forgotten here first, where they are known as somebody's, and everywhere by the newer epoch.
        let _ = seat.ask::<()>(&["CLUSTER", "DELSLOTSRANGE", &first, &last]);
        seat.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        seat.ask::<String>(&["CLUSTER", "BUMPEPOCH"])?;
    }
    Ok(())
}

/// What is to be done, once servers that go on with an older map have heard of the last primaries.
fn settled_remedy(
    deployment: &Deployment,
    survivors: &[Survivor],
    emptied: &[(u16, u16)],
    seats: &mut [Connection],
    deadline: Instant,
) -> Result<Remedy> {
    let is_given_up = |lost: &(u16, u16)| emptied.iter().any(|(a, b)| *a <= lost.0 && lost.1 <= *b);
    let deadline = deadline.min(Instant::now() + HEARSAY);
    loop {
        let remedy = remedy(deployment, &ask_all(survivors, seats)?);
        if remedy.lost.iter().all(is_given_up) {
            return Ok(remedy);
        }
        if Instant::now() >= deadline {
            return Err(unserved(deployment, &remedy, false));
        }
        std::thread::sleep(PAUSE);
    }
}

fn address_of(
    deployment: &Deployment,
    name: &ServerName,
) -> Result<crate::deployment::ServerAddress> {
    let member = deployment.member(&name.host);
    member
        .ok_or_else(|| Error::Invalid(format!("host {} is not of this deployment", name.host)))?
        .server(name.number)
}

fn ask_all(survivors: &[Survivor], seats: &mut [Connection]) -> Result<Vec<Witness>> {
    let ask = |(survivor, seat): (&Survivor, &mut Connection)| {
        Ok(Witness { survivor: survivor.clone(), view: Topology::ask(seat)? })
    };
    survivors.iter().zip(seats).map(ask).collect()
}

/// Which replicas take over. Of what the witnesses say of a slot, the latest epoch counts.
fn remedy(deployment: &Deployment, witnesses: &[Witness]) -> Remedy {
    let mut remedy = Remedy::default();
    for (id, slots) in last_owners(witnesses) {
        let is_alive = witnesses.iter().any(|w| w.view.myself().is_some_and(|me| me.id == id));
        if is_alive {
            continue;
        }
        let follows = |w: &Witness| w.view.myself().is_some_and(|me| me.is_replica_of(&id));
        let heir = witnesses.iter().position(|w| w.survivor.is_complete && follows(w));
        match heir {
            Some(heir) => remedy.heirs.push(heir),
            None => {
                remedy.lost.extend(slots);
                remedy.orphans.push(id.clone());
                remedy.missed.extend(holders(deployment, witnesses, &id));
            }
        }
    }
    remedy.lost.sort_unstable();
    remedy
}

/// Who held each slot last, with ranges of slots. Of two under one epoch it is the one that is there.
fn last_owners(witnesses: &[Witness]) -> BTreeMap<ServerId, Vec<(u16, u16)>> {
    let alive: BTreeSet<&ServerId> =
        witnesses.iter().filter_map(|w| Some(&w.view.myself()?.id)).collect();
    let mut owners: Vec<Option<(u64, bool, &ServerId)>> = vec![None; usize::from(SLOTS)];
    for peer in witnesses.iter().flat_map(|w| w.view.all()).filter(|p| p.has_slots()) {
        let Role::Primary(ranges) = &peer.role else { continue };
        let claim = Some((peer.config_epoch, alive.contains(&peer.id), &peer.id));
        for range in ranges {
            let range = usize::from(*range.start())..=usize::from(*range.end());
            for owner in owners.get_mut(range).into_iter().flatten() {
                *owner = (*owner).max(claim);
            }
        }
    }
    let mut found: BTreeMap<ServerId, Vec<(u16, u16)>> = BTreeMap::new();
    for (slot, owner) in (0..).zip(owners) {
        let Some((.., owner)) = owner else { continue };
        let ranges = found.entry(owner.clone()).or_default();
        match ranges.last_mut().filter(|(_, last)| *last + 1 == slot) {
            Some((_, last)) => *last = slot,
            None => ranges.push((slot, slot)),
        }
    }
    found
}

/// The hosts that had a primary or its replicas.
fn holders(deployment: &Deployment, witnesses: &[Witness], id: &ServerId) -> BTreeSet<NodeId> {
    let peers = witnesses.iter().flat_map(|w| w.view.all());
    let of_shard = peers.filter(|peer| peer.id == *id || peer.is_replica_of(id));
    let host = |peer: &Peer| deployment.server_at(peer.address.ip, peer.address.port);
    of_shard.filter_map(host).map(|name| name.host).collect()
}

fn unserved(deployment: &Deployment, remedy: &Remedy, has_root: bool) -> Error {
    let ranges = remedy.lost.iter().map(|(first, last)| format!("{first}-{last}"));
    let missed: Vec<&str> = remedy.missed.iter().map(|host| host.0.as_str()).collect();
    let all = deployment.hosts().count();
    let remedy_in_words = if has_root {
        "nothing can be read without that part, which has the root of all names"
    } else {
        "or go on without these names, for good, by --accept-loss"
    };
    Error::Invalid(format!(
        "no copy of {} is on the hosts that are there (slots {}); of the store's {all} hosts, {} had one: bring the store up with one of these; {remedy_in_words}",
        share_of_names(&remedy.lost),
        ranges.collect::<Vec<_>>().join(", "),
        missed.join(", ")
    ))
}

fn share_of_names(lost: &[(u16, u16)]) -> String {
    let lost: u32 = lost.iter().map(|(first, last)| u32::from(last - first) + 1).sum();
    format!("{:.0} % of the names", f64::from(lost) * 100.0 / f64::from(SLOTS))
}

/// Waits until the primaries that are there hold all slots between them, and each of them knows that. An heir that
/// had not heard of the last epoch took over under one that does not count: it hears of that, and is told again.
fn wait_until_served(
    deployment: &Deployment,
    survivors: &[Survivor],
    emptied: &[(u16, u16)],
    seats: &mut [Connection],
    deadline: Instant,
) -> Result<()> {
    let mut ordered = Instant::now();
    loop {
        let witnesses = ask_all(survivors, seats)?;
        let Some(why) = disagreement(&witnesses) else { return Ok(()) };
        take_empty(&witnesses, emptied, seats)?;
        if Instant::now() >= deadline {
            return Err(Error::Engine(format!(
                "the metadata servers that are there do not agree on who takes over: {why}"
            )));
        }
        if ordered.elapsed() >= ORDER_AGAIN {
            ordered = Instant::now();
            take_over(&remedy(deployment, &witnesses), seats)?;
            claim_anew(&witnesses, seats)?;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Has primaries hold their slots under newer epochs, where a server ascribes some to one that is gone. An heir that had not
/// heard of the last epoch may have taken over under just that one, and servers believe neither of two under one epoch
/// (Redis Cluster specification, "configuration epoch"). The primary with the newest epoch keeps it, and is passed by the
/// others: the next look finds it behind them.
fn claim_anew(witnesses: &[Witness], seats: &mut [Connection]) -> Result<()> {
    for (witness, seat) in witnesses.iter().zip(seats) {
        if witness.view.myself().is_some_and(Peer::has_slots) {
            let said: String = seat.ask(&["CLUSTER", "BUMPEPOCH"])?;
            tracing::warn!(server = %seat.address(), said, "claims its slots anew");
        }
    }
    Ok(())
}

/// What keeps the primaries that are there from serving all slots. What a replica knows does not matter, nor what one
/// does that had not joined yet: they learn, or are replaced.
fn disagreement(witnesses: &[Witness]) -> Option<String> {
    let primaries: Vec<(&Witness, &Peer)> = witnesses
        .iter()
        .filter_map(|w| Some((w, w.view.myself().filter(|me| me.has_slots())?)))
        .collect();
    let alive: BTreeSet<&ServerId> = primaries.iter().map(|(_, me)| &me.id).collect();
    let held: usize = primaries.iter().map(|(_, me)| me.slot_count()).sum();
    if held != usize::from(SLOTS) {
        return Some(format!("their primaries hold {held} of {SLOTS} slots"));
    }
    primaries.iter().find_map(|(witness, _)| {
        let known = witness.view.primaries();
        let served: usize =
            known.iter().filter(|p| alive.contains(&p.id)).map(|p| p.slot_count()).sum();
        let name = &witness.survivor.name;
        (served != usize::from(SLOTS)).then(|| format!("{name} knows of {served} slots"))
    })
}

#[cfg(test)]
mod tests;
