//! Replications of a scenario, and what they say.

use intarsia_des::{Simulation, Span, Streams, Tally, Time};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::energy::{Bill, NodeSeconds, Prices};
use super::failure::FailureProcess;
use super::ledger::{Category, Ledger, ratio};
use super::setup::Setup;
use super::workload::Trace;
use super::world::{Counts, Rules, World};
use crate::progress::Progress;
use crate::replications::replicate;
use crate::report::{Derived, Estimate, Report, Study, VERSION};
use crate::scenario::{Document, Files, Problem};

/// Progress is shown this often in a replication.
const STEPS: u64 = 100;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

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

/// A replication at its end.
struct Simulated<'s> {
    world: World<'s, Xoshiro256PlusPlus>,
    events: u64,
}

impl CheckpointStudy {
    pub(super) fn read(document: &Document, files: &Files<'_>) -> Result<Self, Problem> {
        let (setup, scenario) = document.read(|root| Setup::read(root, files))?;
        Ok(Self { setup, scenario })
    }

    /// The end of one replication; none when the failures are refused, which reading has excluded.
    fn simulate(&self, index: u64, keeps_jobs: bool, progress: &Progress) -> Option<Simulated<'_>> {
        let setup = &self.setup;
        let streams = Streams::new(setup.run.seed);
        let failures = streams.stream("failures", index);
        let failures =
            FailureProcess::new(setup.failures.clone(), setup.nodes(), setup.horizon, failures);
        let jobs = setup.workload.jobs(streams.stream("jobs", index));
        let errors = streams.stream("silent errors", index);
        let mut world = World::new(setup, setup.machine.nodes, jobs, failures.ok()?, errors);
        world.finished = keeps_jobs.then(Vec::new);
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
        Some(Simulated { world, events })
    }

    fn replication(&self, index: u64, progress: &Progress) -> Option<Outcome> {
        let Simulated { world, events } = self.simulate(index, false, progress)?;
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
        for level in plan.levels() {
            add(&format!("checkpoint_time_{}", level.name), level.write.as_secs_f64(), "s");
            add(&format!("restore_time_{}", level.name), level.restore.as_secs_f64(), "s");
        }
        if let Some(interval) = plan.interval.map(Span::as_secs_f64) {
            add("checkpoint_interval", interval, "s");
            if let Some(efficiency) = setup.expected_efficiency(nodes, interval) {
                add("efficiency_by_formula", efficiency, "share");
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

    fn jobs(&self) -> Option<String> {
        let finished = self.simulate(0, true, &Progress::default())?.world.finished?;
        let header = vec![
            "Version: 2.2".to_owned(),
            format!("Computer: simulated by Intarsia {VERSION}, seed {}", self.setup.run.seed),
            format!("MaxProcs: {}", self.setup.machine.nodes),
            "Note: a processor is a node; run time includes checkpoints, repairs and lost work"
                .to_owned(),
        ];
        Some(Trace::of_finished(header, finished).to_string())
    }
}

/// A quantity of one replication; none when it has no meaning there.
type Measure = fn(&Setup, &Outcome) -> Option<f64>;

const MEASURES: [(&str, &str, Measure); 21] = [
    ("efficiency", "share", |_, o| Some(o.ledger.share(Category::Up))),
    ("checkpoint_share", "share", |_, o| Some(o.ledger.share(Category::Checkpoint))),
    ("lost_share", "share", |_, o| Some(o.ledger.share(Category::Lost))),
    ("boot_share", "share", |_, o| Some(o.ledger.share(Category::Boot))),
    ("restore_share", "share", |_, o| Some(o.ledger.share(Category::Restore))),
    ("repair_share", "share", |_, o| Some(o.ledger.share(Category::Repair))),
    ("verify_share", "share", |_, o| Some(o.ledger.share(Category::Verify))),
    ("utilisation", "share", |_, o| {
        Some(1.0 - ratio(o.ledger.node_nanos(Category::Idle), o.ledger.total()))
    }),
    ("jobs_finished", "1", |_, o| count(o.counts.finished)),
    ("failures", "1", |_, o| count(o.counts.failures)),
    ("idle_failures", "1", |_, o| count(o.counts.idle_failures)),
    ("interruptions", "1", |_, o| count(o.counts.interruptions)),
    ("silent_errors_found", "1", |s, o| {
        s.silent.as_ref().and_then(|_| count(o.counts.errors_found))
    }),
    ("silent_errors_irrecoverable", "1", |s, o| {
        s.silent.as_ref().and_then(|_| count(o.counts.errors_irrecoverable))
    }),
    ("wrong_results", "1", |s, o| s.silent.as_ref().and_then(|_| count(o.counts.wrong_results))),
    ("stretch", "1", |_, o| mean(&o.counts.stretches)),
    ("wait_time", "s", |s, o| mean(&o.counts.waits).filter(|_| s.workload.has_arrivals())),
    ("energy", "J", |s, o| Some(bill(s, o)?.joules)),
    ("useful_energy_share", "share", |s, o| bill(s, o).map(|b| b.useful_joules / b.joules)),
    ("power", "W", |s, o| Some(bill(s, o)?.joules / s.horizon.as_secs_f64())),
    ("cost", "money", |s, o| {
        bill(s, o).map(|bill| bill.money).filter(|_| s.prices != Prices::default())
    }),
];

/// Energy and money of a replication; none when the scenario says nothing about power.
fn bill(setup: &Setup, outcome: &Outcome) -> Option<Bill> {
    Some(node_seconds(outcome).bill(&setup.power?, &setup.prices))
}

/// The ledger as the account of energy wants it: verifications and unsettled work draw what work
/// does.
fn node_seconds(outcome: &Outcome) -> NodeSeconds {
    let seconds = |categories: &[Category]| {
        categories.iter().map(|c| ratio(outcome.ledger.node_nanos(*c), NANOS_PER_SECOND)).sum()
    };
    NodeSeconds {
        up: seconds(&[Category::Up]),
        lost: seconds(&[Category::Lost, Category::Verify, Category::Unsettled]),
        checkpoint: seconds(&[Category::Checkpoint, Category::Restore]),
        boot: seconds(&[Category::Boot]),
        idle: seconds(&[Category::Repair, Category::Idle]),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of events in a replication")]
fn count(number: u64) -> Option<f64> {
    Some(number as f64)
}

fn mean(tally: &Tally) -> Option<f64> {
    (tally.count() > 0).then(|| tally.mean())
}

impl CheckpointStudy {
    fn estimates(&self, outcomes: &[Outcome]) -> Vec<(String, Estimate)> {
        let estimate = |(name, unit, measure): &(&str, &'static str, Measure)| {
            let measured = outcomes.iter().filter_map(|outcome| measure(&self.setup, outcome));
            let values: Tally = measured.collect();
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
        MEASURES.iter().filter_map(estimate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn study(text: &str) -> CheckpointStudy {
        let document = Document::parse("test.toml", text).unwrap();
        CheckpointStudy::read(&document, &|_| Err("no files".into())).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Node-nanoseconds of all categories, idle time included, are nodes × horizon: exactly.
        #[test]
        fn node_time_is_conserved(
            nodes in 1u32..50, mtbf in 2.0..300.0f64, seed in 0u64..1000, hours in 1u64..2000,
            interval in 1u64..200,
        ) {
            let study = study(&format!(
                "[machine]\nnodes = {nodes}\nreboot = '2 min'\n[failures]\n\
                 lifetime = {{ model = 'weibull', shape = 0.7, mean = '{mtbf} h' }}\n\
                 repair = {{ model = 'exponential', mean = '1 h' }}\n\
                 bursts = {{ sizes = [[1, 0.5], [4, 0.5]] }}\n\
                 shares = {{ process = 0.3, machine = 0.1 }}\n\
                 [silent]\nnode_mtbe = '9 days'\nverification = '7 s'\n\
                 [[level]]\nname = 'a'\nkind = 'local'\nwrite = '11 s'\n\
                 [[level]]\nname = 'b'\nkind = 'lower'\nevery = 3\nwrite = '59 s'\nrestore = '2 min'\n\
                 [checkpoint]\ninterval = '{interval} min'\n\
                 [workload]\nsize = ['40 %', 1]\nwalltime = '5 h'\n\
                 [run]\nhorizon = '{hours} h'\nseed = {seed}\nreplications = 1\n"
            ));
            for outcome in study.outcomes(1, &Progress::default()) {
                let whole = u128::from(nodes) * u128::from(hours) * 3600 * NANOS_PER_SECOND;
                prop_assert_eq!(outcome.ledger.total(), whole);
            }
        }
    }
}
