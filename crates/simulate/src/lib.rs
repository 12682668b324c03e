//! Simulators for the extreme scale, on the event kernel `des`.
//!
//! [`checkpoint`] asks which share of a machine's time is useful work when nodes fail; [`scale`]
//! asks what a file system over all nodes of a machine delivers.

pub mod checkpoint;
pub mod scale;
