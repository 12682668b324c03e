//! CPU time of this process and of others.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The unit of the times in `/proc/PID/stat`, the same on every Linux that user programs see.
const TICK: Duration = Duration::from_millis(10);

/// User and system time of this process with all its threads.
pub(crate) fn own() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// User and system time of other processes; one that is gone counts as zero.
pub(crate) fn of(pids: &[u32]) -> Duration {
    pids.iter()
        .filter_map(|pid| ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .sum()
}

/// Fields 14 and 15 of `/proc/PID/stat`; the name before them may hold spaces and parentheses.
fn ticks(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let user: u32 = fields.get(11)?.parse().ok()?;
    let system: u32 = fields.get(12)?.parse().ok()?;
    Some(TICK * (user + system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194304 100 0 0 0 30 12 0 0 20 0 1 0 5 0 0";
        assert_eq!(ticks(stat), Some(Duration::from_millis(420)));
    }
}
