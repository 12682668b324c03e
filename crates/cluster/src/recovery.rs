//! The Cluster of a store that comes up without some of its servers: what survives takes the place of what does not.
//!
//! A host may be missing, or come with empty disks. For each shard whose primary did not survive, a replica that had
//! copied everything takes over by itself (CLUSTER FAILOVER TAKEOVER): there may be too few primaries for an election.
//! That is safe because nothing else of the store runs, and whoever brings it up has said which hosts are there. A
//! server that comes back later finds its slots taken under a later epoch, and follows.
//!
//! A replica that never finished copying is not used: it may lack what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use intarsia_types::{Error, NodeId, Result};

use crate::client::{Access, Connection};
use crate::deployment::{Deployment, ServerName};
use crate::formation::connect;
use crate::topology::{Peer, Role, SLOTS, ServerId, Topology};

/// Between two looks at servers that learn from each other.
const PAUSE: Duration = Duration::from_millis(50);

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
pub struct Remedy {
    /// Replicas that take over, by their places among the survivors.
    pub heirs: Vec<usize>,
    /// Slots of which no copy survives that had everything.
    pub lost: Vec<(u16, u16)>,
    /// The hosts that may have copies of these.
    pub missed: BTreeSet<NodeId>,
}

/// Has the surviving servers serve all slots, once they have read what is on their disks.
///
/// # Errors
/// When a survivor does not answer within `timeout`, or some slots have no copy left: the message says which part
/// of the names that is, and which hosts are missed.
pub fn recover(
    deployment: &Deployment,
    access: &Access,
    survivors: &[Survivor],
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
    let witnesses = ask_all(survivors, &mut seats)?;
    let remedy = remedy(deployment, &witnesses);
    if !remedy.lost.is_empty() {
        return Err(unserved(deployment, &remedy));
    }
    for heir in &remedy.heirs {
        let Some(seat) = seats.get_mut(*heir) else { continue };
        tracing::warn!(server = %seat.address(), "takes the place of a primary that is not there");
        seat.ask::<()>(&["CLUSTER", "FAILOVER", "TAKEOVER"])?;
    }
    wait_until_served(survivors, &mut seats, deadline)
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
                remedy.missed.extend(holders(deployment, witnesses, &id));
            }
        }
    }
    remedy.lost.sort_unstable();
    remedy
}

