//! Silent errors: data that goes wrong without a failure, found by verification or much later.
//!
//! [`VerifiedPattern`]: work is verified before it is checkpointed, so that every checkpoint is good.
//! [`irrecoverable_share`], [`kept_for`]: errors show only after a latency, so several checkpoints
//! are kept, and with some risk none of them is good.
//!
//! In both, silent errors strike the work, not checkpoints, verifications or restarts; failures that
//! stop the job strike at any time.

mod latency;
mod scenario;
mod verified;

pub use latency::{irrecoverable_share, kept_for};
pub use scenario::{Detection, SilentErrors};
pub use verified::{VerifiedCosts, VerifiedPattern};
