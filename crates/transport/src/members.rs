//! Who the members are, and what changes when they do.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use intarsia_types::NodeId;

/// Why the connections of a member end that is none any more.
pub(crate) const GONE: &str = "the peer left or moved to another address";

/// Puts the members of now into `known`: one whose address is the same stays, others are made. Returns those that left
/// or moved.
pub(crate) fn renew<M>(
    known: &mut BTreeMap<NodeId, M>,
    members: impl IntoIterator<Item = (NodeId, SocketAddr)>,
    address_of: impl Fn(&M) -> SocketAddr,
    make: impl Fn(NodeId, SocketAddr) -> M,
) -> Vec<M> {
    let mut before = std::mem::take(known);
    let mut moved = Vec::new();
    for (node, address) in members {
        let member = match before.remove(&node) {
            Some(member) if address_of(&member) == address => member,
            other => {
                moved.extend(other);
                make(node.clone(), address)
            }
        };
        known.insert(node, member);
    }
    moved.extend(before.into_values());
    moved
}
