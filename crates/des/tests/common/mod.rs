//! Queueing stations under simulation, for the tests that know the answer.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail and says what it saw"
)]

use intarsia_des::{
    Agenda, Alarm, Distribution, Interval, Model, Server, SharedServer, Simulation, Span, Streams,
    Tally, Time, Timetable,
};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// How a station serves.
#[derive(Clone)]
pub(crate) enum Discipline {
    Fifo(Server<Job>),
    Booked(Timetable),
    Shared(SharedServer<Job>, Alarm),
    /// Everybody is served at once.
    Delay,
}

impl Discipline {
    pub(crate) fn fifo(servers: u32) -> Self {
        Self::Fifo(Server::new(servers).unwrap())
    }

    pub(crate) fn booked(servers: u32) -> Self {
        Self::Booked(Timetable::new(servers).unwrap())
    }

    /// One second of service a second, of which all get equal parts.
    pub(crate) fn shared() -> Self {
        Self::Shared(SharedServer::new(1.0).unwrap(), Alarm::new())
    }
}

#[derive(Clone)]
pub(crate) struct Station {
    pub(crate) discipline: Discipline,
    pub(crate) service_seconds: Distribution,
    /// Where a customer goes next, with which probability; nowhere with the rest.
    pub(crate) next: Vec<(usize, f64)>,
}

#[derive(Clone, Copy)]
pub(crate) struct Job {
    arrival: Time,
}

#[derive(Clone, Copy)]
pub(crate) enum Event {
    Arrival,
    Done { station: usize, job: Job },
    Ring { station: usize },
}

/// Stations, and customers from outside who go to the first one.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) stations: Vec<Station>,
    pub(crate) interarrival_seconds: Option<Distribution>,
    pub(crate) circulating: u32,
    pub(crate) warm_up: Span,
    pub(crate) length: Span,
}

/// What was seen at each station after the warm-up.
pub(crate) struct Observed {
    pub(crate) sojourn_seconds: Vec<Tally>,
}

struct Run {
    network: Network,
    rng: Xoshiro256PlusPlus,
    observed: Observed,
}

impl Model for Run {
    type Event = Event;

    fn handle(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        match event {
            Event::Arrival => {
                let gap = self.network.interarrival_seconds.as_ref().unwrap().sample(&mut self.rng);
                agenda.after(Span::from_secs_f64(gap), Event::Arrival);
                self.enter(0, agenda);
            }
            Event::Done { station, job } => {
                if let Discipline::Fifo(server) = &mut self.network.stations[station].discipline
                    && let Some(job) = server.depart(agenda.now())
                {
                    self.serve(station, job, agenda);
                }
                self.leave(station, job, agenda);
            }
            Event::Ring { station } => {
                while let Some(job) = self.finished(station, agenda.now()) {
                    self.leave(station, job, agenda);
                }
                self.set_alarm(station, agenda);
            }
        }
    }
}

impl Run {
    fn enter(&mut self, station: usize, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        let job = Job { arrival: now };
        let entry = &mut self.network.stations[station];
        match &mut entry.discipline {
            Discipline::Fifo(server) => {
                if let Some(job) = server.arrive(job, now) {
                    self.serve(station, job, agenda);
                }
            }
            Discipline::Booked(timetable) => {
                let service = Span::from_secs_f64(entry.service_seconds.sample(&mut self.rng));
                agenda.at(timetable.book(now, service).end, Event::Done { station, job });
            }
            Discipline::Shared(server, _) => {
                server.enter(job, entry.service_seconds.sample(&mut self.rng), now).unwrap();
                self.set_alarm(station, agenda);
            }
            Discipline::Delay => self.serve(station, job, agenda),
        }
    }

    fn serve(&mut self, station: usize, job: Job, agenda: &mut Agenda<Event>) {
        let seconds = self.network.stations[station].service_seconds.sample(&mut self.rng);
        agenda.after(Span::from_secs_f64(seconds), Event::Done { station, job });
    }

    fn finished(&mut self, station: usize, now: Time) -> Option<Job> {
        match &mut self.network.stations[station].discipline {
            Discipline::Shared(server, _) => server.complete(now),
            _ => None,
        }
    }

    fn set_alarm(&mut self, station: usize, agenda: &mut Agenda<Event>) {
        if let Discipline::Shared(server, alarm) = &mut self.network.stations[station].discipline {
            alarm.set(server.next_completion(), Event::Ring { station }, agenda);
        }
    }

    fn leave(&mut self, station: usize, job: Job, agenda: &mut Agenda<Event>) {
        if agenda.now() > Time::ZERO + self.network.warm_up {
            let sojourn = agenda.now().since(job.arrival).as_secs_f64();
            self.observed.sojourn_seconds[station].record(sojourn);
        }
        let mut chance = self.rng.random::<f64>();
        for &(next, probability) in &self.network.stations[station].next {
            if chance < probability {
                return self.enter(next, agenda);
            }
            chance -= probability;
        }
    }
}

impl Network {
    /// One replication.
    pub(crate) fn run(&self, seed: u64) -> Observed {
        let observed = Observed { sojourn_seconds: vec![Tally::new(); self.stations.len()] };
        let rng = Streams::new(seed).stream("network", 0);
        let mut simulation = Simulation::new(Run { network: self.clone(), rng, observed });
        let (run, agenda) = simulation.parts_mut();
        if self.interarrival_seconds.is_some() {
            agenda.at(Time::ZERO, Event::Arrival);
        }
        (0..self.circulating).for_each(|_| run.enter(0, agenda));
        simulation.run_until(Time::ZERO + self.warm_up + self.length);
        simulation.into_model().observed
    }

    /// The interval of a figure over replications with different seeds.
    pub(crate) fn estimate(&self, figure: impl Fn(&Observed) -> f64) -> Interval {
        (0..replications())
            .map(|seed| figure(&self.run(seed)))
            .collect::<Tally>()
            .interval(CONFIDENCE)
    }
}

/// More with `INTARSIA_TEST_LONG=1`, whose intervals are a third as wide.
fn replications() -> u64 {
    let is_long = std::env::var("INTARSIA_TEST_LONG").is_ok_and(|value| value == "1");
    if is_long { 100 } else { 12 }
}

/// Some sixty intervals are checked; with this one all of them hold in 94 of 100 sets of seeds.
const CONFIDENCE: f64 = 0.999;

/// Prints the interval and fails when the exact value is outside, or the interval is too wide to say
/// anything.
#[track_caller]
pub(crate) fn check(what: &str, exact: f64, estimate: Interval) {
    println!("{what}: exact {exact:.5}, simulated {estimate:.5} (confidence {CONFIDENCE})");
    assert!(estimate.half_width < 0.08 * exact, "{what}: the interval {estimate} is too wide");
    assert!(estimate.contains(exact), "{what}: {exact} is outside {estimate}");
}
