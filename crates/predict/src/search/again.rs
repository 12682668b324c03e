//! Which configurations are looked at again, and how.

use std::collections::BTreeSet;

use intarsia_des::replicate;

use super::objectives::{Figures, Loss, pareto};
use super::uncertainty::Known;
use super::{Options, Point, as_index, cheapest_within, order, place_of_least};
use crate::model::{Prediction, predict};
use crate::profile::Profile;
use crate::workload::Workload;

/// Configurations that are within this share of the best one may be the best.
const NEAR: f64 = 1.05;
/// How many of them are looked at again at most.
const NEAR_AT_MOST: usize = 16;

/// Predicts configurations again: with further seeds, and on variants of the profile.
pub(super) struct Again<'a> {
    workload: &'a Workload,
    profile: &'a Profile,
    variants: Vec<Profile>,
    options: Options,
}

impl<'a> Again<'a> {
    pub(super) fn new(workload: &'a Workload, profile: &'a Profile, options: Options) -> Self {
        // One run says nothing of how far a further one may be.
        let count = if options.replications > 1 { options.replications } else { 0 };
        Self { workload, profile, variants: profile.variants(options.seed, count), options }
    }

    /// How many variants there are.
    pub(super) fn variants(&self) -> u32 {
        u32::try_from(self.variants.len()).unwrap_or(u32::MAX)
    }

    /// Looks again at all that an answer shows, and sorts: what then comes to be shown is looked at, too. Gives the events.
    pub(super) fn look(&self, points: &mut [Point], known: &Known) -> u64 {
        let mut events = 0;
        if self.options.replications < 2 {
            return events;
        }
        loop {
            let mut places = shown(points, self.options);
            places.retain(|place| !points[*place].is_looked_at());
            if places.is_empty() {
                return events;
            }
            events += self.look_at(points, &places.into_iter().collect::<Vec<_>>(), known);
            points.sort_by(order);
        }
    }

    fn look_at(&self, points: &mut [Point], places: &[usize], known: &Known) -> u64 {
        let jobs = self.jobs();
        let each = jobs.len() as u64;
        let outcomes = replicate(each * places.len() as u64, self.options.threads, |job| {
            let configuration = &points[places[as_index(job / each)]].configuration;
            let (profile, seed) = jobs[as_index(job % each)];
            // What fitted with one seed fits with another, but for files of different sizes on hosts that are nearly full.
            predict(self.workload, profile, configuration, seed).ok()
        });
        let further = as_index(u64::from(self.options.replications) - 1);
        let mut events = 0;
        for (place, outcomes) in places.iter().zip(outcomes.chunks(as_index(each))) {
            let figures = |outcome: &Option<Prediction>| outcome.as_ref().map(Figures::of);
            let (plain, variants) = outcomes.split_at(further);
            let point = &mut points[*place];
            point.sampled.plain.extend(plain.iter().map(figures));
            point.sampled.variants.extend(variants.iter().map(figures));
            point.settle(Some(known));
            events += outcomes.iter().flatten().map(|prediction| prediction.events).sum::<u64>();
        }
        events
    }

    /// Each further run of a configuration: the profile that it is on, and its seed.
    fn jobs(&self) -> Vec<(&Profile, u64)> {
        let seeds = self.options.seed..self.options.seed + u64::from(self.options.replications);
        let plain = seeds.clone().skip(1).map(|seed| (self.profile, seed));
        plain.chain(self.variants.iter().zip(seeds)).collect()
    }
}

/// Places of all that an answer shows: the fastest, what may be the best in something, and what is named.
fn shown(points: &[Point], options: Options) -> BTreeSet<usize> {
    let loss = Loss::new(options.weights, points);
    let mut shown: BTreeSet<usize> = (0..options.shown.min(points.len())).collect();
    shown.extend(near(points, loss));
    shown.extend(pareto(points));
    shown.insert(place_of_least(points, |figures| loss.of(figures)));
    shown.insert(place_of_least(points, |figures| figures.cost));
    shown.insert(place_of_least(points, |figures| figures.joules));
    shown.extend(options.within_seconds.and_then(|seconds| cheapest_within(points, seconds)));
    shown
}

/// Places of those that may be the best in something.
fn near(points: &[Point], loss: Loss) -> Vec<usize> {
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
    near.truncate(NEAR_AT_MOST);
    near
}

fn least_of(points: &[Point], goal: &dyn Fn(&Figures) -> f64) -> f64 {
    points.iter().map(|point| goal(&point.mean())).fold(f64::INFINITY, f64::min)
}
