//! The connections to a peer that belong together, as the side that asks sees them.
//!
//! What this node has open at a peer stays open as long as the session, and the message that closes it has no answer:
//! it may have been lost with its connection. So the first connection that breaks takes the others along, and the
//! peer closes whatever was open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::client::Client;

/// One session with a peer after another, each under a number of its own.
pub(crate) struct Bond {
    numbers: Arc<AtomicU64>,
    current: Mutex<Current>,
}

struct Current {
    number: u64,
    connections: Vec<Weak<Client>>,
}

impl Bond {
    /// A bond without connections; the numbers of its sessions are drawn from `numbers`.
    pub(crate) fn new(numbers: Arc<AtomicU64>) -> Self {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        Self { numbers, current: Mutex::new(Current { number, connections: Vec::new() }) }
    }

    /// The session that a new connection is to join.
    pub(crate) fn session(&self) -> u64 {
        self.current.lock().number
    }

    /// Adds a connection that joined session `number`; false when that is over by now.
    pub(crate) fn add(&self, number: u64, connection: &Arc<Client>) -> bool {
        let mut current = self.current.lock();
        let is_current = current.number == number;
        if is_current {
            current.connections.push(Arc::downgrade(connection));
        }
        is_current
    }

    /// Ends session `number`, because a connection of it is gone, and all other connections with it.
    pub(crate) fn end(&self, number: u64) {
        let connections = {
            let mut current = self.current.lock();
            if current.number != number {
                return;
            }
            current.number = self.numbers.fetch_add(1, Ordering::Relaxed);
            std::mem::take(&mut current.connections)
        };
        for connection in connections.iter().filter_map(Weak::upgrade) {
            connection.close("another connection to the peer broke, and the session with it");
        }
    }
}
