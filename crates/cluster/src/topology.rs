//! What one server of a Cluster knows of all of them: the answer of CLUSTER NODES.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use intarsia_types::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::client::Connection;
use crate::deployment::ServerAddress;

const UNKNOWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Hash slots of a Cluster.
pub const SLOTS: u16 = 16_384;

/// The name that a server chose for itself; one that comes back empty has a new one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServerId(pub String);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a server is to its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Holds these slots; none when it has just joined.
    Primary(Vec<RangeInclusive<u16>>),
    /// Follows this primary.
    Replica(ServerId),
}

/// What others say of a server's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answers.
    Up,
    /// The server asked cannot reach it.
    Suspected,
    /// The majority of the primaries cannot reach it.
    Failed,
    /// It was told of and has not answered yet.
    Joining,
}

/// One server as another knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub id: ServerId,
    /// Where it listens.
    pub address: ServerAddress,
    /// Whether it is the server asked.
    pub is_self: bool,
    /// What it is to its shard.
    pub role: Role,
    /// Whether it is there.
    pub health: Health,
    /// Whether it stands for no election: it has not copied everything from its primary yet.
    pub is_barred: bool,
    /// The epoch of its slots; the higher one wins.
    pub config_epoch: u64,
}

impl Peer {
    /// Whether it holds slots.
    #[must_use]
    pub fn has_slots(&self) -> bool {
        matches!(&self.role, Role::Primary(slots) if !slots.is_empty())
    }

    /// How many slots it holds.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        match &self.role {
            Role::Primary(slots) => slots.iter().map(RangeInclusive::len).sum(),
            Role::Replica(_) => 0,
        }
    }

    /// Its slots as `first-last`.
    #[must_use]
    pub fn slot_ranges(&self) -> Vec<String> {
        match &self.role {
            Role::Primary(slots) => {
                slots.iter().map(|r| format!("{}-{}", r.start(), r.end())).collect()
            }
            Role::Replica(_) => Vec::new(),
        }
    }

    /// Whether it follows this primary.
    #[must_use]
    pub fn is_replica_of(&self, primary: &ServerId) -> bool {
        matches!(&self.role, Role::Replica(of) if of == primary)
    }

    /// Whether it holds this slot.
    #[must_use]
    pub fn holds(&self, slot: u16) -> bool {
        matches!(&self.role, Role::Primary(ranges) if ranges.iter().any(|r| r.contains(&slot)))
    }

    /// Whether both hold, or held, some slot.
    #[must_use]
    pub fn shares_slots(&self, other: &Self) -> bool {
        let (Role::Primary(own), Role::Primary(others)) = (&self.role, &other.role) else {
            return false;
        };
        own.iter().any(|a| others.iter().any(|b| a.start() <= b.end() && b.start() <= a.end()))
    }
}

/// All servers as one of them knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    peers: Vec<Peer>,
    /// Servers without an address (flag `noaddr`), as others are at the ones that they had. Nothing can be done with them but to
    /// forget them, which the servers do themselves; but slots may still be theirs.
    departed: Vec<Peer>,
}

impl Topology {
    /// Asks a server.
    ///
    /// # Errors
    /// When it does not answer or its answer cannot be read.
    pub fn ask(connection: &mut Connection) -> Result<Self> {
        let text: String = connection.ask(&["CLUSTER", "NODES"])?;
        Self::parse(&text).map_err(|why| {
            Error::Engine(format!("metadata server at {}: {why}", connection.address()))
        })
    }

