//! A volume over the network: a limit of requests and bytes, servers behind it, times that vary.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use intarsia_des::{Distribution, InvalidParameter, Span, Streams, Time};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::array::at_once;
use super::rig::Request;
use super::settings::NetworkSettings;

/// A volume and its limits.
#[derive(Debug)]
pub(super) struct Network {
    settings: NetworkSettings,
    round_trip: Distribution,
    service: Distribution,
    random: Xoshiro256PlusPlus,
    /// When the next request would be let through if nothing had been saved up.
    next_token: Time,
    link_free: Time,
    servers: BinaryHeap<Reverse<u64>>,
}

impl Network {
    pub(super) fn new(
        settings: NetworkSettings,
        streams: Streams,
    ) -> Result<Self, InvalidParameter> {
        let round_trip = Distribution::log_normal(
            (settings.round_trip_ms / 1e3).ln(),
            settings.round_trip_sigma.max(1e-9),
        )?;
        Ok(Self {
            round_trip,
            // A gamma of shape four: half as wide as its mean.
            service: Distribution::gamma(4.0, 0.25)?,
            random: streams.stream("network", 0),
            next_token: Time::ZERO,
            link_free: Time::ZERO,
            servers: (0..settings.servers).map(|_| Reverse(0)).collect(),
            settings,
        })
    }

    /// When a request that comes now is answered.
    pub(super) fn answer(&mut self, request: &Request, now: Time) -> Time {
        let admitted = self.admit(now);
        let link = request.bytes as f64 / self.settings.bytes_per_second;
        self.link_free = at_once(self.link_free.max(admitted), link);
        let mean_ms = if request.is_write { self.settings.write_ms } else { self.settings.read_ms };
        let secs = mean_ms / 1e3 * self.service.sample(&mut self.random);
        let Reverse(free) = self.servers.pop().unwrap_or(Reverse(0));
        let served = at_once(self.link_free.max(Time::from_nanos(free)), secs);
        self.servers.push(Reverse(served.as_nanos()));
        at_once(served, self.round_trip.sample(&mut self.random))
    }

    /// The token bucket, as the time at which it would be empty.
    fn admit(&mut self, now: Time) -> Time {
        let saved = Span::from_secs_f64(self.settings.burst / self.settings.iops);
        let earliest = Time::ZERO + self.next_token.since(Time::ZERO + saved);
        let admitted = now.max(earliest);
        self.next_token = at_once(self.next_token.max(now), 1.0 / self.settings.iops);
        admitted
    }
}
