//! Mean and variance of observations, and how sure the mean is.

use std::fmt;

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Count, mean, variance and extremes of observations.
///
/// The mean and the variance are updated by B. P. Welford's method (Technometrics 4(3), 1962), which
/// does not lose digits however many observations there are.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    count: u64,
    mean: f64,
    /// Sum of the squared deviations from the mean.
    squares: f64,
    min: f64,
    max: f64,
}

/// A mean and the half width of its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The middle.
    pub mean: f64,
    /// The interval reaches from `mean - half_width` to `mean + half_width`; infinite when there are
    /// too few observations to tell.
    pub half_width: f64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { count: 0, mean: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Tally {
    /// No observation yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an observation.
    pub fn record(&mut self, value: f64) {
        self.count += 1;
        let deviation = value - self.mean;
        self.mean += deviation / self.count as f64;
        self.squares += deviation * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds the observations of another tally (T. F. Chan, G. H. Golub and R. J. LeVeque, "Updating
    /// formulae and a pairwise algorithm for computing sample variances", 1979).
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (ours, theirs) = (self.count as f64, other.count as f64);
        let deviation = other.mean - self.mean;
        self.count += other.count;
        self.mean += deviation * theirs / (ours + theirs);
        self.squares += other.squares + deviation * deviation * ours * theirs / (ours + theirs);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many observations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; zero when there is none.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The unbiased estimate of the variance; zero for fewer than two observations.
    pub fn variance(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squares / (self.count - 1) as f64).max(0.0) }
    }

    /// The square root of the variance.
    pub fn standard_deviation(&self) -> f64 {
        self.variance().sqrt()
    }

    /// The smallest observation; positive infinity when there is none.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The largest observation; negative infinity when there is none.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The sum of the observations.
    pub fn sum(&self) -> f64 {
        self.mean * self.count as f64
    }

    /// The interval that holds the true mean with probability `confidence` (0.95, say), by Student's
    /// t. The observations must be independent: one from each replication, or means of long batches
    /// ([`BatchMeans`](crate::BatchMeans)), not successive values of one run.
    pub fn interval(&self, confidence: f64) -> Interval {
        Interval { mean: self.mean, half_width: self.half_width(confidence) }
    }

    /// The half width of [`interval`](Self::interval); infinite for fewer than two observations or a
    /// confidence that is not between 0 and 1.
    pub fn half_width(&self, confidence: f64) -> f64 {
        if self.count < 2 || !(confidence > 0.0 && confidence < 1.0) {
            return f64::INFINITY;
        }
        student(confidence, (self.count - 1) as f64) * (self.variance() / self.count as f64).sqrt()
    }
}

/// How many standard errors the interval that holds the true value with probability `confidence` reaches to either side,
/// by Student's t with so many degrees of freedom; infinite when there are none.
pub fn student(confidence: f64, freedom: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, freedom) {
        Ok(student) => student.inverse_cdf(f64::midpoint(1.0, confidence)),
        Err(_) => f64::INFINITY,
    }
}

impl Extend<f64> for Tally {
    fn extend<T: IntoIterator<Item = f64>>(&mut self, values: T) {
        values.into_iter().for_each(|value| self.record(value));
    }
}

impl FromIterator<f64> for Tally {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        let mut tally = Self::new();
        tally.extend(values);
        tally
    }
}

impl Interval {
    /// Whether `value` lies in the interval.
    pub fn contains(&self, value: f64) -> bool {
        (value - self.mean).abs() <= self.half_width
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(6);
        write!(f, "{:.digits$} ± {:.digits$}", self.mean, self.half_width)
    }
}
