//! Energy and money: what a run draws in each state, what it costs, and the interval that saves most.

mod account;
mod interval;
mod power;

pub use account::{Bill, NodeSeconds, Prices};
pub use interval::{energy_first_order_seconds, energy_optimum, joules_per_work_second};
pub use power::Power;
