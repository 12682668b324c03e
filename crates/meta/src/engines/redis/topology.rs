//! The map of slots: which server holds which, as the servers say.

mod confirmation;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use intarsia_sync::thread::ScopedJoinHandle;
use intarsia_sync::{Instant, Mutex, RwLock};

use redis::{Value, cmd};
use tracing::{debug, info};

use super::failure::{Address, Failure};
use super::keys::SLOTS;
use super::server::{Connector, Server};
use super::session::random;

/// How long one server may take to tell its map. It is short, since others can be asked.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// Servers that are asked at the same time when the first did not say.
const AT_ONCE: usize = 8;
/// While no map is known yet, only the first servers that were named are asked, so many times. From then on some of the others
/// are asked too, chosen at random each time. So not all of many hosts that start together ask all servers at once, and servers
/// that moved are found all the same.
const FIRST_ROUNDS: u64 = 24;

/// The servers, and what is known of their slots.
pub(super) struct Topology {
    connector: Connector,
    /// The servers that were named by users.
    seeds: Vec<Address>,
    map: RwLock<Map>,
    /// Held while the servers are asked, so that many callers ask once.
    refreshing: Mutex<()>,
}

#[derive(Default)]
struct Map {
    /// First and last slot of each range, and its primary.
    ranges: Vec<(u16, u16, Arc<Server>)>,
    /// Slots that a server has said are elsewhere, since the map was made.
    moved: HashMap<u16, Arc<Server>>,
    servers: HashMap<Address, Arc<Server>>,
    /// All servers in the map, replicas too: any of them can tell the map.
    known: Vec<Address>,
    is_cluster: bool,
    /// The number of the map, so that a caller can say with which one it failed. It also grows when no map could be had.
    generation: u64,
}

/// What one server says: ranges of slots with the addresses of their primary and its replicas.
type Ranges = Vec<(u16, u16, Vec<Address>)>;
/// The same, and whether the server is one of a Cluster.
type Said = (Ranges, bool);

impl Topology {
    pub(super) fn new(connector: Connector, seeds: Vec<Address>) -> Self {
        Self { connector, seeds, map: RwLock::default(), refreshing: Mutex::default() }
    }

    /// The primary of a slot, if one is known, and the number of the map that says so.
    pub(super) fn primary(&self, slot: u16) -> (Option<Arc<Server>>, u64) {
        let map = self.map.read();
        let server = map.moved.get(&slot).or_else(|| {
            let range = map.ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
            range.map(|(_, _, server)| server)
        });
        (server.cloned(), map.generation)
    }

    /// All primaries, each once.
    pub(super) fn primaries(&self) -> Vec<Arc<Server>> {
        let map = self.map.read();
        let mut found: Vec<Arc<Server>> = Vec::new();
        for (_, _, server) in &map.ranges {
            if !found.iter().any(|known| Arc::ptr_eq(known, server)) {
                found.push(Arc::clone(server));
            }
        }
        found
    }

    /// The server at an address that another server named.
    pub(super) fn server(&self, address: Address) -> Result<Arc<Server>, Failure> {
        let mut map = self.map.write();
        self.server_in(&mut map, address)
    }

    /// Notes that a slot has moved.
    pub(super) fn note_moved(&self, slot: u16, to: Address) -> Result<(), Failure> {
        let mut map = self.map.write();
        let server = self.server_in(&mut map, to)?;
        debug!(slot, server = %server.address, "metadata slot moved");
        map.moved.insert(slot, server);
        Ok(())
    }

    /// Whether the servers form a Cluster, as far as is known.
    pub(super) fn is_cluster(&self) -> bool {
        self.map.read().is_cluster
    }

    fn server_in(&self, map: &mut Map, address: Address) -> Result<Arc<Server>, Failure> {
        if let Some(server) = map.servers.get(&address) {
            return Ok(Arc::clone(server));
        }
        let server = Arc::new(Server::new(&self.connector, address.clone())?);
        map.servers.insert(address, Arc::clone(&server));
        Ok(server)
    }

