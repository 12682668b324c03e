//! What is known of the hosts that have locks.

use std::collections::BTreeSet;

use intarsia_types::{NodeId, Result};

use super::master::Host;
use crate::cluster::Cluster;

impl Cluster {
    /// This host in its present life.
    pub(crate) fn life(&self) -> Host {
        Host { node: self.me().clone(), life: self.epoch() }
    }

    /// Whether that life of a host is over, so that its locks are gone.
    pub(crate) fn is_life_over(&self, _host: &Host) -> bool {
        false
    }

    /// The other hosts that live.
    pub(crate) fn others_alive(&self) -> Result<BTreeSet<NodeId>> {
        self.member_names()
    }

    /// Refuses to decide about locks while the others may have given this host up.
    pub(crate) fn require_current(&self) -> Result<()> {
        Ok(())
    }
}
