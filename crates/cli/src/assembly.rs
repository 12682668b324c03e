//! How the hosts of a store begin together, as an `up` that has looked at all of them found it.

use std::collections::BTreeSet;

use intarsia_cluster::topology::ServerId;
use intarsia_types::NodeId;
use serde::{Deserialize, Serialize};

/// What each host is told of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Assembly {
    /// The hosts that are up or begin now.
    pub(crate) present: Vec<NodeId>,
    /// The other hosts of the store. What they alone have is lost until they are back.
    pub(crate) absent: Vec<NodeId>,
    /// Whether nodes of the store are up already: then their metadata servers serve, and those of this host join them.
    pub(crate) is_running: bool,
    /// Whether the store is a new one.
    pub(crate) is_founding: bool,
    /// The metadata servers whose data is on the disks of the hosts that are present.
    pub(crate) kept: Vec<KeptServer>,
    /// Metadata servers that go on with what they had set aside.
    #[serde(default)]
    pub(crate) restored: Vec<(NodeId, u16)>,
    /// The names in their Cluster under which metadata servers begin again with what they have.
    #[serde(default)]
    pub(crate) identities: BTreeSet<ServerId>,
    /// Metadata servers that go on with an older copy, and the names of the last primaries of their shards.
    #[serde(default)]
    pub(crate) successors: Vec<(NodeId, u16, ServerId)>,
    /// Slots of the metadata of which no copy is left, and whose names are given up.
    #[serde(default)]
    pub(crate) emptied: Vec<(u16, u16)>,
    /// Whether servers are missing that the store had: their hosts are absent, or come with empty disks.
    pub(crate) lacks_servers: bool,
}

/// A metadata server whose data is on a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptServer {
    pub(crate) host: NodeId,
    pub(crate) number: u16,
    /// Whether it had everything of its shard.
    pub(crate) is_complete: bool,
}

impl Assembly {
    /// Whether all of a store that exists begins at the same time: nothing of it runs yet.
    pub(crate) const fn is_cold(&self) -> bool {
        !self.is_running && !self.is_founding
    }
}