/// Who held each slot last, with ranges of slots.
fn last_owners(witnesses: &[Witness]) -> BTreeMap<ServerId, Vec<(u16, u16)>> {
    let mut owners: Vec<Option<(u64, &ServerId)>> = vec![None; usize::from(SLOTS)];
    for peer in witnesses.iter().flat_map(|w| w.view.peers()).filter(|p| p.has_slots()) {
        let Role::Primary(ranges) = &peer.role else { continue };
        for range in ranges {
            let range = usize::from(*range.start())..=usize::from(*range.end());
            for owner in owners.get_mut(range).into_iter().flatten() {
                *owner = (*owner).max(Some((peer.config_epoch, &peer.id)));
            }
        }
    }
    let mut found: BTreeMap<ServerId, Vec<(u16, u16)>> = BTreeMap::new();
    for (slot, owner) in (0..).zip(owners) {
        let Some((_, owner)) = owner else { continue };
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
    let peers = witnesses.iter().flat_map(|w| w.view.peers());
    let of_shard = peers.filter(|peer| peer.id == *id || peer.is_replica_of(id));
    let host = |peer: &Peer| deployment.server_at(peer.address.ip, peer.address.port);
    of_shard.filter_map(host).map(|name| name.host).collect()
}

fn unserved(deployment: &Deployment, remedy: &Remedy) -> Error {
    let lost: u32 = remedy.lost.iter().map(|(first, last)| u32::from(last - first) + 1).sum();
    let percent = f64::from(lost) * 100.0 / f64::from(SLOTS);
    let ranges = remedy.lost.iter().map(|(first, last)| format!("{first}-{last}"));
    let missed: Vec<&str> = remedy.missed.iter().map(|host| host.0.as_str()).collect();
    let all = deployment.hosts().count();
    Error::Invalid(format!(
        "no copy of {percent:.0} % of the names is on the hosts that are there (slots {}); of the store's {all} hosts, {} had one: bring the store up with one of these",
        ranges.collect::<Vec<_>>().join(", "),
        missed.join(", ")
    ))
}

/// Waits until the primaries that are there hold all slots between them, and each of them knows that.
fn wait_until_served(
    survivors: &[Survivor],
    seats: &mut [Connection],
    deadline: Instant,
) -> Result<()> {
    loop {
        let witnesses = ask_all(survivors, seats)?;
        let Some(why) = disagreement(&witnesses) else { return Ok(()) };
        if Instant::now() >= deadline {
            return Err(Error::Engine(format!(
                "the metadata servers that are there do not agree on who takes over: {why}"
            )));
        }
        std::thread::sleep(PAUSE);
    }
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
mod tests {
    use super::*;
    use crate::deployment::{Engine, Member};
    use intarsia_types::Durability;

    fn deployment() -> Deployment {
        let member = |n: u8| Member {
            name: NodeId(format!("n{n}")),
            address: [10, 0, 0, n].into(),
            node_port: 7400,
            server_port: 7401,
        };
        let members = (1..=3).map(member).collect();
        Deployment::new(Durability::Interval, 2, Engine::Servers, members).unwrap()
    }

    fn id(host: u8, server: u8) -> String {
        format!("{host:020x}{server:020x}")
    }

    /// What server `number` of `host` says of a Cluster in which each host's replica follows the host before.
    fn witness(host: u8, number: u8, is_complete: bool, epochs: [u64; 3]) -> Witness {
        let slots = ["0-5460", "5461-10922", "10923-16383"];
        let mut text = String::new();
        for n in 1..=3u8 {
            let before = if n == 1 { 3 } else { n - 1 };
            let flag = |server| if (n, server) == (host, number) { "myself," } else { "" };
            text += &format!(
                "{} 10.0.0.{n}:7401@7402 {}master - 0 0 {} connected {}\n",
                id(n, 0),
                flag(0),
                epochs[usize::from(n) - 1],
                slots[usize::from(n) - 1]
            );
            text += &format!(
                "{} 10.0.0.{n}:7403@7404 {}slave {} 0 0 1 connected\n",
                id(n, 1),
                flag(1),
                id(before, 0)
            );
        }
        let name = ServerName { host: NodeId(format!("n{host}")), number: number.into() };
        Witness { survivor: Survivor { name, is_complete }, view: Topology::parse(&text).unwrap() }
    }

    fn all_of(hosts: &[u8]) -> Vec<Witness> {
        let both = |n: &u8| [witness(*n, 0, true, [1, 2, 3]), witness(*n, 1, true, [1, 2, 3])];
        hosts.iter().flat_map(both).collect()
    }

    #[test]
    fn with_all_hosts_there_is_nothing_to_do() {
        assert_eq!(remedy(&deployment(), &all_of(&[1, 2, 3])), Remedy::default());
    }

    #[test]
    fn each_missing_host_has_one_heir() {
        for (present, heir) in [([2, 3], (2, 1)), ([1, 3], (3, 1)), ([1, 2], (1, 1))] {
            let witnesses = all_of(&present);
            let found = remedy(&deployment(), &witnesses);
            let heirs: Vec<_> = found.heirs.iter().map(|i| &witnesses[*i].survivor.name).collect();
            let expected = ServerName { host: NodeId(format!("n{}", heir.0)), number: heir.1 };
            assert_eq!((heirs, found.lost.len()), (vec![&expected], 0), "{present:?}");
        }
    }

    #[test]
    fn a_replica_that_never_finished_copying_is_no_heir() {
        let mut witnesses = all_of(&[2, 3]);
        witnesses[1].survivor.is_complete = false;
        let found = remedy(&deployment(), &witnesses);
        assert_eq!((found.heirs.len(), found.lost), (0, vec![(0, 5460)]));
        let missed: Vec<_> = found.missed.iter().map(|host| host.0.as_str()).collect();
        assert_eq!(missed, ["n1", "n2"]);
    }

    #[test]
    fn of_one_host_alone_a_third_is_lost_and_the_message_says_who_has_it() {
        let deployment = deployment();
        let found = remedy(&deployment, &all_of(&[1]));
        assert_eq!((found.heirs, &found.lost), (vec![1], &vec![(5461, 10922)]));
        let found = remedy(&deployment, &all_of(&[1]));
        let text = unserved(&deployment, &found).to_string();
        assert!(text.contains("33 %") && text.contains("n2, n3"), "{text}");
    }

    #[test]
    fn a_server_that_had_not_joined_is_not_waited_for() {
        let mut witnesses = all_of(&[1, 2, 3]);
        let stranger = format!("{} 10.0.0.1:7405@7406 myself,master - 0 0 0 connected", id(1, 2));
        let name = ServerName { host: NodeId("n1".into()), number: 2 };
        witnesses.push(Witness {
            survivor: Survivor { name, is_complete: false },
            view: Topology::parse(&stranger).unwrap(),
        });
        assert_eq!(disagreement(&witnesses), None);
        // One that still believes in slots that another has taken over is waited for.
        witnesses.remove(4);
        assert!(disagreement(&witnesses).unwrap().contains("hold"));
    }

    #[test]
    fn the_latest_epoch_says_who_held_a_slot() {
        // Server 1 of host 2 took the slots of host 1 over before; host 1 does not know.
        let mut witnesses = all_of(&[1, 2, 3]);
        let taken = format!(
            "{} 10.0.0.2:7403@7404 myself,master - 0 0 9 connected 0-5460\n{} 10.0.0.1:7401@7402 slave {} 0 0 1 connected\n",
            id(2, 1),
            id(1, 0),
            id(2, 1)
        );
        witnesses[3].view = Topology::parse(&taken).unwrap();
        let owners = last_owners(&witnesses);
        assert_eq!(owners.get(&ServerId(id(2, 1))), Some(&vec![(0, 5460)]));
        assert!(!owners.contains_key(&ServerId(id(1, 0))));
    }
}
