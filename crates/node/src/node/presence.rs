//! The node among the other hosts: what it does for them like for programs, and what whoever runs it asks of its presence.

use std::sync::{Arc, Weak};
use std::time::Duration;

use intarsia_types::{InodeId, NodeId, Result};
use intarsia_wire::PublishedFor;

use crate::membership::cluster::HostPresence;
use crate::peer::serving::PeerFiles;
use crate::replication::replicator::Asked;
use crate::vfs::attributes::AttrChange;
use crate::vfs::caller::Caller;

use super::Node;

/// Permissions were checked by the kernel of the host that asks.
const PEER: Caller = Caller { uid: 0, gid: 0 };

impl PeerFiles for Node {
    fn read(&self, ino: InodeId, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize> {
        Self::read(self, ino, offset_bytes, buffer)
    }

    fn length(&self, ino: InodeId) -> Result<u64> {
        self.calls.attributes.length_now(ino)
    }

    fn write(&self, ino: InodeId, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        Self::write(self, ino, offset_bytes, bytes, false, false)
    }

    fn cut(&self, ino: InodeId, size_bytes: u64) -> Result<()> {
        let change = AttrChange { size_bytes: Some(size_bytes), ..AttrChange::default() };
        self.set_attributes(PEER, ino, &change).map(|_| ())
    }

    fn allocate(&self, ino: InodeId, offset_bytes: u64, len_bytes: u64, bits: u32) -> Result<()> {
        Self::allocate(self, ino, offset_bytes, len_bytes, bits)
    }

    fn publish(
        &self,
        ino: InodeId,
        published_for: PublishedFor,
        asked: &mut Option<Asked>,
    ) -> Result<Option<Duration>> {
        self.syncer.publish_for_peer(ino, published_for, asked)
    }

    fn close(&self, ino: InodeId, may_write: bool) {
        self.releaser.release_remote(ino, may_write);
    }
}

impl Node {
    /// Begins to serve the other hosts, and tells them where.
    pub(super) fn join_cluster(self: &Arc<Self>) -> Result<()> {
        let files: Weak<Self> = Arc::downgrade(self);
        self.presence.join(files)
    }

    /// Marks hosts as lost of which whoever brought the store up says that they are not there.
    ///
    /// # Errors
    /// The engine's own.
    pub fn give_up_hosts(&self, hosts: &[NodeId]) -> Result<()> {
        self.cluster.as_ref().map_or(Ok(()), |cluster| cluster.give_up_hosts(hosts))
    }

    /// Keeps this host a member of the store when it closes, although it may have been told to leave: it has something that
    /// the others need.
    pub fn stay_member(&self) {
        if let Some(cluster) = &self.cluster {
            cluster.stay_member();
        }
    }

    /// Looks up who the other members are and where. Done by itself when one is not known.
    ///
    /// # Errors
    /// The engine's own.
    pub fn meet_members(&self) -> Result<()> {
        self.cluster.as_ref().map_or(Ok(()), |cluster| cluster.meet())
    }

    /// Answers other hosts again after [`stop_serving`](Self::stop_serving), at another address.
    ///
    /// # Errors
    /// As a start.
    pub fn serve_again(self: &Arc<Self>) -> Result<()> {
        self.join_cluster()
    }

    /// The hosts that live, this one among them, in the order of their names; none in a store of one host.
    #[must_use]
    pub fn hosts_alive(&self) -> Vec<NodeId> {
        self.cluster.as_ref().map(|cluster| cluster.alive()).unwrap_or_default()
    }

    /// What the members' records say of the hosts, this one among them; none in a store of one host, and while the others
    /// may have given this one up.
    #[must_use]
    pub fn host_presences(&self) -> Option<Vec<HostPresence>> {
        self.cluster.as_ref()?.presences()
    }

    /// Stops answering other hosts without telling them, as a crash would; for tests of such.
    pub fn stop_serving(&self) {
        if let Some(cluster) = &self.cluster {
            cluster.stop_serving();
        }
    }

    /// Holds this host's beats, as if it slept, or lets them go on; for tests of such.
    pub fn hold_beats(&self, is_held: bool) {
        if let Some(cluster) = &self.cluster {
            cluster.hold_beats(is_held);
        }
    }
}
