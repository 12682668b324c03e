//! Many configurations of one workload: which is fastest, which is cheapest, and what decides.
//!
//! Every configuration of a [`Grid`] is predicted once. The best of them are predicted again with further seeds, the same
//! for each, so that luck cancels in a comparison; what then lies below the noise is said to be undecided.

mod grid;
mod knobs;
mod reasons;

use intarsia_des::{Interval, Tally};
use serde::Serialize;

use crate::Problem;
use crate::configuration::Configuration;
use crate::model::{Bytes, Prediction, TaskSeconds, Usage, predict};
use crate::profile::Profile;
use crate::workload::Workload;

pub use grid::Grid;
pub use intarsia_des::replicate;
pub use knobs::{Knob, KnobValue};

/// The probability with which an interval covers what it is for.
const CONFIDENCE: f64 = 0.95;
/// Configurations that are within this share of the best one are looked at again.
const NEAR: f64 = 1.05;
/// How many are looked at again at most.
const AGAIN_AT_MOST: usize = 16;

/// How to search.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The first seed.
    pub seed: u64,
    /// Runs of the best configurations, with a seed each.
    pub replications: u32,
    /// Threads; the result does not depend on it.
    pub threads: usize,
}

/// A configuration and what is predicted for it.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The configuration.
    pub configuration: Configuration,
    /// Mean of the makespans, in seconds.
    pub seconds: f64,
    /// Half of the 95 % interval; none after one run.
    pub half_width_seconds: Option<f64>,
    /// How many runs.
    pub runs: u32,
    /// Hosts times mean makespan.
    pub host_seconds: f64,
    /// Bytes by the way they took, in the first run.
    pub bytes: Bytes,
    /// What was busy, in the first run.
    pub usage: Vec<Usage>,
    /// What its tasks did, in the first run.
    pub task_seconds: TaskSeconds,
    /// The makespan of each run.
    #[serde(skip)]
    makespans: Vec<f64>,
}

/// The mean of several runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// Half of the 95 % interval; none after one run.
    pub half_width: Option<f64>,
    /// How many runs.
    pub runs: u32,
}

/// The mean of `values`, one of each run, with its interval.
#[must_use]
pub fn summarise(values: impl Iterator<Item = f64>) -> Summary {
    let mut tally = Tally::new();
    values.for_each(|value| tally.record(value));
    Summary {
        mean: tally.mean(),
        half_width: (tally.count() > 1).then(|| tally.interval(CONFIDENCE).half_width),
        runs: u32::try_from(tally.count()).unwrap_or(u32::MAX),
    }
}

/// What a search found. Places are indices in `points`.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// All configurations, fastest first.
    pub points: Vec<Point>,
    /// The place of the fastest.
    pub fastest: usize,
    /// The place of the one with the fewest host-seconds.
    pub cheapest: usize,
    /// Places of those that no other one beats in both time and cost, fastest first.
    pub pareto: Vec<usize>,
    /// Places of those that cannot be told from the fastest.
    pub undecided: Vec<usize>,
    /// What each choice changes, the most first.
    pub knobs: Vec<Knob>,
    /// Why, in words.
    pub reasons: Vec<String>,
    /// Configurations that cannot be, by why.
    pub refused: Vec<String>,
    /// Events that were simulated.
    pub events: u64,
}

/// Predicts every configuration of the grid.
///
/// # Errors
/// When no configuration is possible; the reason is that of the first one.
pub fn advise(
    workload: &Workload,
    profile: &Profile,
    grid: &Grid,
    options: Options,
) -> Result<Advice, Problem> {
    let configurations = grid.configurations(profile)?;
    let run =
        |configuration: &Configuration, seed: u64| predict(workload, profile, configuration, seed);
    let first = replicate(configurations.len() as u64, options.threads, |index| {
        run(&configurations[as_index(index)], options.seed)
    });
    let (mut points, mut refused, mut events) = (Vec::new(), Vec::new(), 0);
    for (configuration, outcome) in configurations.into_iter().zip(first) {
        match outcome {
            Ok(prediction) => {
                events += prediction.events;
                points.push(Point::new(configuration, prediction));
            }
            Err(problem) => refused.push(problem),
        }
    }
    if points.is_empty() {
        return Err(refused
            .into_iter()
            .next()
            .unwrap_or_else(|| Problem::new("the grid is empty")));
    }
    points.sort_by(order);
    events += look_again(&mut points, options, &run);
    points.sort_by(order);
    let mut refused: Vec<String> = refused.into_iter().map(|problem| problem.message).collect();
    refused.sort_unstable();
    refused.dedup();
    Ok(conclude(points, refused, events, workload))
}

