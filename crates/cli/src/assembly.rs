//! How the hosts of a store begin together, as an `up` that has looked at all of them found it.

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
}
