//! Running a simulation in parts, and looking at it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use intarsia_des::{Agenda, Model, Simulation, Span, Time};

/// Counts to ten, one count a nanosecond; asks to stop at some count.
struct Counter {
    count: u32,
    stops_at: u32,
}

struct Count;

impl Model for Counter {
    type Event = Count;

    fn handle(&mut self, _: Count, agenda: &mut Agenda<Count>) {
        self.count += 1;
        if self.count < 10 {
            agenda.after(Span::from_nanos(1), Count);
        }
        if self.count == self.stops_at {
            agenda.stop();
        }
    }
}

fn counter(stops_at: u32) -> Simulation<Counter> {
    let mut simulation = Simulation::new(Counter { count: 0, stops_at });
    simulation.parts_mut().1.at(Time::from_nanos(1), Count);
    simulation
}

#[test]
fn a_step_handles_one_event() {
    let mut simulation = counter(0);
    assert!(simulation.step());
    assert_eq!((simulation.model().count, simulation.now()), (1, Time::from_nanos(1)));
    for _ in 0..9 {
        assert!(simulation.step());
    }
    assert!(!simulation.step(), "nothing is pending");
    assert_eq!(simulation.handled(), 10);
}

#[test]
fn a_handler_stops_the_run_and_the_next_run_goes_on() {
    let mut simulation = counter(4);
    simulation.run();
    assert_eq!(simulation.model().count, 4);
    simulation.run();
    assert_eq!(simulation.model().count, 10);
    // A stop that no run heard does not end a later one.
    let mut simulation = counter(1);
    assert!(simulation.step());
    simulation.run();
    assert_eq!(simulation.model().count, 10);
}

#[test]
fn so_many_events_at_most() {
    let mut simulation = counter(7);
    let horizon = Time::from_nanos(9);
    assert!(simulation.run_some(horizon, 3));
    assert_eq!(simulation.model().count, 3);
    assert!(simulation.run_some(horizon, 100), "it was stopped at seven");
    assert_eq!(simulation.model().count, 7);
    assert!(!simulation.run_some(horizon, 100), "the tenth is later than the horizon");
    assert_eq!(simulation.model().count, 9);
}

#[test]
fn an_observer_sees_each_event_and_the_model_before_it() {
    let mut simulation = counter(3);
    let mut seen = Vec::new();
    simulation
        .run_observed(Time::NEVER, |time, _, model| seen.push((time.as_nanos(), model.count)));
    assert_eq!(seen, [(1, 0), (2, 1), (3, 2)]);
}
