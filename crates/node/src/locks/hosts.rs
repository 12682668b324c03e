//! What is known of the hosts that have locks.

use std::collections::BTreeSet;

use intarsia_meta::Owner;
use intarsia_types::{NodeId, Result};

use super::master::Host;
use crate::membership::cluster::Cluster;

impl Cluster {
    /// This host in its present life.
    pub(crate) fn life(&self) -> Host {
        let Owner { node, epoch } = self.owner();
        Host { node, life: epoch }
    }

    /// Whether that life of a host is over, so that its locks are gone.
    pub(crate) fn is_life_over(&self, host: &Host) -> bool {
        self.is_over(&Owner { node: host.node.clone(), epoch: host.life })
    }

    /// The other hosts that live.
    pub(crate) fn others_alive(&self) -> Result<BTreeSet<NodeId>> {
        self.meet()?;
        Ok(self.alive().into_iter().filter(|node| node != self.me()).collect())
    }
}
