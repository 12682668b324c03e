//! Limits and times of connections, with defaults that suit a cluster's network.

use std::time::Duration;

use intarsia_sync::Instant;
use intarsia_wire::{MAX_PAYLOAD_BYTES, Protection};

use crate::waiting::Deadline;

/// The longest time that a call may wait, whatever its caller asks for.
pub const MAX_PATIENCE: Duration = Duration::from_secs(10);

/// The longest time that a call may wait for a peer that lives and is slow.
pub const MAX_SLOWNESS: Duration = Duration::from_secs(60);

/// How long a call may wait.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    usual: Duration,
    last: Duration,
}

impl From<Duration> for Patience {
    /// For an answer of any peer; at most [`MAX_PATIENCE`].
    fn from(usual: Duration) -> Self {
        let usual = usual.min(MAX_PATIENCE);
        Self { usual, last: usual }
    }
}

impl Patience {
    /// As long as that for the answer of any peer, and [`MAX_SLOWNESS`] for one that lives and is slow, of which
    /// [`Pending::wait_while`](crate::Pending::wait_while) is told.
    #[must_use]
    pub fn slow(usual: Duration) -> Self {
        Self { last: MAX_SLOWNESS, ..Self::from(usual) }
    }

    /// For the answer of any peer.
    pub(crate) const fn usual(self) -> Duration {
        self.usual
    }

    pub(crate) fn deadline(self) -> Deadline {
        let now = Instant::now();
        Deadline { usual: now + self.usual, last: now + self.last }
    }
}

/// How connections behave; the same on all nodes of a deployment.
#[derive(Clone, Debug)]
pub struct Config {
    /// What frames are protected against.
    pub protection: Protection,
    /// How long connecting, with proof of the key, may take.
    pub connect_timeout: Duration,
    /// How long a call waits where its caller does not say; at most [`MAX_PATIENCE`].
    pub patience: Duration,
    /// A peer that acknowledges nothing for this long is dead, and so are its connections.
    pub silence: Duration,
    /// Pause after a failed connection; doubled after each further one up to `max_backoff`.
    pub min_backoff: Duration,
    /// Longest pause between attempts to connect.
    pub max_backoff: Duration,
    /// Connections to each peer for large payloads, beside the one for small messages.
    pub bulk_connections: usize,
    /// A message goes to a bulk connection when it or its answer carries more than this.
    pub bulk_from_bytes: usize,
    /// Payload bytes asked for or sent on one connection and not yet answered; never below one frame.
    pub in_flight_bytes: usize,
    /// Threads that answer small messages, and as many again that answer large ones.
    pub workers: usize,
    /// Incoming connections that may be proving the key at the same time; when there are more, the oldest ends.
    pub handshakes: usize,
    /// Of these, how many of one address.
    pub handshakes_per_address: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            protection: Protection::Tagged,
            connect_timeout: Duration::from_secs(3),
            patience: Duration::from_secs(5),
            silence: Duration::from_secs(5),
            min_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(1),
            bulk_connections: 2,
            bulk_from_bytes: 16 << 10,
            in_flight_bytes: 16 << 20,
            workers: 8,
            handshakes: 64,
            handshakes_per_address: 16,
        }
    }
}

impl Config {
    /// The byte limit of one connection, which always admits the largest frame.
    pub(crate) fn room_bytes(&self) -> usize {
        self.in_flight_bytes.max(MAX_PAYLOAD_BYTES + MESSAGE_BYTES)
    }

    /// The same in the units in which a server counts.
    pub(crate) fn room_units(&self) -> usize {
        self.room_bytes().div_ceil(ROOM_UNIT_BYTES) + 1
    }
}

/// What a message without payload counts for in byte limits.
pub(crate) const MESSAGE_BYTES: usize = 1024;
/// Semaphores count pieces of this size.
pub(crate) const ROOM_UNIT_BYTES: usize = 1024;
