//! Silent errors of a running job: when one strikes, when it is found, where the job goes back to.

use intarsia_des::{Distribution, Span, Time};
use rand::Rng;

use super::course::Course;
use super::failure::TimeDistribution;
use super::silent::{Detection, SilentErrors};

/// The silent errors of jobs of one size.
#[derive(Clone, Debug)]
pub(super) struct ErrorModel {
    /// Work between two errors, in seconds. Exponential, so that each run can draw anew.
    gaps: Distribution,
    /// From an error until it shows; none when a verification finds it.
    latency: Option<TimeDistribution>,
    /// How many checkpoints are kept.
    kept: u64,
}

/// An error in a job's data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SilentError {
    /// The work that was done when it struck; checkpoints of more work hold it.
    work: Span,
    strikes: Time,
    pub(super) found: Time,
}

impl ErrorModel {
    /// The errors of a job on `nodes`; none when there is no rate.
    pub(super) fn new(silent: &SilentErrors, nodes: u32) -> Option<Self> {
        let (latency, kept) = match &silent.detection {
            Detection::Verification { .. } => (None, u64::MAX),
            Detection::Latency { latency, kept } => (Some(latency.clone()), u64::from(*kept)),
        };
        let gaps = Distribution::exponential(1.0 / silent.per_second(nodes)).ok()?;
        Some(Self { gaps, latency, kept })
    }

    /// The next error of a job that goes on from `checkpoint` at `now`; none when the job is done
    /// before it.
    pub(super) fn draw<R: Rng>(
        &self,
        course: &Course,
        checkpoint: u64,
        now: Time,
        rng: &mut R,
    ) -> Option<SilentError> {
        let work = Span::from_secs_f64(self.gaps.sample(rng));
        let verified = now + course.found_after(checkpoint, work)?;
        let strikes = now + course.done_after(checkpoint, work);
        let found = match &self.latency {
            None => verified,
            Some(latency) => strikes + Span::from_secs_f64(latency.sample(rng)),
        };
        Some(SilentError { work: course.work_until(checkpoint) + work, strikes, found })
    }

    /// The newest checkpoint that is kept and does not hold the error; 0, the start, when there is
    /// none. `newest` is the newest one that can be read.
    pub(super) fn clean_checkpoint(
        &self,
        error: &SilentError,
        course: &Course,
        newest: u64,
    ) -> u64 {
        let before = course.checkpoint_before(error.work);
        if newest <= before {
            newest
        } else if newest - before < self.kept {
            before
        } else {
            0
        }
    }
}

impl SilentError {
    /// Whether it struck before so much work was done.
    pub(super) fn is_held_by(&self, work: Span) -> bool {
        self.work < work
    }

    /// Whether it has struck.
    pub(super) fn has_struck(&self, now: Time) -> bool {
        self.strikes <= now
    }

    /// Whether a job that goes on from `checkpoint` at `now` is free of it.
    pub(super) fn is_undone(&self, course: &Course, checkpoint: u64, now: Time) -> bool {
        !self.has_struck(now) || course.work_until(checkpoint) <= self.work
    }
}
