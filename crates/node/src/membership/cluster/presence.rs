//! How a host joins the others of its store, serves them, and leaves them.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use intarsia_meta::{MemberRecord, MemberState};
use intarsia_transport::Handler;
use intarsia_types::{Error, NodeId, Result};

use crate::membership::Pulse;
use crate::membership::fence::MemberEvents;
use crate::membership::heartbeat::Heartbeat;

use super::{Cluster, HostPresence};

impl Cluster {
    /// Starts the heartbeat, with an interval of `pace`. Called before this host serves others: its start may take longer than the
    /// silence after which a host is given up.
    pub(crate) fn begin_beating<E>(self: &Arc<Self>, events: Weak<E>, pace: Duration) -> Result<()>
    where
        E: MemberEvents + Send + Sync + 'static,
    {
        self.meet()?;
        let cluster = Arc::downgrade(self);
        let beat = move |is_paused: bool| {
            let (Some(cluster), Some(events)) = (cluster.upgrade(), events.upgrade()) else {
                return false;
            };
            if !is_paused {
                cluster.pulse(&*events);
            }
            true
        };
        *self.heartbeat.lock() = Some(Heartbeat::start(beat, pace)?);
        Ok(())
    }

    /// Begins to answer the other hosts by `handler`, and records the address for them.
    ///
    /// # Errors
    /// [`Error::Busy`] if the others have given this host up meanwhile; the engine's or the system's own.
    pub(crate) fn join<H: Handler>(&self, handler: Arc<H>) -> Result<()> {
        let address = self.serve(handler)?;
        match self.membership.serve(&self.directory, address)? {
            Pulse::Alive => Ok(()),
            Pulse::Lost | Pulse::Replaced => Err(Error::Busy(format!(
                "{} was given up by the other hosts while it started; start it again",
                self.me
            ))),
        }
    }

    /// Marks `hosts` as lost: the command that brought the store up says that they are not there.
    pub(crate) fn give_up_hosts(&self, hosts: &[NodeId]) -> Result<()> {
        for host in hosts {
            self.membership.give_up(&self.directory, host)?;
        }
        self.meet()
    }

    /// Stops the heartbeat.
    pub(crate) fn stop_heartbeat(&self) {
        let heartbeat = self.heartbeat.lock().take();
        if let Some(heartbeat) = heartbeat {
            heartbeat.stop();
        }
    }

    /// Keeps this host a member even if it was told to leave, because it has metadata that the others need.
    pub(crate) fn stay_member(&self) {
        self.stays.store(true, Ordering::SeqCst);
    }

    /// Stops answering other hosts without telling them.
    pub(crate) fn stop_serving(&self) {
        drop(self.server.lock().take());
    }

    /// Takes no new requests of other hosts, and waits for those that run, so that none of them changes something after the node
    /// has ended.
    fn finish_serving(&self) {
        let server = self.server.lock().take();
        if server.is_some_and(|server| !server.stop()) {
            tracing::warn!("a request of another host still runs");
        }
    }

    /// Stops serving the other hosts. Records `state` as the state of this host; or removes its record, if it was told to leave and
    /// has no files.
    pub(crate) fn leave(
        &self,
        state: MemberState,
        holds_files: impl FnOnce() -> Result<bool>,
    ) -> Result<()> {
        self.stop_heartbeat();
        self.finish_serving();
        self.peers.set_members([]);
        self.membership.hear_orders(&self.directory)?;
        if self.is_leaving() {
            if self.stays.load(Ordering::SeqCst) {
                tracing::warn!("this host is to leave, but has metadata that is at no other yet");
            } else if holds_files()? {
                tracing::warn!(
                    "this host is to leave, but has files that are at no other host yet"
                );
            } else if self.membership.leave(&self.directory)? {
                return Ok(());
            }
        }
        self.membership.stop(&self.directory, state).map(|_| ())
    }

    /// What the records say of all members, this host among them. None while the others may have given this host up.
    pub(crate) fn presences(&self) -> Option<Vec<HostPresence>> {
        if !self.is_sure_member() {
            return None;
        }
        let presence = |(name, member): (NodeId, MemberRecord)| HostPresence {
            name,
            address: member.address,
            is_alive: member.state.is_alive(),
            is_leaving: member.is_leaving,
        };
        let all: Vec<_> = self.members().into_iter().map(presence).collect();
        (!all.is_empty()).then_some(all)
    }
}
