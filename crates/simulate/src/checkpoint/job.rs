//! A job on its nodes: what it has saved, where it goes back to, where its time went.

use std::sync::Arc;

use intarsia_des::{Span, Ticket, Time};

use super::course::{Course, Position};
use super::errors::SilentError;
use super::failure::Damage;
use super::ledger::{Category, Ledger};
use super::nodes::NodeRange;
use super::plan::Plan;
use super::scheme::{Level, Recovery};
use super::shared_storage::Transfer;
use super::steps::{Step, Steps};
use super::workload::Request;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    Running,
    Repairing,
    /// It reboots for so long, then reads its checkpoint.
    Restarting {
        reboot: Span,
    },
}

/// A job that holds nodes.
pub(super) struct Job {
    pub(super) request: Request,
    pub(super) started: Time,
    /// When the scheduler expects that it gives its nodes back.
    pub(super) expected_end: Time,
    pub(super) plan: Arc<Plan>,
    pub(super) course: Course,
    pub(super) ranges: Vec<NodeRange>,
    pub(super) state: State,
    /// Since when it is in this state.
    pub(super) since: Time,
    /// The checkpoint that it went on from, or would go on from now; 0 is the start.
    pub(super) checkpoint: u64,
    /// The level from which that checkpoint is read.
    pub(super) level: Option<usize>,
    /// The newest complete checkpoint on each level or a higher one, 0 for none.
    pub(super) newest: Vec<u64>,
    pub(super) is_complete: bool,
    /// What happened to it since it ran last.
    pub(super) trouble: Trouble,
    /// The next silent error, or one that has struck and is not found yet.
    pub(super) error: Option<SilentError>,
    /// What it has under way on shared storages.
    pub(super) transfers: Vec<Transfer>,
    /// Where it stands while it runs, when that has no closed form.
    pub(super) steps: Option<Steps>,
    /// What ends its present state, if no failure does.
    pub(super) next: Option<Ticket>,
}

/// The failures since a job ran last, which its checkpoints have to survive together.
#[derive(Default)]
pub(super) struct Trouble {
    pub(super) damage: Option<Damage>,
    /// Nodes that were hit, by their number within the job.
    pub(super) lost: Vec<u32>,
    /// When all of them are repaired.
    pub(super) repaired: Time,
}

impl Job {
    /// The newest checkpoint that its failures left.
    pub(super) fn recovery(&self) -> Option<Recovery> {
        let damage = self.trouble.damage.unwrap_or(Damage::Process);
        let scheme = self.plan.scheme.as_ref()?;
        scheme.recovery(&self.newest, damage, &self.trouble.lost, self.request.nodes)
    }

    /// The level from which the job reads a checkpoint before it goes on.
    pub(super) fn restore_level(&self) -> Option<&Level> {
        let level = self.level.and_then(|level| self.plan.levels().get(level));
        level.filter(|_| !self.is_complete)
    }

    /// Work until its next checkpoint.
    fn interval(&self) -> Span {
        self.course.work_until(self.checkpoint + 1) - self.course.work_until(self.checkpoint)
    }

    /// Where it stands `elapsed` after it went on.
    fn position(&self, elapsed: Span) -> Position {
        if self.plan.is_followed {
            // Each checkpoint was accounted for when it was written.
            Position { checkpoint: self.checkpoint, since: elapsed }
        } else {
            self.course.position(self.checkpoint, elapsed)
        }
    }

    /// Accounts for an interval of work and its checkpoint, which took as long as other jobs or
    /// transfers let it.
    fn account_for_checkpoint(&mut self, now: Time, ledger: &mut Ledger) {
        let nodes = self.request.nodes;
        let work = self.interval();
        let verifications = self.course.verification_time(self.checkpoint, self.checkpoint + 1);
        ledger.add(Category::Up, nodes, work);
        ledger.add(Category::Verify, nodes, verifications);
        ledger.add(Category::Checkpoint, nodes, now.since(self.since) - work - verifications);
        self.checkpoint += 1;
        self.since = now;
    }

