//! A node joins the hosts of its store, serves them, and leaves them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use intarsia_meta::{MemberRecord, MemberState};
use intarsia_types::{Durability, Error, NodeId, Result};

use crate::membership::Pulse;
use crate::membership::heart::Heart;
use crate::node::Node;

use super::HostPresence;

impl Node {
    /// Begins to show the other hosts that this one lives. What it does before it serves them takes time.
    pub(crate) fn begin_beating(self: &Arc<Self>) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        cluster.meet()?;
        *cluster.heart.lock() = Some(Heart::start(self, self.options.pace().interval)?);
        Ok(())
    }

    /// Begins to serve the other hosts, and tells them where.
    pub(crate) fn join_cluster(self: &Arc<Self>) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let address = cluster.serve(self)?;
        match cluster.membership.serve(&cluster.directory, address)? {
            Pulse::Alive => {}
            Pulse::Lost | Pulse::Replaced => {
                return Err(Error::Busy(format!(
                    "{} was given up by the other hosts while it started; start it again",
                    cluster.me
                )));
            }
        }
        self.settler_queue.collect();
        cluster.meet()
    }

    /// Marks hosts as lost of which whoever brought the store up says that they are not there.
    ///
    /// # Errors
    /// The engine's own.
    pub fn give_up_hosts(&self, hosts: &[NodeId]) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        for host in hosts {
            cluster.membership.give_up(&cluster.directory, host)?;
        }
        cluster.meet()
    }

    /// Shows the other hosts no more that this one lives.
    pub(crate) fn stop_heart(&self) {
        let heart = self.cluster.as_ref().and_then(|cluster| cluster.heart.lock().take());
        if let Some(heart) = heart {
            heart.stop();
        }
    }

    /// Keeps this host a member of the store when it closes, although it may have been told to leave: it has something that
    /// the others need.
    pub fn stay_member(&self) {
        if let Some(cluster) = &self.cluster {
            cluster.stays.store(true, Ordering::SeqCst);
        }
    }

    /// Stops serving the other hosts.
    pub(crate) fn leave_cluster(&self) -> Result<()> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        self.stop_heart();
        drop(cluster.server.lock().take());
        cluster.peers.set_members([]);
        cluster.membership.hear_orders(&cluster.directory)?;
        if cluster.is_leaving() {
            if cluster.stays.load(Ordering::SeqCst) {
                tracing::warn!("this host is to leave, but has metadata that is at no other yet");
            } else if self.holds_files()? {
                tracing::warn!(
                    "this host is to leave, but has files that are at no other host yet"
                );
            } else if cluster.membership.leave(&cluster.directory)? {
                return Ok(());
            }
        }
        // What was kept in memory goes with the node.
        let state = match self.options.durability {
            Durability::Memory => MemberState::Lost,
            Durability::Interval | Durability::Sync => MemberState::Stopped,
        };
        cluster.membership.stop(&cluster.directory, state).map(|_| ())
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
        let cluster = self.cluster.as_ref().filter(|cluster| cluster.is_sure_member())?;
        let presence = |(name, member): (NodeId, MemberRecord)| HostPresence {
            name,
            address: member.address,
            is_alive: member.state.is_alive(),
            is_leaving: member.is_leaving,
        };
        let all: Vec<_> = cluster.members().into_iter().map(presence).collect();
        (!all.is_empty()).then_some(all)
    }

    /// Stops answering other hosts without telling them, as a crash would; for tests of such.
    pub fn stop_serving(&self) {
        if let Some(cluster) = &self.cluster {
            drop(cluster.server.lock().take());
        }
    }
}
