//! The time that goes into records: the coarse clock, which is also what the kernel stamps on backing
//! files, so that both can be compared.

use std::time::Duration;

use intarsia_sync::{simulation, system_now};
use intarsia_types::Timestamp;

/// Of a simulated clock, which is coarse as well.
const SIMULATED_TICK_NS: u32 = 4_000_000;

pub(crate) fn now() -> Timestamp {
    if simulation::is_running() {
        let now = Timestamp::from(system_now());
        return Timestamp { nanos: now.nanos / SIMULATED_TICK_NS * SIMULATED_TICK_NS, ..now };
    }
    let t = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    Timestamp { secs: t.tv_sec, nanos: u32::try_from(t.tv_nsec).unwrap_or(0) }
}

/// Some kernels keep times to a tick of at most so much: what follows within it does not show in them.
pub(crate) const TICK: Duration = Duration::from_millis(20);
