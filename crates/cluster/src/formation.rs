//! One Cluster out of the servers of all hosts, by the servers' own commands.
//!
//! Server 0 of every host [chosen](crate::meta_hosts) begins as primary of an even share of the slots, server 1 as
//! replica of the chosen host before it in the list. Every step looks first at what is there, so forming again what
//! was formed, half or wholly, also after roles changed, is harmless. A Cluster that was formed and stopped needs no
//! forming, wherever its servers are by now: they find each other again, and are [waited for](form_again).
//!
//! One chosen host has one server, in a Cluster of one: programs then use the same client whatever the
//! number of hosts, and hosts can join. A replica on the same host would protect nothing.

mod placing;
mod survival;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use intarsia_types::{Error, Result};

use crate::client::{Access, Connection};
use crate::deployment::{Deployment, Member, ServerAddress, ServerName};
use crate::servers::Replication;
use crate::topology::{Health, Peer, Role, SLOTS, ServerId, Topology, even_slots};

pub use placing::{Placed, wanting_shard};
use survival::shards_of;
pub use survival::{Survival, has_replicas, replication_of, servers_per_host};

/// Between two looks at servers that are busy with each other.
const PAUSE: Duration = Duration::from_millis(25);
/// Introductions are lost when a server is slow; then they are repeated.
const REPEAT_MEET: Duration = Duration::from_secs(1);
/// How long a Cluster may take to become whole before every step is looked at again.
const REPEAT_ALL: Duration = Duration::from_secs(10);

/// A server that takes part, with a connection to it.
struct Seat {
    name: ServerName,
    /// Place of its host in the list.
    host: usize,
    connection: Connection,
}

/// Forms the Cluster out of the servers that the chosen hosts begin with, and waits until it is whole:
/// every server says so, and every replica follows its primary.
///
/// # Errors
/// When it is not whole within `timeout`; the message names the servers that are missing.
pub fn form(deployment: &Deployment, access: &Access, timeout: Duration) -> Result<()> {
    let deadline = Instant::now() + timeout;
    loop {
        match form_once(deployment, access, deadline) {
            // What a server was told may be forgotten again while it is slow.
            Err(Error::Engine(why)) if Instant::now() < deadline => {
                tracing::warn!("form the Cluster of the metadata servers again: {why}");
                std::thread::sleep(PAUSE);
            }
            formed => return formed,
        }
    }
}

fn form_once(deployment: &Deployment, access: &Access, deadline: Instant) -> Result<()> {
    let mut seats = connect_all(deployment, access, deadline)?;
    set_first_epochs(&mut seats);
    introduce(&mut seats, deadline)?;
    assign_slots(&mut seats, shards_of(deployment))?;
    attach_replicas(deployment, &mut seats, deadline)?;
    let soon = deadline.min(Instant::now() + REPEAT_ALL);
    wait_until_whole(&mut seats, replication_of(deployment), soon)
}

/// Waits for the Cluster of a store that was founded before: until every slot has a primary, and every primary a
/// replica where one is needed. Hosts that are missing without being needed are not waited for. What was left half
/// formed is formed.
///
/// # Errors
/// When it is not so within `timeout`.
pub fn form_again(deployment: &Deployment, access: &Access, timeout: Duration) -> Result<()> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let trouble = match stand(deployment, access) {
            Stand::Whole => return Ok(()),
            Stand::Unformed => return form(deployment, access, left),
            Stand::Lacking(trouble) => trouble,
        };
        if left.is_zero() {
            return Err(trouble);
        }
        std::thread::sleep(PAUSE);
    }
}

/// What has become of a Cluster that is coming up.
enum Stand {
    /// It can be used.
    Whole,
    /// The servers that hosts began with are all there, and not all slots were ever dealt out.
    Unformed,
    /// Something is not there yet.
    Lacking(Error),
}

