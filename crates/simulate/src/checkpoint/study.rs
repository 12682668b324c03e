//! Replications of a scenario, and what they say.

use intarsia_des::{Simulation, Span, Streams, Tally, Time};

use super::failure::FailureProcess;
use super::ledger::{Category, Ledger, ratio};
use super::setup::Setup;
use super::world::{Counts, Rules, World};
use crate::progress::Progress;
use crate::replications::replicate;
use crate::report::{Derived, Estimate, Report, Study, VERSION};
use crate::scenario::{Document, Files, Problem};

/// Progress is shown this often in a replication.
const STEPS: u64 = 100;

/// A scenario that can be run.
#[derive(Debug)]
pub(super) struct CheckpointStudy {
    setup: Setup,
    scenario: toml::Table,
}

/// What one replication found.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) ledger: Ledger,
    pub(super) counts: Counts,
    pub(super) events: u64,
}

impl CheckpointStudy {
    pub(super) fn read(document: &Document, files: &Files<'_>) -> Result<Self, Problem> {
        let (setup, scenario) = document.read(|root| Setup::read(root, files))?;
        // All that a failure process refuses when it is made.
        setup
            .failures
            .system_gaps(setup.machine.nodes)
            .map_err(|wrong| Problem::new(format!("failures: {wrong}")))?;
        Ok(Self { setup, scenario })
    }

    /// Runs one replication.
    fn replication(&self, index: u64, progress: &Progress) -> Option<Outcome> {
        let setup = &self.setup;
        let streams = Streams::new(setup.run.seed);
        let failures = streams.stream("failures", index);
        let failures =
            FailureProcess::new(setup.failures.clone(), setup.nodes(), setup.horizon, failures);
        let jobs = setup.workload.jobs(streams.stream("jobs", index));
        let world = World::new(setup, setup.machine.nodes, jobs, failures.ok()?);
        let mut simulation = Simulation::new(world);
        let (world, agenda) = simulation.parts_mut();
        world.start(agenda);
        let horizon = setup.horizon.as_nanos();
        for step in 1..=STEPS {
            let handled = simulation.handled();
            simulation.run_until(Time::from_nanos(horizon / STEPS * step + horizon % STEPS));
            progress.advance(1, simulation.handled() - handled);
        }
        let events = simulation.handled();
        let mut world = simulation.into_model();
        world.close(setup.horizon);
        Some(Outcome { ledger: world.ledger, counts: world.counts, events })
    }

    pub(super) fn outcomes(&self, threads: usize, progress: &Progress) -> Vec<Outcome> {
        let replications = self.setup.run.replications;
        progress.expect(replications.saturating_mul(STEPS));
        let outcomes = replicate(replications, threads, |index| self.replication(index, progress));
        outcomes.into_iter().flatten().collect()
    }

    /// What follows from the scenario without simulation.
    fn derived(&self) -> Vec<(String, Derived)> {
        let setup = &self.setup;
        let machine = &setup.machine;
        let mut derived = Vec::new();
        let mut add = |name: &str, value: f64, unit| {
            derived.push((name.to_owned(), Derived { value, unit }));
        };
        add("nodes", f64::from(machine.nodes), "1");
        add("memory_per_node", machine.memory_per_node_bytes, "B");
        add("reboot_time", machine.reboot.as_secs_f64(), "s");
        add("machine_mtbf", setup.failures.mtbf_seconds(machine.nodes), "s");
        let Some(nodes) = setup.workload.only_size() else { return derived };
        add("job_nodes", f64::from(nodes), "1");
        add("job_mtbf", setup.failures.mtbf_seconds(nodes), "s");
        let plan = setup.plan(nodes);
        for (index, level) in setup.used_levels() {
            let time = |times: &[Span]| times.get(index).map_or(0.0, |span| span.as_secs_f64());
            add(&format!("checkpoint_time_{}", level.name), time(&plan.writes), "s");
            add(&format!("restore_time_{}", level.name), time(&plan.restores), "s");
        }
        if let Some(interval) = plan.interval {
            add("checkpoint_interval", interval.as_secs_f64(), "s");
            if let Some(costs) = setup.costs(nodes).filter(|_| setup.has_exact_efficiency()) {
                add("efficiency_by_formula", costs.efficiency(interval.as_secs_f64()), "share");
            }
        }
        derived
    }
}

impl Study for CheckpointStudy {
    fn scenario(&self) -> &toml::Table {
        &self.scenario
    }

    fn run(&self, threads: usize, progress: &Progress) -> Report {
        let outcomes = self.outcomes(threads, progress);
        Report {
            kind: "checkpoint",
            version: VERSION,
            scenario: self.scenario.clone(),
            seed: self.setup.run.seed,
            replications: self.setup.run.replications,
            derived: self.derived(),
            estimates: self.estimates(&outcomes),
            events: outcomes.iter().map(|outcome| outcome.events).sum(),
        }
    }
}

/// A quantity of one replication; none when it has no meaning there.
type Measure = fn(&Outcome) -> Option<f64>;

const MEASURES: [(&str, &str, Measure); 13] = [
    ("efficiency", "share", |o| Some(o.ledger.share(Category::Up))),
    ("checkpoint_share", "share", |o| Some(o.ledger.share(Category::Checkpoint))),
    ("lost_share", "share", |o| Some(o.ledger.share(Category::Lost))),
    ("boot_share", "share", |o| Some(o.ledger.share(Category::Boot))),
    ("restore_share", "share", |o| Some(o.ledger.share(Category::Restore))),
    ("repair_share", "share", |o| Some(o.ledger.share(Category::Repair))),
    ("verify_share", "share", |o| Some(o.ledger.share(Category::Verify))),
    ("utilisation", "share", |o| {
        Some(1.0 - ratio(o.ledger.node_nanos(Category::Idle), o.ledger.total()))
    }),
    ("jobs_finished", "1", |o| count(o.counts.finished)),
    ("failures", "1", |o| count(o.counts.failures)),
    ("interruptions", "1", |o| count(o.counts.interruptions)),
    ("stretch", "1", |o| mean(&o.counts.stretches)),
    ("wait_time", "s", |o| mean(&o.counts.waits)),
];

#[expect(clippy::cast_precision_loss, reason = "a number of events in a replication")]
fn count(number: u64) -> Option<f64> {
    Some(number as f64)
}

fn mean(tally: &Tally) -> Option<f64> {
    (tally.count() > 0).then(|| tally.mean())
}

impl CheckpointStudy {
    fn estimates(&self, outcomes: &[Outcome]) -> Vec<(String, Estimate)> {
        let wanted = |name: &str| name != "wait_time" || self.setup.workload.has_arrivals();
        let estimate = |(name, unit, measure): &(&str, &'static str, Measure)| {
            let values: Tally = outcomes.iter().filter_map(measure).collect();
            let half_width = values.half_width(self.setup.run.confidence);
            (values.count() > 0).then(|| {
                let estimate = Estimate {
                    mean: values.mean(),
                    half_width: half_width.is_finite().then_some(half_width),
                    n: values.count(),
                    unit,
                };
                ((*name).to_owned(), estimate)
            })
        };
        MEASURES.iter().filter(|(name, ..)| wanted(name)).filter_map(estimate).collect()
    }
}
