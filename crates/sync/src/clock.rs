//! The clock.

use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use crate::simulation;

/// A moment of the monotonic clock, as [`std::time::Instant`]; in a simulation of its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(std::time::Instant);

/// Where clocks of simulations begin, in seconds since 1970.
const EPOCH_S: u64 = 1_700_000_000;

/// Zero of the clocks of all simulations of this process.
fn origin() -> std::time::Instant {
    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    *ORIGIN.get_or_init(std::time::Instant::now)
}

/// The time of day.
#[must_use]
pub fn system_now() -> SystemTime {
    match simulation::current() {
        Some(task) => SystemTime::UNIX_EPOCH + Duration::from_secs(EPOCH_S) + task.now(),
        None => SystemTime::now(),
    }
}

/// Steps of the times that file systems keep, where they are simulated.
const TICK_NS: u128 = 4_000_000;

/// The simulated time of day in steps of 4 ms, as file systems keep times; none outside of a simulation.
#[must_use]
pub fn coarse_simulated_now() -> Option<SystemTime> {
    simulation::current()?;
    let now = system_now();
    let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let beyond_ns = u64::try_from(since_1970.as_nanos() % TICK_NS).unwrap_or(0);
    Some(now - Duration::from_nanos(beyond_ns))
}

impl Instant {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        match simulation::current() {
            Some(task) => Self::of_simulation(task.now()),
            None => Self(std::time::Instant::now()),
        }
    }

    /// How long ago that was.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Self::now().saturating_duration_since(self)
    }

    /// The time from `earlier` until this; none when it was not earlier.
    #[must_use]
    pub fn duration_since(self, earlier: Self) -> Duration {
        self.0.duration_since(earlier.0)
    }

    /// As [`Self::duration_since`].
    #[must_use]
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// As [`Self::duration_since`], `None` when `earlier` is later.
    #[must_use]
    pub fn checked_duration_since(self, earlier: Self) -> Option<Duration> {
        self.0.checked_duration_since(earlier.0)
    }

    /// So much later, if that can be told.
    #[must_use]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    /// So much earlier, if that can be told.
    #[must_use]
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }

    pub(crate) const fn of_system(self) -> std::time::Instant {
        self.0
    }

    pub(crate) fn of_simulation(since_begin: Duration) -> Self {
        Self(origin() + since_begin)
    }

    /// The time since a simulation began.
    pub(crate) fn in_simulation(self) -> Duration {
        self.0.saturating_duration_since(origin())
    }
}

impl From<std::time::Instant> for Instant {
    /// A moment of the system's clock, for callers that are never simulated.
    fn from(moment: std::time::Instant) -> Self {
        Self(moment)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        Self(self.0 - duration)
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        self.0 -= duration;
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}
