//! The time that goes into records: the coarse clock, which is also what the kernel stamps on backing files, so that
//! both can be compared.
//!
//! Owns nothing.
//! Asks the system, or the simulation, for the time.
//! Promises that two times that are taken more than a `TICK` apart differ.

use std::time::Duration;

use intarsia_sync::coarse_simulated_now;
use intarsia_types::Timestamp;

pub(crate) fn now() -> Timestamp {
    if let Some(now) = coarse_simulated_now() {
        return now.into();
    }
    let t = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    Timestamp { secs: t.tv_sec, nanos: u32::try_from(t.tv_nsec).unwrap_or(0) }
}

/// Some kernels keep times to a tick of at most so much: what follows within it does not show in them.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// Whether what changes a file from now on gets a later time than this.
pub(crate) fn is_ticked(ctime: Timestamp) -> bool {
    intarsia_sync::system_now().duration_since(ctime.into()).is_ok_and(|age| age >= TICK)
}
