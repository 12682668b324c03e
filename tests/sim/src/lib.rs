//! A cluster in one process: whole nodes over simulated links and metadata servers, on a clock of their own.
//!
//! [`run::run`] makes one from a seed, lets clients work on it while things break, mends everything, and judges what the
//! clients saw and what is left. The same seed does the same again. Real are the nodes, from the calls that a mount
//! makes down to the files of their tiers; simulated are the clock, the order of threads, the network and the servers of
//! metadata. There is no kernel: nothing is cached by one, and nothing is passed through.

pub mod account;
mod calls;
mod client;
mod cluster;
mod content;
pub mod ddmin;
mod disks;
mod drawing;
mod faults;
mod findings;
mod host;
pub mod kind;
mod last_readers;
mod long_files;
mod look;
mod metadata;
mod numbers;
mod open_file;
mod operator;
mod others;
pub mod parts;
mod programs;
mod promises;
mod questions;
mod ranges;
mod rest;
pub mod run;
pub mod sameness;
pub mod server;
mod uses;
mod writers;
