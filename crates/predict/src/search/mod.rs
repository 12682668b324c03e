//! Many configurations of one workload: which is fastest, cheapest, thriftiest, and what decides.
//!
//! Every configuration of a [`Grid`] is predicted once. The best of them are predicted again with further seeds, the same
//! for each, so that luck cancels in a comparison; what then lies below the noise is said to be undecided.

mod grid;
mod knobs;
mod objectives;
mod reasons;
mod what_if;

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
pub use objectives::Weights;
pub use what_if::{Change, Gain, gain};

use objectives::{Figures, Loss, pareto};

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
    /// What the user wants.
    pub weights: Weights,
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
    /// What a run costs, if the profile has prices.
    pub money: Option<Summary>,
    /// What a run draws, if the profile says what hosts do.
    pub joules: Option<Summary>,
    /// Bytes by the way they took, in the first run.
    pub bytes: Bytes,
    /// What was busy, in the first run.
    pub usage: Vec<Usage>,
    /// What its tasks did, in the first run.
    pub task_seconds: TaskSeconds,
    /// What each run took.
    #[serde(skip)]
    figures: Vec<Figures>,
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
    /// The place of what is recommended: by what the user wants, the fastest if nothing else was said.
    pub best: usize,
    /// The place of the fastest.
    pub fastest: usize,
    /// The place of the one that costs least: in money where there are prices, else in host-seconds.
    pub cheapest: usize,
    /// The place of the one that draws least, if that is known.
    pub thriftiest: Option<usize>,
    /// Places of those that no other one beats in time, cost and energy at once, fastest first.
    pub pareto: Vec<usize>,
    /// What the user wants.
    pub weights: Weights,
    /// Places of those that cannot be told from what is recommended.
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
    advise_among(workload, profile, grid.configurations(profile)?, options)
}

/// Predicts these configurations.
///
/// # Errors
/// When none of them is possible; the reason is that of the first one.
pub fn advise_among(
    workload: &Workload,
    profile: &Profile,
    configurations: Vec<Configuration>,
    options: Options,
) -> Result<Advice, Problem> {
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
    Ok(conclude(points, refused, events, (workload, profile), options.weights))
}

/// Runs those that may be the best with further seeds. Gives the events.
fn look_again(
    points: &mut [Point],
    options: Options,
    run: &(impl Fn(&Configuration, u64) -> Result<Prediction, Problem> + Sync),
) -> u64 {
    let further = u64::from(options.replications.saturating_sub(1));
    let chosen = candidates(points, options.weights);
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
        points[chosen[as_index(job / further)]].figures.push(Figures::of(&prediction));
    }
    points.iter_mut().for_each(Point::settle);
    events
}

/// Places of those that may be the best in something.
fn candidates(points: &[Point], weights: Weights) -> Vec<usize> {
    let loss = Loss::new(weights, points);
    let goals: [&dyn Fn(&Figures) -> f64; 4] =
        [&|f| loss.of(f), &|f| f.seconds, &|f| f.cost, &|f| f.joules];
    let least = goals.map(|goal| least_of(points, goal));
    let front = pareto(points);
    let is_near = |place: &usize| {
        let own = points[*place].mean();
        let is_near = |(goal, least): (&&dyn Fn(&Figures) -> f64, &f64)| goal(&own) <= NEAR * least;
        front.contains(place) || goals.iter().zip(&least).take(3).any(is_near)
    };
    let mut near: Vec<usize> = (0..points.len()).filter(is_near).collect();
    near.sort_by(|a, b| loss.of(&points[*a].mean()).total_cmp(&loss.of(&points[*b].mean())));
    near.truncate(AGAIN_AT_MOST);
    near
}

fn least_of(points: &[Point], goal: &dyn Fn(&Figures) -> f64) -> f64 {
    points.iter().map(|point| goal(&point.mean())).fold(f64::INFINITY, f64::min)
}

/// The place of the least of something; of equals the first.
fn place_of_least(points: &[Point], goal: impl Fn(&Figures) -> f64) -> usize {
    let values = points.iter().map(|point| goal(&point.mean())).enumerate();
    values.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(place, _)| place)
}

