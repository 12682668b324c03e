//! The state of all shards, for `status`.

use intarsia_types::{Error, Result};
use serde::Serialize;

use crate::asking::first_answer;
use crate::client::{Access, Connection, Fields};
use crate::deployment::{Deployment, ServerAddress};
use crate::formation::replication_of;
use crate::servers::Replication;
use crate::topology::{Health, Peer, SLOTS, Topology};

/// What the servers say of the whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// The shards by their lowest slot.
    pub shards: Vec<Shard>,
    /// Slots that no server which is up holds; names in them cannot be reached.
    pub unserved_slots: usize,
}

/// One shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shard {
    /// Its slots as `first-last`.
    pub slots: Vec<String>,
    /// Its primary.
    pub primary: Place,
    /// Whether the primary answers.
    pub is_up: bool,
    /// Its replicas, dead ones included.
    pub replicas: Vec<Replica>,
    /// Whether it takes writes: the primary is up and a replica follows closely, where one is needed.
    pub takes_writes: bool,
}

/// A replica of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replica {
    /// Which server.
    pub place: Place,
    /// Whether the primary sends it every change as it comes.
    pub is_in_sync: bool,
    /// Changes that it has not confirmed, in bytes of the replication stream; absent when it is away.
    pub lag_bytes: Option<u64>,
}

/// A server by host and address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Host and number on it, as in `n1/0`; the address when it is none of the deployment's.
    pub server: String,
    /// Where it listens.
    pub address: ServerAddress,
}

impl Survey {
    /// Asks the servers.
    ///
    /// # Errors
    /// When no server answers; the message names the last one tried.
    pub fn take(deployment: &Deployment, access: &Access) -> Result<Self> {
        let needs_replica = replication_of(deployment) == Replication::Required;
        let view = first_view(deployment, access)?;
        let shards: Vec<Shard> = view
            .primaries()
            .into_iter()
            .map(|primary| shard(deployment, access, &view, primary, needs_replica))
            .collect();
        let is_served = |p: &&Peer| p.health == Health::Up;
        let served: usize =
            view.primaries().iter().copied().filter(is_served).map(Peer::slot_count).sum();
        Ok(Self { shards, unserved_slots: usize::from(SLOTS).saturating_sub(served) })
    }

    /// Whether every slot is served and every shard takes writes.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.unserved_slots == 0 && self.shards.iter().all(|s| s.takes_writes)
    }
}

fn first_view(deployment: &Deployment, access: &Access) -> Result<Topology> {
    let servers = |number| deployment.hosts_to_ask().map(move |member| member.server(number));
    let addresses: Vec<ServerAddress> = servers(0).chain(servers(1)).collect::<Result<_>>()?;
    first_answer(access, addresses, |connection| {
        let view = Topology::ask(connection)?;
        // One that has only just started knows nobody.
        let is_known = view.is_of_a_member();
        is_known.then_some(view).ok_or_else(|| {
            let address = connection.address();
            Error::Engine(format!("metadata server at {address} is not part of the Cluster yet"))
        })
    })
}

fn shard(
    deployment: &Deployment,
    access: &Access,
    view: &Topology,
    primary: &Peer,
    needs_replica: bool,
) -> Shard {
    let replication = access
        .connect(&primary.address)
        .and_then(|mut c: Connection| c.fields(&["INFO", "replication"]))
        .ok();
    let replicas: Vec<Replica> = view
        .replicas_of(&primary.id)
        .map(|peer| replica(deployment, replication.as_ref(), peer))
        .collect();
    let is_up = replication.is_some();
    Shard {
        slots: primary.slot_ranges(),
        primary: place(deployment, primary.address),
        is_up,
        takes_writes: is_up && (!needs_replica || replicas.iter().any(|r| r.is_in_sync)),
        replicas,
    }
}

/// `slave0:ip=10.0.0.1,port=7403,state=online,offset=42,lag=0` in the words of the primary.
fn replica(deployment: &Deployment, replication: Option<&Fields>, peer: &Peer) -> Replica {
    let place = place(deployment, peer.address);
    let (ip, port) = (peer.address.ip.to_string(), peer.address.port.to_string());
    let field = |line: &str, name: &str| {
        line.split(',').find_map(|f| f.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    };
    let line = replication.and_then(|fields| {
        fields.numbered("slave").find(|l| {
            field(l, "ip").as_ref() == Some(&ip) && field(l, "port").as_ref() == Some(&port)
        })
    });
    let sent = replication.and_then(|fields| fields.number("master_repl_offset"));
    let confirmed = line.and_then(|l| field(l, "offset")?.parse::<u64>().ok());
    Replica {
        place,
        is_in_sync: line.and_then(|l| field(l, "state")).as_deref() == Some("online"),
        lag_bytes: sent.zip(confirmed).map(|(sent, confirmed)| sent.saturating_sub(confirmed)),
    }
}

fn place(deployment: &Deployment, address: ServerAddress) -> Place {
    let server = deployment
        .server_at(address.ip, address.port)
        .map_or_else(|| address.to_string(), |name| format!("{}/{}", name.host, name.number));
    Place { server, address }
}
