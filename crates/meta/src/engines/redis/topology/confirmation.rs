//! Whether a server that answers a read still is the primary.
//!
//! A primary that was frozen, or cut off, goes on answering from what it has until it hears that a replica has taken
//! its place; changes that were acknowledged there meanwhile are not in its answers. Nobody takes its place before the
//! others have missed it for longer than [`BOUND`]. So after each such time, once an answer has come, another server is
//! asked who the primary is; a host that is cut off with a primary hears from none, and believes it no longer.

use std::time::Duration;

use intarsia_sync::Instant;
use redis::Value;

use super::{Ranges, Topology};
use crate::engines::redis::failure::{Address, Failure};
use crate::engines::redis::server::Server;

/// How long a server is believed that was the primary. Less than the time after which a silent one counts as failed:
/// 2 s for the servers of a deployment, and 15 s usually.
const BOUND: Duration = Duration::from_millis(1500);

impl Topology {
    /// Has a server answer a question about a slot. What one says that is not the primary any more is no answer.
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

    /// Asks other servers, until one answers, whether this one holds the slot. Its replicas come first: one of them
    /// would take its place.
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
                    // Those that do not answer are not asked each time.
                    if silent.is_some() {
                        let _ = self.refresh(seen, deadline);
                    }
                    return Ok(());
                }
                Ok(Some(holder)) => return Err(Failure::Moved(holder)),
                // It has only just started, and knows nobody yet.
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

/// Who holds a slot, as one server says.
fn holder(ranges: &Ranges, slot: u16) -> Option<Address> {
    let range = ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
    range.and_then(|(_, _, servers)| servers.first().cloned())
}
