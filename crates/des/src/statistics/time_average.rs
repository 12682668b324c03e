//! Averages of a value that changes at events.

use crate::time::Time;

/// The average over time of a value that is constant between events: jobs in a queue, busy servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeAverage {
    start: Time,
    changed: Time,
    value: f64,
    max: f64,
    /// Value times seconds until the last change.
    integral: f64,
}

impl TimeAverage {
    /// A value that is `value` from `start` on.
    pub fn new(start: Time, value: f64) -> Self {
        Self { start, changed: start, value, max: value, integral: 0.0 }
    }

    /// The value becomes `value` at `now`, which is not before the last change.
    pub fn set(&mut self, now: Time, value: f64) {
        self.integral = self.integral(now);
        self.changed = self.changed.max(now);
        self.value = value;
        self.max = self.max.max(value);
    }

    /// The value grows by `amount` at `now`.
    pub fn add(&mut self, now: Time, amount: f64) {
        self.set(now, self.value + amount);
    }

    /// Forgets what was before `now`: the end of a warm-up.
    pub fn restart(&mut self, now: Time) {
        *self = Self::new(now, self.value);
    }

    /// The present value.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The largest value so far.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The value integrated from the start to `now`, in its unit times seconds.
    pub fn integral(&self, now: Time) -> f64 {
        self.integral + self.value * now.since(self.changed).as_secs_f64()
    }

    /// The average from the start to `now`; the present value when no time has passed.
    pub fn mean(&self, now: Time) -> f64 {
        let seconds = now.since(self.start).as_secs_f64();
        if seconds > 0.0 { self.integral(now) / seconds } else { self.value }
    }
}
