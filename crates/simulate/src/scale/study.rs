//! A scenario that was read for one number of nodes, its runs, and the report on them.

use intarsia_des::{Histogram, Simulation, Span, Tally, Time};

use super::model::{Case, PhaseTotals, Scale, Totals};
use super::network::{HotLink, LinkUsage};
use super::read::NetworkSettings;
use super::system::System;
use super::workload::{MetadataKind, Operation, Workload};
use crate::progress::Progress;
use crate::replications::{RunSettings, replicate};
use crate::report::{Derived, Estimate, Report, Study, VERSION};

/// The step of a Weyl sequence over 64 bits: 2^64 over the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// How many of the busiest links are named.
const HOT_LINKS: usize = 8;

/// A scenario for one number of nodes.
#[derive(Clone, Debug)]
pub struct ScaleStudy {
    /// Compute nodes.
    pub nodes: u32,
    /// The file system.
    pub system: System,
    /// The network.
    pub network: NetworkSettings,
    /// What the nodes do.
    pub workload: Workload,
    /// How often and with which random numbers.
    pub settings: RunSettings,
    /// An empty histogram.
    pub(super) histogram: Histogram,
    pub(super) scenario: toml::Table,
}

/// What one run showed.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was counted.
    pub totals: Totals,
    /// The phases, in the order of the workload's names.
    pub phases: Vec<PhaseTotals>,
    /// From the beginning to the last completion.
    pub elapsed: Span,
    /// How busy the links were.
    pub links: Vec<LinkUsage>,
    /// The busiest links.
    pub hot_links: Vec<HotLink>,
    /// Events that were handled.
    pub events: u64,
    /// Memory of nodes, endpoints and links, in bytes.
    pub state_bytes: usize,
}

/// A report, and what has no place in it.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The report.
    pub report: Report,
    /// The busiest links of the first replication.
    pub hot_links: Vec<HotLink>,
}

impl ScaleStudy {
    /// Runs replication `index`; its random numbers follow from the seed and the index.
    pub fn run_once(&self, index: u64, progress: &Progress) -> Run {
        // Far apart, so that the replications of seed 1 are not those of seed 2, shifted by one.
        let seed = self.settings.seed.wrapping_add(index.wrapping_mul(GOLDEN_GAMMA));
        let case = Case {
            nodes: self.nodes,
            system: &self.system,
            workload: &self.workload,
            barrier: Span::from_secs_f64(self.network.barrier_seconds),
            seed,
        };
        let model = Scale::new(case, self.network.build(seed), &self.histogram, progress);
        let mut simulation = Simulation::new(model);
        let (model, agenda) = simulation.parts_mut();
        model.begin(agenda);
        simulation.run();
        let events = simulation.handled();
        let model = simulation.into_model();
        let ended = model.phases().iter().map(|phase| phase.ended).max().unwrap_or_default();
        let elapsed = ended.since(Time::ZERO);
        Run {
            totals: model.totals(),
            phases: model.phases().to_vec(),
            elapsed,
            links: model.network().usage(elapsed),
            hot_links: model.network().hot_links(elapsed, HOT_LINKS),
            events,
            state_bytes: model.state_bytes(),
        }
    }

    /// Runs all replications on up to `threads` threads.
    pub fn findings(&self, threads: usize, progress: &Progress) -> Findings {
        let replications = self.settings.replications;
        progress.expect(replications * self.workload.operations(self.nodes));
        let runs = replicate(replications, threads, |index| self.run_once(index, progress));
        let hot_links = runs.first().map(|run| run.hot_links.clone()).unwrap_or_default();
        Findings { report: self.report(&runs), hot_links }
    }

    fn report(&self, runs: &[Run]) -> Report {
        let samples: Vec<Vec<Figure>> = runs.iter().map(|run| self.figures(run)).collect();
        let names = samples.first().map(Vec::as_slice).unwrap_or_default();
        let estimates = names.iter().enumerate().map(|(index, (name, unit, _))| {
            let values = samples.iter().filter_map(|sample| sample.get(index));
            let tally: Tally = values.map(|(_, _, value)| *value).collect();
            let half_width = tally.half_width(self.settings.confidence);
            let estimate = Estimate {
                mean: tally.mean(),
                half_width: half_width.is_finite().then_some(half_width),
                n: tally.count(),
                unit,
            };
            (name.clone(), estimate)
        });
        Report {
            kind: "scale",
            version: VERSION,
            scenario: self.scenario.clone(),
            seed: self.settings.seed,
            replications: self.settings.replications,
            derived: self.derived(),
            estimates: estimates.collect(),
            events: runs.iter().map(|run| run.events).sum(),
        }
    }

