//! Managers, tiers of storage hosts, clients: servers with one queue each, first come, first served.

use intarsia_des::{Agenda, Span, Time, Timetable};

use super::Event;
use super::burst::Bucket;
use super::cache::Cache;
use super::crowd::{Crowd, Then};
use super::energy::Busy;
use super::media::Way;
use super::place::Spot;
use super::processors::Processors;
use super::write_back::Unwritten;
use crate::configuration::{Configuration, Roles};
use crate::profile::{Profile, Tier, Work};

/// All services of all hosts.
pub(super) struct Services {
    first_store: u32,
    managers: Vec<Timetable>,
    /// By storage host, then by tier.
    tiers: Vec<Vec<Timetable>>,
    clients: Vec<Timetable>,
    /// By host; none where each service is a queue of its own.
    crowds: Vec<Option<Crowd>>,
    /// None where each host has its own.
    processors: Option<Processors>,
    /// By tier: whether its bytes are copied by processors alone.
    in_memory: Vec<bool>,
    /// By storage host, then by tier; none where nothing takes writes in.
    unwritten: Vec<Vec<Option<Unwritten>>>,
    /// By storage host, then by tier, for reading and for writing; none where a tier has one rate.
    buckets: Vec<Vec<[Option<Bucket>; 2]>>,
    /// By host: when a tier worked.
    storage: Vec<Busy>,
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
    pub(super) fn book(&mut self, table: Option<&mut Timetable>, now: Time, seconds: f64) -> Time {
        let span = Span::from_secs_f64(seconds);
        let Some(table) = table else { return now + span };
        let booking = table.book(now, span);
        self.count(span);
        self.waited += booking.start.since(now);
        booking.end
    }

    pub(super) fn count(&mut self, busy: Span) {
        self.requests += 1;
        self.busy += busy;
    }
}

impl Services {
    pub(super) fn new(profile: &Profile, configuration: &Configuration, roles: &Roles) -> Self {
        let servers = |count: u32| Timetable::new(count.max(1)).ok();
        let tiers = || profile.tiers.iter().filter_map(|tier| servers(tier.parallel)).collect();
        let takes_in = profile.tiers.iter().any(|tier| tier.write_back.is_some());
        let crowd = |host: u32| match profile.shared_processors {
            None => Some(Crowd::new(profile.host(host).crowding?, takes_in)),
            Some(_) => None,
        };
        let unwritten = || {
            let tiers = profile.tiers.iter();
            tiers.map(|tier| tier.write_back.as_ref().map(Unwritten::new)).collect()
        };
        let buckets = || {
            let tiers = profile.tiers.iter();
            tiers.map(|tier| [Bucket::of(&tier.read), Bucket::of(&tier.write)]).collect()
        };
        Self {
            first_store: roles.stores.start,
            managers: roles
                .managers
                .clone()
                .filter_map(|_| servers(profile.manager.parallel))
                .collect(),
            tiers: roles.stores.clone().map(|_| tiers()).collect(),
            clients: roles.app.clone().filter_map(|_| servers(1)).collect(),
            crowds: (0..configuration.hosts).map(crowd).collect(),
            processors: profile.shared_processors.map(Processors::new),
            in_memory: profile.tiers.iter().map(Tier::is_memory).collect(),
            storage: vec![Busy::default(); configuration.hosts as usize],
            buckets: roles.stores.clone().map(|_| buckets()).collect(),
            unwritten: roles.stores.clone().map(|_| unwritten()).collect(),
            caches: (0..configuration.hosts)
                .map(|host| Cache::new(profile.host(host).cache_bytes))
                .collect(),
            manager: Counter::default(),
            reads: Counter::default(),
            writes: Counter::default(),
        }
    }

    /// A manager, which is on this host, works for so long; then `then` happens.
    pub(super) fn manage(
        &mut self,
        (manager, host): (usize, u32),
        seconds: f64,
        then: Then,
        agenda: &mut Agenda<Event>,
    ) {
        if self.shares_work(host) {
            self.manager.count(Span::from_secs_f64(seconds));
            return self.crowd(host, Work::Names, seconds, then, agenda);
        }
        let end = self.manager.book(self.managers.get_mut(manager), agenda.now(), seconds);
        agenda.at(end, then.event);
    }

    /// A tier reads for so long.
    pub(super) fn read(
        &mut self,
        spot: Spot,
        seconds: f64,
        then: Then,
        agenda: &mut Agenda<Event>,
    ) {
        self.at_tier(Work::Read, spot, seconds, then, agenda);
    }

    /// A tier writes for so long.
    pub(super) fn write(
        &mut self,
        spot: Spot,
        seconds: f64,
        then: Then,
        agenda: &mut Agenda<Event>,
    ) {
        self.at_tier(Work::Write, spot, seconds, then, agenda);
    }

    fn at_tier(
        &mut self,
        work: Work,
        spot: Spot,
        seconds: f64,
        then: Then,
        agenda: &mut Agenda<Event>,
    ) {
        let is_copied = self.in_memory.get(usize::from(spot.tier)).copied().unwrap_or(false);
        let is_shared = self.shares_work(spot.host) && (is_copied || !self.share_processors());
        let service = if work == Work::Read { &mut self.reads } else { &mut self.writes };
        if is_shared {
            service.count(Span::from_secs_f64(seconds));
            return self.crowd(spot.host, work, seconds, then, agenda);
        }
        let tiers = self.tiers.get_mut((spot.host - self.first_store) as usize);
        let tier = tiers.and_then(|tiers| tiers.get_mut(usize::from(spot.tier)));
        let end = service.book(tier, agenda.now(), seconds);
        self.storage[spot.host as usize].add(Span::from_secs_f64(seconds), end);
        agenda.at(end, then.event);
    }

