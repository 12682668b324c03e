//! Quantiles of durations in bounded memory.

use crate::parameter::{InvalidParameter, invalid};
use crate::time::Span;

/// A histogram of durations of any length (G. Tene's HdrHistogram).
#[derive(Clone, Debug)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Histogram {
    /// A histogram that keeps `digits` significant digits of each duration. With three, quantiles
    /// are within 0.1 % of those of the recorded durations, and it occupies half a megabyte at most.
    ///
    /// # Errors
    /// When `digits` is above five.
    pub fn new(digits: u8) -> Result<Self, InvalidParameter> {
        hdrhistogram::Histogram::new(digits)
            .map(Self)
            .map_err(|_| invalid("histogram", "digits", digits.into(), "between 0 and 5"))
    }

    /// Adds a duration.
    pub fn record(&mut self, span: Span) {
        let nanos = span.as_nanos();
        if self.0.record(nanos).is_err() {
            // Too long to make room for: the longest that there is room for stands for it.
            self.0.saturating_record(nanos);
        }
    }

    /// Adds the durations of another histogram.
    ///
    /// # Errors
    /// When the other one cannot be added: it holds longer durations than this one can ever.
    pub fn merge(&mut self, other: &Self) -> Result<(), hdrhistogram::errors::AdditionError> {
        self.0.add(&other.0)
    }

    /// How many durations.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The duration that the fraction `quantile` of all durations does not exceed (0.5: the median;
    /// below 0 counts as 0, above 1 as 1); zero when there is none.
    pub fn quantile(&self, quantile: f64) -> Span {
        Span::from_nanos(self.0.value_at_quantile(quantile))
    }

    /// The longest.
    pub fn max(&self) -> Span {
        Span::from_nanos(self.0.max())
    }
}
