//! How jobs of one size work: when they write checkpoints, where to, and how they come back.

use std::sync::Arc;

use intarsia_des::Span;

use super::course::{Course, Position, Rhythm};
use super::errors::ErrorModel;
use super::scheme::{Level, Scheme};

/// The plan of jobs of one size.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Work between two checkpoints; none when no checkpoint is ever written.
    pub(super) interval: Option<Span>,
    /// Where checkpoints go; none when no checkpoint is ever written.
    pub(super) scheme: Option<Scheme>,
    pub(super) rhythm: Arc<Rhythm>,
    /// Whether jobs that write at the same time share the bandwidth.
    pub(super) is_contended: bool,
    /// Time to reboot.
    pub(super) reboot: Span,
    /// Silent errors; none when there are no such errors.
    pub(super) errors: Option<ErrorModel>,
}

impl Plan {
    /// The course of a job with `work` to do.
    pub(super) fn course(&self, work: Span) -> Course {
        Course::new(work, Arc::clone(&self.rhythm))
    }

    /// The levels, none when no checkpoint is ever written.
    pub(super) fn levels(&self) -> &[Level] {
        self.scheme.as_ref().map_or(&[], |scheme| &scheme.levels)
    }

    /// The newest checkpoint on `level` or a higher one that a job completed which went on from
    /// checkpoint `from` and now stands at `position`; none when it completed none. A checkpoint that
    /// is transferred in the background is complete when the transfer is.
    pub(super) fn newest_on(
        &self,
        level: usize,
        course: &Course,
        from: u64,
        position: Position,
    ) -> Option<u64> {
        let level = self.levels().get(level)?;
        let mut newest = position.checkpoint - position.checkpoint % level.every.max(1);
        while newest > from {
            let age = course.time_between(newest, position.checkpoint) + position.since;
            if age >= level.flush {
                return Some(newest);
            }
            newest = newest.saturating_sub(level.every.max(1));
        }
        None
    }
}
