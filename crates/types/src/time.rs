//! A point in time with nanoseconds, before or after 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Seconds and nanoseconds since 1970-01-01 UTC, as in `struct timespec`; `nanos` is below 1e9.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Timestamp {
    /// Whole seconds, rounded towards minus infinity.
    pub secs: i64,
    /// Nanoseconds after `secs`.
    pub nanos: u32,
}

impl Timestamp {
    /// The wall clock now. Callers in pure code are handed the time instead.
    #[must_use]
    pub fn now() -> Self {
        SystemTime::now().into()
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self { secs: after.as_secs().cast_signed(), nanos: after.subsec_nanos() },
            Err(e) => {
                let before = e.duration();
                let secs = before.as_secs().cast_signed().saturating_neg();
                match before.subsec_nanos() {
                    0 => Self { secs, nanos: 0 },
                    nanos => Self { secs: secs - 1, nanos: 1_000_000_000 - nanos },
                }
            }
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(t: Timestamp) -> Self {
        let whole = if t.secs >= 0 {
            UNIX_EPOCH.checked_add(Duration::from_secs(t.secs.unsigned_abs()))
        } else {
            UNIX_EPOCH.checked_sub(Duration::from_secs(t.secs.unsigned_abs()))
        };
        whole
            .and_then(|w| w.checked_add(Duration::from_nanos(u64::from(t.nanos))))
            .unwrap_or(UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_round_trip_on_both_sides_of_1970() {
        for t in [
            Timestamp { secs: 0, nanos: 0 },
            Timestamp { secs: 1_700_000_000, nanos: 123_456_789 },
            Timestamp { secs: -1, nanos: 999_999_999 },
            Timestamp { secs: -86_400, nanos: 0 },
        ] {
            assert_eq!(Timestamp::from(SystemTime::from(t)), t);
        }
    }
}
