//! A scenario, read and checked.

use std::num::NonZeroU32;
use std::sync::Arc;

use intarsia_des::{Span, Time};

use super::course::Rhythm;
use super::energy::{Power, Prices};
use super::errors::ErrorModel;
use super::failure::{FailureModel, Replay};
use super::interval::IntervalRule;
use super::level::StoreProfile;
use super::machine::Machine;
use super::machines::Source;
use super::plan::Plan;
use super::scheduler::Scheduler;
use super::scheme::Scheme;
use super::silent::{Detection, SilentErrors};
use super::storage::{self, SharedNames, Storage};
use super::workload::Workload;
use crate::replications::RunSettings;
use crate::scenario::{Files, Problem, Section};

/// Replications that a scenario runs when it does not say otherwise.
const REPLICATIONS: i64 = 10;
/// Failures of a replication: hours of computing, and far beyond any machine that is of use.
const MOST_FAILURES: f64 = 1e10;
/// Virtual time ends after 584 years.
const LONGEST_HORIZON_SECONDS: f64 = 500.0 * 365.0 * 86_400.0;

/// Everything that a run needs.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) machine: Machine,
    pub(super) failures: FailureModel,
    pub(super) silent: Option<SilentErrors>,
    pub(super) levels: Vec<Storage>,
    /// How many storages there are whose bandwidth is shared.
    pub(super) shared_storages: usize,
    /// When checkpoints are written; none when they never are.
    pub(super) rule: Option<IntervalRule>,
    pub(super) workload: Workload,
    pub(super) scheduler: Scheduler,
    pub(super) power: Option<Power>,
    pub(super) prices: Prices,
    pub(super) horizon: Time,
    pub(super) run: RunSettings,
}

impl Setup {
    /// Reads a document's root.
    pub(super) fn read(root: &mut Section<'_>, files: &Files<'_>) -> Result<Self, Problem> {
        let machine = root.section("machine", Machine::read)?;
        let failures = root.section("failures", |s| {
            let failures = FailureModel::read(s, files)?;
            let last = failures.replay.as_ref().map_or(0, Replay::last_node);
            if last >= machine.nodes {
                let why = format!("no node {last} in a machine of {} nodes", machine.nodes);
                return Err(s.refuse("replay", &why).with_help("raise machine.nodes"));
            }
            Ok(failures.on_machine(machine.nodes))
        })?;
        let silent = root.optional_section("silent", |s| SilentErrors::read(s, files))?;
        let profile = root.optional_section("storage", StoreProfile::read)?;
        let mut shared = SharedNames::default();
        let read_level =
            |s: &mut Section<'_>| Storage::read(s, &machine, profile.as_ref(), &mut shared);
        let levels = root.sections("level", read_level)?;
        let shared_storages = shared.number();
        storage::check_order(&levels).map_err(|why| root.refuse("level", &why))?;
        let is_flushed = levels.iter().any(Storage::is_flushed);
        if silent.as_ref().is_some_and(is_latent)
            && (levels.len() > 1 || is_flushed || shared_storages > 0)
        {
            let why = "errors that show after a latency need a single level, no flush, no sharing";
            return Err(root
                .refuse("silent", why)
                .with_help("give one [[level]], or find the errors by a verification"));
        }
        let is_simple = levels.len() == 1 && silent.is_none() && !is_flushed;
        if levels.iter().any(Storage::shares_writing_alone) && !is_simple {
            return Err(root
                .refuse("level", "contention needs a single level without flush, and no [silent]")
                .with_help("give the levels 'shared_storage' instead of 'contention'"));
        }
        let rule = root.section("checkpoint", |s| read_rule(s, !levels.is_empty()))?;
        let (workload, scheduler) = root.section("workload", |s| {
            let scheduler = Scheduler::read(s)?;
            Ok((Workload::read(s, files, machine.nodes)?, scheduler))
        })?;
        if rule == Some(IntervalRule::Simulated) && workload.only_size().is_none() {
            return Err(root
                .refuse("checkpoint", "interval = \"simulated\" needs jobs of one size")
                .with_help("give one size in [workload], or another rule such as \"exact\""));
        }
        let power = root.optional_section("power", Power::read)?;
        let prices = root.section("prices", Prices::read)?;
        // They are for readers of the effective scenario.
        root.sections("source", Source::read)?;
        let (horizon, run) = root.section("run", |section| {
            let horizon = section
                .seconds("horizon")
                .positive()
                .must("be at most 500 years", |s| *s <= LONGEST_HORIZON_SECONDS)
                .or("5 years")?;
            Ok((horizon, RunSettings::read(section, REPLICATIONS)?))
        })?;
        let horizon = Time::ZERO + Span::from_secs_f64(horizon);
        let setup = Self {
            machine,
            failures,
            silent,
            levels,
            shared_storages,
            rule,
            workload,
            scheduler,
            power,
            prices,
            horizon,
            run,
        };
        // All that a failure process refuses when it is made.
        let gaps = setup.failures.system_gaps(setup.machine.nodes);
        gaps.map_err(|wrong| root.refuse("failures", &wrong.to_string()))?;
        setup.check_failures().map_err(|why| {
            root.refuse("failures", &why)
                .with_help("check the unit of failures.lifetime, or shorten run.horizon")
        })?;
        setup.check_checkpoints().map_err(|why| {
            root.refuse("checkpoint", &why)
                .with_help("lengthen the interval, or shorten run.horizon")
        })?;
        Ok(setup)
    }