    /// How long a writer waits whose bytes a tier has taken in.
    pub(super) fn taken_in(&mut self, spot: Spot, bytes: u64, now: Time) -> Span {
        let tiers = self.unwritten.get_mut((spot.host - self.first_store) as usize);
        let tier = tiers.and_then(|tiers| tiers.get_mut(usize::from(spot.tier)));
        tier.and_then(Option::as_mut).map_or(Span::ZERO, |tier| tier.add(bytes, now))
    }

    /// What a tier lets pass at once, if it does.
    pub(super) fn bucket(&mut self, way: Way, spot: Spot) -> Option<&mut Bucket> {
        let tiers = self.buckets.get_mut((spot.host - self.first_store) as usize)?;
        let [read, write] = tiers.get_mut(usize::from(spot.tier))?;
        if way == Way::Read { read.as_mut() } else { write.as_mut() }
    }

    /// Memory of a host is copied for so long.
    pub(super) fn copy(&mut self, host: u32, seconds: f64, then: Then, agenda: &mut Agenda<Event>) {
        if self.shares_work(host) {
            return self.crowd(host, Work::Copy, seconds, then, agenda);
        }
        agenda.after(Span::from_secs_f64(seconds), then.event);
    }

    /// The client of a host works for so long.
    pub(super) fn client(
        &mut self,
        host: u32,
        seconds: f64,
        then: Then,
        agenda: &mut Agenda<Event>,
    ) {
        if self.shares_work(host) {
            return self.crowd(host, Work::Names, seconds, then, agenda);
        }
        let (span, now) = (Span::from_secs_f64(seconds), agenda.now());
        let client = self.clients.get_mut(host as usize);
        agenda.at(client.map_or(now + span, |client| client.book(now, span).end), then.event);
    }

    /// Whether what a host does slows down what else is done there, instead of standing in a queue.
    fn shares_work(&self, host: u32) -> bool {
        self.share_processors() || self.crowds[host as usize].is_some()
    }

    fn crowd(
        &mut self,
        host: u32,
        work: Work,
        seconds: f64,
        then: Then,
        agenda: &mut Agenda<Event>,
    ) {
        if self.share_processors() {
            return self.work(1, seconds, then, agenda);
        }
        let Some(crowd) = &mut self.crowds[host as usize] else { return };
        crowd.enter(work, seconds, then, agenda.now());
        crowd.alarm.set(crowd.next(), Event::Crowd(host), agenda);
    }

    /// Work in the crowd of a host is done: what was to happen then does.
    pub(super) fn crowd_moves_on(&mut self, host: u32, agenda: &mut Agenda<Event>) {
        let Some(crowd) = &mut self.crowds[host as usize] else { return };
        while let Some(event) = crowd.complete(agenda.now()) {
            agenda.after(Span::ZERO, event);
        }
        crowd.alarm.set(crowd.next(), Event::Crowd(host), agenda);
    }

    /// Whether all hosts have the same processors.
    pub(super) const fn share_processors(&self) -> bool {
        self.processors.is_some()
    }

    /// So many of the processors that hosts share work for so long.
    pub(super) fn work(
        &mut self,
        width: u32,
        seconds: f64,
        then: Then,
        agenda: &mut Agenda<Event>,
    ) {
        self.at_processors(agenda, |processors, agenda| {
            processors.enter(width, seconds, then, agenda.now());
        });
    }

    /// A run wants these processors no more, whatever it was about to do on them.
    pub(super) fn stops_working(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        self.at_processors(agenda, |processors, agenda| processors.leave(run, agenda.now()));
    }

    /// Work of these processors is done: what was to happen then does.
    pub(super) fn processors_move_on(&mut self, agenda: &mut Agenda<Event>) {
        self.at_processors(agenda, |processors, agenda| {
            while let Some(event) = processors.complete(agenda.now()) {
                agenda.after(Span::ZERO, event);
            }
        });
    }

    /// Changes what these processors have to do, if hosts share any; then another piece may be the next one that is done.
    fn at_processors(
        &mut self,
        agenda: &mut Agenda<Event>,
        change: impl FnOnce(&mut Processors, &mut Agenda<Event>),
    ) {
        let Some(processors) = &mut self.processors else { return };
        change(processors, agenda);
        processors.alarm.set(processors.next(), Event::Processors, agenda);
    }

    /// How long the processors that hosts share were busy, in the mean.
    pub(super) fn processors_busy(&self) -> Option<f64> {
        self.processors.as_ref().map(Processors::busy_seconds)
    }

    /// How long a tier of a host worked.
    pub(super) fn storage_busy(&self, host: u32) -> Span {
        let crowd = self.crowds[host as usize].as_ref().map(Crowd::storage_busy);
        crowd.unwrap_or_else(|| self.storage[host as usize].total())
    }

    /// How long hosts had any work in their crowd.
    pub(super) fn crowd_busy(&self) -> impl Iterator<Item = f64> {
        self.crowds.iter().flatten().map(|crowd| crowd.busy().as_secs_f64())
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
