//! The jobs that a machine is given: `[workload]`.

mod swf;

pub use swf::{Trace, TraceJob};

use std::sync::Arc;

use intarsia_des::{Span, Time};
use rand::Rng;
use rand::distr::Distribution as _;
use rand::distr::weighted::WeightedIndex;

use super::failure::TimeDistribution;
use crate::scenario::{Files, Problem, Section, TIME, Value};

/// Shorter jobs are given this much work, in seconds, so that a simulation comes to its end.
const LEAST_WORK_SECONDS: f64 = 1.0;

/// A job as its user submits it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Request {
    /// When it is submitted.
    pub(super) arrival: Time,
    /// How many nodes it runs on.
    pub(super) nodes: u32,
    /// How long it runs when nothing fails and no checkpoint is written.
    pub(super) work: Span,
    /// The run time that its user asked for, if a trace says.
    pub(super) requested: Option<Span>,
}

/// Where the jobs come from.
#[derive(Clone, Debug)]
pub(super) enum Workload {
    /// There is always a next job.
    Synthetic(Box<Synthetic>),
    /// Jobs come when the trace says; once, or again and again with this period.
    Trace { jobs: Arc<[Request]>, period: Option<Span> },
}

/// Jobs whose size and length are drawn.
#[derive(Clone, Debug)]
pub(super) struct Synthetic {
    sizes: Sizes,
    walltime: Walltime,
}

/// How many nodes jobs have, and how likely each number is.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    nodes: Vec<u32>,
    chooser: WeightedIndex<f64>,
}

/// How long jobs run.
#[derive(Clone, Debug)]
pub(super) enum Walltime {
    Fixed(Span),
    Drawn(TimeDistribution),
}

impl Workload {
    /// Reads the section for a machine of `machine_nodes`.
    pub(super) fn read(
        section: &mut Section<'_>,
        files: &Files<'_>,
        machine_nodes: u32,
    ) -> Result<Self, Problem> {
        if section.has("trace") {
            return read_trace(section, files, machine_nodes);
        }
        let sizes = Sizes::read(section, machine_nodes)?;
        let walltime = Walltime::read(section, files)?;
        Ok(Self::Synthetic(Box::new(Synthetic { sizes, walltime })))
    }

    /// The number of nodes that all jobs have, when it is always the same.
    pub(super) fn only_size(&self) -> Option<u32> {
        match self {
            Self::Synthetic(jobs) if jobs.sizes.nodes.len() == 1 => {
                jobs.sizes.nodes.first().copied()
            }
            _ => None,
        }
    }

    /// Whether the jobs come at times of their own, so that waiting has a meaning.
    pub(super) fn has_arrivals(&self) -> bool {
        matches!(self, Self::Trace { .. })
    }

    /// The jobs one after the other, drawn as they are wanted.
    pub(super) fn jobs<R: Rng>(&self, rng: R) -> Jobs<'_, R> {
        Jobs { workload: self, rng, taken: 0 }
    }
}

/// The jobs of a workload in order of arrival; the next one is made when it is asked for.
pub(super) struct Jobs<'w, R> {
    workload: &'w Workload,
    rng: R,
    taken: usize,
}

impl<R: Rng> Jobs<'_, R> {
    /// The next job, asked for at `now`.
    pub(super) fn next(&mut self, now: Time) -> Option<Request> {
        let number = self.taken;
        self.taken += 1;
        match self.workload {
            // There is always a next job: it is submitted when it is wanted.
            Workload::Synthetic(jobs) => Some(Request {
                arrival: now,
                nodes: jobs.sizes.draw(&mut self.rng),
                work: jobs.walltime.draw(&mut self.rng),
                requested: None,
            }),
            Workload::Trace { jobs, period: None } => jobs.get(number).copied(),
            Workload::Trace { jobs, period: Some(period) } => {
                let mut job = *jobs.get(number % jobs.len().max(1))?;
                let rounds = u64::try_from(number / jobs.len()).unwrap_or(u64::MAX);
                job.arrival =
                    job.arrival + Span::from_nanos(period.as_nanos().saturating_mul(rounds));
                Some(job)
            }
        }
    }
}

impl Sizes {
    /// `size` is a number of nodes or a share of the machine, or a list of them with `weights`.
    fn read(section: &mut Section<'_>, machine_nodes: u32) -> Result<Self, Problem> {
        let size_of = move |value: &Value| job_size(value, machine_nodes);
        let nodes = section.list("size", size_of).or("100 %")?;
        let weights = section.list("weights", weight).optional()?;
        let weights = weights.unwrap_or_else(|| vec![1.0; nodes.len()]);
        if weights.len() != nodes.len() {
            let why = format!("{} weights for {} sizes", weights.len(), nodes.len());
            return Err(section.refuse("weights", &why).with_help("give as many as in 'size'"));
        }
        let chooser = WeightedIndex::new(weights)
            .map_err(|_| section.refuse("size", "no size has a weight above zero"))?;
        Ok(Self { nodes, chooser })
    }

