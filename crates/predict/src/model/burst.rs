//! Devices that let so many bytes pass at once after a pause, as the disks of clouds do: token buckets.

use intarsia_des::{Span, Time};

use crate::profile::Access;

/// What a device may let pass at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    most_bytes: f64,
    bytes: f64,
    /// What comes back while nothing is asked of the device.
    bytes_per_second: f64,
    busy_until: Time,
}

impl Bucket {
    /// None for a device that has one rate.
    pub(super) fn of(access: &Access) -> Option<Self> {
        let most_bytes = as_float(access.burst.as_ref()?.bytes);
        let bytes_per_second = access.bytes_per_second;
        Some(Self { most_bytes, bytes: most_bytes, bytes_per_second, busy_until: Time::ZERO })
    }

    /// A request comes; how many of its bytes pass at once.
    pub(super) fn take(&mut self, bytes: u64, now: Time) -> f64 {
        let idle = now.since(self.busy_until.min(now)).as_secs_f64();
        self.bytes = (self.bytes + idle * self.bytes_per_second).min(self.most_bytes);
        let taken = self.bytes.min(as_float(bytes));
        self.bytes -= taken;
        taken
    }

    /// The device works so long for it.
    pub(super) fn works(&mut self, seconds: f64, now: Time) {
        self.busy_until = self.busy_until.max(now) + Span::from_secs_f64(seconds);
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 bytes")]
const fn as_float(number: u64) -> f64 {
    number as f64
}
