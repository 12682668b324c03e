//! How far an answer may be off, and what of that is known.
//!
//! What a run takes over what is foretold has three parts, of whose logarithms is known:
//!
//! ```text
//! draws     what is drawn anew in each run: runs of the profile with other seeds
//! numbers   the profile as single rounds of its seed had it, over the profile, with the same seed each
//! model     actual over predicted of the runs that `intarsia refine` held against the profile
//! ```
//!
//! *Enough runs were compared* (nine, for 90 %): these differ from what was foretold by all three parts. A further run that is
//! like them lies within their bound, whatever law errors follow ([`Compared::bound`](crate::profile::Compared)). An answer
//! may be less sure than they were; so an interval is never narrower than draws and numbers of the answer itself say.
//!
//! *Fewer, or none*: the parts are taken as normal and independent. Their variances add up, with the degrees of freedom of
//! Welch and Satterthwaite (Biometrics Bulletin 2, 1946). Compared runs differ by the first two parts as well, so that an
//! interval of all three is too wide rather than too narrow.

use intarsia_des::{Interval, Tally, student};
use serde::Serialize;

use crate::profile::Profile;

/// The probability with which a run lies in its interval.
const COVERED: f64 = 0.9;
/// So many standard deviations of a normal law to both sides cover that.
const NORMAL: f64 = 1.644_853_6;
/// The probability with which an interval of a mean or of a difference covers what it is for.
const CONFIDENCE: f64 = 0.95;

/// The mean of several runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// Half of the 95 % interval of the mean, by what is drawn in each run; none after one run.
    pub half_width: Option<f64>,
    /// How many runs.
    pub runs: u32,
    /// Where 90 % of runs lie, by all that is known; none: nothing is.
    pub interval: Option<Bounds>,
}

/// Both ends of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// What is known of how far answers from a profile may be off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Something of the profile is drawn in each run.
    is_random: bool,
    /// In how many rounds its numbers were measured; 0 for none.
    rounds: usize,
    /// There are links between hosts, and they were not measured.
    assumes_links: bool,
    /// How far runs were off that were held against it.
    model: Option<Part>,
    /// By how much, as a logarithm, a further one is off at most; none: they are too few to say.
    bound: Option<f64>,
    compared: usize,
}

/// What intervals of an answer cover.
#[derive(Clone, Debug, Serialize)]
pub struct Uncertainty {
    /// The probability with which a run lies in its interval.
    pub probability: f64,
    /// Runs of each answer, with a seed each.
    pub runs: u32,
    /// Variants of the profile that each answer was predicted on besides.
    pub variants: u32,
    /// Rounds in which the numbers of the profile were measured; 0: nobody knows how far they are off.
    pub rounds: usize,
    /// Runs that were held against the profile; 0: nobody knows how far the model is off.
    pub compared_runs: usize,
    /// What intervals cover, in words; nothing: there are none.
    pub covers: Vec<String>,
    /// What is not known, in words.
    pub unknown: Vec<String>,
}

/// A part of what a run may be off: a variance, and how well it is known.
#[derive(Clone, Copy, Debug)]
struct Part {
    variance: f64,
    freedom: f64,
}

/// Runs of one configuration.
#[derive(Clone, Debug)]
pub(crate) struct Runs<T> {
    /// Of the profile as it stands, each with another seed; none: it failed.
    pub(crate) plain: Vec<Option<T>>,
    /// Of its variants, each with the seed of the plain run of the same number.
    pub(crate) variants: Vec<Option<T>>,
}

/// The mean of `values`, one of each run.
#[must_use]
pub fn summarise(values: impl Iterator<Item = f64>) -> Summary {
    let tally: Tally = values.collect();
    Summary {
        mean: tally.mean(),
        half_width: (tally.count() > 1).then(|| tally.interval(CONFIDENCE).half_width),
        runs: u32::try_from(tally.count()).unwrap_or(u32::MAX),
        interval: None,
    }
}