fn stand(deployment: &Deployment, access: &Access) -> Stand {
    let replication = replication_of(deployment);
    let asked = crate::asking::first_answer(access, first_servers(deployment), |connection| {
        let view = Topology::ask(connection)?;
        if view.is_of_a_member() && view.assigned_slots() == usize::from(SLOTS) {
            return Ok(view);
        }
        Err(Error::Engine(format!(
            "metadata server at {} knows no whole Cluster",
            connection.address()
        )))
    });
    let view = match asked {
        Ok(view) => view,
        Err(error) => {
            let founding = founding_servers(deployment);
            let is_there =
                |address| access.connect(&address).and_then(loaded).is_ok_and(|c| c.is_some());
            return if founding.into_iter().all(is_there) {
                Stand::Unformed
            } else {
                Stand::Lacking(error)
            };
        }
    };
    for primary in view.primaries() {
        let served = access.connect(&primary.address).and_then(loaded).and_then(|connection| {
            connection.map_or(Ok(false), |mut c| serves(&mut c, replication))
        });
        let trouble = match served {
            Ok(true) => continue,
            Ok(false) => format!("the metadata server at {} has no replica yet", primary.address),
            Err(error) => error.to_string(),
        };
        return Stand::Lacking(Error::Engine(trouble));
    }
    Stand::Whole
}

/// Where servers may be found, the likely places first.
fn first_servers(deployment: &Deployment) -> Vec<ServerAddress> {
    let numbers = 0..servers_per_host(deployment);
    let at = |number| deployment.hosts_to_ask().filter_map(move |m| m.server(number).ok());
    numbers.flat_map(at).collect()
}

/// Where the servers listen that the chosen hosts began with.
fn founding_servers(deployment: &Deployment) -> Vec<ServerAddress> {
    let numbers = 0..servers_per_host(deployment);
    let at = |number| deployment.meta_members().filter_map(move |m| m.server(number).ok());
    numbers.flat_map(at).collect()
}

/// Whether a primary takes the Cluster for whole, and has what it needs to take changes.
fn serves(connection: &mut Connection, replication: Replication) -> Result<bool> {
    let cluster = connection.fields(&["CLUSTER", "INFO"])?;
    let is_ok = cluster.get("cluster_state") == Some("ok")
        && cluster.number("cluster_slots_ok") == Some(u64::from(SLOTS));
    Ok(is_ok && is_linked(connection, replication)?)
}

fn connect_all(deployment: &Deployment, access: &Access, deadline: Instant) -> Result<Vec<Seat>> {
    let places: Vec<_> = deployment.hosts().map(|member| &member.name).collect();
    let place = |member: &Member| places.iter().position(|name| **name == member.name);
    let mut seats = Vec::new();
    for number in 0..servers_per_host(deployment) {
        for member in deployment.meta_members() {
            let host = place(member).unwrap_or_default();
            let name = ServerName { host: member.name.clone(), number };
            let connection = connect(access, &member.server(number)?, deadline)
                .map_err(|e| Error::Engine(format!("{name} is missing: {e}")))?;
            seats.push(Seat { name, host, connection });
        }
    }
    Ok(seats)
}

