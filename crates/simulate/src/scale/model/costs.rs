//! How long devices and services take.

use intarsia_des::{Distribution, Span, Streams};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::message::{Content, SERVICES};
use crate::scale::system::System;

/// Costs of requests.
pub(super) struct Costs {
    write_nanos_per_byte: f64,
    read_nanos_per_byte: f64,
    device_request: Span,
    services: [Span; SERVICES],
    /// What a call costs its caller beside all else.
    pub(super) call: Span,
    spread: Option<(Distribution, Xoshiro256PlusPlus)>,
}

impl Costs {
    pub(super) fn new(system: &System, streams: &Streams) -> Self {
        let (device, metadata) = (&system.device, &system.metadata);
        let services = [
            metadata.create_seconds,
            metadata.lookup_seconds,
            metadata.update_seconds,
            metadata.remove_seconds,
            metadata.append_seconds,
        ];
        let spread = metadata.spread.clone();
        Self {
            write_nanos_per_byte: 1e9 / device.write_bytes_per_second,
            read_nanos_per_byte: 1e9 / device.read_bytes_per_second,
            device_request: Span::from_secs_f64(device.request_seconds),
            services: services.map(Span::from_secs_f64),
            call: Span::from_secs_f64(system.call_seconds),
            spread: spread.map(|law| (law, streams.stream("service", 0))),
        }
    }

    /// The time of a request of this content, on a device that takes `slowness` times the mean.
    pub(super) fn of(&mut self, content: Content, bytes: u32, slowness: f64) -> Span {
        let device = |nanos_per_byte: f64| {
            let seconds = f64::from(bytes) * nanos_per_byte * slowness * 1e-9;
            self.device_request + Span::from_secs_f64(seconds)
        };
        match content {
            Content::Write => device(self.write_nanos_per_byte),
            Content::Read => device(self.read_nanos_per_byte),
            Content::Exchange | Content::Done | Content::Data => Span::ZERO,
            _ => {
                let mean = self.services[content as usize];
                match &mut self.spread {
                    None => mean,
                    Some((law, stream)) => {
                        Span::from_secs_f64(mean.as_secs_f64() * law.sample(stream))
                    }
                }
            }
        }
    }
}

/// How many times the mean time each device takes; empty when all are alike.
#[expect(clippy::cast_possible_truncation, reason = "a factor, for which an f32 is exact enough")]
pub(super) fn slowness(system: &System, endpoints: usize, streams: &Streams) -> Vec<f32> {
    if system.device_spread.is_none() && system.slow_share == 0.0 {
        return Vec::new();
    }
    let (mut speeds, mut slow) = (streams.stream("device", 0), streams.stream("slow", 0));
    let factor = |_| {
        let is_slow = slow.random_bool(system.slow_share);
        let spread = system.device_spread.as_ref().map_or(1.0, |law| law.sample(&mut speeds));
        (spread * if is_slow { system.slow_factor } else { 1.0 }) as f32
    };
    (0..endpoints).map(factor).collect()
}
