//! First come, first served, in its two forms; and the alarm.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;

use intarsia_des::{Agenda, Alarm, Model, Server, Simulation, Span, Time, Timetable};
use proptest::collection::vec;
use proptest::prelude::*;

fn nanos(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

struct Queue {
    server: Server<usize>,
    service: Vec<Span>,
    ends: BTreeMap<usize, Time>,
}

enum Event {
    Arrival(usize),
    End(usize),
}

impl Model for Queue {
    type Event = Event;

    fn handle(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        let started = match event {
            Event::Arrival(customer) => self.server.arrive(customer, agenda.now()),
            Event::End(customer) => {
                self.ends.insert(customer, agenda.now());
                self.server.depart(agenda.now())
            }
        };
        if let Some(customer) = started {
            agenda.after(self.service[customer], Event::End(customer));
        }
    }
}

proptest! {
    #[test]
    fn a_queue_and_a_timetable_agree(
        servers in 1..4_u32,
        customers in vec((0..50_u64, 0..40_u64), 1..100),
    ) {
        let service = customers.iter().map(|(_, length)| Span::from_nanos(*length)).collect();
        let server = Server::new(servers).unwrap();
        let mut simulation = Simulation::new(Queue { server, service, ends: BTreeMap::new() });
        let mut timetable = Timetable::new(servers).unwrap();
        let (mut arrival, mut ends) = (0, BTreeMap::new());
        for (customer, (gap, length)) in customers.iter().enumerate() {
            arrival += gap;
            simulation.parts_mut().1.at(nanos(arrival), Event::Arrival(customer));
            let booking = timetable.book(nanos(arrival), Span::from_nanos(*length));
            prop_assert!(booking.start >= nanos(arrival));
            ends.insert(customer, booking.end);
        }
        simulation.run();
        prop_assert_eq!(&simulation.model().ends, &ends);
        let worked = simulation.model().server.busy().integral(simulation.now());
        prop_assert!((worked - timetable.booked().as_secs_f64()).abs() < 1e-15);
        prop_assert_eq!(simulation.model().server.waits_seconds().count(), ends.len() as u64);
    }
}

#[test]
fn who_abandons_is_not_served() {
    let mut server = Server::new(1).unwrap();
    assert_eq!(server.arrive('a', nanos(0)), Some('a'));
    assert_eq!(server.arrive('b', nanos(1)), None);
    assert_eq!(server.arrive('c', nanos(2)), None);
    assert_eq!(server.longest_wait(nanos(5)), Span::from_nanos(4));
    assert_eq!(server.abandon(nanos(6), |name| *name == 'b'), Some('b'));
    assert_eq!(server.abandon(nanos(6), |name| *name == 'b'), None);
    assert_eq!(server.depart(nanos(8)), Some('c'));
    assert_eq!(server.depart(nanos(10)), None);
    assert_eq!(server.depart(nanos(10)), None, "nobody is left");
    assert_eq!(server.busy().value(), 0.0);
    assert_eq!(server.utilisation(nanos(20)), 0.5);
}

#[test]
fn no_server_is_refused() {
    let error = Server::<()>::new(0).unwrap_err();
    assert_eq!(error.to_string(), "server: servers must be at least one, not 0");
    assert!(Timetable::new(0).is_err());
}

struct Rings(Vec<u64>);

impl Model for Rings {
    type Event = ();

    fn handle(&mut self, (): (), agenda: &mut Agenda<()>) {
        self.0.push(agenda.now().as_nanos());
    }
}

#[test]
fn an_alarm_rings_once_at_the_time_that_was_set_last() {
    let mut alarm = Alarm::new();
    let mut simulation = Simulation::new(Rings(Vec::new()));
    let agenda = simulation.parts_mut().1;
    for time in [30, 10, 20, 20] {
        alarm.set(Some(nanos(time)), (), agenda);
        assert_eq!(agenda.pending(), 1);
    }
    simulation.run();
    let agenda = simulation.parts_mut().1;
    // Again at the instant at which it rang.
    alarm.set(Some(nanos(20)), (), agenda);
    simulation.run();
    alarm.set(Some(nanos(40)), (), simulation.parts_mut().1);
    alarm.set(None, (), simulation.parts_mut().1);
    simulation.run();
    assert_eq!(simulation.model().0, [20, 20]);
}
