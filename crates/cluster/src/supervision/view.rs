//! What the servers say, asked of those of this host first: a dead one is not waited for twice.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use intarsia_types::{Error, Result};

use crate::client::{Access, Connection};
use crate::deployment::ServerAddress;
use crate::topology::{Health, Topology};

/// A server that could not be reached is left alone for so long.
const LEAVE_ALONE: Duration = Duration::from_secs(2);
/// Silent servers that one look waits for. Those that refuse cost nothing.
const TRIES: usize = 3;
const SILENT: Duration = Duration::from_millis(500);

/// Connections to servers, and the last that was heard of all of them.
pub(super) struct View {
    access: Access,
    open: HashMap<ServerAddress, Connection>,
    silent_until: HashMap<ServerAddress, Instant>,
    last: Topology,
    /// Where in the list this host begins to ask, so that not all ask the same server.
    turn: usize,
}

impl View {
    pub(super) fn new(access: Access, turn: usize) -> Self {
        Self {
            access,
            turn,
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

    /// What a member of the Cluster knows: the first of `own` that answers as one, else one of the others. Where a
    /// member was, a server that started empty may answer now: it knows nobody, and a dead primary would seem never to
    /// have been. As long as nobody is a member, what one of `own` knows.
    pub(super) fn look(
        &mut self,
        own: &[ServerAddress],
        others: &[ServerAddress],
    ) -> Option<Topology> {
        let up = self.last.peers().iter().filter(|p| p.health == Health::Up);
        let mut seen: Vec<ServerAddress> = up.map(|p| p.address).collect();
        let turn = self.turn % seen.len().max(1);
        seen.rotate_left(turn);
        seen.extend(others);
        seen.retain(|address| !own.contains(address));
        let mut of_own = own.iter().filter_map(|address| self.of(address).ok());
        let first = of_own.next();
        let member = first.iter().cloned().chain(of_own).find(Topology::is_of_a_member);
        let answered = member.or_else(|| self.of_a_member(&seen)).or(first)?;
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
            let begun = Instant::now();
            match self.of(address) {
                Ok(view) if view.is_of_a_member() => return Some(view),
                Ok(_) => {}
                Err(_) => unreachable += usize::from(begun.elapsed() > SILENT),
            }
            if unreachable == TRIES {
                break;
            }
        }
        None
    }
}
