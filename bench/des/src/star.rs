//! Hosts around a switch: each sends to a random other one, then computes, over and over.
//!
//! The same as `peers/star_simgrid.cpp`: every host has a link up and a link down, and a transfer and a
//! computation are an activity each.

use intarsia_des::{
    Agenda, Alarm, Distribution, Fluid, InvalidParameter, LinkId, Model, Simulation, Span, Streams,
    Time,
};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::measure::{Measurement, Stopwatch, resident_bytes};

const BYTES_PER_SECOND: f64 = 1e9;
const MEAN_BYTES: f64 = 1e8;
const MEAN_SECONDS: f64 = 0.1;

struct Star {
    network: Fluid<u32>,
    up: Vec<LinkId>,
    down: Vec<LinkId>,
    alarm: Alarm,
    bytes: Distribution,
    seconds: Distribution,
    rng: Xoshiro256PlusPlus,
    activities: u64,
}

#[derive(Clone, Copy)]
enum Event {
    Computed(u32),
    Ring,
}

impl Model for Star {
    type Event = Event;

    fn handle(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        match event {
            Event::Computed(host) => {
                self.activities += 1;
                self.send(host, agenda.now());
            }
            Event::Ring => {
                while let Some(host) = self.network.complete(agenda.now()) {
                    self.activities += 1;
                    let seconds = self.seconds.sample(&mut self.rng);
                    agenda.after(Span::from_secs_f64(seconds), Event::Computed(host));
                }
            }
        }
        self.alarm.set(self.network.next_completion(), Event::Ring, agenda);
    }
}

impl Star {
    fn new(hosts: u32, seed: u64) -> Result<Self, InvalidParameter> {
        let mut network = Fluid::new();
        let mut links = || (0..hosts).map(|_| network.add_link(BYTES_PER_SECOND)).collect();
        let (up, down): (Result<_, _>, Result<_, _>) = (links(), links());
        Ok(Self {
            up: up?,
            down: down?,
            network,
            alarm: Alarm::new(),
            bytes: Distribution::exponential(MEAN_BYTES)?,
            seconds: Distribution::exponential(MEAN_SECONDS)?,
            rng: Streams::new(seed).stream("star", 0),
            activities: 0,
        })
    }

    fn send(&mut self, host: u32, now: Time) {
        let sender = host as usize;
        let other = self.rng.random_range(0..self.up.len() - 1);
        let receiver = if other >= sender { other + 1 } else { other };
        let path = [self.up[sender], self.down[receiver]];
        let bytes = 1.0 + self.bytes.sample(&mut self.rng);
        let started = self.network.start(host, &path, bytes, f64::INFINITY, now);
        debug_assert!(started.is_ok(), "the sizes are positive and the links are its own");
    }
}

pub(crate) fn run(hosts: u32, activities: u64, seed: u64) -> Result<Measurement, InvalidParameter> {
    let before_bytes = resident_bytes();
    let mut simulation = Simulation::new(Star::new(hosts, seed)?);
    let agenda = simulation.parts_mut().1;
    (0..hosts).for_each(|host| agenda.at(Time::ZERO, Event::Computed(host)));
    run_activities(&mut simulation, activities / 5);
    let warm_activities = simulation.model().activities;
    let stopwatch = Stopwatch::start();
    run_activities(&mut simulation, warm_activities + activities);
    let measured = simulation.model().activities - warm_activities;
    Ok(stopwatch.stop(measured, hosts, before_bytes))
}

/// Runs until there were so many activities, in steps of a mean computation.
fn run_activities(simulation: &mut Simulation<Star>, activities: u64) {
    let mut horizon = simulation.now();
    while simulation.model().activities < activities {
        horizon = horizon + Span::from_secs_f64(MEAN_SECONDS);
        simulation.run_until(horizon);
    }
}
