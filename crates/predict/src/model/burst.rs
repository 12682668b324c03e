//! Devices that let so many bytes pass at once after a pause, as the disks of clouds do: token buckets.

use intarsia_des::{Span, Time};

use crate::as_float;
use crate::profile::Access;

/// What a device may let pass at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    most_bytes: f64,
    bytes: f64,
    /// What comes back while nothing is asked of the device.
    bytes_per_second: f64,
    /// By how much sooner a byte is there that passes at once.
    sooner_seconds: f64,
    busy_until: Time,
}

impl Bucket {
    /// None for a device that has one rate.
    pub(super) fn of(access: &Access) -> Option<Self> {
        let burst = access.burst.as_ref()?;
        let sooner_seconds = 1.0 / access.bytes_per_second - 1.0 / burst.bytes_per_second;
        Some(Self {
            most_bytes: as_float(burst.bytes),
            bytes: as_float(burst.bytes),
            bytes_per_second: access.bytes_per_second,
            sooner_seconds: sooner_seconds.max(0.0),
            busy_until: Time::ZERO,
        })
    }

    /// How long the device works for a request of so many bytes that takes `seconds` without a burst, `usual_bytes` of them at
    /// the usual rate.
    pub(super) fn works(&mut self, bytes: u64, usual_bytes: u64, seconds: f64, now: Time) -> f64 {
        let idle = now.since(self.busy_until.min(now)).as_secs_f64();
        self.bytes = (self.bytes + idle * self.bytes_per_second).min(self.most_bytes);
        let taken = self.bytes.min(as_float(bytes));
        self.bytes -= taken;
        let seconds = seconds - taken.min(as_float(usual_bytes)) * self.sooner_seconds;
        self.busy_until = self.busy_until.max(now) + Span::from_secs_f64(seconds);
        seconds
    }
}
