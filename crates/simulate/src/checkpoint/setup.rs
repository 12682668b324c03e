//! A scenario, read and checked.

use std::num::NonZeroU32;

use intarsia_des::{Span, Time};

use super::failure::{Damage, Failure, FailureModel};
use super::interval::{Costs, IntervalRule};
use super::machine::Machine;
use super::plan::{LONGEST_PATTERN, Plan, pattern};
use super::storage::Level;
use super::workload::Workload;
use super::world::Rules;
use crate::replications::RunSettings;
use crate::scenario::{Files, Problem, Section};

/// Replications that a scenario runs when it does not say otherwise.
const REPLICATIONS: i64 = 10;
/// Virtual time ends after 584 years.
const LONGEST_HORIZON_SECONDS: f64 = 500.0 * 365.0 * 86_400.0;

/// Everything that a run needs.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) machine: Machine,
    pub(super) failures: FailureModel,
    pub(super) levels: Vec<Level>,
    pub(super) checkpoints: Option<Checkpoints>,
    pub(super) workload: Workload,
    pub(super) horizon: Time,
    pub(super) run: RunSettings,
}

/// When checkpoints are written.
#[derive(Clone, Debug)]
pub(super) struct Checkpoints {
    rule: IntervalRule,
    /// Levels of the first checkpoints; then they repeat.
    pattern: Vec<usize>,
}

impl Setup {
    /// Reads a document's root.
    pub(super) fn read(root: &mut Section<'_>, files: &Files<'_>) -> Result<Self, Problem> {
        let machine = root.section("machine", Machine::read)?;
        let failures = root.section("failures", |s| FailureModel::read(s, files))?;
        let levels = root.sections("level", |s| Level::read(s, &machine))?;
        let pattern = read_pattern(root, &levels)?;
        let checkpoints = root.section("checkpoint", |s| Checkpoints::read(s, pattern))?;
        let workload = root.section("workload", |s| Workload::read(s, files, machine.nodes))?;
        let (horizon, run) = root.section("run", |section| {
            let horizon = section
                .seconds("horizon")
                .positive()
                .must("be at most 500 years", |s| *s <= LONGEST_HORIZON_SECONDS)
                .or("5 years")?;
            Ok((horizon, RunSettings::read(section, REPLICATIONS)?))
        })?;
        let horizon = Time::ZERO + Span::from_secs_f64(horizon);
        Ok(Self { machine, failures, levels, checkpoints, workload, horizon, run })
    }

    /// The number of nodes, of which there is at least one.
    pub(super) fn nodes(&self) -> NonZeroU32 {
        NonZeroU32::new(self.machine.nodes).unwrap_or(NonZeroU32::MIN)
    }

    /// Whether the level is ever written to.
    fn is_used(&self, level: usize) -> bool {
        self.checkpoints.as_ref().is_some_and(|c| c.pattern.contains(&level))
    }

    /// The levels that are written to, with their numbers.
    pub(super) fn used_levels(&self) -> impl Iterator<Item = (usize, &Level)> {
        self.levels.iter().enumerate().filter(|(level, _)| self.is_used(*level))
    }

    /// C, R and M of a job on `nodes`, C being the mean over the levels' pattern and R the reboot and
    /// the reading of the checkpoint that is written most; none without checkpoints, or when one
    /// takes no time.
    pub(super) fn costs(&self, nodes: u32) -> Option<Costs> {
        let checkpoints = self.checkpoints.as_ref()?;
        let level = |index: &usize| self.levels.get(*index);
        let writes = checkpoints.pattern.iter().filter_map(level);
        let write: f64 = writes.map(|l| l.write_time(&self.machine, nodes).as_secs_f64()).sum();
        #[expect(clippy::cast_precision_loss, reason = "at most 65,536")]
        let write = write / checkpoints.pattern.len() as f64;
        let restore = checkpoints.pattern.first().and_then(level)?;
        let restore = self.machine.reboot + restore.restore_time(&self.machine, nodes);
        let mtbf = self.failures.mtbf_seconds(nodes);
        Costs::new(write, restore.as_secs_f64(), mtbf).ok()
    }

    /// Whether the closed form for one level and exponential failures applies.
    pub(super) fn has_exact_efficiency(&self) -> bool {
        let survive_all = self.used_levels().all(|(_, level)| level.survives == Damage::Machine);
        self.used_levels().count() == 1
            && survive_all
            && self.failures.lifetime.is_exponential()
            && self.failures.repair.is_none()
            && self.failures.bursts.is_none()
    }

    /// Work between two checkpoints of a job on `nodes`.
    fn interval(&self, nodes: u32) -> Option<Span> {
        let checkpoints = self.checkpoints.as_ref()?;
        let gaps = self.failures.system_gaps(nodes).ok().flatten();
        let seconds = match (checkpoints.rule, self.costs(nodes)) {
            (IntervalRule::Fixed(seconds), _) => seconds,
            (rule, Some(costs)) => rule.interval_seconds(&costs, gaps.as_ref()),
            // Checkpoints that cost nothing are written all the time; once a second is enough.
            (_, None) => 1.0,
        };
        Some(Span::from_secs_f64(seconds))
    }
}

impl Checkpoints {
    fn read(section: &mut Section<'_>, pattern: Vec<usize>) -> Result<Option<Self>, Problem> {
        let is_enabled = section.flag("enabled").or(!pattern.is_empty())?;
        if is_enabled && pattern.is_empty() {
            return Err(section
                .refuse("enabled", "there is no place to write checkpoints to")
                .with_help("add a section [[level]] with name and bandwidth"));
        }
        let rule = IntervalRule::read(section, "interval", "daly-2006")?;
        Ok(is_enabled.then_some(Self { rule, pattern }))
    }
}

fn read_pattern(root: &Section<'_>, levels: &[Level]) -> Result<Vec<usize>, Problem> {
    let every: Vec<u64> = levels.iter().map(|level| level.every).collect();
    if every.is_empty() {
        return Ok(Vec::new());
    }
    if !every.contains(&1) {
        return Err(root
            .refuse("level", "no level takes every checkpoint")
            .with_help("leave 'every' out of one level, the cheapest"));
    }
    pattern(&every).ok_or_else(|| {
        root.refuse("level", &format!("the levels repeat only after {LONGEST_PATTERN} checkpoints"))
            .with_help("choose multiples of each other for 'every', such as 1, 4 and 16")
    })
}

impl Rules for Setup {
    fn plan(&self, nodes: u32) -> Plan {
        let times = |time: fn(&Level, &Machine, u32) -> Span| {
            self.levels.iter().map(|level| time(level, &self.machine, nodes)).collect()
        };
        Plan {
            interval: self.interval(nodes),
            pattern: self.checkpoints.as_ref().map(|c| c.pattern.clone()).unwrap_or_default(),
            writes: times(Level::write_time),
            restores: times(Level::restore_time),
            reboot: self.machine.reboot,
        }
    }

    fn survives(&self, level: usize, failure: &Failure, _nodes: &[u32]) -> bool {
        self.levels.get(level).is_some_and(|level| failure.damage <= level.survives)
    }
}
