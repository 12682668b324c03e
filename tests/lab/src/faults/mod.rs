//! Faults: hosts, servers, links and disks that fail under load, and whether anything acknowledged is lost.
//!
//! In each round a program on every host changes files, by system calls and through mappings, and logs what was
//! acknowledged; one thing is broken, and healed. Then the directories are compared, from every host, with the logs.

mod actor;
mod book;
mod content;
mod disk;
mod kind;
mod report;
mod round;
mod stutter;

pub use actor::act;
pub use kind::Kind;
pub use report::Report;
pub use round::{Plan, run};
