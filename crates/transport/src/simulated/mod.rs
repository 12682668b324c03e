//! A network in memory, for nodes that are simulated: messages take time that follows from a seed, links are cut one
//! way or both, machines go without a word.
//!
//! It stands for what TCP promises: what is sent on a connection arrives once, or the connection is lost and both sides
//! learn of it. While a link is cut messages wait, and after a silence the connection is lost. How many bytes are in
//! flight is not bounded, and payloads do not get damaged.

mod connection;
mod endpoint;
mod links;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use intarsia_sync::{Instant, simulation};
use intarsia_types::NodeId;
use parking_lot::Mutex;

use self::connection::Connection;
pub(crate) use self::connection::Pending;
pub(crate) use self::endpoint::Endpoint;
pub(crate) use self::links::Links;

/// The links between all machines, and who listens where. Cloning gives another handle to the same network.
#[derive(Clone, Debug, Default)]
pub struct Network(Arc<Wires>);

// Locks of the system: whoever holds one gives no turn away, also when its machine dies.
#[derive(Default)]
struct Wires {
    endpoints: Mutex<HashMap<SocketAddr, Arc<Endpoint>>>,
    connections: Mutex<Vec<Arc<Connection>>>,
    links: Mutex<HashMap<(NodeId, NodeId), Link>>,
    usual: Mutex<Link>,
}

/// One direction between two machines.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Nothing passes.
    pub is_cut: bool,
    /// The shortest time that a message takes.
    pub min_delay: Duration,
    /// The longest.
    pub max_delay: Duration,
}

impl Default for Link {
    fn default() -> Self {
        let (min_delay, max_delay) = (Duration::from_micros(50), Duration::from_micros(500));
        Self { is_cut: false, min_delay, max_delay }
    }
}

impl std::fmt::Debug for Wires {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wires").field("links", &*self.links.lock()).finish_non_exhaustive()
    }
}

impl Network {
    /// Sets how links behave that nothing else was said of.
    pub fn set_usual(&self, link: Link) {
        *self.0.usual.lock() = link;
    }

    /// Sets how the link from one machine to another behaves, in this direction only.
    pub fn set_link(&self, from: &NodeId, to: &NodeId, link: Link) {
        self.0.links.lock().insert((from.clone(), to.clone()), link);
    }

    /// Everything is as usual again.
    pub fn mend(&self) {
        self.0.links.lock().clear();
    }

    /// A machine's process has ended, or the machine itself: it listens no more, and all its connections are lost.
    pub fn reset(&self, node: &NodeId, why: &str) {
        self.0.endpoints.lock().retain(|_, endpoint| endpoint.node() != node);
        self.lose(|connection| connection.is_of(node), why);
    }

    /// The connections between two machines are lost, and both sides learn of it at once.
    pub fn disconnect(&self, one: &NodeId, other: &NodeId) {
        self.lose(
            |connection| connection.is_of(one) && connection.is_of(other),
            "connection reset",
        );
    }

    fn lose(&self, is_lost: impl Fn(&Connection) -> bool, why: &str) {
        let lost: Vec<_> = {
            let mut connections = self.0.connections.lock();
            let lost = connections.iter().filter(|c| is_lost(c)).cloned().collect();
            connections.retain(|connection| connection.is_up() && !is_lost(connection));
            lost
        };
        for connection in lost {
            connection.lose(why);
        }
    }

    fn link(&self, from: &NodeId, to: &NodeId) -> Link {
        let known = self.0.links.lock().get(&(from.clone(), to.clone())).copied();
        known.unwrap_or_else(|| *self.0.usual.lock())
    }

    /// When a message that leaves now is there.
    fn arrival(&self, from: &NodeId, to: &NodeId) -> Instant {
        let Link { min_delay, max_delay, .. } = self.link(from, to);
        let spread = u64::try_from(max_delay.saturating_sub(min_delay).as_nanos()).unwrap_or(0);
        Instant::now() + min_delay + Duration::from_nanos(simulation::below(spread.max(1)))
    }

    fn endpoint(&self, address: SocketAddr) -> Option<Arc<Endpoint>> {
        self.0.endpoints.lock().get(&address).cloned()
    }

    pub(crate) fn listen(&self, address: SocketAddr, endpoint: Arc<Endpoint>) {
        self.0.endpoints.lock().insert(address, endpoint);
    }

    pub(crate) fn stop_listening(&self, address: SocketAddr, endpoint: &Arc<Endpoint>) {
        let mut endpoints = self.0.endpoints.lock();
        if endpoints.get(&address).is_some_and(|known| Arc::ptr_eq(known, endpoint)) {
            endpoints.remove(&address);
        }
        drop(endpoints);
        self.lose(|connection| connection.leads_to(endpoint), "the peer closed the connection");
    }
}
