//! Changes over several partitions: nodes that die at every step, and every order of steps of several
//! nodes (see `docs/internals/transactions.md`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "helpers of tests, outside of test functions"
)]

#[path = "../common/mod.rs"]
mod common;
mod crash;
mod crowd;
mod faults;
#[path = "../common/hooked.rs"]
mod hooked;
mod patience;
mod remains;
mod schedules;
#[path = "../servers/mod.rs"]
mod servers;
mod turnstile;
mod world;