impl Known {
    pub(crate) fn of(profile: &Profile) -> Self {
        let errors = profile.compared.errors();
        Self {
            is_random: profile.is_random(),
            rounds: profile.rounds.count(),
            assumes_links: profile.hosts > 1 && !profile.rounds.has("host.in_bytes_per_second"),
            // About no error rather than about their mean: what they have in common is in the next run, too.
            model: Part::about_zero(errors, float(errors.len())),
            bound: profile.compared.bound(COVERED),
            compared: errors.len(),
        }
    }

    /// Whether several predictions say more than one.
    pub(crate) fn is_drawn(&self) -> bool {
        self.is_random || self.rounds > 0
    }

    /// Where 90 % of runs lie.
    fn interval(&self, plain: &[f64], pairs: &[(f64, f64)]) -> Option<Bounds> {
        if !self.is_random && pairs.is_empty() && self.model.is_none() {
            return None;
        }
        let is_time = |value: f64| value > 0.0 && value.is_finite();
        if !plain.iter().chain(pairs.iter().flat_map(|(a, b)| [a, b])).all(|value| is_time(*value))
        {
            return None;
        }
        let logarithms: Tally = plain.iter().map(|value| value.ln()).collect();
        let shifts: Vec<f64> =
            pairs.iter().map(|(plain, variant)| (variant / plain).ln()).collect();
        let drawn = Part::of(&logarithms).map(|part| part.times(1.0 + 1.0 / float(plain.len())));
        let factor = self.half_width([drawn, self.of_numbers(&shifts)])?.exp();
        let mean = plain.iter().sum::<f64>() / float(plain.len());
        Some(Bounds { low: mean / factor, high: mean * factor })
    }

    /// Half of an interval of a run, as a logarithm, from the parts that were found of the answer itself.
    fn half_width(&self, own: [Option<Part>; 2]) -> Option<f64> {
        let Some(bound) = self.bound else {
            let [drawn, numbers] = own;
            return Some(Part::sum([drawn, numbers, self.model])?.half_width(COVERED));
        };
        // How sure it is that a run lies within is told by the bound; few rounds need not make this wide as well.
        let own = Part::sum(own).map_or(0.0, |part| NORMAL * part.variance.sqrt());
        Some(own.max(bound))
    }

    /// How far a run is from what the numbers of the whole seed say, from how far its rounds are.
    fn of_numbers(&self, shifts: &[f64]) -> Option<Part> {
        let rounds = float(self.rounds);
        let part = Part::about_zero(shifts, float(shifts.len()).min(rounds - 1.0))?;
        // Rounds are nearer to their own mean than to the truth, and a run differs as a further round would.
        Some(part.times((rounds + 1.0) / (rounds - 1.0)))
    }

    /// A mean difference, and half of its 95 % interval: by draws as the mean of many runs is, and by numbers as any round
    /// would have them. None for one difference. `shifts` are those of the differences with the variants.
    fn difference(&self, differences: &[f64], shifts: &[f64]) -> Option<Interval> {
        let tally: Tally = differences.iter().copied().collect();
        let drawn = Part::of(&tally).map(|part| part.times(1.0 / float(differences.len())));
        let sum = Part::sum([drawn, self.of_numbers(shifts)])?;
        Some(Interval { mean: tally.mean(), half_width: sum.half_width(CONFIDENCE) })
    }

    /// What intervals cover of answers with so many runs, and so many variants besides.
    pub(crate) fn uncertainty(&self, runs: u32, variants: u32) -> Uncertainty {
        let (mut covers, mut unknown) = (Vec::new(), Vec::new());
        let is_drawn = runs > 1 && (self.is_random || variants > 0);
        if is_drawn {
            covers.push(format!("what is drawn in each run ({runs} runs)"));
        }
        if variants > 0 {
            let rounds = self.rounds;
            covers.push(format!("the measured numbers of the profile (by {rounds} rounds)"));
            if self.assumes_links {
                unknown.push(
                    "error of the links unknown: they were not measured (intarsia seed --remote)"
                        .to_owned(),
                );
            }
        } else if self.rounds > 0 {
            unknown.push("error of the numbers left out: one run was made (--runs)".to_owned());
        } else {
            unknown.push(
                "error of the numbers unknown: they were not measured in rounds (intarsia seed)"
                    .to_owned(),
            );
        }
        if self.compared > 0 {
            let compared = self.compared;
            let runs = if compared == 1 { "1 run" } else { &format!("{compared} runs") };
            covers.push(format!("the error of the model (by {runs} held against it)"));
        } else {
            unknown.push(
                "error of the model unknown: no run was compared (intarsia refine)".to_owned(),
            );
        }
        Uncertainty {
            probability: COVERED,
            runs,
            variants,
            rounds: self.rounds,
            compared_runs: self.compared,
            covers,
            unknown,
        }
    }
}

