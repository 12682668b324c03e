//! A configuration and what is predicted for it.

use serde::Serialize;

use super::Summary;
use super::objectives::Figures;
use super::uncertainty::{Bounds, Known, Runs};
use crate::configuration::Configuration;
use crate::model::{Bytes, Prediction, TaskSeconds, Usage};

/// A configuration and what is predicted for it.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The configuration.
    pub configuration: Configuration,
    /// Mean of the makespans, in seconds.
    pub seconds: f64,
    /// Half of the 95 % interval of this mean, by what is drawn in each run; none after one run.
    pub half_width_seconds: Option<f64>,
    /// Where 90 % of makespans lie, in seconds, by all that is known; none: nothing is, or it was predicted once.
    pub interval: Option<Bounds>,
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
    pub(super) sampled: Runs<Figures>,
}

impl Point {
    pub(super) fn new(
        configuration: Configuration,
        prediction: Prediction,
        known: Option<&Known>,
    ) -> Self {
        let sampled = Runs::of(Figures::of(&prediction));
        let nothing = sampled.summary(known, |_| 0.0);
        let mut point = Self {
            configuration,
            seconds: 0.0,
            half_width_seconds: None,
            interval: None,
            runs: 1,
            host_seconds: 0.0,
            money: prediction.money.map(|_| nothing),
            joules: prediction.energy.as_ref().map(|_| nothing),
            bytes: prediction.bytes,
            task_seconds: prediction.task_seconds(),
            sampled,
            usage: prediction.usage,
        };
        point.settle(known);
        point
    }

    /// Takes the means over all runs, and their intervals, if they are to have any.
    pub(super) fn settle(&mut self, known: Option<&Known>) {
        let over_runs = |of: fn(&Figures) -> f64| self.sampled.summary(known, of);
        let seconds = over_runs(|figures| figures.seconds);
        let (cost, joules) =
            (over_runs(|figures| figures.cost), over_runs(|figures| figures.joules));
        (self.seconds, self.half_width_seconds, self.runs) =
            (seconds.mean, seconds.half_width, seconds.runs);
        self.interval = seconds.interval;
        self.host_seconds = self.seconds * f64::from(self.configuration.hosts);
        self.money = self.money.map(|_| cost);
        self.joules = self.joules.map(|_| joules);
    }

    /// Whether it was predicted more than once.
    pub(super) fn is_looked_at(&self) -> bool {
        self.sampled.plain.len() > 1
    }

    /// The means over all runs.
    pub(super) fn mean(&self) -> Figures {
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
}
