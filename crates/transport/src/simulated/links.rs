//! The side that asks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use intarsia_sync::{Instant, thread};
use intarsia_types::NodeId;
use intarsia_wire::{Hello, Lane, Request, VERSION};
use parking_lot::Mutex;

use super::Network;
use super::connection::{Connection, Pending};
use super::endpoint::next_session;
use crate::client::Peer;
use crate::config::Patience;
use crate::members::{GONE, renew};
use crate::waiting::never;
use crate::{Buffer, Config, Identity, PeerError, PeerFailure, PeerStatus};

/// Connections of one machine to the others.
#[derive(Clone)]
pub(crate) struct Links(Arc<Inner>);

struct Inner {
    network: Network,
    identity: Identity,
    config: Config,
    members: Mutex<BTreeMap<NodeId, Member>>,
}

struct Member {
    peer: Arc<Peer>,
    connection: Option<Arc<Connection>>,
}

impl Links {
    pub(crate) fn new(network: Network, identity: Identity, config: Config) -> Self {
        Self(Arc::new(Inner { network, identity, config, members: Mutex::default() }))
    }

    pub(crate) fn set_members(&self, members: impl IntoIterator<Item = (NodeId, SocketAddr)>) {
        let make =
            |node, address| Member { peer: Arc::new(Peer { node, address }), connection: None };
        let gone = renew(&mut self.0.members.lock(), members, |m| m.peer.address, make);
        for connection in gone.into_iter().filter_map(|member| member.connection) {
            connection.lose(GONE);
        }
    }

    pub(crate) fn start(
        &self,
        node: &NodeId,
        request: Request,
        payload: Option<Buffer>,
        patience: Patience,
    ) -> Result<Pending, PeerError> {
        let doing = request.name();
        let peer = self.peer(node, doing)?;
        let asked = self
            .connection(&peer, patience)
            .and_then(|connection| self.ask(&connection, request, payload, patience));
        asked.map_err(|failure| peer.error(doing, failure))
    }

    pub(crate) fn start_now(
        &self,
        node: &NodeId,
        request: Request,
        patience: Patience,
    ) -> Option<Pending> {
        let connection = self.existing(node)?;
        self.ask(&connection, request, None, patience).ok()
    }

    pub(crate) fn tell(&self, node: &NodeId, request: Request) -> Result<(), PeerError> {
        let doing = request.name();
        let peer = self.peer(node, doing)?;
        let told = move |connection: &Arc<Connection>| connection.tell(request);
        if let Some(connection) = self.existing(node) {
            told(&connection);
            return Ok(());
        }
        let (links, to, patience) = (self.clone(), Arc::clone(&peer), self.0.config.patience);
        let spawned = thread::Builder::new().name("tell".into()).spawn(move || {
            if let Ok(connection) = links.connection(&to, Patience::from(patience)) {
                told(&connection);
            }
        });
        spawned.map(drop).map_err(|e| peer.error(doing, PeerFailure::Unreachable(e.to_string())))
    }

    /// See [`crate::Peers::takes_connection`].
    pub(crate) fn takes_connection(
        &self,
        node: &NodeId,
        address: SocketAddr,
        within: Duration,
    ) -> bool {
        let Inner { network, identity, .. } = &*self.0;
        let deadline = Instant::now() + within;
        thread::sleep_until(network.arrival(&identity.node, node).min(deadline));
        let is_cut =
            network.link(&identity.node, node).is_cut || network.link(node, &identity.node).is_cut;
        let back = network.arrival(node, &identity.node);
        if is_cut || back > deadline {
            thread::sleep_until(deadline);
            return false;
        }
        thread::sleep_until(back);
        network.endpoint(address).is_some()
    }

    pub(crate) fn status(&self) -> Vec<PeerStatus> {
        let members = self.0.members.lock();
        let of = |member: &Member| PeerStatus {
            node: member.peer.node.clone(),
            address: member.peer.address,
            connections: usize::from(member.connection.as_ref().is_some_and(|c| c.is_up())),
            in_flight_bytes: 0,
            epoch: None,
            failure: None,
        };
        members.values().map(of).collect()
    }

