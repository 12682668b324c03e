//! Many configurations of one workload: which is fastest, cheapest, thriftiest, and what decides.
//!
//! Every configuration of a [`Grid`] is predicted once. Those that an answer shows are predicted again, with further seeds and
//! on variants of the profile, the same for each: this gives the interval of each, and luck cancels in comparisons. What
//! then lies below the noise is said to be undecided.

mod again;
mod grid;
mod knobs;
mod objectives;
mod patterns;
mod point;
mod reasons;
mod repeated;
mod rules;
mod tried;
mod uncertainty;
mod what_if;

use serde::Serialize;

use crate::Problem;
use crate::profile::Profile;
use crate::workload::Workload;

pub use grid::{Grid, Space};
pub use intarsia_des::replicate;
pub use knobs::{Knob, KnobValue};
pub use objectives::Weights;
pub use point::Point;
pub use repeated::{Repeated, Repetition, repeat};
pub use rules::NamedRule;
pub use uncertainty::{Bounds, Summary, Uncertainty, summarise};
pub use what_if::{Change, Gain, gain};

use again::Again;
use objectives::{Figures, Loss, pareto};
use tried::Tried;
use uncertainty::Known;

/// How to search.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The first seed.
    pub seed: u64,
    /// Runs of the configurations that are shown, with a seed each; as many on variants of the profile.
    pub replications: u32,
    /// Threads; the result does not depend on it.
    pub threads: usize,
    /// What the user wants.
    pub weights: Weights,
    /// How many of the fastest are shown.
    pub shown: usize,
    /// Within what time a run is to end, if that matters.
    pub within_seconds: Option<f64>,
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
    /// By which a store tells the files that have hints in what is recommended.
    pub rules: Vec<NamedRule>,
    /// Configurations that cannot be, by why.
    pub refused: Vec<String>,
    /// What intervals cover, and what nobody knows.
    pub uncertainty: Uncertainty,
    /// Events that were simulated.
    pub events: u64,
}

/// Predicts every configuration of a grid, or of a list.
///
/// # Errors
/// When no configuration is possible; the reason is that of the first one.
pub fn advise<'a>(
    workload: &Workload,
    profile: &Profile,
    space: impl Into<Space<'a>>,
    options: Options,
) -> Result<Advice, Problem> {
    let space = space.into();
    let known = Known::of(profile);
    let mut tried = Tried::new(workload, profile, options, &known);
    tried.add(space.configurations(profile)?);
    if space.tries_patterns() {
        tried.add(patterns::with_hints(&tried.points, workload, profile));
    }
    let Tried { mut points, refused, mut events, .. } = tried;
    if points.is_empty() {
        let first = refused.into_iter().next();
        return Err(first.unwrap_or_else(|| Problem::new("no configuration is given")));
    }
    let again = Again::new(workload, profile, options);
    events += again.look(&mut points, &known);
    let mut refused: Vec<String> = refused.into_iter().map(|problem| problem.message).collect();
    refused.sort_unstable();
    refused.dedup();
    let uncertainty = known.uncertainty(options.replications, again.variants());
    Ok(conclude(points, (refused, events, uncertainty), (workload, profile), options))
}

/// The place of the least of something; of equals the first.
fn place_of_least(points: &[Point], goal: impl Fn(&Figures) -> f64) -> usize {
    let values = points.iter().map(|point| goal(&point.mean())).enumerate();
    values.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(place, _)| place)
}

fn conclude(
    points: Vec<Point>,
    (refused, events, uncertainty): (Vec<String>, u64, Uncertainty),
    (workload, profile): (&Workload, &Profile),
    options: Options,
) -> Advice {
    let loss = Loss::new(options.weights, &points);
    let known = Known::of(profile);
    let best = place_of_least(&points, |figures| loss.of(figures));
    let others = (0..points.len()).filter(|place| *place != best);
    let undecided =
        others.filter(|place| cannot_tell(&points[best], &points[*place], (&known, loss)));
    let is_known = points.iter().all(|point| point.joules.is_some());
    let mut advice = Advice {
        best,
        fastest: 0,
        cheapest: place_of_least(&points, |figures| figures.cost),
        thriftiest: is_known.then(|| place_of_least(&points, |figures| figures.joules)),
        pareto: pareto(&points),
        weights: options.weights,
        undecided: undecided.collect(),
        knobs: knobs::knobs(&points),
        reasons: Vec::new(),
        rules: rules::rules(workload, &points[best].configuration.patterns),
        refused,
        uncertainty,
        events,
        points,
    };
    advice.reasons = reasons::reasons(&advice, workload, profile);
    advice
}

/// Whether the difference of two configurations, run with the same seeds and variants, is below the noise.
fn cannot_tell(best: &Point, other: &Point, (known, loss): (&Known, Loss)) -> bool {
    match best.sampled.difference(&other.sampled, known, |figures| loss.of(figures)) {
        Some(difference) => difference.contains(0.0),
        None => loss.of(&best.mean()) == loss.of(&other.mean()),
    }
}

/// Fastest first, of equals the cheaper one, of those the simpler one.
fn order(a: &Point, b: &Point) -> std::cmp::Ordering {
    a.seconds
        .total_cmp(&b.seconds)
        .then(a.host_seconds.total_cmp(&b.host_seconds))
        .then_with(|| a.configuration.cmp(&b.configuration))
}

impl Advice {
    /// The place of the cheapest configuration that ends in time, if one does.
    #[must_use]
    pub fn cheapest_within(&self, seconds: f64) -> Option<usize> {
        cheapest_within(&self.points, seconds)
    }
}

/// The place of the cheapest one that ends in time: all of its interval, if intervals are known. Of what was predicted once
/// the interval is taken to be no wider than the narrowest one; it is looked at again before it is named.
fn cheapest_within(points: &[Point], seconds: f64) -> Option<usize> {
    let reach = |point: &Point| point.interval.map(|interval| interval.high / point.seconds);
    let narrowest = points.iter().filter_map(reach).reduce(f64::min).unwrap_or(1.0);
    let in_time = points
        .iter()
        .enumerate()
        .filter(|(_, point)| point.seconds * reach(point).unwrap_or(narrowest) <= seconds);
    in_time.min_by(|a, b| a.1.cost().total_cmp(&b.1.cost())).map(|(place, _)| place)
}

fn as_index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
