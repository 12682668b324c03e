//! How long requests of a kind took: a histogram.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

/// Upper bounds of the buckets in microseconds; the last bucket is unbounded.
const BUCKETS_US: [u64; 12] =
    [5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000, 100_000, 1_000_000];

/// Requests of one kind, by how long they took.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    errors: AtomicU64,
    total_ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
}

/// What requests of one kind took, in a [`crate::Status`]. Field names are stable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestTimes {
    /// What was asked for.
    pub kind: &'static str,
    /// Requests that were answered.
    pub count: u64,
    /// Those of them that were answered with an error.
    pub errors: u64,
    /// From request to answer, all together.
    pub total_seconds: f64,
    /// How many took at most so many microseconds, and longer than the bound before.
    pub by_microseconds: Vec<TimeBucket>,
}

/// A bucket of a histogram.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimeBucket {
    /// Its upper bound; none for the last one.
    pub at_most: Option<u64>,
    /// Requests in it.
    pub count: u64,
}

impl Latency {
    /// Counts requests that need no answer.
    pub(crate) fn count(&self, n: u64) {
        self.buckets[0].fetch_add(n, Ordering::Relaxed);
    }

    /// Counts a request that was answered.
    pub(crate) fn observe(&self, took: Duration, is_ok: bool) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_US.iter().position(|us| ns <= us * 1000).unwrap_or(BUCKETS_US.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(ns, Ordering::Relaxed);
        if !is_ok {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// What they took so far; buckets that are empty are left out. None if there was no request.
    pub(crate) fn times(&self, kind: &'static str) -> Option<RequestTimes> {
        let bounds = BUCKETS_US.iter().copied().map(Some).chain([None]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets = bounds.zip(counts).map(|(at_most, count)| TimeBucket { at_most, count });
        let by_microseconds: Vec<TimeBucket> = buckets.filter(|bucket| bucket.count > 0).collect();
        Some(RequestTimes {
            kind,
            count: by_microseconds.iter().map(|bucket| bucket.count).sum(),
            errors: self.errors.load(Ordering::Relaxed),
            total_seconds: seconds(self.total_ns.load(Ordering::Relaxed)),
            by_microseconds,
        })
        .filter(|times| times.count > 0)
    }
}

impl RequestTimes {
    /// Adds the lines of a histogram of Prometheus; `label` names what `kind` is.
    #[allow(clippy::cast_precision_loss, reason = "a metric in seconds is a float by convention")]
    pub(super) fn render(&self, out: &mut String, name: &str, label: &str) {
        let Self { kind, count, total_seconds, .. } = self;
        let mut seen = 0;
        for bound in BUCKETS_US {
            let here = self.by_microseconds.iter().find(|bucket| bucket.at_most == Some(bound));
            seen += here.map_or(0, |bucket| bucket.count);
            let le = bound as f64 / 1e6;
            let _ =
                writeln!(out, "intarsia_{name}_bucket{{{label}=\"{kind}\",le=\"{le}\"}} {seen}");
        }
        let _ = writeln!(out, "intarsia_{name}_bucket{{{label}=\"{kind}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "intarsia_{name}_sum{{{label}=\"{kind}\"}} {total_seconds}");
        let _ = writeln!(out, "intarsia_{name}_count{{{label}=\"{kind}\"}} {count}");
    }
}

#[allow(clippy::cast_precision_loss, reason = "a sum of times")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_by_bucket_and_in_all() {
        let latency = Latency::default();
        assert_eq!(latency.times("read"), None);
        latency.observe(Duration::from_micros(7), true);
        latency.observe(Duration::from_micros(7), true);
        latency.observe(Duration::from_secs(2), false);
        let times = latency.times("read").unwrap();
        assert_eq!((times.kind, times.count, times.errors), ("read", 3, 1));
        assert!((times.total_seconds - 2.000_014).abs() < 1e-9);
        let buckets: Vec<_> = times.by_microseconds.iter().map(|b| (b.at_most, b.count)).collect();
        assert_eq!(buckets, [(Some(10), 2), (None, 1)]);
    }
}
