//! Managers, tiers of storage hosts, clients: servers with one queue each, first come, first served.

use intarsia_des::{Span, Time, Timetable};

use super::cache::Cache;
use super::places::Spot;
use crate::configuration::{Configuration, Roles};
use crate::profile::Profile;

/// All services of all hosts.
pub(super) struct Services {
    first_store: u32,
    managers: Vec<Timetable>,
    /// By storage host, then by tier.
    tiers: Vec<Vec<Timetable>>,
    clients: Vec<Timetable>,
    pub(super) caches: Vec<Cache>,
    pub(super) manager: Counter,
    pub(super) reads: Counter,
    pub(super) writes: Counter,
}

/// What a kind of service did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter {
    pub(super) requests: u64,
    pub(super) busy: Span,
    pub(super) waited: Span,
}

impl Counter {
    fn book(&mut self, table: Option<&mut Timetable>, now: Time, seconds: f64) -> Time {
        let span = Span::from_secs_f64(seconds);
        let Some(table) = table else { return now + span };
        let booking = table.book(now, span);
        self.requests += 1;
        self.busy += span;
        self.waited += booking.start.since(now);
        booking.end
    }
}

impl Services {
    pub(super) fn new(profile: &Profile, configuration: &Configuration, roles: &Roles) -> Self {
        let servers = |count: u32| Timetable::new(count.max(1)).ok();
        let tiers = || profile.tiers.iter().filter_map(|tier| servers(tier.parallel)).collect();
        Self {
            first_store: roles.stores.start,
            managers: roles
                .managers
                .clone()
                .filter_map(|_| servers(profile.manager.parallel))
                .collect(),
            tiers: roles.stores.clone().map(|_| tiers()).collect(),
            clients: roles.app.clone().filter_map(|_| servers(1)).collect(),
            caches: (0..configuration.hosts)
                .map(|host| Cache::new(profile.host(host).cache_bytes))
                .collect(),
            manager: Counter::default(),
            reads: Counter::default(),
            writes: Counter::default(),
        }
    }

    /// When the manager of this number has worked for so long.
    pub(super) fn manage(&mut self, manager: usize, now: Time, seconds: f64) -> Time {
        self.manager.book(self.managers.get_mut(manager), now, seconds)
    }

    /// When a tier has read for so long.
    pub(super) fn read(&mut self, spot: Spot, now: Time, seconds: f64) -> Time {
        let tiers = self.tiers.get_mut((spot.host - self.first_store) as usize);
        let tier = tiers.and_then(|tiers| tiers.get_mut(usize::from(spot.tier)));
        self.reads.book(tier, now, seconds)
    }

    /// When a tier has written for so long.
    pub(super) fn write(&mut self, spot: Spot, now: Time, seconds: f64) -> Time {
        let tiers = self.tiers.get_mut((spot.host - self.first_store) as usize);
        let tier = tiers.and_then(|tiers| tiers.get_mut(usize::from(spot.tier)));
        self.writes.book(tier, now, seconds)
    }

    /// When the client of a host has worked for so long.
    pub(super) fn client(&mut self, host: u32, now: Time, seconds: f64) -> Time {
        let span = Span::from_secs_f64(seconds);
        let client = self.clients.get_mut(host as usize);
        client.map_or(now + span, |client| client.book(now, span).end)
    }

    /// How long each manager worked, in the mean over its servers.
    pub(super) fn manager_busy(&self) -> impl Iterator<Item = f64> {
        self.managers.iter().map(share)
    }

    /// The same for each tier of each storage host.
    pub(super) fn tier_busy(&self) -> impl Iterator<Item = f64> {
        self.tiers.iter().flatten().map(share)
    }
}

fn share(table: &Timetable) -> f64 {
    table.booked().as_secs_f64() / f64::from(table.servers())
}
