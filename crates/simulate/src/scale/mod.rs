//! File systems at up to millions of nodes: metadata, data path and network.
//!
//! Four layers, top down: a [`workload`] is a program that all nodes follow; the [`system`] says
//! where metadata and data lie and what devices and services cost; the [`network`] carries what is not
//! local; below it the event kernel keeps the time. [`study`] runs a scenario and reports.

pub mod calibration;
mod hash;
pub mod io500;
pub mod model;
pub mod network;
mod presets;
mod read;
pub mod study;
pub mod system;
pub mod workload;

use crate::report::Study;
use crate::scenario::{Document, Files, Problem};

pub use presets::PRESETS;
pub use read::{MOST_NODES, NetworkSettings, node_counts, study};

/// Reads a scenario for one number of nodes.
///
/// # Errors
/// What is refused, with its place and the fix.
pub fn read(document: &Document, _files: &Files<'_>) -> Result<Box<dyn Study>, Problem> {
    Ok(Box::new(study(document)?))
}