    /// The same for checkpoints, where each of them is an event.
    fn check_checkpoints(&self) -> Result<(), String> {
        if !self.is_contended() && !self.levels.iter().any(Storage::is_flushed) {
            return Ok(());
        }
        let plan = self.plan(self.workload.only_size().unwrap_or(self.machine.nodes));
        let first = plan.levels().first().map_or(Span::ZERO, |level| level.write);
        let cycle = plan.interval.unwrap_or(Span::FOREVER) + first;
        let checkpoints = self.horizon.as_secs_f64() / cycle.as_secs_f64();
        if checkpoints <= MOST_FAILURES {
            return Ok(());
        }
        Err(format!(
            "a job writes {checkpoints:.1e} checkpoints in run.horizon; with a flush or a shared \
             storage at most {MOST_FAILURES:.0e} are simulated"
        ))
    }

    /// Refuses failures so frequent that a run would not come to its end within hours.
    fn check_failures(&self) -> Result<(), String> {
        let mtbf_seconds = self.failures.mtbf_seconds(self.machine.nodes);
        let failures = self.horizon.as_secs_f64() / mtbf_seconds;
        if failures <= MOST_FAILURES {
            return Ok(());
        }
        Err(format!(
            "the machine of {} nodes fails every {mtbf_seconds:.1e} s, {failures:.1e} times in \
             run.horizon; at most {MOST_FAILURES:.0e} failures are simulated",
            self.machine.nodes
        ))
    }

    /// The number of nodes, of which there is at least one.
    pub(super) fn nodes(&self) -> NonZeroU32 {
        NonZeroU32::new(self.machine.nodes).unwrap_or(NonZeroU32::MIN)
    }

    /// The levels as a job on `nodes` sees them; none when it writes no checkpoints.
    pub(super) fn scheme(&self, nodes: u32) -> Option<Scheme> {
        self.rule.as_ref()?;
        let levels = self.levels.iter().map(|level| level.level(&self.machine, nodes)).collect();
        Some(Scheme { levels })
    }

    /// Verifications of an interval, and the time of each.
    pub(super) fn verifications(&self) -> (u64, f64) {
        match self.silent.as_ref().map(|silent| &silent.detection) {
            Some(Detection::Verification { seconds, per_checkpoint }) => {
                (*per_checkpoint, *seconds)
            }
            _ => (1, 0.0),
        }
    }

    /// Whether checkpoints go through storages whose bandwidth is shared.
    pub(super) fn is_contended(&self) -> bool {
        self.rule.is_some() && self.shared_storages > 0
    }

    /// Whether silent errors are found by verifications.
    pub(super) fn is_verified(&self) -> bool {
        self.silent.as_ref().is_some_and(|silent| !is_latent(silent))
    }

    /// How jobs on `nodes` work.
    pub(super) fn plan(&self, nodes: u32) -> Plan {
        let scheme = self.scheme(nodes);
        let interval = self.interval(nodes).map(Span::from_secs_f64);
        Plan {
            interval,
            rhythm: Arc::new(self.rhythm(scheme.as_ref(), interval)),
            is_followed: self.is_contended() || scheme.as_ref().is_some_and(Scheme::is_flushed),
            scheme,
            reboot: self.machine.reboot,
            errors: self.silent.as_ref().and_then(|silent| ErrorModel::new(silent, nodes)),
        }
    }

    fn rhythm(&self, scheme: Option<&Scheme>, interval: Option<Span>) -> Rhythm {
        let (pieces, seconds) = self.verifications();
        let rhythm = match (scheme, interval) {
            (Some(scheme), Some(interval)) => Rhythm::new(interval, scheme.write_times()),
            _ => Rhythm::without_checkpoints(),
        };
        rhythm.verified(pieces, Span::from_secs_f64(seconds))
    }
}

fn is_latent(silent: &SilentErrors) -> bool {
    matches!(silent.detection, Detection::Latency { .. })
}

fn read_rule(section: &mut Section<'_>, has_levels: bool) -> Result<Option<IntervalRule>, Problem> {
    let is_enabled = section.flag("enabled").or(has_levels)?;
    if is_enabled && !has_levels {
        return Err(section
            .refuse("enabled", "there is no place to write checkpoints to")
            .with_help("add a section [[level]] with name, kind and bandwidth"));
    }
    let rule = IntervalRule::read(section, "interval", "daly-2006")?;
    Ok(is_enabled.then_some(rule))
}
