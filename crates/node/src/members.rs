//! Whether the store has other hosts, and whether this host is a member.

use intarsia_types::Result;

use crate::node::Node;

impl Node {
    /// Whether other hosts work in the same store.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.cluster.is_some()
    }

    /// Whether this host was told to leave.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.is_leaving())
    }

    /// Whether this host has been given up by the others.
    pub(crate) fn is_fenced(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.is_fenced())
    }

    /// Waits, for a bounded time, until this host is a member of its store as far as it knows.
    pub(crate) fn await_membership(&self) -> Result<()> {
        self.cluster.as_ref().map_or(Ok(()), |cluster| cluster.await_membership())
    }

    /// Waits, for a bounded time, until no other host can have given this one up: what is acknowledged from
    /// then on, others can read at once.
    pub(crate) fn await_sure_membership(&self) -> Result<()> {
        self.cluster.as_ref().map_or(Ok(()), |cluster| cluster.await_sure_membership())
    }
}
