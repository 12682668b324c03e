//! The hosts that have the bytes of files, and whether all of them are lost.

use std::collections::HashMap;

use intarsia_meta::Inode;
use intarsia_sync::RwLock;
use intarsia_types::{Layout, NodeId, Result, TierId};

use crate::membership::cluster::Cluster;

/// Whether some bytes of a file are at lost hosts only.
pub(crate) fn is_lost(cluster: &Cluster, inode: &Inode) -> Result<bool> {
    let homes = homes_of(cluster, inode)?;
    Ok(match inode.layout {
        // Each host has bytes that no other has.
        Layout::Striped { .. } => homes.iter().any(|home| cluster.is_lost(home)),
        _ => !homes.is_empty() && homes.iter().all(|home| cluster.is_lost(home)),
    })
}

/// Refuses a file of which some bytes are at lost hosts only.
///
/// # Errors
/// EIO, naming the host.
pub(crate) fn require_some_copy(cluster: &Cluster, inode: &Inode) -> Result<()> {
    if !is_lost(cluster, inode)? {
        return Ok(());
    }
    homes_of(cluster, inode)?.iter().try_for_each(|home| cluster.require_not_lost(home))
}

/// The hosts that have the bytes of a file, each all of them or its part. None if the bytes are in the metadata.
pub(crate) fn homes_of(cluster: &Cluster, inode: &Inode) -> Result<Vec<NodeId>> {
    inode.layout.files().iter().map(|backing| cluster.home_of(backing.tier)).collect()
}

/// The host of each tier, as it was read last.
#[derive(Default)]
pub(crate) struct TierHomes(RwLock<Known>);

#[derive(Default)]
struct Known {
    homes: HashMap<TierId, NodeId>,
    /// How often all were forgotten; tells what was read before that from what was read after.
    forgotten: u64,
}

impl TierHomes {
    /// The host of `tier`. If it is not known, `ask` reads the hosts of all tiers; no lock is held meanwhile. What `ask` returns is
    /// not kept if all were forgotten since it began, because it may be outdated.
    ///
    /// # Errors
    /// Those of `ask`.
    pub(crate) fn of(
        &self,
        tier: TierId,
        ask: impl FnOnce() -> Result<HashMap<TierId, NodeId>>,
    ) -> Result<Option<NodeId>> {
        let known = self.0.read();
        if let Some(home) = known.homes.get(&tier) {
            return Ok(Some(home.clone()));
        }
        let forgotten = known.forgotten;
        drop(known);
        let homes = ask()?;
        let home = homes.get(&tier).cloned();
        let mut known = self.0.write();
        if known.forgotten == forgotten {
            known.homes = homes;
        }
        Ok(home)
    }

    /// Forgets the hosts of all tiers.
    pub(crate) fn forget(&self) {
        let mut known = self.0.write();
        known.homes.clear();
        known.forgotten += 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use super::*;

    #[test]
    fn a_tier_is_asked_for_once_and_again_after_all_were_forgotten() {
        let (homes, tier) = (TierHomes::default(), TierId(7));
        let told = |host: &str| Ok(HashMap::from([(tier, NodeId(host.to_owned()))]));
        let of = |host: &str| homes.of(tier, || told(host)).unwrap().unwrap().0;
        assert_eq!((of("a"), of("b")), ("a".into(), "a".into()));
        homes.forget();
        assert_eq!(of("b"), "b");
        assert_eq!(homes.of(TierId(8), || told("b")).unwrap(), None);
    }

    #[test]
    fn what_was_asked_before_all_were_forgotten_is_not_kept() {
        let (homes, tier) = (TierHomes::default(), TierId(7));
        let told = |host: &str| HashMap::from([(tier, NodeId(host.to_owned()))]);
        let first = homes.of(tier, || {
            homes.forget();
            Ok(told("before"))
        });
        assert_eq!(first.unwrap().unwrap().0, "before");
        assert_eq!(homes.of(tier, || Ok(told("after"))).unwrap().unwrap().0, "after");
    }
}
