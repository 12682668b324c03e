//! How jobs of one size work: when they write checkpoints, where to, and how they come back.

use std::sync::Arc;

use intarsia_des::Span;

use super::course::{Course, Rhythm};
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
    /// Whether where a running job stands has no closed form, and each step of it is followed: its
    /// checkpoints are completed in the background, or go through a shared storage.
    pub(super) is_followed: bool,
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

    /// The newest checkpoint on `level` or a higher one when `written` is the last that was written
    /// after `from`; none when there is none on this level among those.
    pub(super) fn newest_on(&self, level: usize, from: u64, written: u64) -> Option<u64> {
        let level = self.levels().get(level)?;
        let newest = written - written % level.every.max(1);
        (newest > from).then_some(newest)
    }
}
