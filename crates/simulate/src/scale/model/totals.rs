//! What a run counts.

use intarsia_des::{Histogram, Time};

/// What happened in a phase.
#[derive(Clone, Debug)]
pub struct PhaseTotals {
    /// When its first operation began.
    pub began: Time,
    /// When its last one ended.
    pub ended: Time,
    /// Operations that were begun.
    pub issued: u64,
    /// Operations that ended.
    pub completed: u64,
    /// Bytes that these wrote, read or sent.
    pub bytes: u64,
    /// How long each took.
    pub latencies: Histogram,
}

/// What was counted on both sides and has to agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages that were sent.
    pub messages_sent: u64,
    /// Messages that were received.
    pub messages_received: u64,
    /// Their bytes as sent.
    pub bytes_sent: u64,
    /// Their bytes as received.
    pub bytes_received: u64,
    /// Bytes that devices wrote.
    pub device_bytes_written: u64,
    /// Bytes that devices read.
    pub device_bytes_read: u64,
    /// Requests that waited for an endpoint to come back, or were begun again there.
    pub requests_held: u64,
    /// Nodes that finished the program.
    pub nodes_finished: u32,
}