impl Uncertainty {
    /// The same for people, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let percent = self.probability * 100.0;
        let first = match self.covers.as_slice() {
            [] => "no interval can be given".to_owned(),
            covers => format!("the {percent:.0} % interval covers {}", covers.join(", ")),
        };
        std::iter::once(first).chain(self.unknown.iter().cloned()).collect()
    }
}

impl Part {
    /// The variance of observations.
    fn of(tally: &Tally) -> Option<Self> {
        let freedom = tally.count().checked_sub(1).filter(|freedom| *freedom > 0)?;
        Some(Self { variance: tally.variance(), freedom: crate::as_float(freedom) })
    }

    /// The mean square of observations that are 0 in the mean.
    fn about_zero(values: &[f64], freedom: f64) -> Option<Self> {
        let squares: f64 = values.iter().map(|value| value * value).sum();
        (!values.is_empty() && freedom > 0.0)
            .then(|| Self { variance: squares / float(values.len()), freedom })
    }

    fn times(self, factor: f64) -> Self {
        Self { variance: self.variance * factor, ..self }
    }

    /// All parts that are known together.
    fn sum<const N: usize>(parts: [Option<Self>; N]) -> Option<Self> {
        let known: Vec<Self> = parts.into_iter().flatten().collect();
        let variance: f64 = known.iter().map(|part| part.variance).sum();
        let shares: f64 = known.iter().map(|part| part.variance.powi(2) / part.freedom).sum();
        let least = known.iter().map(|part| part.freedom).reduce(f64::min)?;
        // Without any variance the freedom is of no importance.
        Some(Self {
            variance,
            freedom: if shares > 0.0 { variance.powi(2) / shares } else { least },
        })
    }

    fn half_width(self, probability: f64) -> f64 {
        if self.variance == 0.0 {
            0.0
        } else {
            student(probability, self.freedom) * self.variance.sqrt()
        }
    }
}

impl<T> Runs<T> {
    pub(crate) fn of(first: T) -> Self {
        Self { plain: vec![Some(first)], variants: Vec::new() }
    }

    /// The mean of something, and its intervals; without what is known none of a run.
    pub(crate) fn summary(&self, known: Option<&Known>, of: impl Fn(&T) -> f64) -> Summary {
        let plain: Vec<f64> = self.plain.iter().flatten().map(&of).collect();
        let pairs = self.plain.iter().zip(&self.variants);
        let pairs =
            pairs.filter_map(|(plain, variant)| Some((of(plain.as_ref()?), of(variant.as_ref()?))));
        let interval = known.and_then(|known| known.interval(&plain, &pairs.collect::<Vec<_>>()));
        Summary { interval, ..summarise(plain.into_iter()) }
    }

    /// How much more of something `other` needs, with the same seeds and variants; see [`Known::difference`].
    pub(crate) fn difference(
        &self,
        other: &Self,
        known: &Known,
        of: impl Fn(&T) -> f64,
    ) -> Option<Interval> {
        let more = |own: &[Option<T>], others: &[Option<T>]| -> Vec<Option<f64>> {
            let both = own.iter().zip(others);
            both.map(|(own, other)| Some(of(other.as_ref()?) - of(own.as_ref()?))).collect()
        };
        let plain = more(&self.plain, &other.plain);
        let varied = more(&self.variants, &other.variants);
        let shifts =
            plain.iter().zip(varied).filter_map(|(plain, varied)| Some(varied? - (*plain)?));
        let shifts: Vec<f64> = shifts.collect();
        known.difference(&plain.into_iter().flatten().collect::<Vec<_>>(), &shifts)
    }
}

fn float(count: usize) -> f64 {
    crate::as_float(count as u64)
}
