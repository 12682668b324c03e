//! Replications of a scenario, and what they say.

use intarsia_des::{Simulation, Span, Streams, Tally, Time};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::failure::FailureProcess;
use super::interval::{IntervalRule, maximise_simulated};
use super::ledger::{Category, Ledger};
use super::measures::{MEASURES, Measure};
use super::setup::Setup;
use super::workload::Trace;
use super::world::{Counts, World};
use crate::progress::Progress;
use crate::replications::replicate;
use crate::report::{Derived, Estimate, Report, Study, VERSION};
use crate::scenario::{Document, Files, Problem};

/// Progress is counted this often in a replication, and after so many events at the latest.
const STEPS: u64 = 1000;
const EVENTS_AT_ONCE: u64 = 1 << 16;
/// An interval is searched by simulation within this factor of what the formulas say.
const TUNING_REACH: f64 = 10.0;
const TUNING_REPLICATIONS: u64 = 8;
/// Replications beyond any that a run asks for.
const TUNING_SEEDS: u64 = 1 << 48;

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
        let mut world = World::new(setup, jobs, failures.ok()?, errors).ok()?;
        world.finished = keeps_jobs.then(Vec::new);
        let mut simulation = Simulation::new(world);
        let (world, agenda) = simulation.parts_mut();
        world.start(agenda);
        let horizon = setup.horizon.as_nanos();
        for step in 1..=STEPS {
            let until = Time::from_nanos(horizon / STEPS * step + horizon % STEPS);
            let mut handled = simulation.handled();
            while simulation.run_some(until, EVENTS_AT_ONCE) {
                progress.advance(0, simulation.handled() - handled);
                handled = simulation.handled();
            }
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

    /// The study with the interval that simulations find best, when the scenario asks for one. They
    /// use other random numbers than the replications by which it is then judged.
    fn tuned(&self, threads: usize, progress: &Progress) -> Option<Self> {
        let nodes = self.setup.workload.only_size()?;
        if self.setup.rule != Some(IntervalRule::Simulated) {
            return None;
        }
        let around = self.setup.interval(nodes)?;
        let with = |seconds| Self {
            setup: Setup { rule: Some(IntervalRule::Fixed(seconds)), ..self.setup.clone() },
            scenario: self.scenario.clone(),
        };
        let bounds = (around / TUNING_REACH, around * TUNING_REACH);
        let best = maximise_simulated(bounds, |seconds| {
            let candidate = with(seconds);
            let one = |index| candidate.replication(TUNING_SEEDS + index, progress);
            let outcomes = replicate(TUNING_REPLICATIONS, threads, one);
            let shares: Tally =
                outcomes.iter().flatten().map(|o| o.ledger.share(Category::Up)).collect();
            shares.mean()
        });
        Some(with(best.at))
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
            if level.is_flushed() {
                add(&format!("flush_time_{}", level.name), level.flush.as_secs_f64(), "s");
            }
        }
        if let Some(interval) = plan.interval.map(Span::as_secs_f64) {
            add("checkpoint_interval", interval, "s");
            if let Some(efficiency) = setup.expected_efficiency(nodes, interval) {
                add("efficiency_by_formula", efficiency, "share");
            }
            for (name, value, unit) in setup.advice(nodes, interval) {
                add(&name, value, unit);
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
        if let Some(tuned) = self.tuned(threads, progress) {
            return tuned.run(threads, progress);
        }
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
        let progress = Progress::default();
        let tuned = self.tuned(1, &progress);
        let study = tuned.as_ref().unwrap_or(self);
        let finished = study.simulate(0, true, &progress)?.world.finished?;
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
    use crate::checkpoint::measures::NANOS_PER_SECOND;
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
            interval in 1u64..200, overlap in 0usize..4,
        ) {
            let flush = match ["", "wait", "queue", "skip"][overlap] {
                "" => String::new(),
                how => format!(
                    "flush = {{ time = '50 min', slowdown = 0.4, overlap = '{how}' }}\n"
                ),
            };
            let study = study(&format!(
                "[machine]\nnodes = {nodes}\nreboot = '2 min'\n[failures]\n\
                 lifetime = {{ model = 'weibull', shape = 0.7, mean = '{mtbf} h' }}\n\
                 repair = {{ model = 'exponential', mean = '1 h' }}\n\
                 bursts = {{ sizes = [[1, 0.5], [4, 0.5]] }}\n\
                 shares = {{ process = 0.3, machine = 0.1 }}\n\
                 [silent]\nnode_mtbe = '9 days'\nverification = '7 s'\n\
                 [[level]]\nname = 'a'\nkind = 'local'\nwrite = '11 s'\n\
                 [[level]]\nname = 'b'\nkind = 'lower'\nevery = 3\nwrite = '59 s'\nrestore = '2 min'\n\
                 {flush}\
                 [checkpoint]\ninterval = '{interval} min'\n\
                 [workload]\nsize = ['40 %', 1]\nwalltime = '5 h'\n\
                 [run]\nhorizon = '{hours} h'\nseed = {seed}\nreplications = 1\n"
            ));
            for outcome in study.outcomes(1, &Progress::default()) {
                let whole = u128::from(nodes) * u128::from(hours) * 3600 * NANOS_PER_SECOND;
                prop_assert_eq!(outcome.ledger.total(), whole);
            }
        }

        /// The same where jobs share the bandwidth of a storage: their writes, or also what they flush
        /// and read on two levels.
        #[test]
        fn node_time_is_conserved_under_contention(
            nodes in 1u32..50, mtbf in 2.0..300.0f64, seed in 0u64..1000, hours in 1u64..2000,
            sharing in 0usize..4,
        ) {
            let levels = match ["", "wait", "queue", "skip"][sharing] {
                "" => "[[level]]\nname = 'pfs'\nkind = 'lower'\nwrite = '3 min'\ncontention = true\n".to_owned(),
                overlap => format!(
                    "[silent]\nnode_mtbe = '9 days'\nverification = '7 s'\n\
                     [[level]]\nname = 'a'\nkind = 'lower'\nwrite = '10 s'\nrestore = '90 s'\n\
                     flush = {{ time = '9 min', slowdown = 0.2, overlap = '{overlap}' }}\n\
                     shared_storage = 'pfs'\n\
                     [[level]]\nname = 'b'\nkind = 'lower'\nevery = 3\nwrite = '3 min'\n\
                     shared_storage = 'pfs'\n",
                ),
            };
            let study = study(&format!(
                "[machine]\nnodes = {nodes}\nreboot = '2 min'\n[failures]\n\
                 lifetime = {{ model = 'exponential', mean = '{mtbf} h' }}\n\
                 shares = {{ process = 0.3 }}\n\
                 {levels}[checkpoint]\ninterval = '20 min'\n\
                 [workload]\nsize = ['40 %', 1]\nwalltime = '5 h'\n\
                 [run]\nhorizon = '{hours} h'\nseed = {seed}\nreplications = 1\n"
            ));
            for outcome in study.outcomes(1, &Progress::default()) {
                let whole = u128::from(nodes) * u128::from(hours) * 3600 * NANOS_PER_SECOND;
                prop_assert_eq!(outcome.ledger.total(), whole);
                prop_assert!(outcome.ledger.node_nanos(Category::Checkpoint) > 0 || mtbf < 10.0 || hours < 2);
            }
        }
    }
}
