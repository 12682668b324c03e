//! Whether the store has other hosts, and whether this host is a member.
//!
//! Owns nothing: it is the other hosts, or their absence in a store of one host.
//! Asks `membership`, if there are other hosts.
//! Promises that a host without others waits for nobody, and that no wait is without a bound.

use std::sync::Arc;

use intarsia_types::{NodeId, Result};

use crate::membership::cluster::Cluster;

/// This host among the others. In a store of one host it is all by itself, and nobody gives it up.
#[derive(Clone)]
pub(crate) struct Members(Option<Arc<Cluster>>);

impl Members {
    /// `cluster` are the other hosts, in a store of several.
    pub(crate) const fn new(cluster: Option<Arc<Cluster>>) -> Self {
        Self(cluster)
    }

    /// Whether other hosts work in the same store.
    pub(crate) const fn is_shared(&self) -> bool {
        self.0.is_some()
    }

    /// Whether this host was told to leave.
    pub(crate) fn is_leaving(&self) -> bool {
        self.0.as_ref().is_some_and(|cluster| cluster.is_leaving())
    }

    /// Whether this host has been given up by the others.
    pub(crate) fn is_fenced(&self) -> bool {
        self.0.as_ref().is_some_and(|cluster| cluster.is_fenced())
    }

    /// Whether no other host can have given this one up; never so in a store of one host, which does not ask.
    pub(crate) fn is_sure(&self) -> bool {
        self.0.as_ref().is_some_and(|cluster| cluster.is_sure_member())
    }

    /// Gives EIO to another host that was given up.
    pub(crate) fn require_not_given_up(&self, host: &NodeId) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |cluster| cluster.require_member(host))
    }

    /// Waits, for a bounded time, until this host is a member of its store as far as it knows.
    pub(crate) fn await_membership(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |cluster| cluster.await_membership())
    }

    /// Waits, for a bounded time, until no other host can have given this one up: what is acknowledged from
    /// then on, others can read at once.
    pub(crate) fn await_sure_membership(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |cluster| cluster.await_sure_membership())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use super::*;
    use crate::membership::cluster::lone::lone;

    #[test]
    fn a_host_without_others_waits_for_nobody() {
        let members = Members::new(None);
        assert!(!members.is_shared() && !members.is_leaving() && !members.is_fenced());
        members.await_membership().unwrap();
        members.await_sure_membership().unwrap();
    }

    #[test]
    fn a_host_among_others_is_asked_of_them() {
        let (cluster, _) = lone();
        let members = Members::new(Some(cluster));
        assert!(members.is_shared());
        assert!(!members.is_leaving());
    }
}
