//! What programs did with the files of one host, as records in a log.
//!
//! ```text
//! node/record ── Record ── log::Writer ── blocks, each with a checksum ── log::Reader ── Record ── intarsia trace
//! ```
//! A log that was cut at any byte tells all of its whole blocks, and where it ends.

pub mod log;
mod record;
mod runs;

pub use record::{Access, Counted, Detail, Host, How, NameChange, Process, Range, Record, VERSION};
pub use runs::{Direction, Runs};
