//! Virtual time: whole nanoseconds, so that equal instants are equal and order never depends on
//! rounding.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

const NANOS_PER_SECOND: f64 = 1e9;

/// An instant of virtual time, in nanoseconds since the start of the simulation.
///
/// Reaches 584 years; what lies beyond saturates at [`Time::NEVER`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A length of virtual time, in nanoseconds; saturates like [`Time`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Time {
    /// The start of the simulation.
    pub const ZERO: Self = Self(0);
    /// Later than any event that can happen.
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant `nanos` after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND
    }

    /// The time since `earlier`, zero when that is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any simulation.
    pub const FOREVER: Self = Self(u64::MAX);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of `secs` seconds, rounded to nanoseconds. Negative and NaN give zero, what is too
    /// long gives [`Span::FOREVER`].
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float to integer cast saturates, which is what is promised"
    )]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * NANOS_PER_SECOND).round() as u64)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9} s", self.as_secs_f64())
    }
}