    /// Reads the answer of CLUSTER NODES.
    ///
    /// # Errors
    /// With the line that cannot be read.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut found = Self::default();
        for line in text.lines().filter(|l| !l.trim().is_empty()) {
            let Some((peer, has_address)) = peer(line) else {
                return Err(format!("CLUSTER NODES has a line of another form: '{line}'"));
            };
            if has_address { found.peers.push(peer) } else { found.departed.push(peer) }
        }
        Ok(found)
    }

    /// Reads what a server has written down, which is the same and a line of its own numbers.
    ///
    /// # Errors
    /// With the line that cannot be read.
    pub fn parse_file(text: &str) -> std::result::Result<Self, String> {
        let lines = text.lines().filter(|line| !line.starts_with("vars "));
        Self::parse(&lines.collect::<Vec<_>>().join("\n"))
    }

    /// The name of the server that has written this down; none if it tells of none.
    #[must_use]
    pub fn author_of(file: &str) -> Option<ServerId> {
        Some(Self::parse_file(file).ok()?.myself()?.id.clone())
    }

    /// The same once the server asked has learnt that `primary` has its slots.
    #[must_use]
    pub fn with_myself_following(mut self, primary: &Peer) -> Self {
        if let Some(myself) =
            self.peers.iter_mut().find(|peer| peer.is_self && peer.id != primary.id)
        {
            myself.role = Role::Replica(primary.id.clone());
        }
        self
    }

    /// The servers.
    #[must_use]
    pub fn peers(&self) -> &[Peer] {
        &self.peers
    }

    /// The servers, and those at whose addresses others are now.
    pub fn all(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().chain(&self.departed)
    }

    /// The server asked.
    #[must_use]
    pub fn myself(&self) -> Option<&Peer> {
        self.peers.iter().find(|p| p.is_self)
    }

    /// Whether the server asked has its place in the Cluster: it holds slots or follows a primary.
    /// One that has only just started knows nobody, or not everybody yet.
    #[must_use]
    pub fn is_of_a_member(&self) -> bool {
        self.myself().is_some_and(|p| p.has_slots() || matches!(p.role, Role::Replica(_)))
    }

    /// The server of this name.
    #[must_use]
    pub fn by_id(&self, id: &ServerId) -> Option<&Peer> {
        self.peers.iter().find(|p| p.id == *id)
    }

    /// The server that listens there and is not given up; one that came back empty has left its old
    /// name behind at the same place.
    #[must_use]
    pub fn by_address(&self, ip: IpAddr, port: u16) -> Option<&Peer> {
        let mut there = self.peers.iter().filter(|p| p.address.ip == ip && p.address.port == port);
        there.clone().find(|p| p.health != Health::Failed).or_else(|| there.next())
    }

    /// Primaries that hold slots, by their lowest slot.
    #[must_use]
    pub fn primaries(&self) -> Vec<&Peer> {
        let mut primaries: Vec<&Peer> = self.peers.iter().filter(|p| p.has_slots()).collect();
        primaries.sort_by_key(|p| lowest_slot(p));
        primaries
    }

    /// The replicas of a primary.
    pub fn replicas_of<'a>(&'a self, primary: &ServerId) -> impl Iterator<Item = &'a Peer> {
        self.peers.iter().filter(move |p| p.is_replica_of(primary))
    }

    /// Slots that some server holds.
    #[must_use]
    pub fn assigned_slots(&self) -> usize {
        self.peers.iter().map(Peer::slot_count).sum()
    }
}

fn lowest_slot(peer: &Peer) -> u16 {
    match &peer.role {
        Role::Primary(slots) => slots.iter().map(|r| *r.start()).min().unwrap_or(u16::MAX),
        Role::Replica(_) => u16::MAX,
    }
}

/// `id ip:port@bus[,name…] flags primary ping pong epoch link slots…`, and whether it has an address.
fn peer(line: &str) -> Option<(Peer, bool)> {
    let mut words = line.split_ascii_whitespace();
    let id = words.next().and_then(server_id)?;
    let place = words.next()?;
    let flags: Vec<&str> = words.next()?.split(',').collect();
    let follows = words.next()?;
    let config_epoch = words.nth(2)?.parse().ok()?;
    let _link = words.next()?;
    let role = if follows == "-" {
        Role::Primary(words.filter(|w| !w.starts_with('[')).map(slots).collect::<Option<_>>()?)
    } else {
        Role::Replica(server_id(follows)?)
    };
    let has = |flag| flags.contains(&flag);
    let health = match () {
        () if has("handshake") => Health::Joining,
        () if has("fail") => Health::Failed,
        () if has("fail?") => Health::Suspected,
        () => Health::Up,
    };
    let (is_self, is_barred) = (has("myself"), has("nofailover"));
    let has_address = !has("noaddr");
    let nowhere = || ServerAddress { ip: UNKNOWN, port: 0, bus_port: 0 };
    let address = if has_address { address(place)? } else { nowhere() };
    let peer = Peer { id, address, is_self, role, health, is_barred, config_epoch };
    Some((peer, has_address))
}

/// 40 hexadecimal digits. Names go back to servers as arguments, so nothing else passes.
pub(crate) fn server_id(text: &str) -> Option<ServerId> {
    (text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit()))
        .then(|| ServerId(text.to_owned()))
}

/// `ip:port@bus[,hostname[,…]]`; a server that has met nobody does not know its own address yet.
pub(crate) fn address(text: &str) -> Option<ServerAddress> {
    let (ip_and_port, rest) = text.split_once('@')?;
    let (ip, port) = ip_and_port.rsplit_once(':')?;
    let ip = if ip.is_empty() { UNKNOWN } else { ip.trim_matches(['[', ']']).parse().ok()? };
    let bus_port = rest.split(',').next()?.parse().ok()?;
    Some(ServerAddress { ip, port: port.parse().ok()?, bus_port })
}

fn slots(word: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < SLOTS).then_some(first..=last)
}