    /// Goes through the steps that end by `now`, up to one at which work was verified or is complete.
    pub(super) fn advance(&mut self, now: Time, ledger: &mut Ledger) -> Option<Step> {
        let plan = Arc::clone(&self.plan);
        let scheme = plan.scheme.as_ref()?;
        loop {
            let steps = self.steps.as_mut()?;
            match steps.advance(&self.course, scheme, now)? {
                Step::Written(checkpoint) => {
                    let at = steps.now();
                    self.account_for_checkpoint(at, ledger);
                    let level = scheme.level_of(checkpoint);
                    for (newest, held) in self.newest.iter_mut().zip(&scheme.levels).take(level + 1)
                    {
                        *newest = if held.is_flushed() { *newest } else { checkpoint };
                    }
                }
                Step::Transferred { checkpoint, level } => {
                    if let Some(newest) = self.newest.get_mut(level) {
                        *newest = checkpoint;
                    }
                }
                verified @ Step::Verified { .. } => return Some(verified),
            }
        }
    }

    /// Accounts for the rest of the work, which is complete.
    pub(super) fn finish(&mut self, now: Time, ledger: &mut Ledger) {
        let nodes = self.request.nodes;
        let work = self.course.work_after(self.checkpoint);
        let verifications = self.course.verification_time_after(self.checkpoint);
        ledger.add(Category::Up, nodes, work);
        ledger.add(Category::Verify, nodes, verifications);
        ledger.add(Category::Checkpoint, nodes, now.since(self.since) - work - verifications);
        self.is_complete = true;
    }

    /// Goes back to a checkpoint, or to the start; work after it is lost after all.
    pub(super) fn go_back(&mut self, recovery: Option<Recovery>, ledger: &mut Ledger) {
        let safe = recovery.map_or(0, |recovery| recovery.checkpoint);
        let undone = self.course.work_until(self.checkpoint) - self.course.work_until(safe);
        ledger.transfer(Category::Up, Category::Lost, self.request.nodes, undone);
        for (level, newest) in self.newest.iter_mut().enumerate() {
            // What is read back is on the faster levels again; the others keep what they have.
            let is_refilled = recovery.is_some_and(|recovery| level <= recovery.level);
            *newest = if is_refilled { safe } else { (*newest).min(safe) };
        }
        self.checkpoint = safe;
        self.level = recovery.map(|recovery| recovery.level);
    }

    /// Accounts for the time since the job came into its state. Work without a checkpoint after it
    /// counts as `rest`.
    pub(super) fn settle(&mut self, now: Time, rest: Category, ledger: &mut Ledger) {
        let elapsed = now.since(self.since);
        let nodes = self.request.nodes;
        match self.state {
            State::Repairing => ledger.add(Category::Repair, nodes, elapsed),
            State::Restarting { reboot } => {
                let rebooting = elapsed.min(reboot);
                ledger.add(Category::Boot, nodes, rebooting);
                ledger.add(Category::Restore, nodes, elapsed - rebooting);
            }
            State::Running => {
                while self.advance(now, ledger).is_some() {}
                self.steps = None;
                let elapsed = now.since(self.since);
                let from = self.checkpoint;
                let position = self.position(elapsed);
                let to = position.checkpoint;
                let work = self.course.work_until(to) - self.course.work_until(from);
                ledger.add(Category::Up, nodes, work);
                ledger.add(Category::Verify, nodes, self.course.verification_time(from, to));
                ledger.add(Category::Checkpoint, nodes, self.course.checkpoint_time(from, to));
                ledger.add(rest, nodes, position.since);
                for (level, newest) in self.newest.iter_mut().enumerate() {
                    let written = self.plan.newest_on(level, from, to);
                    *newest = written.unwrap_or(*newest);
                }
                self.checkpoint = to;
            }
        }
        self.since = now;
    }
}

/// The number within a job of a node of the machine.
pub(super) fn rank(ranges: &[NodeRange], node: u32) -> Option<u32> {
    let mut before = 0;
    for range in ranges {
        match node.checked_sub(range.first) {
            Some(offset) if offset < range.count => return Some(before + offset),
            _ => before += range.count,
        }
    }
    None
}