fn conclude(
    points: Vec<Point>,
    refused: Vec<String>,
    events: u64,
    (workload, profile): (&Workload, &Profile),
    weights: Weights,
) -> Advice {
    let loss = Loss::new(weights, &points);
    let best = place_of_least(&points, |figures| loss.of(figures));
    let others = (0..points.len()).filter(|place| *place != best);
    let undecided = others.filter(|place| cannot_tell(&points[best], &points[*place], loss));
    let is_known = points.iter().all(|point| point.joules.is_some());
    let mut advice = Advice {
        best,
        fastest: 0,
        cheapest: place_of_least(&points, |figures| figures.cost),
        thriftiest: is_known.then(|| place_of_least(&points, |figures| figures.joules)),
        pareto: pareto(&points),
        weights,
        undecided: undecided.collect(),
        knobs: knobs::knobs(&points),
        reasons: Vec::new(),
        refused,
        events,
        points,
    };
    advice.reasons = reasons::reasons(&advice, workload, profile);
    advice
}

/// Whether the difference of two configurations, run with the same seeds, is below the noise.
fn cannot_tell(best: &Point, other: &Point, loss: Loss) -> bool {
    let mut differences = Tally::new();
    for (a, b) in best.figures.iter().zip(&other.figures) {
        differences.record(loss.of(b) - loss.of(a));
    }
    if differences.count() < 2 {
        return loss.of(&best.mean()) == loss.of(&other.mean());
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

impl Figures {
    fn of(prediction: &Prediction) -> Self {
        Self {
            seconds: prediction.makespan_seconds,
            cost: prediction.money.unwrap_or(prediction.host_seconds),
            joules: prediction.energy.as_ref().map_or(0.0, |energy| energy.joules),
        }
    }
}

impl Point {
    fn new(configuration: Configuration, prediction: Prediction) -> Self {
        let mut point = Self {
            configuration,
            seconds: 0.0,
            half_width_seconds: None,
            runs: 1,
            host_seconds: 0.0,
            money: prediction.money.map(|_| Summary::NOTHING),
            joules: prediction.energy.as_ref().map(|_| Summary::NOTHING),
            bytes: prediction.bytes,
            task_seconds: prediction.task_seconds(),
            figures: vec![Figures::of(&prediction)],
            usage: prediction.usage,
        };
        point.settle();
        point
    }

    /// Takes the mean over all runs.
    fn settle(&mut self) {
        let over_runs = |of: fn(&Figures) -> f64| summarise(self.figures.iter().map(of));
        let seconds = over_runs(|figures| figures.seconds);
        let (cost, joules) =
            (over_runs(|figures| figures.cost), over_runs(|figures| figures.joules));
        (self.seconds, self.half_width_seconds, self.runs) =
            (seconds.mean, seconds.half_width, seconds.runs);
        self.host_seconds = self.seconds * f64::from(self.configuration.hosts);
        self.money = self.money.map(|_| cost);
        self.joules = self.joules.map(|_| joules);
    }

    /// The means over all runs.
    fn mean(&self) -> Figures {
        Figures {
            seconds: self.seconds,
            cost: self.cost(),
            joules: self.joules.map_or(0.0, |joules| joules.mean),
        }
    }

    /// What it costs: money where there are prices, else host-seconds.
    #[must_use]
    pub fn cost(&self) -> f64 {
        self.money.map_or(self.host_seconds, |money| money.mean)
    }

    /// The makespan of each run.
    pub(crate) fn seconds_of_runs(&self) -> impl Iterator<Item = f64> {
        self.figures.iter().map(|figures| figures.seconds)
    }
}

impl Summary {
    const NOTHING: Self = Self { mean: 0.0, half_width: None, runs: 0 };
}

impl Advice {
    /// The place of the cheapest configuration that ends in time, if one does.
    #[must_use]
    pub fn cheapest_within(&self, seconds: f64) -> Option<usize> {
        let in_time = self.points.iter().enumerate().filter(|(_, point)| {
            point.seconds + point.half_width_seconds.unwrap_or(0.0) <= seconds
        });
        in_time.min_by(|a, b| a.1.cost().total_cmp(&b.1.cost())).map(|(place, _)| place)
    }
}

fn as_index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
