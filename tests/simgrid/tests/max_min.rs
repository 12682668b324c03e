//! The ends of flows over shared links are those that SimGrid finds, to rounding.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail and says what it saw"
)]

use intarsia_des::{Agenda, Alarm, Fluid, LinkId, Model, Simulation, Span, Streams, Time};
use intarsia_simgrid_tests::{Flow, Scenario, SimGrid};
use rand::RngExt;
use rand::seq::IteratorRandom;

/// SimGrid counts time in floats and ends what is nearly done; we count in nanoseconds.
const RELATIVE_TOLERANCE: f64 = 1e-7;

struct Transfers {
    network: Fluid<usize>,
    links: Vec<LinkId>,
    flows: Vec<Flow>,
    alarm: Alarm,
    ends_seconds: Vec<f64>,
}

enum Event {
    Start(usize),
    Ring,
}

impl Model for Transfers {
    type Event = Event;

    fn handle(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        match event {
            Event::Start(number) => {
                let flow = &self.flows[number];
                let path: Vec<LinkId> = flow.path.iter().map(|link| self.links[*link]).collect();
                let limit = flow.limit_per_second.unwrap_or(f64::INFINITY);
                self.network.start(number, &path, f64::from(flow.bytes), limit, now).unwrap();
            }
            Event::Ring => {
                while let Some(number) = self.network.complete(now) {
                    self.ends_seconds[number] = now.as_secs_f64();
                }
            }
        }
        self.alarm.set(self.network.next_completion(), Event::Ring, agenda);
    }
}

fn our_ends_seconds(scenario: &Scenario) -> Vec<f64> {
    let mut network = Fluid::new();
    let links = scenario.links.iter().map(|capacity| network.add_link(*capacity).unwrap());
    let links = links.collect();
    let mut simulation = Simulation::new(Transfers {
        network,
        links,
        flows: scenario.flows.clone(),
        alarm: Alarm::new(),
        ends_seconds: vec![f64::NAN; scenario.flows.len()],
    });
    let agenda = simulation.parts_mut().1;
    for (number, flow) in scenario.flows.iter().enumerate() {
        agenda.at(Time::ZERO + Span::from_secs_f64(flow.start_seconds), Event::Start(number));
    }
    simulation.run();
    simulation.into_model().ends_seconds
}

fn compare(simgrid: &SimGrid, name: &str, scenarios: &[Scenario]) {
    let mut worst: f64 = 0.0;
    let mut flows = 0;
    for scenario in scenarios {
        let theirs = simgrid.ends_seconds(scenario).unwrap();
        let ours = our_ends_seconds(scenario);
        assert_eq!(ours.len(), theirs.len());
        for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            let difference = (ours - theirs).abs() / theirs;
            assert!(
                difference <= RELATIVE_TOLERANCE,
                "{name}: flow {number} ends at {ours} s, in SimGrid at {theirs} s: {scenario:?}"
            );
            worst = worst.max(difference);
        }
        flows += ours.len();
    }
    println!("{name}: {flows} flows, greatest relative difference {worst:.1e}");
}

/// Flows at random times, of random sizes, one in four with a limit of its own.
fn flows(
    count: usize,
    seed: u64,
    mut path: impl FnMut(usize, &mut Rng) -> Vec<usize>,
) -> Vec<Flow> {
    let mut rng = Streams::new(seed).stream("flows", 0);
    (0..count)
        .map(|number| Flow {
            // Some start together.
            start_seconds: f64::from(rng.random_range(0..40_u32)) / 4.0,
            bytes: rng.random_range(1..2_000_000),
            limit_per_second: rng.random_bool(0.25).then(|| rng.random_range(1e4..5e5)),
            path: path(number, &mut rng),
        })
        .collect()
}

type Rng = rand_xoshiro::Xoshiro256PlusPlus;

fn one_link() -> Vec<Scenario> {
    let scenario = |seed| Scenario { links: vec![1e6], flows: flows(50, seed, |_, _| vec![0]) };
    vec![scenario(1), scenario(2)]
}

/// One flow over all links, and one over each.
fn parking_lot() -> Vec<Scenario> {
    let scenario = |links: usize, seed| Scenario {
        links: (0..links).map(|i| 1e6 + 1e5 * i as f64).collect(),
        flows: flows(4 * links, seed, |number, _| match number % 4 {
            0 => (0..links).collect(),
            _ => vec![number % links],
        }),
    };
    vec![scenario(3, 1), scenario(8, 2), scenario(20, 3)]
}

/// Hosts with a link up and a link down around a switch, with and without a backbone that can be full.
fn star() -> Vec<Scenario> {
    let scenario = |hosts: usize, backbone: f64, seed| Scenario {
        links: (0..2 * hosts).map(|_| 1e6).chain([backbone]).collect(),
        flows: flows(5 * hosts, seed, |_, rng| {
            let ends = (0..hosts).sample(rng, 2);
            vec![2 * ends[0], 2 * hosts, 2 * ends[1] + 1]
        }),
    };
    vec![scenario(8, 3e6, 1), scenario(32, 1e9, 2), scenario(32, 1e7, 3)]
}

fn random() -> Vec<Scenario> {
    let scenario = |links: usize, count, seed| {
        let mut rng = Streams::new(seed).stream("links", 0);
        Scenario {
            links: (0..links).map(|_| rng.random_range(1e5..3e6)).collect(),
            flows: flows(count, seed, |_, rng| {
                let hops = rng.random_range(1..=links.min(5));
                (0..links).sample(rng, hops)
            }),
        }
    };
    (0..20_u32).map(|seed| scenario(3 + 2 * seed as usize, 60, seed.into())).collect()
}

/// One test, since the program is built once.
#[test]
fn flows_end_when_they_do_in_simgrid() {
    let Some(simgrid) = SimGrid::build().unwrap() else { return };
    compare(&simgrid, "one link", &one_link());
    compare(&simgrid, "parking lot", &parking_lot());
    compare(&simgrid, "star", &star());
    compare(&simgrid, "random", &random());
}
