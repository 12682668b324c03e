//! One configuration predicted several times.

use intarsia_des::replicate;

use super::uncertainty::{Known, Runs};
use super::{Summary, Uncertainty, as_index, summarise};
use crate::Problem;
use crate::configuration::Configuration;
use crate::model::{Prediction, predict};
use crate::profile::Profile;
use crate::workload::Workload;

/// Runs that are usual, and the least that say how far a further one may be.
const USUAL: u32 = 10;
const LEAST: u32 = 3;
/// Events that the usual runs have together at most: some seconds of one processor.
const EVENTS: u64 = 20_000_000;

/// What is predicted for a configuration, with its intervals.
#[derive(Debug)]
pub struct Repeated {
    /// The run of the first seed.
    pub first: Prediction,
    further: Vec<Prediction>,
    variants: Vec<Option<Prediction>>,
    known: Known,
}

/// How often to predict.
#[derive(Clone, Copy, Debug)]
pub struct Repetition {
    /// The first seed.
    pub seed: u64,
    /// So many runs, and as many on variants of the profile; none: as many as give an interval in some seconds.
    pub runs: Option<u32>,
    /// Threads; the result does not depend on it.
    pub threads: usize,
}

/// Predicts a configuration with several seeds, and on variants of the profile.
///
/// # Errors
/// As [`predict`].
pub fn repeat(
    workload: &Workload,
    profile: &Profile,
    configuration: &Configuration,
    Repetition { seed, runs, threads }: Repetition,
) -> Result<Repeated, Problem> {
    let run =
        |profile: &Profile, number: u64| predict(workload, profile, configuration, seed + number);
    let first = run(profile, 0)?;
    let known = Known::of(profile);
    let count = runs.unwrap_or_else(|| usual(&known, first.events));
    let variants = profile.variants(seed, if count > 1 { count } else { 0 });
    let further = u64::from(count.saturating_sub(1));
    let mut outcomes =
        replicate(further + variants.len() as u64, threads, |job| match job.checked_sub(further) {
            None => run(profile, job + 1),
            Some(variant) => run(&variants[as_index(variant)], variant),
        });
    let variants = outcomes.split_off(as_index(further)).into_iter().map(Result::ok).collect();
    let further = outcomes.into_iter().collect::<Result<_, _>>()?;
    Ok(Repeated { first, further, variants, known })
}

/// How many runs are usual, of which the first one had so many events. Where nothing can give an interval one is enough.
fn usual(known: &Known, events: u64) -> u32 {
    if !known.is_drawn() {
        return 1;
    }
    // With each run a variant.
    u32::try_from(EVENTS / events.max(1) / 2).unwrap_or(USUAL).clamp(LEAST, USUAL)
}

impl Repeated {
    /// The runs of the profile as it stands, a seed each.
    pub fn runs(&self) -> impl Iterator<Item = &Prediction> + Clone {
        std::iter::once(&self.first).chain(&self.further)
    }

    /// The mean over these runs of what is known of each, and where a run lies.
    pub fn summary(&self, of: impl Fn(&Prediction) -> Option<f64>) -> Option<Summary> {
        let values: Option<Vec<f64>> = self.runs().map(&of).collect();
        let sampled = Runs {
            plain: values?.into_iter().map(Some).collect(),
            variants: self.variants.iter().map(|run| run.as_ref().and_then(&of)).collect(),
        };
        Some(sampled.summary(Some(&self.known), |value| *value))
    }

    /// The makespan.
    #[must_use]
    pub fn makespan_seconds(&self) -> Summary {
        let makespan = self.summary(|run| Some(run.makespan_seconds));
        makespan.unwrap_or_else(|| summarise(std::iter::once(self.first.makespan_seconds)))
    }

    /// What its intervals cover.
    #[must_use]
    pub fn uncertainty(&self) -> Uncertainty {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        self.known.uncertainty(count(self.further.len() + 1), count(self.variants.len()))
    }

    /// Events that were simulated.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.runs().chain(self.variants.iter().flatten()).map(|run| run.events).sum()
    }
}
