//! What one run of each configuration tells.

use intarsia_des::replicate;

use super::uncertainty::Known;
use super::{Options, Point, as_index, order};
use crate::Problem;
use crate::configuration::Configuration;
use crate::model::predict;
use crate::profile::Profile;
use crate::workload::Workload;

/// Configurations that were predicted once.
pub(super) struct Tried<'a> {
    workload: &'a Workload,
    profile: &'a Profile,
    options: Options,
    /// Where nothing is looked at again, one run is all that there is of an interval.
    of_once: Option<&'a Known>,
    /// Those that can be, fastest first.
    pub(super) points: Vec<Point>,
    /// Why others cannot be.
    pub(super) refused: Vec<Problem>,
    pub(super) events: u64,
}

impl<'a> Tried<'a> {
    pub(super) fn new(
        workload: &'a Workload,
        profile: &'a Profile,
        options: Options,
        known: &'a Known,
    ) -> Self {
        let of_once = (options.replications < 2).then_some(known);
        let (points, refused) = (Vec::new(), Vec::new());
        Self { workload, profile, options, of_once, points, refused, events: 0 }
    }

    pub(super) fn add(&mut self, configurations: Vec<Configuration>) {
        let Self { workload, profile, options, .. } = *self;
        let outcomes = replicate(configurations.len() as u64, options.threads, |index| {
            predict(workload, profile, &configurations[as_index(index)], options.seed)
        });
        for (configuration, outcome) in configurations.into_iter().zip(outcomes) {
            match outcome {
                Ok(prediction) => {
                    self.events += prediction.events;
                    self.points.push(Point::new(configuration, prediction, self.of_once));
                }
                Err(problem) => self.refused.push(problem),
            }
        }
        self.points.sort_by(order);
    }
}
