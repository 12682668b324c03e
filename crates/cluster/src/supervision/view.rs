//! What the servers say, asked of those of this host first: a dead one is not waited for twice.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use intarsia_types::{Error, Result};

use crate::client::{Access, Connection};
use crate::deployment::ServerAddress;
use crate::topology::{Health, Topology};

/// A server that could not be reached is left alone for so long.
const LEAVE_ALONE: Duration = Duration::from_secs(2);
/// Servers that may turn out to be unreachable in one look.
const TRIES: usize = 3;

/// Connections to servers, and the last that was heard of all of them.
pub(super) struct View {
    access: Access,
    open: HashMap<ServerAddress, Connection>,
    silent_until: HashMap<ServerAddress, Instant>,
    last: Topology,
}

impl View {
    pub(super) fn new(access: Access) -> Self {
        Self {
            access,
            open: HashMap::new(),
            silent_until: HashMap::new(),
            last: Topology::default(),
        }
    }

    /// Does something with a connection to this server.
    pub(super) fn with<T>(
        &mut self,
        address: &ServerAddress,
        work: impl FnOnce(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        if self.silent_until.get(address).is_some_and(|until| *until > Instant::now()) {
            return Err(Error::Engine(format!(
                "metadata server at {address} did not answer just now"
            )));
        }
        let mut connection = match self.open.remove(address) {
            Some(connection) => connection,
            None => self.access.connect(address).inspect_err(|_| {
                self.silent_until.insert(*address, Instant::now() + LEAVE_ALONE);
            })?,
        };
        let result = work(&mut connection);
        // After a refusal the connection is as good as before; after a time-out an answer may be under way.
        if connection.is_open() {
            self.open.insert(*address, connection);
        }
        result
    }

    /// Forgets a connection, because another process listens there now.
    pub(super) fn renew(&mut self, address: &ServerAddress) {
        self.open.remove(address);
        self.silent_until.remove(address);
    }

    /// What one server knows.
    pub(super) fn of(&mut self, address: &ServerAddress) -> Result<Topology> {
        self.with(address, Topology::ask)
    }

    /// What the first of `own` that answers knows, else what a member of the Cluster among the others
    /// does. Where a member was, one that started empty may answer now: it knows nobody, and a dead
    /// primary would seem never to have been.
    pub(super) fn look(
        &mut self,
        own: &[ServerAddress],
        others: &[ServerAddress],
    ) -> Option<Topology> {
        let seen: Vec<ServerAddress> = self
            .last
            .peers()
            .iter()
            .filter(|p| p.health == Health::Up)
            .map(|p| p.address)
            .chain(others.iter().copied())
            .filter(|a| !own.contains(a))
            .collect();
        let answered = own
            .iter()
            .find_map(|address| self.of(address).ok())
            .or_else(|| self.of_a_member(&seen))?;
        self.last = answered.clone();
        Some(answered)
    }

    /// What the first of these knows that answers as a member.
    fn of_a_member(&mut self, addresses: &[ServerAddress]) -> Option<Topology> {
        let mut unreachable = 0;
        for address in addresses {
            if self.silent_until.get(address).is_some_and(|until| *until > Instant::now()) {
                continue;
            }
            match self.of(address) {
                Ok(view) if view.is_of_a_member() => return Some(view),
                Ok(_) => {}
                Err(_) => unreachable += 1,
            }
            if unreachable == TRIES {
                break;
            }
        }
        None
    }
}
