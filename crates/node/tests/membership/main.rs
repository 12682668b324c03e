//! Hosts that come, go, sleep and die, in one process over one engine.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod deployment;
mod leases;
mod loss;
mod moves;
