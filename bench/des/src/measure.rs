//! What a run cost.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// One line of output.
#[derive(Serialize)]
pub(crate) struct Measurement {
    events: u64,
    seconds: f64,
    cpu_seconds: f64,
    /// Resident memory that the kernel and the entities took at most, for each pending event.
    bytes_per_pending: Option<f64>,
}

/// The clocks at the start of the measured part.
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu_seconds: f64,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { wall: Instant::now(), cpu_seconds: cpu_seconds() }
    }

    /// Ends the measured part, of `events` events; `before_bytes` were resident before the model was
    /// built.
    pub(crate) fn stop(self, events: u64, pending: u32, before_bytes: Option<u64>) -> Measurement {
        let seconds = self.wall.elapsed().as_secs_f64();
        let cpu_seconds = cpu_seconds() - self.cpu_seconds;
        let peak_bytes = status_bytes("VmHWM:");
        let grown_bytes = peak_bytes.zip(before_bytes).map(|(peak, before)| peak - before);
        let bytes_per_pending = grown_bytes.map(|bytes| bytes as f64 / f64::from(pending));
        Measurement { events, seconds, cpu_seconds, bytes_per_pending }
    }
}

/// Resident memory of this process now.
pub(crate) fn resident_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

fn status_bytes(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(kib.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