/// Slots of each of `shards` primaries, as even as can be.
#[must_use]
pub fn even_slots(shards: u16) -> Vec<RangeInclusive<u16>> {
    let edge = |i: u16| u32::from(i) * u32::from(SLOTS) / u32::from(shards.max(1));
    let edge = |i: u16| u16::try_from(edge(i)).unwrap_or(SLOTS);
    (0..shards).map(|i| edge(i)..=edge(i + 1) - 1).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Names of servers.
    pub(crate) const A: &str = "07c37dfeb235213a872192d90877d0cd55635b91";
    pub(crate) const B: &str = "e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca";
    pub(crate) const C: &str = "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1";

    fn example() -> String {
        format!(
            "{B} 10.0.0.2:7401@7402,n2 myself,master - 0 0 1 connected 0-5460 5462 [93-<-{A}]\n\
             {A} 10.0.0.1:7403@7404,,shard-id=x slave,fail?,nofailover {B} 0 1426238317239 4 connected\n\
             {C} :0@0 master,noaddr,fail - 1 1 0 disconnected\n\
             {C} [fd00::1]:7401@7402 handshake - 1 1 0 connected\n"
        )
    }

    #[test]
    fn reads_what_servers_answer() {
        let topology = Topology::parse(&example()).unwrap();
        assert_eq!(topology.peers().len(), 3, "one without an address is left out");
        assert_eq!(topology.all().count(), 4);
        let primary = topology.myself().unwrap();
        assert_eq!((primary.id.0.as_str(), primary.slot_count()), (B, 5462));
        assert_eq!(topology.primaries(), [primary]);
        let replicas: Vec<&Peer> = topology.replicas_of(&primary.id).collect();
        assert_eq!(replicas.len(), 1);
        let replica = replicas.first().unwrap();
        assert_eq!((replica.health, replica.address.bus_port), (Health::Suspected, 7404));
        assert!(replica.is_barred && !primary.is_barred);
        let newcomer = topology.by_id(&ServerId(C.into())).unwrap();
        assert_eq!(newcomer.health, Health::Joining);
        assert_eq!(newcomer.address.ip.to_string(), "fd00::1");
        assert_eq!(topology.assigned_slots(), 5462);
    }

    #[test]
    fn a_server_that_came_back_is_found_by_its_new_name() {
        let text = format!(
            "{A} 10.0.0.1:7401@7402 master,fail - 0 0 1 disconnected\n\
             {B} 10.0.0.1:7401@7402 slave {C} 0 0 2 connected\n"
        );
        let topology = Topology::parse(&text).unwrap();
        assert_eq!(topology.by_address([10, 0, 0, 1].into(), 7401).unwrap().id.0, B);
        assert!(topology.by_address([10, 0, 0, 1].into(), 7402).is_none());
    }

    #[test]
    fn one_that_started_empty_is_no_member() {
        let is_member = |text: &str| Topology::parse(text).unwrap().is_of_a_member();
        let other = format!("{B} 10.0.0.2:7401@7402 master - 0 0 1 connected 0-16383\n");
        let alone = format!("{A} 10.0.0.1:7401@7402 myself,master - 0 0 0 connected\n");
        assert!(!is_member(&alone), "it knows nobody");
        assert!(!is_member(&format!("{alone}{other}")), "it was introduced, and waits for a place");
        assert!(!is_member(&other), "nobody says that this is its own view");
        let holds = format!("{A} 10.0.0.1:7401@7402 myself,master - 0 0 0 connected 5\n");
        assert!(is_member(&format!("{holds}{other}")));
        let follows = format!("{A} 10.0.0.1:7401@7402 myself,slave {B} 0 0 1 connected\n");
        assert!(is_member(&format!("{follows}{other}")));
    }

    #[test]
    fn other_forms_are_refused() {
        for bad in [
            "x 10.0.0.1:1@2 master - 0 0 1 connected".to_owned(),
            format!("{A} 10.0.0.1:1 master - 0 0 1 connected"),
            format!("{A} 10.0.0.1:1@2 master - 0 0 1 connected 0-16384"),
            format!("{A} 10.0.0.1:1@2 master - 0 0 1 connected 7-6"),
            format!("{A} 10.0.0.1:1@2 slave FLUSHALL 0 0 1 connected"),
            format!("{A} 10.0.0.1:1@2 master - 0 0"),
        ] {
            assert!(Topology::parse(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn slots_are_dealt_out_evenly_and_without_a_gap() {
        for shards in 1..200u16 {
            let ranges = even_slots(shards);
            let mut next = 0;
            for range in &ranges {
                assert_eq!(*range.start(), next);
                next = range.end() + 1;
            }
            assert_eq!(next, SLOTS);
            let lengths = ranges.iter().map(RangeInclusive::len);
            assert!(lengths.clone().max().unwrap() - lengths.min().unwrap() <= 1);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            let _ = Topology::parse(&text);
        }

        #[test]
        fn a_changed_answer_is_read_or_refused(at in 0usize..400, with in "[ -~\\n]{0,3}") {
            let mut text = example();
            if at <= text.len() {
                text.insert_str(at, &with);
            }
            let _ = Topology::parse(&text);
        }
    }
}
