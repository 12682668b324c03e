//! Simulators for the extreme scale, on the event kernel `des`.
//!
//! [`checkpoint`] asks which share of a machine's time is useful work when nodes fail; [`scale`]
//! asks what a file system over all nodes of a machine delivers; both read a [`scenario`], run
//! independent [`replications`] of it and give a [`report`]. [`datastore`] asks what streams of requests see
//! on a store. Nothing here reads files or the clock.

pub mod checkpoint;
pub mod datastore;
pub mod progress;
pub mod replications;
pub mod report;
pub mod scale;
pub mod scenario;
