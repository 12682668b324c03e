//! Today's machines: where the figures of their presets come from.
//!
//! The presets `frontier`, `el-capitan`, `aurora` and `llama-3` are scenarios like any other. Each of
//! their figures has an entry `[[source]]`: what was published and where, what follows from that, or
//! what is assumed and how wrong that may be.

mod source;

pub use source::{Basis, Source};
