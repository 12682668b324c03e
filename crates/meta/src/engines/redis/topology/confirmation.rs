//! Whether a server that answers a read is still the primary.
//!
//! A primary that was frozen, or cut off, goes on answering from what it has until it hears that a replica has taken over. What
//! was acknowledged by that one meanwhile is not in its answers. A replica takes over only after the servers have missed the
//! primary for longer than [`BOUND`]. So if a server was last confirmed longer ago than that, another server is asked who the
//! primary is, after the answer has come. A host that is cut off together with a primary gets no such confirmation, and the
//! read fails.

use std::time::Duration;

use intarsia_sync::Instant;
use redis::Value;

use super::{Ranges, Topology};
use crate::engines::redis::failure::{Address, Failure};
use crate::engines::redis::server::Server;

/// How long a server that was confirmed as the primary is believed. It is less than the time after which servers take a silent
/// one for failed: 2 s for those of a deployment, and 15 s by default.
const BOUND: Duration = Duration::from_millis(1500);

impl Topology {
    /// Asks a server a question about a slot. The answer of a server that is not the primary of the slot any more is refused.
    pub(in crate::engines::redis) fn read(
        &self,
        slot: u16,
        server: &Server,
        question: &[u8],
        deadline: Instant,
    ) -> Result<Value, Failure> {
        let asked = Instant::now();
        let answer = server.ask(question, deadline)?;
        let confirmed = *server.confirmed.lock();
        if confirmed.is_none_or(|at| at.elapsed() >= BOUND) {
            self.confirm(slot, server, deadline)?;
            *server.confirmed.lock() = Some(asked);
        }
        Ok(answer)
    }

    /// Asks other servers, until one answers, whether this one holds the slot. Its replicas are asked first, since one of them
    /// would have taken over.
    fn confirm(&self, slot: u16, server: &Server, deadline: Instant) -> Result<(), Failure> {
        let (others, seen) = self.others(&server.address);
        if others.is_empty() {
            return Ok(());
        }
        let mut silent = None;
        for other in others {
            if Instant::now() >= deadline {
                break;
            }
            match self.ranges_of(&other, deadline).map(|(ranges, _)| holder(&ranges, slot)) {
                Ok(Some(holder)) if holder == server.address => {
                    // Some did not answer. A new map has them elsewhere or not at all, so they are not asked each time.
                    if silent.is_some() {
                        let _ = self.refresh(seen, deadline);
                    }
                    return Ok(());
                }
                Ok(Some(holder)) => return Err(Failure::Moved(holder)),
                // It has only just started, and knows no other server yet.
                Ok(None) => {}
                Err(failure) => silent = Some(failure.message()),
            }
        }
        let why = silent.unwrap_or_else(|| "they know of no primary".into());
        Err(Failure::Transient(format!(
            "no other server says that it still holds slot {slot}: {why}"
        )))
    }

    /// The other servers of the Cluster, those first that the map lists behind this one, and the number of the map.
    fn others(&self, address: &Address) -> (Vec<Address>, u64) {
        let map = self.map.read();
        let mut others = if map.is_cluster { map.known.clone() } else { Vec::new() };
        let place = others.iter().position(|known| known == address);
        others.rotate_left(place.unwrap_or(0));
        others.retain(|other| other != address);
        (others, map.generation)
    }
}

/// The primary of a slot, as one server says.
fn holder(ranges: &Ranges, slot: u16) -> Option<Address> {
    let range = ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
    range.and_then(|(_, _, servers)| servers.first().cloned())
}
