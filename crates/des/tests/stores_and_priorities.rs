//! Priority servers against closed forms, stores against a list.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail and says what it saw"
)]

use intarsia_des::{
    Agenda, Distribution, Model, PriorityServer, Put, Simulation, Span, Store, Streams, Tally, Time,
};
use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Two kinds of customers, each a Poisson stream; services of mean 1 s.
struct Counter {
    server: PriorityServer<u32>,
    gaps: [Distribution; 2],
    service: Distribution,
    rng: Xoshiro256PlusPlus,
}

enum Event {
    Arrival(u32),
    Done,
}

impl Counter {
    fn serve(&mut self, agenda: &mut Agenda<Event>) {
        let service = Span::from_secs_f64(self.service.sample(&mut self.rng));
        agenda.after(service, Event::Done);
    }
}

impl Model for Counter {
    type Event = Event;

    fn handle(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        let started = match event {
            Event::Arrival(kind) => {
                let gap = self.gaps[kind as usize].sample(&mut self.rng);
                agenda.after(Span::from_secs_f64(gap), Event::Arrival(kind));
                self.server.arrive(kind, kind, now)
            }
            Event::Done => self.server.depart(now),
        };
        if started.is_some() {
            self.serve(agenda);
        }
    }
}

/// Cobham's formula (A. Cobham, Operations Research 2(1), 1954): with ρ the load of a kind and of those
/// before it, W₁ = R / (1 − ρ₁) and W₂ = R / ((1 − ρ₁)(1 − ρ₁ − ρ₂)), R = λ E[S²] / 2.
#[test]
fn waits_are_those_of_cobham() {
    const LOADS: [f64; 2] = [0.3, 0.4];
    for (name, service, second_moment) in [
        ("exponential", Distribution::exponential(1.0).unwrap(), 2.0),
        ("constant", Distribution::constant(1.0).unwrap(), 1.0),
    ] {
        let residual = (LOADS[0] + LOADS[1]) * second_moment / 2.0;
        let first = residual / (1.0 - LOADS[0]);
        let exact = [first, first / (1.0 - LOADS[0] - LOADS[1])];
        let mut waits = [Tally::new(), Tally::new()];
        for seed in 0..12 {
            let gaps = LOADS.map(|load| Distribution::exponential(1.0 / load).unwrap());
            let mut simulation = Simulation::new(Counter {
                server: PriorityServer::new(1).unwrap(),
                gaps,
                service: service.clone(),
                rng: Streams::new(seed).stream("counter", 0),
            });
            let agenda = simulation.parts_mut().1;
            agenda.at(Time::ZERO, Event::Arrival(0));
            agenda.at(Time::ZERO, Event::Arrival(1));
            let warm_up = Time::ZERO + Span::from_secs_f64(2e3);
            simulation.run_until(warm_up);
            simulation.parts_mut().0.server.restart_statistics(warm_up);
            simulation.run_until(Time::ZERO + Span::from_secs_f64(3e4));
            for (kind, tally) in (0..).zip(&mut waits) {
                tally.record(simulation.model().server.waits_seconds(kind).unwrap().mean());
            }
        }
        for (exact, tally) in exact.into_iter().zip(&waits) {
            let interval = tally.interval(0.999);
            println!("M/G/1 with priorities, {name}: exact {exact:.4}, simulated {interval:.4}");
            assert!(interval.contains(exact), "{name}: {exact} is outside {interval}");
            assert!(interval.half_width < 0.1 * exact, "{interval} says nothing");
        }
    }
}

#[test]
fn who_waits_may_leave() {
    let mut server = PriorityServer::new(1).unwrap();
    assert!(PriorityServer::<()>::new(0).is_err());
    assert_eq!(server.arrive('a', 3, Time::ZERO), Some('a'));
    for (customer, priority) in [('b', 2), ('c', 1), ('d', 2)] {
        assert_eq!(server.arrive(customer, priority, Time::ZERO), None);
    }
    assert_eq!(server.abandon(Time::ZERO, |customer| *customer == 'c'), Some('c'));
    assert_eq!(server.abandon(Time::ZERO, |customer| *customer == 'c'), None);
    assert_eq!(server.depart(Time::ZERO), Some('b'), "of one priority the first");
    assert_eq!(server.depart(Time::ZERO), Some('d'));
    assert_eq!((server.depart(Time::ZERO), server.busy().value()), (None, 0.0));
}

proptest! {
    /// Items come out in the order in which they were put, none is lost, and nobody waits in vain.
    #[test]
    fn a_store_is_a_queue(capacity in 0usize..4, steps in prop::collection::vec(any::<bool>(), 0..80)) {
        let mut store = Store::new(capacity);
        let (mut put, mut taken) = (0, Vec::new());
        for (number, is_put) in (0..).zip(steps) {
            let now = Time::from_nanos(number);
            if is_put {
                if let Put::Handed { item, .. } = store.put(put, number, now) {
                    taken.push(item);
                }
                put += 1;
            } else if let Some(found) = store.take(number, now) {
                taken.push(found.item);
            }
            prop_assert!(taken.iter().copied().eq(0..taken.len()));
            let level = put - taken.len();
            prop_assert_eq!(store.level().value(), level.min(capacity) as f64);
            prop_assert_eq!(store.makers(), level.saturating_sub(capacity));
            prop_assert!(store.takers() == 0 || level == 0);
        }
    }
}