    fn draw<R: Rng>(&self, rng: &mut R) -> u32 {
        let index = if self.nodes.len() == 1 { 0 } else { self.chooser.sample(rng) };
        self.nodes.get(index).copied().unwrap_or(1)
    }
}

fn weight(value: &Value) -> Result<f64, Problem> {
    #[expect(clippy::cast_precision_loss, reason = "a weight, not a count")]
    let weight = match value {
        Value::Integer(number) => *number as f64,
        Value::Number(number) => *number,
        other => return Err(Problem::new(format!("{other} is not a number"))),
    };
    if weight >= 0.0 && weight.is_finite() {
        Ok(weight)
    } else {
        Err(Problem::new(format!("{weight} must not be negative")))
    }
}

/// A number of nodes, or a share of the machine such as "10 %".
fn job_size(value: &Value, machine_nodes: u32) -> Result<u32, Problem> {
    let refuse = |why: &str| {
        Problem::new(format!("{value} {why}")).with_help(format!(
            "write a number of nodes from 1 to {machine_nodes}, or a share such as \"10 %\""
        ))
    };
    match value {
        Value::Integer(nodes) => u32::try_from(*nodes)
            .ok()
            .filter(|nodes| (1..=machine_nodes).contains(nodes))
            .ok_or_else(|| refuse("is no part of the machine")),
        Value::Text(text) => {
            let share: f64 = text
                .strip_suffix('%')
                .and_then(|percent| percent.trim().parse().ok())
                .ok_or_else(|| refuse("is no size"))?;
            if share > 0.0 && share <= 100.0 {
                Ok(whole_nodes(f64::from(machine_nodes) * share / 100.0, machine_nodes))
            } else {
                Err(refuse("is no part of the machine"))
            }
        }
        _ => Err(refuse("is no size")),
    }
}

/// At least one whole node, at most the machine: what a share stands for.
fn whole_nodes(nodes: f64, machine_nodes: u32) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the machine before"
    )]
    let whole = nodes.floor().clamp(1.0, f64::from(machine_nodes)) as u32;
    whole
}

impl Walltime {
    /// `walltime` is a length of time, or a section with a distribution.
    fn read(section: &mut Section<'_>, files: &Files<'_>) -> Result<Self, Problem> {
        if section.is_section("walltime") {
            return section
                .section("walltime", |inner| TimeDistribution::read(inner, files))
                .map(Self::Drawn);
        }
        let seconds = section
            .field("walltime", |value| match value {
                Value::Text(text) if text == "endless" => Ok(f64::INFINITY),
                other => TIME.read(other),
            })
            .must(format!("be at least {LEAST_WORK_SECONDS} s"), |s| *s >= LEAST_WORK_SECONDS)
            .required()?;
        Ok(Self::Fixed(Span::from_secs_f64(seconds)))
    }

    fn draw<R: Rng>(&self, rng: &mut R) -> Span {
        match self {
            Self::Fixed(span) => *span,
            Self::Drawn(times) => Span::from_secs_f64(times.sample(rng).max(LEAST_WORK_SECONDS)),
        }
    }
}

fn read_trace(
    section: &mut Section<'_>,
    files: &Files<'_>,
    machine_nodes: u32,
) -> Result<Workload, Problem> {
    // A preset's synthetic jobs give way to a trace.
    section.ignore(&["size", "weights", "walltime"]);
    let name = section.text("trace").required()?;
    let is_repeated = section.flag("repeat").or(true)?;
    let text = files(&name).map_err(|why| {
        section.refuse("trace", &why).with_help("the path is relative to the scenario's directory")
    })?;
    let trace = Trace::parse(&name, &text)?;
    let size = section.integer("trace_nodes").at_least(1).optional()?;
    #[expect(clippy::cast_precision_loss, reason = "a machine size")]
    let size = size.map_or_else(|| trace.processors(), |nodes| nodes as f64);
    let factor = f64::from(machine_nodes) / size;
    let jobs: Arc<[Request]> =
        trace.jobs.iter().filter_map(|job| request(job, factor, machine_nodes)).collect();
    let Some(last) = jobs.last() else {
        return Err(section
            .refuse("trace", &format!("{name} holds no job that ran"))
            .with_help("a job needs a run time and a number of processors above 0"));
    };
    // The next round begins as long after the last job as jobs follow each other on average.
    let length = last.arrival.as_nanos();
    let gap = length / u64::try_from(jobs.len()).unwrap_or(u64::MAX);
    let period = is_repeated.then(|| Span::from_nanos((length + gap).max(1_000_000_000)));
    Ok(Workload::Trace { jobs, period })
}

fn request(job: &TraceJob, factor: f64, machine_nodes: u32) -> Option<Request> {
    let nodes = whole_nodes((job.processors()? * factor).round(), machine_nodes);
    let run = job.run_seconds().filter(|seconds| *seconds > 0.0)?;
    Some(Request {
        arrival: Time::ZERO + Span::from_secs_f64(job.submit_seconds()),
        nodes,
        work: Span::from_secs_f64(run.max(LEAST_WORK_SECONDS)),
        requested: job.requested_seconds().map(Span::from_secs_f64),
    })
}
