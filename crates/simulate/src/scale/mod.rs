//! File systems at up to millions of nodes: metadata, data path and network.

use crate::report::Study;
use crate::scenario::{Document, Files, Preset, Problem};

/// The scenarios that come with the program.
pub const PRESETS: &[Preset] = &[];

/// Reads a scenario.
///
/// # Errors
/// Always: there is no model yet.
pub fn read(_document: &Document, _files: &Files<'_>) -> Result<Box<dyn Study>, Problem> {
    Err(Problem::new("the scale model is not part of this version"))
}
