//! A running job whose checkpoints go on to a safer level in the background, followed step by step.
//!
//! ```text
//! work ─▶ verification ─▶ work … ─▶ write ─▶ (wait) ─▶ work        what the job does
//!                                     └▶ transfer, transfer …      beside it, one at a time
//! ```
//!
//! A transfer takes a share of the job's speed from the work beside it, not from the work that came
//! before the checkpoint. It ends while the job is at anything, so where a job stands after some
//! time has no closed form, and each end of a step is an event. The same holds for a write or a
//! transfer through a shared storage, which says itself when it is done.

use std::collections::VecDeque;

use intarsia_des::{Span, Time};

use super::course::Course;
use super::scheme::{Level, Overlap, Scheme};
use super::shared_storage::Purpose;

/// Where a running job stands.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    stage: Stage,
    /// How much of the stage is left, at full speed; for ever until a shared storage says otherwise.
    left: Span,
    /// Work of this interval that is done when the stage is.
    worked: Span,
    /// The last checkpoint that was written.
    written: u64,
    /// What goes to safer levels, in order; the first is under way.
    transfers: VecDeque<Transfer>,
    now: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Work,
    Verification,
    Write,
    /// Until the transfers of earlier checkpoints are done.
    Wait,
    /// The work is complete.
    End,
}

#[derive(Clone, Copy, Debug)]
struct Transfer {
    checkpoint: u64,
    level: usize,
    /// For ever until a shared storage says otherwise.
    left: Span,
}

/// What a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A part of the work was verified.
    Verified {
        /// All work that is done.
        work: Span,
        /// Whether that is all there is.
        is_complete: bool,
    },
    /// The job has written this checkpoint and is no longer blocked by that.
    Written(u64),
    /// A checkpoint is complete on a level that it was transferred to.
    Transferred { checkpoint: u64, level: usize },
}

impl Steps {
    /// A job that goes on from `checkpoint` at `now`.
    pub(super) fn new(course: &Course, checkpoint: u64, now: Time) -> Self {
        let left = course.piece(checkpoint, Span::ZERO);
        let stage = Stage::Work;
        Self { stage, left, worked: left, written: checkpoint, transfers: VecDeque::new(), now }
    }

    /// Until when it was followed.
    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// When the next step ends.
    pub(super) fn next(&self, levels: &[Level]) -> Time {
        self.stage_end(levels).min(self.transfer_end())
    }

    /// Goes on to the end of the next step, if that is not later than `now`, and says which it was;
    /// otherwise to `now`. Of steps that end together the transfer comes first, so that nobody waits
    /// for what is complete.
    pub(super) fn advance(&mut self, course: &Course, scheme: &Scheme, now: Time) -> Option<Step> {
        loop {
            let (stage_end, transfer_end) = (self.stage_end(&scheme.levels), self.transfer_end());
            let next = stage_end.min(transfer_end);
            if next > now || next == Time::NEVER {
                self.pass(now, &scheme.levels);
                return None;
            }
            self.pass(next, &scheme.levels);
            let step = if transfer_end == next {
                self.end_transfer(course, scheme)
            } else {
                self.end_stage(course, scheme)
            };
            if step.is_some() {
                return step;
            }
        }
    }

    /// The storage that the job now wants to use for `purpose`, and how long that takes alone.
    pub(super) fn wanted(&self, purpose: Purpose, scheme: &Scheme) -> Option<(usize, Span)> {
        match purpose {
            Purpose::Write if self.stage == Stage::Write => {
                let level = scheme.shared_write(self.written + 1)?;
                Some((level.sharing.write?, level.write))
            }
            Purpose::Flush => {
                let level = scheme.levels.get(self.transfers.front()?.level)?;
                Some((level.sharing.flush?, level.flush))
            }
            Purpose::Write | Purpose::Restore => None,
        }
    }

    /// The shared storage is done with what was wanted for `purpose`: that step ends at `now`.
    pub(super) fn complete(&mut self, purpose: Purpose, levels: &[Level], now: Time) {
        self.pass(now, levels);
        match purpose {
            Purpose::Write => self.left = Span::ZERO,
            Purpose::Flush => {
                if let Some(transfer) = self.transfers.front_mut() {
                    transfer.left = Span::ZERO;
                }
            }
            Purpose::Restore => {}
        }
    }

