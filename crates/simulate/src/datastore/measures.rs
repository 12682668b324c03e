//! What was seen of the requests.

use serde::Serialize;

/// Latencies in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Requests.
    pub n: u64,
    /// Their mean.
    pub mean_ms: f64,
    /// Their standard deviation.
    pub sd_ms: f64,
    /// Half of them took no longer.
    pub p50_ms: f64,
    /// 95 % of them took no longer.
    pub p95_ms: f64,
    /// 99 % of them took no longer.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

/// What one stream saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamOutcome {
    /// Its latencies.
    #[serde(flatten)]
    pub latency: Latency,
    /// Requests a second.
    pub iops: f64,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traced {
    /// Seconds since measuring started.
    pub at_s: f64,
    /// The stream.
    pub stream: usize,
    /// Whether it wrote.
    pub is_write: bool,
    /// Its address.
    pub start: u64,
    /// Its size.
    pub bytes: u64,
    /// Its latency.
    pub ms: f64,
}

/// What a run found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// All requests together.
    #[serde(flatten)]
    pub latency: Latency,
    /// Requests a second, all together.
    pub iops: f64,
    /// Simulated seconds that were measured.
    pub seconds: f64,
    /// The share of requests that start further from the end of the one before, in order of arrival,
    /// than ten mean sizes.
    pub random_share: f64,
    /// The share that follow one of the same stream and start elsewhere.
    pub seek_within_share: f64,
    /// The share that follow one of another stream.
    pub seek_between_share: f64,
    /// Pages that a flash drive wrote for each that it was given.
    pub write_amplification: Option<f64>,
    /// Each stream, in order.
    pub streams: Vec<StreamOutcome>,
    /// The first requests, one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<Traced>,
}

impl Latency {
    /// Of these, in milliseconds; they are sorted.
    pub(super) fn of(values: &mut [f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        // The smallest value that so many per cent do not exceed.
        let rank = |percent: usize| values[(n * percent).div_ceil(100).clamp(1, n) - 1];
        Self {
            n: n as u64,
            mean_ms: mean,
            sd_ms: (squares / n as f64).sqrt(),
            p50_ms: rank(50),
            p95_ms: rank(95),
            p99_ms: rank(99),
            max_ms: values[n - 1],
        }
    }
}

/// Where requests start, compared with where the one before ended.
#[derive(Debug, Default)]
pub(super) struct Seeks {
    before: Option<(usize, u64)>,
    seen: u64,
    bytes: u64,
    far: u64,
    within: u64,
    between: u64,
}

impl Seeks {
    pub(super) fn arrive(&mut self, stream: usize, start: u64, bytes: u64) {
        self.bytes += bytes;
        self.seen += 1;
        if let Some((other, end)) = self.before {
            let mean = self.bytes / self.seen;
            self.far += u64::from(start.abs_diff(end) > 10 * mean);
            self.between += u64::from(other != stream);
            self.within += u64::from(other == stream && start != end);
        }
        self.before = Some((stream, start + bytes));
    }

    /// Shares: far, within a stream, between streams.
    pub(super) fn shares(&self) -> (f64, f64, f64) {
        let pairs = self.seen.saturating_sub(1).max(1) as f64;
        (self.far as f64 / pairs, self.within as f64 / pairs, self.between as f64 / pairs)
    }

    pub(super) fn restart(&mut self) {
        *self = Self { before: self.before, ..Self::default() };
    }
}