/// A connection to a server that has read what its disk holds; until then it answers next to nothing. Its answers are
/// waited for until the deadline.
pub(crate) fn connect(
    access: &Access,
    address: &ServerAddress,
    deadline: Instant,
) -> Result<Connection> {
    loop {
        match access.connect(address).and_then(loaded) {
            Ok(Some(connection)) => {
                connection.be_patient_until(deadline)?;
                return Ok(connection);
            }
            Ok(None) if Instant::now() >= deadline => {
                return Err(Error::Engine(format!(
                    "the server at {address} still reads its log; give it more time with --wait"
                )));
            }
            Err(error) if Instant::now() >= deadline => return Err(error),
            Ok(None) | Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn loaded(mut connection: Connection) -> Result<Option<Connection>> {
    let is_loading = connection.fields(&["INFO", "persistence"])?.number("loading") != Some(0);
    Ok((!is_loading).then_some(connection))
}

/// Primaries with the same epoch would have to settle whose slots count. A server that knows others
/// has an epoch already and refuses, as it should.
fn set_first_epochs(seats: &mut [Seat]) {
    for (epoch, seat) in (1..).zip(seats.iter_mut().filter(|s| s.name.number == 0)) {
        let epoch: u32 = epoch;
        let _ = seat.connection.ask::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch.to_string()]);
    }
}

/// Makes all servers known to all. The first meets each other one; the rest they tell each other.
fn introduce(seats: &mut [Seat], deadline: Instant) -> Result<()> {
    let addresses: Vec<ServerAddress> = seats.iter().map(|s| *s.connection.address()).collect();
    let mut next_meet = Instant::now();
    loop {
        let views = ask_all(seats)?;
        let strangers: BTreeSet<usize> = views
            .iter()
            .flat_map(|view| (0..addresses.len()).filter(|i| !knows(view, addresses.get(*i))))
            .collect();
        if strangers.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(missing(
                "not all metadata servers know each other; missing",
                seats,
                &strangers,
            ));
        }
        if Instant::now() >= next_meet {
            next_meet = Instant::now() + REPEAT_MEET;
            meet(seats, &views, &addresses)?;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Each server is told of the first and of the one after it: a star, so that one exchange of gossip
/// reaches all, and a ring beside it.
fn meet(seats: &mut [Seat], views: &[Topology], addresses: &[ServerAddress]) -> Result<()> {
    let count = addresses.len();
    for (i, (seat, view)) in seats.iter_mut().zip(views).enumerate() {
        for other in BTreeSet::from([0, (i + 1) % count.max(1)]) {
            let Some(address) = addresses.get(other).filter(|_| other != i) else { continue };
            if !knows(view, Some(address)) {
                introduce_to(&mut seat.connection, address)?;
            }
        }
    }
    Ok(())
}

/// Tells a server of another one.
pub(crate) fn introduce_to(connection: &mut Connection, other: &ServerAddress) -> Result<()> {
    let (ip, port) = (other.ip.to_string(), other.port.to_string());
    connection.ask(&["CLUSTER", "MEET", &ip, &port, &other.bus_port.to_string()])
}

fn knows(view: &Topology, address: Option<&ServerAddress>) -> bool {
    address
        .and_then(|a| view.by_address(a.ip, a.port))
        .is_some_and(|p| p.is_self || matches!(p.health, Health::Up | Health::Suspected))
}

fn ask_all(seats: &mut [Seat]) -> Result<Vec<Topology>> {
    seats.iter_mut().map(|s| Topology::ask(&mut s.connection)).collect()
}

/// Gives each first server its share of the slots that nobody holds.
fn assign_slots(seats: &mut [Seat], hosts: usize) -> Result<()> {
    let shards = u16::try_from(hosts)
        .ok()
        .filter(|n| *n <= 1000)
        .ok_or_else(|| Error::TooBig(format!("{hosts} hosts; a Cluster has no more than 1000")))?;
    let views = ask_all(seats)?;
    let is_taken: Vec<bool> = {
        let mut taken = vec![false; usize::from(SLOTS)];
        let peers = views.iter().flat_map(|v| v.peers());
        for range in peers
            .filter_map(|p| if let Role::Primary(s) = &p.role { Some(s) } else { None })
            .flatten()
        {
            let range = usize::from(*range.start())..=usize::from(*range.end());
            taken.get_mut(range).into_iter().flatten().for_each(|t| *t = true);
        }
        taken
    };
    for (seat, share) in seats.iter_mut().filter(|s| s.name.number == 0).zip(even_slots(shards)) {
        let free = share.filter(|slot| !is_taken.get(usize::from(*slot)).copied().unwrap_or(true));
        let ranges = runs(free);
        if ranges.is_empty() {
            continue;
        }
        let mut words = vec!["CLUSTER".to_owned(), "ADDSLOTSRANGE".to_owned()];
        words.extend(
            ranges.into_iter().flat_map(|(first, last)| [first.to_string(), last.to_string()]),
        );
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        seat.connection.ask::<()>(&words)?;
    }
    Ok(())
}

/// Runs of consecutive numbers.
fn runs(numbers: impl Iterator<Item = u16>) -> Vec<(u16, u16)> {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for n in numbers {
        match runs.last_mut().filter(|(_, last)| *last + 1 == n) {
            Some((_, last)) => *last = n,
            None => runs.push((n, n)),
        }
    }
    runs
}

/// Makes a replica of every server that holds nothing and follows nobody.
fn attach_replicas(deployment: &Deployment, seats: &mut [Seat], deadline: Instant) -> Result<()> {
    let mut placed = Placed::default();
    for seat in seats {
        loop {
            let view = Topology::ask(&mut seat.connection)?;
            let Some(myself) = view.myself() else {
                return Err(Error::Engine(format!("{} does not know itself", seat.name)));
            };
            if myself.has_slots() || matches!(myself.role, Role::Replica(_)) {
                break;
            }
            // Who holds which slots spreads from server to server, so the view may lag behind.
            let is_current = view.assigned_slots() == usize::from(SLOTS);
            let shard = wanting_shard(deployment, &view, seat.host, &placed, |_| true);
            let shard = shard.filter(|_| is_current);
            if let Some(primary) = shard.filter(|p| follow(&mut seat.connection, p).is_ok()) {
                placed.add(primary, *seat.connection.address());
                break;
            }
            if Instant::now() >= deadline {
                return Err(Error::Engine(format!("{} finds no primary to follow", seat.name)));
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Makes a server a replica of this primary.
pub(crate) fn follow(connection: &mut Connection, primary: &ServerId) -> Result<()> {
    connection.ask(&["CLUSTER", "REPLICATE", &primary.0])
}

fn wait_until_whole(seats: &mut [Seat], replication: Replication, deadline: Instant) -> Result<()> {
    let count = seats.len();
    loop {
        let mut troubles = Vec::new();
        for seat in &mut *seats {
            // A replica that takes over the content of its primary answers nothing else meanwhile.
            let lack = lack_of(&mut seat.connection, count, replication);
            let lack = lack.unwrap_or_else(|error| Some(error.to_string()));
            troubles.extend(
                lack.map(|lack| format!("{} at {}: {lack}", seat.name, seat.connection.address())),
            );
        }
        if troubles.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let what = "the metadata servers do not form a whole Cluster";
            return Err(Error::Engine(format!("{what}; {}", troubles.join("; "))));
        }
        std::thread::sleep(PAUSE);
    }
}

/// What a server still lacks to take the Cluster for whole, know what every other one is, and have its replication link
/// up; none when it lacks nothing.
fn lack_of(
    connection: &mut Connection,
    servers: usize,
    replication: Replication,
) -> Result<Option<String>> {
    let cluster = connection.fields(&["CLUSTER", "INFO"])?;
    let state = cluster.get("cluster_state").unwrap_or("unknown");
    let slots_ok = cluster.number("cluster_slots_ok").unwrap_or_default();
    let known = cluster.number("cluster_known_nodes").unwrap_or_default();
    if state != "ok" || slots_ok != u64::from(SLOTS) || known < servers as u64 {
        return Ok(Some(format!(
            "it takes the Cluster for {state}, {slots_ok} of {SLOTS} slots for served, and knows {known} of {servers} servers"
        )));
    }
    let is_idle = |p: &&Peer| !p.has_slots() && matches!(p.role, Role::Primary(_));
    if let Some(idle) = Topology::ask(connection)?.peers().iter().find(is_idle) {
        return Ok(Some(format!(
            "it takes the server at {} for a primary without slots ({:?})",
            idle.address, idle.health
        )));
    }
    let is_linked = is_linked(connection, replication)?;
    Ok((!is_linked).then(|| "its replication link is not up".to_owned()))
}

/// Whether a server follows its primary, or is followed by a replica.
fn is_linked(connection: &mut Connection, replication: Replication) -> Result<bool> {
    let fields = connection.fields(&["INFO", "replication"])?;
    Ok(match fields.get("role") {
        Some("slave") => fields.get("master_link_status") == Some("up"),
        Some("master") => {
            replication != Replication::Required
                || fields.numbered("slave").any(|slave| slave.contains("state=online"))
        }
        _ => false,
    })
}

fn missing(what: &str, seats: &[Seat], which: &BTreeSet<usize>) -> Error {
    let names: Vec<String> = seats
        .iter()
        .enumerate()
        .filter(|(i, _)| which.contains(i))
        .map(|(_, seat)| format!("{} at {}", seat.name, seat.connection.address()))
        .collect();
    Error::Engine(format!("{what}: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_neighbours() {
        assert_eq!(runs([].into_iter()), []);
        assert_eq!(runs([0, 1, 2, 5, 7, 8].into_iter()), [(0, 2), (5, 5), (7, 8)]);
    }

    #[test]
    fn a_user_is_told_what_two_hosts_cannot_do() {
        let warning = |servers, hosts| Survival::of(servers).warning(hosts);
        assert_eq!(warning(3, 8), None);
        assert!(warning(2, 2).unwrap().starts_with("two hosts: when one is lost"));
        assert!(warning(1, 1).unwrap().contains("use three hosts or more to survive that"));
        assert!(warning(2, 8).unwrap().contains("on two hosts of 8: when one is lost"));
        assert!(warning(1, 8).unwrap().contains("use --meta-hosts 3 or more to survive that"));
    }
}
