//! Checkpoints on several levels: memory, node-local storage, partner copies, XOR and Reed–Solomon
//! groups, the lower file system; in the manner of SCR (Moody et al., SC 2010) and VeloC (Nicolae et
//! al., IPDPS 2019).
//!
//! [`Kind`]: where a level lies and which damage it survives. [`StoreProfile`]: the measured
//! bandwidths that the costs of a level derive from. [`expectation`]: the exact expected efficiency
//! of a scheme under exponential failures, and its optimum.

pub mod expectation;
mod kind;
mod profile;

pub use kind::Kind;
pub use profile::{LevelTimes, MissingFigure, Payload, StoreProfile, Tier};
