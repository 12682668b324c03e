//! The life cycle of a store with real processes: every verb in every state, killed at every step; and random stories.
//!
//! What must hold is in `docs/internals/life-cycle.md`.

mod checks;
mod files;
mod model;
mod remains;
mod report;
mod stories;
mod table;
mod world;

pub use files::write_on;
pub use model::{Plan, points, points_without_story, run};
pub use report::Report;
pub use stories::{Stories, tell};
pub use table::tables;
pub use world::keep_guard;
