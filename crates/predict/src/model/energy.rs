//! How long hosts are in which state, what they draw meanwhile, and what all of it costs.
//!
//! The account is that of the thesis (equations 3.4 and 3.5): a host draws its idle power all the time, and in each further
//! state that state's power in addition, for as long as it is in it; states overlap. Every host that is paid for counts.

use intarsia_des::{Span, Time};
use serde::Serialize;

use super::World;
use crate::profile::Prices;

const SECONDS_PER_HOUR: f64 = 3600.0;
const JOULES_PER_KILOWATT_HOUR: f64 = 3.6e6;
const BYTES_PER_GIGABYTE: f64 = 1e9;

/// How long a host was in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StateSeconds {
    /// Powered: the whole run.
    pub idle: f64,
    /// All its slots computed; half as long where half of them did.
    pub compute: f64,
    /// A tier read or wrote.
    pub storage: f64,
    /// The card sent or took in.
    pub network: f64,
}

/// What a run draws.
#[derive(Clone, Debug, Serialize)]
pub struct Energy {
    /// All of it.
    pub joules: f64,
    /// The part of each state.
    pub by_state: StateJoules,
    /// How long each host was in each state.
    pub hosts: Vec<StateSeconds>,
}

/// Energy by the state of hosts, in joules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StateJoules {
    /// What they draw anyway.
    pub idle: f64,
    /// In addition, for computing.
    pub compute: f64,
    /// In addition, for storage.
    pub storage: f64,
    /// In addition, for the network.
    pub network: f64,
}

/// Times at which something was busy, each counted once; they come in the order of their beginnings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    until: Time,
    total: Span,
}

impl Busy {
    /// It was busy for so long until `end`.
    pub(super) fn add(&mut self, span: Span, end: Time) {
        self.total += span.min(end.since(self.until));
        self.until = self.until.max(end);
    }

    pub(super) const fn total(&self) -> Span {
        self.total
    }
}

impl World<'_> {
    /// How long each host was in each state of a run that took so long.
    pub(super) fn states(&self, makespan_seconds: f64) -> Vec<StateSeconds> {
        let hosts = 0..self.configuration.hosts;
        let of = |host: u32| StateSeconds {
            idle: makespan_seconds,
            compute: self.computed.get(host as usize).copied().unwrap_or(0.0),
            storage: self.services.storage_busy(host).as_secs_f64().min(makespan_seconds),
            network: self.network.either_way_busy(host).as_secs_f64().min(makespan_seconds),
        };
        hosts.map(of).collect()
    }

    /// What the run draws; nothing where it is not known of a host.
    pub(super) fn energy(&self, makespan_seconds: f64) -> Option<Energy> {
        let hosts = self.states(makespan_seconds);
        let mut by_state = StateJoules::default();
        for (number, seconds) in (0..).zip(&hosts) {
            let power = self.profile.power(number, self.configuration.frequency_mhz)?;
            by_state.idle += power.idle_watts * seconds.idle;
            by_state.compute += power.compute_watts * seconds.compute;
            by_state.storage += power.storage_watts * seconds.storage;
            by_state.network += power.network_watts * seconds.network;
        }
        let StateJoules { idle, compute, storage, network } = by_state;
        Some(Energy { joules: idle + compute + storage + network, by_state, hosts })
    }

    /// What the run costs.
    pub(super) fn money(&self, prices: &Prices, makespan_seconds: f64, joules: f64) -> f64 {
        let hours = makespan_seconds / SECONDS_PER_HOUR;
        let held: f64 = self
            .profile
            .tiers
            .iter()
            .zip(self.places.held_bytes())
            .map(|(tier, bytes)| bytes / BYTES_PER_GIGABYTE * prices.of_tier(tier.class))
            .sum();
        hours * f64::from(self.configuration.hosts) * prices.per_host_hour
            + joules / JOULES_PER_KILOWATT_HOUR * prices.per_kilowatt_hour
            + hours * held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_counts_once() {
        let at = |seconds: f64| Time::ZERO + Span::from_secs_f64(seconds);
        let mut busy = Busy::default();
        for (start, end) in [(0.0, 2.0), (1.0, 3.0), (1.0, 2.0), (5.0, 6.0)] {
            busy.add(Span::from_secs_f64(end - start), at(end));
        }
        assert!((busy.total().as_secs_f64() - 4.0).abs() < 1e-9);
    }
}
