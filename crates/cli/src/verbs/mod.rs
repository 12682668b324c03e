//! One file a verb.

pub(crate) mod agent;
pub(crate) mod analysis;
pub(crate) mod balance;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod fleet;
mod given;
pub(crate) mod hint;
pub(crate) mod lab;
pub(crate) mod leave;
pub(crate) mod locate;
pub(crate) mod lost;
mod moves;
pub(crate) mod node;
pub(crate) mod pages;
pub(crate) mod predict;
mod purge;
mod python;
mod rule;
pub(crate) mod simulate;
pub(crate) mod stage;
pub(crate) mod status;
pub(crate) mod up;
pub(crate) mod workflow;
mod xattr;
