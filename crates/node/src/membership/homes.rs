//! The hosts that have the bytes of files, and whether all of them are lost.

use intarsia_meta::Inode;
use intarsia_types::{Layout, NodeId, Result};

use crate::membership::cluster::Cluster;

/// Whether some bytes of a file are at lost hosts only.
pub(crate) fn is_lost(cluster: &Cluster, inode: &Inode) -> Result<bool> {
    let homes = homes_of(cluster, inode)?;
    Ok(match inode.layout {
        // Each has bytes that no other has.
        Layout::Striped { .. } => homes.iter().any(|home| cluster.is_lost(home)),
        _ => !homes.is_empty() && homes.iter().all(|home| cluster.is_lost(home)),
    })
}

/// EIO for a file of which some bytes are at lost hosts only.
pub(crate) fn require_some_copy(cluster: &Cluster, inode: &Inode) -> Result<()> {
    if !is_lost(cluster, inode)? {
        return Ok(());
    }
    homes_of(cluster, inode)?.iter().try_for_each(|home| cluster.require_not_lost(home))
}

/// The hosts that have the bytes of a file: each all of them, or its part; none when they are with its record.
pub(crate) fn homes_of(cluster: &Cluster, inode: &Inode) -> Result<Vec<NodeId>> {
    inode.layout.files().iter().map(|backing| cluster.home_of(backing.tier)).collect()
}