    /// The share of its speed that the job has beside a transfer.
    fn speed(&self, levels: &[Level]) -> f64 {
        let slows = matches!(self.stage, Stage::Work | Stage::Verification);
        let transfer = self.transfers.front().filter(|_| slows);
        let level = transfer.and_then(|transfer| levels.get(transfer.level));
        level.map_or(1.0, |level| 1.0 - level.slowdown)
    }

    fn stage_end(&self, levels: &[Level]) -> Time {
        match self.stage {
            Stage::Wait | Stage::End => Time::NEVER,
            _ => self.now + slowed(self.left, self.speed(levels)),
        }
    }

    fn transfer_end(&self) -> Time {
        self.transfers.front().map_or(Time::NEVER, |transfer| self.now + transfer.left)
    }

    /// Lets time pass in which no step ends, or at whose end one does.
    fn pass(&mut self, to: Time, levels: &[Level]) {
        let elapsed = to.since(self.now);
        if self.stage_end(levels) <= to {
            self.left = Span::ZERO;
        } else if self.left != Span::FOREVER {
            let speed = self.speed(levels);
            self.left = self.left - done_in(elapsed, speed);
        }
        let transfer = self.transfers.front_mut().filter(|transfer| transfer.left != Span::FOREVER);
        if let Some(transfer) = transfer {
            transfer.left = transfer.left - elapsed;
        }
        self.now = to;
    }

    fn end_transfer(&mut self, course: &Course, scheme: &Scheme) -> Option<Step> {
        let Transfer { checkpoint, level, .. } = self.transfers.pop_front()?;
        if self.stage == Stage::Wait && self.transfers.is_empty() {
            self.begin_transfers(scheme);
            self.begin_interval(course);
        }
        Some(Step::Transferred { checkpoint, level })
    }

    fn end_stage(&mut self, course: &Course, scheme: &Scheme) -> Option<Step> {
        match self.stage {
            Stage::Work => {
                self.stage = Stage::Verification;
                self.left = course.verification();
                None
            }
            Stage::Verification => {
                let work = course.work_until(self.written) + self.worked;
                self.begin_after_verification(course, scheme);
                Some(Step::Verified { work, is_complete: self.stage == Stage::End })
            }
            Stage::Write => {
                self.written += 1;
                let waits = !self.transfers.is_empty()
                    && scheme.due_transfers(self.written).any(|(_, l)| l.overlap == Overlap::Wait);
                if waits {
                    self.stage = Stage::Wait;
                } else {
                    self.begin_transfers(scheme);
                    self.begin_interval(course);
                }
                Some(Step::Written(self.written))
            }
            Stage::Wait | Stage::End => None,
        }
    }

    fn begin_after_verification(&mut self, course: &Course, scheme: &Scheme) {
        let piece = course.piece(self.written, self.worked);
        if piece > Span::ZERO {
            self.stage = Stage::Work;
            self.left = piece;
            self.worked += piece;
        } else if self.written < course.checkpoints() {
            self.stage = Stage::Write;
            let next = self.written + 1;
            let is_shared = scheme.shared_write(next).is_some();
            self.left = if is_shared { Span::FOREVER } else { scheme.write_time(next) };
        } else {
            self.stage = Stage::End;
        }
    }

    fn begin_interval(&mut self, course: &Course) {
        self.stage = Stage::Work;
        self.left = course.piece(self.written, Span::ZERO);
        self.worked = self.left;
    }

    /// Starts what the last checkpoint needs, unless earlier transfers are under way and its level
    /// then goes without.
    fn begin_transfers(&mut self, scheme: &Scheme) {
        let is_busy = !self.transfers.is_empty();
        let due = scheme.due_transfers(self.written);
        let due = due.filter(|(_, level)| !is_busy || level.overlap != Overlap::Skip);
        let checkpoint = self.written;
        self.transfers.extend(due.map(|(index, level)| Transfer {
            checkpoint,
            level: index,
            left: if level.sharing.flush.is_some() { Span::FOREVER } else { level.flush },
        }));
    }
}

/// Time that `span` of work takes at a share of the speed.
fn slowed(span: Span, speed: f64) -> Span {
    if speed >= 1.0 { span } else { Span::from_secs_f64(span.as_secs_f64() / speed) }
}

/// Work that is done in `span` at a share of the speed.
fn done_in(span: Span, speed: f64) -> Span {
    if speed >= 1.0 { span } else { Span::from_secs_f64(span.as_secs_f64() * speed) }
}
