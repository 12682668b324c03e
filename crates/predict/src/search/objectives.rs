//! What a user wants: time, cost and energy, and how much each weighs.

use serde::Serialize;

use super::Point;
use crate::model::Prediction;

/// How much each goal weighs; only their ratios count. What is not wanted at all is 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Weights {
    /// Of the makespan.
    pub time: f64,
    /// Of the cost: money where the profile has prices, else host hours.
    pub cost: f64,
    /// Of the energy; without power in the profile it counts as the same for all.
    pub energy: f64,
}

impl Weights {
    /// Only time counts.
    pub const TIME: Self = Self { time: 1.0, cost: 0.0, energy: 0.0 };
}

/// What one run takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) seconds: f64,
    pub(super) cost: f64,
    pub(super) joules: f64,
}

impl Figures {
    pub(super) fn of(prediction: &Prediction) -> Self {
        Self {
            seconds: prediction.makespan_seconds,
            cost: prediction.money.unwrap_or(prediction.host_seconds),
            joules: prediction.energy.as_ref().map_or(0.0, |energy| energy.joules),
        }
    }
}

/// The user's utility, turned round so that less is better: each goal as a multiple of the least that any configuration
/// needs of it, weighed. 1 is as good in everything as the best is in each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    weights: Weights,
    least: Figures,
}

impl Loss {
    pub(super) fn new(weights: Weights, points: &[Point]) -> Self {
        let least = |of: fn(&Figures) -> f64| {
            let means = points.iter().map(|point| of(&point.mean()));
            means.fold(f64::INFINITY, f64::min)
        };
        let least = Figures {
            seconds: least(|figures| figures.seconds),
            cost: least(|figures| figures.cost),
            joules: least(|figures| figures.joules),
        };
        Self { weights, least }
    }

    pub(super) fn of(&self, figures: &Figures) -> f64 {
        let Weights { time, cost, energy } = self.weights;
        if (cost, energy) == (0.0, 0.0) {
            return figures.seconds;
        }
        let ratio = |value: f64, least: f64| if least > 0.0 { value / least } else { 1.0 };
        (time * ratio(figures.seconds, self.least.seconds)
            + cost * ratio(figures.cost, self.least.cost)
            + energy * ratio(figures.joules, self.least.joules))
            / (time + cost + energy)
    }
}

/// Places of the points that no other one beats in time, cost and energy at once; `points` are sorted by time. Of equals
/// the first one.
pub(super) fn pareto(points: &[Point]) -> Vec<usize> {
    let mut front: Vec<(usize, Figures)> = Vec::new();
    for (place, point) in points.iter().enumerate() {
        let own = point.mean();
        // Those before are as fast or faster.
        let is_beaten =
            |(_, other): &(usize, Figures)| other.cost <= own.cost && other.joules <= own.joules;
        if !front.iter().any(is_beaten) {
            front.push((place, own));
        }
    }
    front.into_iter().map(|(place, _)| place).collect()
}
