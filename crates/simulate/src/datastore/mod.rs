//! Data stores with known truth: what closed-loop streams of requests see on an array of disks, a
//! flash drive or a network volume.
//!
//! These stores are mechanisms, not formulas: heads move, parity is read and written, caches fill,
//! flash collects its garbage. So a model of performance that was fitted to measurements of them, and
//! a placement that such a model chose, can be judged by something else than that model.

mod array;
mod disk;
mod flash;
mod measures;
mod network;
mod rig;
mod settings;
mod write_cache;

pub use measures::{Latency, Outcome, StreamOutcome, Traced};
pub use settings::{
    ArraySettings, DiskSettings, FlashSettings, Level, NetworkSettings, Run, StoreSettings, Stream,
};

/// Why a run is refused: which field, and what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

impl Run {
    /// Simulates the run. The same run gives the same outcome.
    ///
    /// # Errors
    /// When a field makes no sense; the text names it.
    pub fn simulate(&self) -> Result<Outcome, Refused> {
        self.check().map_err(Refused)?;
        Ok(rig::simulate(self))
    }
}
