//! The agenda against a sorted list, over random histories.

use proptest::collection::vec;
use proptest::prelude::*;
use rand::{Rng, RngExt};

use super::{Agenda, STALE_EVENTS};
use crate::queue::Ticket;
use crate::random::Streams;
use crate::time::{Span, Time};

/// How far ahead events are scheduled.
#[derive(Clone, Copy, Debug)]
enum Delays {
    Zero,
    Equal,
    Few,
    Spread,
    Bimodal,
    Huge,
    Never,
}

impl Delays {
    fn draw(self, rng: &mut impl Rng) -> Span {
        Span::from_nanos(match self {
            Self::Zero => 0,
            Self::Equal => 1_000,
            Self::Few => rng.random_range(0..4),
            Self::Spread => rng.random_range(0..1_000_000_000),
            Self::Bimodal if rng.random() => rng.random_range(0..100),
            Self::Bimodal => (1 << 40) + rng.random_range(0..100),
            // Every magnitude alike, up to where the clock saturates.
            Self::Huge => rng.random::<u64>() >> rng.random_range(0..64),
            Self::Never => u64::MAX,
        })
    }
}

#[derive(Clone, Debug)]
enum Step {
    Schedule { delays: Delays, count: usize, cancellable: bool },
    Cancel { count: usize },
    Pop { count: usize },
    PopUntil { after: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    use Delays::{Bimodal, Equal, Few, Huge, Never, Spread, Zero};
    let delays =
        prop::sample::select(vec![Zero, Equal, Few, Spread, Bimodal, Huge, Never, Spread, Huge]);
    let count = prop_oneof![4 => 1..20_usize, 1 => 500..3_000_usize];
    let step = prop_oneof![
        4 => (delays, count.clone(), any::<bool>()).prop_map(|(delays, count, cancellable)| {
            Step::Schedule { delays, count, cancellable }
        }),
        1 => count.clone().prop_map(|count| Step::Cancel { count }),
        3 => count.prop_map(|count| Step::Pop { count }),
        1 => (0..2_000_000_000_u64).prop_map(|after| Step::PopUntil { after }),
    ];
    vec(step, 1..40)
}

/// The agenda and what it should be: pending events sorted by time and number, latest first.
struct Pair {
    agenda: Agenda<u64>,
    sorted: Vec<(Time, u64)>,
    tickets: Vec<(Ticket, u64)>,
    next: u64,
}

impl Pair {
    fn new() -> Self {
        Self { agenda: Agenda::new(), sorted: Vec::new(), tickets: Vec::new(), next: 0 }
    }

    fn schedule(&mut self, time: Time, cancellable: bool) {
        let event = self.next;
        self.next += 1;
        if cancellable {
            self.tickets.push((self.agenda.cancellable(time, event), event));
        } else {
            self.agenda.at(time, event);
        }
        if time < Time::NEVER {
            let place = self.sorted.partition_point(|other| *other > (time, event));
            self.sorted.insert(place, (time, event));
        }
    }

    fn cancel(&mut self, index: usize) {
        let (ticket, event) = self.tickets[index % self.tickets.len()];
        let place = self.sorted.iter().position(|(_, other)| *other == event);
        if let Some(place) = place {
            self.sorted.remove(place);
        }
        assert_eq!(self.agenda.cancel(ticket), place.is_some());
    }

    fn pop_until(&mut self, limit: Time) -> bool {
        let expected = self.sorted.pop_if(|(time, _)| *time <= limit);
        assert_eq!(self.agenda.pop_until(limit), expected.map(|(_, event)| event));
        if let Some((time, _)) = expected {
            assert_eq!(self.agenda.now(), time);
        }
        expected.is_some()
    }

    fn apply(&mut self, step: &Step, rng: &mut impl Rng) {
        match *step {
            Step::Schedule { delays, count, cancellable } => {
                for _ in 0..count {
                    self.schedule(self.agenda.now() + delays.draw(rng), cancellable);
                }
            }
            Step::Cancel { count } if !self.tickets.is_empty() => {
                (0..count).for_each(|_| self.cancel(rng.random_range(0..usize::MAX)));
            }
            Step::Cancel { .. } => {}
            Step::Pop { count } => {
                (0..count).for_each(|_| _ = self.pop_until(Time::NEVER));
            }
            Step::PopUntil { after } => {
                let limit = self.agenda.now() + Span::from_nanos(after);
                while self.pop_until(limit) {}
            }
        }
        assert_eq!(self.agenda.pending(), self.sorted.len());
        assert!(self.agenda.stale <= self.agenda.pending() + STALE_EVENTS);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn events_happen_in_order_of_time_and_insertion(steps in steps(), seed in any::<u64>()) {
        let mut rng = Streams::new(seed).stream("delays", 0);
        let mut pair = Pair::new();
        steps.iter().for_each(|step| pair.apply(step, &mut rng));
        while pair.pop_until(Time::NEVER) {}
        prop_assert_eq!(pair.agenda.pending(), 0);
    }
}

#[test]
fn a_past_time_means_now() {
    let mut agenda = Agenda::new();
    agenda.at(Time::from_nanos(10), 'a');
    assert_eq!(agenda.pop_until(Time::NEVER), Some('a'));
    agenda.at(Time::from_nanos(3), 'b');
    assert_eq!((agenda.pop_until(Time::NEVER), agenda.now()), (Some('b'), Time::from_nanos(10)));
}

/// Cancelled events let the queue look ahead of the clock; what is scheduled before that comes first.
#[test]
fn scheduling_before_the_opened_bucket_between_two_runs_keeps_the_order() {
    let mut pair = Pair::new();
    let time = |nanos: u64| Time::from_nanos(1_000_000 + nanos);
    (0..5_000).for_each(|i| pair.schedule(time(100 * i), true));
    (0..40).for_each(|i| pair.cancel(i));
    assert!(!pair.pop_until(time(3_900)));
    assert_eq!(pair.agenda.now(), Time::ZERO);
    (0..5_000).for_each(|i| pair.schedule(Time::from_nanos(500_000 + i % 300), false));
    while pair.pop_until(Time::NEVER) {}
    assert_eq!(pair.agenda.pending(), 0);
}

#[test]
fn cancelled_events_do_not_pile_up() {
    let mut agenda = Agenda::new();
    for round in 0..100_000 {
        let ticket = agenda.cancellable(Time::from_nanos(1_000_000_000 + round), ());
        assert!(agenda.cancel(ticket));
        assert!(agenda.queue.len() <= STALE_EVENTS + 1);
    }
}

/// Found by the random histories: the events that happen make the cancelled ones the greater part, too.
#[test]
fn cancelled_events_are_swept_as_the_pending_ones_happen() {
    let mut pair = Pair::new();
    (0..4_000).for_each(|i| pair.schedule(Time::from_nanos(100 * i), true));
    (2_000..4_000).for_each(|i| pair.cancel(i));
    for _ in 0..2_000 {
        assert!(pair.pop_until(Time::NEVER));
        assert!(pair.agenda.stale <= pair.agenda.pending() + STALE_EVENTS);
    }
}
