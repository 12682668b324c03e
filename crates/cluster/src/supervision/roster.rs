//! What the store knows of its hosts, as far as it matters to metadata servers.
//!
//! The servers tell each other who of them is there, and nothing of hosts that have none. Those are known from the
//! members' records, which every node reads. Until a node has, its host takes no server.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use intarsia_types::NodeId;

use crate::deployment::{Deployment, Member};

/// A host as its record in the metadata shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSeen {
    /// Its name.
    pub name: NodeId,
    /// Where its node serves others, while it does.
    pub address: Option<SocketAddr>,
    /// Whether it is heard of.
    pub is_alive: bool,
    /// Whether it was told to leave the store.
    pub is_leaving: bool,
}

/// Where to learn of the hosts: none while that is unknown, as before the node is open.
#[derive(Clone)]
pub struct Roster(Arc<dyn Fn() -> Option<Vec<HostSeen>> + Send + Sync>);

impl Roster {
    /// Asks `look` each time.
    pub fn new(look: impl Fn() -> Option<Vec<HostSeen>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    pub(super) fn look(&self) -> Option<Vec<HostSeen>> {
        self.0()
    }
}

impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Roster")
    }
}

/// The hosts as of one look.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    /// Alive, and leaving.
    seen: Option<BTreeMap<NodeId, (bool, bool)>>,
}

impl Hosts {
    pub(super) const fn unknown() -> Self {
        Self { seen: None }
    }

    pub(super) fn of(seen: &[HostSeen]) -> Self {
        let state = |host: &HostSeen| (host.name.clone(), (host.is_alive, host.is_leaving));
        Self { seen: Some(seen.iter().map(state).collect()) }
    }

    pub(super) const fn is_known(&self) -> bool {
        self.seen.is_some()
    }

    fn state(&self, host: &NodeId) -> Option<(bool, bool)> {
        self.seen.as_ref()?.get(host).copied()
    }

    /// Whether it lives and stays; not while that is unknown.
    pub(super) fn stays(&self, host: &NodeId) -> bool {
        self.state(host) == Some((true, false))
    }

    pub(super) fn is_leaving(&self, host: &NodeId) -> bool {
        self.state(host).is_some_and(|(_, is_leaving)| is_leaving)
    }

    /// Whether it was removed from the store, or never came.
    pub(super) fn is_gone(&self, host: &NodeId) -> bool {
        self.is_known() && self.state(host).is_none()
    }

    /// Whether any host that lives is leaving.
    pub(super) fn is_any_leaving(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.values().any(|state| *state == (true, true)))
    }
}

/// Adds hosts to the description that joined after it came here. Their metadata servers listen behind their node, as
/// everywhere.
pub(super) fn complete(deployment: &mut Deployment, seen: &[HostSeen]) {
    for host in seen {
        let is_known = deployment.member(&host.name).is_some();
        let Some(address) = host.address.filter(|_| !is_known) else { continue };
        let Some(server_port) = address.port().checked_add(1) else { continue };
        let member = Member {
            name: host.name.clone(),
            address: address.ip(),
            node_port: address.port(),
            server_port,
        };
        match deployment.clone().with_joined(member) {
            Ok(more) => *deployment = more,
            Err(error) => {
                tracing::debug!(host = %host.name, %error, "a host takes no metadata servers");
            }
        }
    }
}
