//! Scenario files: TOML in layers, read field by field, with errors that name the place and the fix.
//!
//! A [`Document`] is a preset overlaid by a file overlaid by single assignments (`--set`). A
//! simulator reads it through [`Section`]s. What is read is what exists: a field that nobody asked
//! for is refused with the nearest name, and the fields that were asked for, defaults included,
//! make the effective scenario, which is itself a valid scenario.
//!
//! ```
//! use intarsia_simulate::scenario::{Document, Problem, Section};
//!
//! struct Machine { nodes: u64, reboot_seconds: f64 }
//!
//! fn read(machine: &mut Section<'_>) -> Result<Machine, Problem> {
//!     Ok(Machine {
//!         nodes: machine.integer("nodes").at_least(1).required()?,
//!         reboot_seconds: machine.seconds("reboot").not_negative().or("85 s")?,
//!     })
//! }
//!
//! let mut document = Document::parse("lab.toml", "[machine]\nnodes = 16\n").unwrap();
//! document.set("machine.reboot=2 min").unwrap();
//! let (machine, effective) = document.read(|root| root.section("machine", read)).unwrap();
//! assert_eq!((machine.nodes, machine.reboot_seconds), (16, 120.0));
//! assert_eq!(effective["machine"]["reboot"].as_str(), Some("2 min"));
//!
//! let document = Document::parse("lab.toml", "[machine]\nnodes = 16\nreboots = \"1 s\"").unwrap();
//! let problem = document.read(|root| root.section("machine", read)).err().unwrap();
//! assert_eq!(problem.message, "lab.toml:3:1: machine.reboots: unknown field");
//! assert_eq!(problem.help.unwrap(), "did you mean 'reboot'?");
//! ```

mod advice;
mod document;
mod field;
mod preset;
mod quantity;
mod section;
mod value;

pub use document::Document;
pub use field::Field;
pub use intarsia_types::Problem;
pub use preset::{Layers, Preset};
pub use quantity::{BANDWIDTH, BYTES, Dimension, ENERGY, POWER, TIME};
pub use section::Section;
pub use value::Value;

/// How a scenario reads another file that it names: the text, or why there is none.
pub type Files<'f> = dyn Fn(&str) -> Result<String, String> + 'f;