    /// Asks the servers for the map, unless that was done since the map with number `seen`. Each call begins with another
    /// server, because one may be cut off from the others without knowing it.
    pub(super) fn refresh(&self, seen: u64, deadline: Instant) -> Result<(), Failure> {
        let Some(_alone) = self.refreshing.try_lock_until(deadline) else {
            return Err(Failure::Transient("the servers are still being asked".into()));
        };
        let (candidates, has_map) = {
            let map = self.map.read();
            if map.generation != seen {
                return Ok(());
            }
            let mut known = map.known.clone();
            let turn = usize::try_from(seen).unwrap_or(0) % known.len().max(1);
            known.rotate_left(turn);
            known.extend(self.seeds.iter().filter(|seed| !map.known.contains(seed)).cloned());
            (known, !map.ranges.is_empty())
        };
        let mut last = Failure::Transient("no server is known".into());
        // A refusal is no reason to stop: something else than a server of ours may listen at an address.
        let mut refused = None;
        // The first is asked alone, since mostly it knows. Then several are asked at once, because dead ones only time out.
        let (first, rest) = candidates.split_at(candidates.len().min(1));
        let (near, far) = rest.split_at(rest.len().min(AT_ONCE));
        let far: Vec<&[Address]> = far.chunks(AT_ONCE).collect();
        let far = match far.len() {
            0 => Vec::new(),
            _ if has_map => far,
            _ if seen < FIRST_ROUNDS => Vec::new(),
            count => {
                let any = usize::try_from(random() % count as u64).unwrap_or(0);
                far.get(any).copied().into_iter().collect()
            }
        };
        let groups = [first, near].into_iter().filter(|some| !some.is_empty());
        for some in groups.chain(far) {
            if Instant::now() >= deadline {
                break;
            }
            for answer in self.ask_all(some, deadline) {
                match answer {
                    // It has only just started, and knows no other server yet.
                    Ok((ranges, _)) if ranges.is_empty() => {
                        last = Failure::Transient("a server knows of no slots".into());
                    }
                    Ok((ranges, is_cluster)) => return self.install(ranges, is_cluster),
                    Err(failure @ Failure::Refused(_)) => refused = Some(failure),
                    Err(failure) => last = failure,
                }
            }
        }
        // The next call begins with another server.
        self.map.write().generation += 1;
        Err(refused.unwrap_or(last))
    }

    /// What each of these servers says, in their order.
    fn ask_all(&self, servers: &[Address], deadline: Instant) -> Vec<Result<Said, Failure>> {
        if let [only] = servers {
            return vec![self.ranges_of(only, deadline)];
        }
        intarsia_sync::thread::scope(|scope| {
            let ask = |address| scope.spawn(move || self.ranges_of(address, deadline));
            let asked: Vec<_> = servers.iter().map(ask).collect();
            let answer = |thread: ScopedJoinHandle<'_, Result<Said, Failure>>| {
                let panicked = |_| Err(Failure::Transient("a thread panicked".into()));
                thread.join().unwrap_or_else(panicked)
            };
            asked.into_iter().map(answer).collect()
        })
    }

    /// What this server says, and whether it is one of a Cluster.
    fn ranges_of(&self, address: &Address, deadline: Instant) -> Result<Said, Failure> {
        let server = self.server(address.clone())?;
        let command = cmd("CLUSTER").arg("SLOTS").get_packed_command();
        match server.ask(&command, deadline.min(Instant::now() + ANSWER_TIMEOUT)) {
            Ok(reply) => Ok((parse(&reply, &address.host), true)),
            Err(Failure::Refused(why)) if why.contains("cluster support disabled") => {
                Ok((vec![(0, SLOTS - 1, vec![address.clone()])], false))
            }
            Err(Failure::Transient(why)) => Err(Failure::Transient(format!("{address}: {why}"))),
            Err(failure) => Err(failure),
        }
    }

    fn install(&self, ranges: Ranges, is_cluster: bool) -> Result<(), Failure> {
        let mut map = self.map.write();
        let mut new = Vec::with_capacity(ranges.len());
        let mut known = Vec::new();
        for (first, last, addresses) in ranges {
            let Some(primary) = addresses.first() else { continue };
            new.push((first, last, self.server_in(&mut map, primary.clone())?));
            known.extend(addresses);
        }
        let is_same = new.len() == map.ranges.len()
            && new
                .iter()
                .zip(&map.ranges)
                .all(|(new, old)| (new.0, new.1) == (old.0, old.1) && Arc::ptr_eq(&new.2, &old.2));
        if !is_same {
            let primaries: Vec<String> = new
                .iter()
                .map(|(first, last, server)| format!("{first}-{last} {}", server.address))
                .collect();
            info!(primaries = primaries.join(", "), "metadata servers");
        }
        map.servers.retain(|address, _| known.contains(address) || self.seeds.contains(address));
        map.ranges = new;
        map.is_cluster = is_cluster;
        map.known = known;
        map.moved.clear();
        map.generation += 1;
        Ok(())
    }
}

/// Reads the answer to `CLUSTER SLOTS`: first slot, last slot, then servers as host, port and more.
fn parse(reply: &Value, asked_host: &str) -> Ranges {
    let Value::Array(ranges) = reply else { return Ranges::new() };
    ranges.iter().filter_map(|range| parse_range(range, asked_host)).collect()
}

fn parse_range(range: &Value, asked_host: &str) -> Option<(u16, u16, Vec<Address>)> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), servers @ ..] = parts.as_slice() else {
        return None;
    };
    let addresses = servers.iter().map(|server| parse_server(server, asked_host));
    let addresses: Option<Vec<Address>> = addresses.collect();
    Some((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, addresses?))
}

fn parse_server(server: &Value, asked_host: &str) -> Option<Address> {
    let Value::Array(parts) = server else { return None };
    let [host, Value::Int(port), ..] = parts.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) if !host.is_empty() => String::from_utf8(host.clone()).ok()?,
        // Empty: the server that was asked, which does not know its own name.
        _ => asked_host.to_owned(),
    };
    Some(Address { host, port: u16::try_from(*port).ok()? })
}