/// Runs those that may be the best with further seeds. Gives the events.
fn look_again(
    points: &mut [Point],
    options: Options,
    run: &(impl Fn(&Configuration, u64) -> Result<Prediction, Problem> + Sync),
) -> u64 {
    let further = u64::from(options.replications.saturating_sub(1));
    let chosen = candidates(points);
    let jobs = chosen.len() as u64 * further;
    let outcomes = replicate(jobs, options.threads, |job| {
        let point = &points[chosen[as_index(job / further)]];
        run(&point.configuration, options.seed + 1 + job % further)
    });
    let mut events = 0;
    for (job, outcome) in (0..).zip(outcomes) {
        // What fitted with one seed fits with another, but for files of different sizes on hosts that are nearly full.
        let Ok(prediction) = outcome else { continue };
        events += prediction.events;
        points[chosen[as_index(job / further)]].makespans.push(prediction.makespan_seconds);
    }
    points.iter_mut().for_each(Point::settle);
    events
}

/// Places of those that are near the fastest, or that are among the cheapest.
fn candidates(points: &[Point]) -> Vec<usize> {
    let least_cost = points.iter().map(|point| point.host_seconds).fold(f64::INFINITY, f64::min);
    let least_time = points.first().map_or(0.0, |point| point.seconds);
    let front = pareto(points);
    let is_near = |place: &usize| {
        let point = &points[*place];
        front.contains(place)
            || point.seconds <= NEAR * least_time
            || point.host_seconds <= NEAR * least_cost
    };
    (0..points.len()).filter(is_near).take(AGAIN_AT_MOST).collect()
}

fn conclude(points: Vec<Point>, refused: Vec<String>, events: u64, workload: &Workload) -> Advice {
    let costs = points.iter().map(|point| point.host_seconds).enumerate();
    let cheapest = costs.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(place, _)| place);
    let undecided = (1..points.len()).filter(|place| cannot_tell(&points[0], &points[*place]));
    let mut advice = Advice {
        fastest: 0,
        cheapest,
        pareto: pareto(&points),
        undecided: undecided.collect(),
        knobs: knobs::knobs(&points),
        reasons: Vec::new(),
        refused,
        events,
        points,
    };
    advice.reasons = reasons::reasons(&advice, workload);
    advice
}

/// Places of the points that no other one beats in both time and cost; `points` are sorted by time.
fn pareto(points: &[Point]) -> Vec<usize> {
    let mut least = f64::INFINITY;
    let mut front = Vec::new();
    for (place, point) in points.iter().enumerate() {
        if point.host_seconds < least {
            least = point.host_seconds;
            front.push(place);
        }
    }
    front
}

/// Whether the difference of two configurations, run with the same seeds, is below the noise.
fn cannot_tell(best: &Point, other: &Point) -> bool {
    let mut differences = Tally::new();
    for (a, b) in best.makespans.iter().zip(&other.makespans) {
        differences.record(b - a);
    }
    if differences.count() < 2 {
        return best.seconds == other.seconds;
    }
    let Interval { mean, half_width } = differences.interval(CONFIDENCE);
    mean.abs() <= half_width
}

/// Fastest first, of equals the cheaper one, of those the simpler one.
fn order(a: &Point, b: &Point) -> std::cmp::Ordering {
    a.seconds
        .total_cmp(&b.seconds)
        .then(a.host_seconds.total_cmp(&b.host_seconds))
        .then_with(|| a.configuration.cmp(&b.configuration))
}

impl Point {
    fn new(configuration: Configuration, prediction: Prediction) -> Self {
        Self {
            configuration,
            seconds: prediction.makespan_seconds,
            half_width_seconds: None,
            runs: 1,
            host_seconds: prediction.host_seconds,
            bytes: prediction.bytes,
            task_seconds: prediction.task_seconds(),
            usage: prediction.usage,
            makespans: vec![prediction.makespan_seconds],
        }
    }

    /// Takes the mean over all runs.
    fn settle(&mut self) {
        let summary = summarise(self.makespans.iter().copied());
        (self.seconds, self.half_width_seconds, self.runs) =
            (summary.mean, summary.half_width, summary.runs);
        self.host_seconds = self.seconds * f64::from(self.configuration.hosts);
    }
}

impl Advice {
    /// The place of the cheapest configuration that ends in time, if one does.
    #[must_use]
    pub fn cheapest_within(&self, seconds: f64) -> Option<usize> {
        let in_time = self.points.iter().enumerate().filter(|(_, point)| {
            point.seconds + point.half_width_seconds.unwrap_or(0.0) <= seconds
        });
        in_time.min_by(|a, b| a.1.host_seconds.total_cmp(&b.1.host_seconds)).map(|(place, _)| place)
    }
}

fn as_index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
