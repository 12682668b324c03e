//! How long a workflow takes on a store, before anybody runs it.
//!
//! ```text
//! workload   what runs: tasks, files, operations; knows nothing of stores ─┐
//! profile    what it runs on: hosts, links, service times, measured once  ─┼─ model ── Prediction
//! configuration   how the store is laid out over the hosts ────────────────┘     └─ search: many of them, the best
//! ```
//!
//! The model is that of L. B. Costa, "Support for Configuration and Provisioning of Intermediate Storage Systems"
//! (PhD thesis, University of British Columbia, 2014): hosts with a queue out and a queue in, services first come, first
//! served, data exact by the chunk, one control message for each function of the store. Where it decides where bytes go,
//! it asks `policy`, as a node does. Nothing here reads files or the clock.

mod advice;
mod json;
mod schedule;

pub mod configuration;
pub mod model;
pub mod profile;
pub mod search;
pub mod workload;

pub use intarsia_types::Problem;

/// Bytes as a number to reckon with.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to 2^53 bytes, and to 104 days of nanoseconds"
)]
const fn as_float(number: u64) -> f64 {
    number as f64
}