    fn peer(&self, node: &NodeId, doing: &'static str) -> Result<Arc<Peer>, PeerError> {
        let known = self.0.members.lock().get(node).map(|member| Arc::clone(&member.peer));
        let unknown = || (node.clone(), PeerFailure::Unknown);
        known.ok_or_else(unknown).map_err(|(node, failure)| PeerError {
            node,
            address: None,
            doing,
            failure,
        })
    }

    fn existing(&self, node: &NodeId) -> Option<Arc<Connection>> {
        let known = self.0.members.lock().get(node)?.connection.clone();
        known.filter(|connection| connection.is_up())
    }

    fn ask(
        &self,
        connection: &Arc<Connection>,
        request: Request,
        payload: Option<Buffer>,
        patience: Patience,
    ) -> Result<Pending, PeerFailure> {
        let doing = request.name();
        let (id, slot) = connection.take_off()?;
        let pending = connection.pending((id, slot), patience, doing);
        let deadline = patience.deadline().last;
        let message = (request, payload.unwrap_or_default());
        connection.endpoint.ask(connection, Some(id), deadline, message);
        Ok(pending)
    }

    /// The connection to a peer, made if there is none.
    fn connection(
        &self,
        peer: &Arc<Peer>,
        patience: Patience,
    ) -> Result<Arc<Connection>, PeerFailure> {
        if let Some(known) = self.existing(&peer.node) {
            return Ok(known);
        }
        let Inner { network, identity, config, members } = &*self.0;
        let patience = patience.usual().min(config.connect_timeout);
        // There and back.
        let there = network.arrival(&identity.node, &peer.node);
        thread::sleep_until(there);
        let back = network.arrival(&peer.node, &identity.node);
        let is_cut = network.link(&identity.node, &peer.node).is_cut
            || network.link(&peer.node, &identity.node).is_cut;
        if is_cut {
            thread::sleep(patience);
            return Err(PeerFailure::Unreachable("connecting took too long".to_owned()));
        }
        thread::sleep_until(back);
        let refused = || PeerFailure::Unreachable("connection refused".to_owned());
        let endpoint = network.endpoint(peer.address).ok_or_else(refused)?;
        let new = Connection::new(identity.node.clone(), Arc::clone(peer), Arc::clone(&endpoint));
        network.0.connections.lock().push(Arc::clone(&new));
        let (id, slot) = new.take_off()?;
        let pending = new.pending((id, slot), Patience::from(patience), "connecting");
        endpoint.knock(&new, id, self.hello(peer));
        match pending.wait_while(&never) {
            Ok(_) => {}
            Err(crate::CallError::Peer(error)) => return Err(unsent(error.failure)),
            Err(crate::CallError::Remote(error)) => {
                return Err(PeerFailure::Refused(error.to_string()));
            }
        }
        let mut members = members.lock();
        let member = members.get_mut(&peer.node).filter(|member| Arc::ptr_eq(&member.peer, peer));
        let Some(member) = member else {
            drop(members);
            new.lose(GONE);
            return Err(PeerFailure::Unknown);
        };
        // Somebody else may have connected meanwhile: handles belong to one session.
        if let Some(first) = member.connection.clone().filter(|connection| connection.is_up()) {
            drop(members);
            new.lose("another connection was first");
            return Ok(first);
        }
        member.connection = Some(Arc::clone(&new));
        Ok(new)
    }

    fn hello(&self, peer: &Peer) -> Hello {
        let identity = &self.0.identity;
        Hello {
            node: identity.node.clone(),
            to: peer.node.clone(),
            store: identity.store,
            epoch: identity.epoch,
            session: next_session(),
            lane: Lane::Small,
            version: VERSION,
            protection: self.0.config.protection as u8,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for member in self.members.get_mut().values() {
            if let Some(connection) = &member.connection {
                connection.lose("this node is stopping");
            }
        }
    }
}

/// Nothing but the greeting was sent.
fn unsent(failure: PeerFailure) -> PeerFailure {
    match failure {
        PeerFailure::Timeout { .. } | PeerFailure::Lost(_) => {
            PeerFailure::Unreachable("connecting took too long".to_owned())
        }
        other => other,
    }
}