    /// What follows from the scenario: the rates that all devices and services have together.
    fn derived(&self) -> Vec<(String, Derived)> {
        let figure = |name: &str, value: f64, unit| (name.to_owned(), Derived { value, unit });
        let links = self.network.topology.links();
        vec![
            figure("nodes", f64::from(self.nodes), "1"),
            figure("ideal_write_throughput", self.ideal_write(), "B/s"),
            figure("ideal_read_throughput", self.ideal_read(), "B/s"),
            figure("links", links as f64, "1"),
            figure("operations", self.workload.operations(self.nodes) as f64, "1"),
        ]
    }

    fn ideal_write(&self) -> f64 {
        f64::from(self.system.devices(self.nodes)) * self.system.device.write_bytes_per_second
    }

    fn ideal_read(&self) -> f64 {
        f64::from(self.system.devices(self.nodes)) * self.system.device.read_bytes_per_second
    }

    /// What the phase would move or do per second if all devices or services always worked; none
    /// where that has no meaning.
    fn ideal(&self, phase: usize) -> Option<f64> {
        let mut steps = self.workload.steps.iter().filter(|step| step.phase == phase);
        let step = steps.rfind(|step| step.operation != Operation::Barrier)?;
        let metadata = &self.system.metadata;
        let services = f64::from(self.system.metadata_services(self.nodes));
        match step.operation {
            Operation::Write { .. } => Some(self.ideal_write()),
            Operation::Read { .. } => Some(self.ideal_read()),
            Operation::Metadata(_) if step.is_file_shared => None,
            Operation::Metadata(kind) => Some(
                services
                    / match kind {
                        MetadataKind::Create => metadata.create_seconds + metadata.append_seconds,
                        MetadataKind::Stat | MetadataKind::Open => metadata.lookup_seconds,
                        MetadataKind::Close => metadata.update_seconds,
                        MetadataKind::Remove => metadata.remove_seconds + metadata.append_seconds,
                    },
            ),
            Operation::Exchange { .. } | Operation::Barrier => None,
        }
    }

    fn figures(&self, run: &Run) -> Vec<Figure> {
        let mut figures = vec![("job.seconds".to_owned(), "s", run.elapsed.as_secs_f64())];
        let written = run.totals.device_bytes_written;
        if written > 0 {
            let rate = written as f64 / run.elapsed.as_secs_f64();
            figures.push(("job.write_throughput".to_owned(), "B/s", rate));
        }
        for (index, (name, phase)) in self.workload.phases.iter().zip(&run.phases).enumerate() {
            if phase.completed > 0 {
                self.phase_figures(name, phase, self.ideal(index), &mut figures);
            }
        }
        for usage in &run.links {
            let name = |what| format!("network.{}.{what}", usage.kind);
            figures.push((name("utilization_mean"), "share", usage.mean));
            figures.push((name("utilization_max"), "share", usage.max));
        }
        if self.system.outage.is_some() {
            let held = run.totals.requests_held as f64;
            figures.push(("failures.requests_held".to_owned(), "1", held));
        }
        figures.extend([
            ("network.messages".to_owned(), "1", run.totals.messages_sent as f64),
            ("network.bytes".to_owned(), "B", run.totals.bytes_sent as f64),
            ("model.events".to_owned(), "1", run.events as f64),
            (
                "model.bytes_per_node".to_owned(),
                "B",
                run.state_bytes as f64 / f64::from(self.nodes),
            ),
        ]);
        figures
    }

    fn phase_figures(
        &self,
        name: &str,
        phase: &PhaseTotals,
        ideal: Option<f64>,
        figures: &mut Vec<Figure>,
    ) {
        let mut push = |what: &str, unit, value| {
            figures.push((format!("{name}.{what}"), unit, value));
        };
        let seconds = phase.ended.since(phase.began).as_secs_f64().max(1e-9);
        push("seconds", "s", seconds);
        push("operations_per_second", "op/s", phase.completed as f64 / seconds);
        let rate = if phase.bytes > 0 {
            let rate = phase.bytes as f64 / seconds;
            push("throughput", "B/s", rate);
            rate
        } else {
            phase.completed as f64 / seconds
        };
        if let Some(ideal) = ideal {
            push("efficiency", "share", rate / ideal);
        }
        for (what, quantile) in [("latency_p50", 0.5), ("latency_p95", 0.95), ("latency_p99", 0.99)]
        {
            push(what, "s", phase.latencies.quantile(quantile).as_secs_f64());
        }
        push("latency_max", "s", phase.latencies.max().as_secs_f64());
    }
}

/// Name, unit and value.
type Figure = (String, &'static str, f64);

impl Study for ScaleStudy {
    fn scenario(&self) -> &toml::Table {
        &self.scenario
    }

    fn run(&self, threads: usize, progress: &Progress) -> Report {
        self.findings(threads, progress).report
    }
}
