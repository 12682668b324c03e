//! Processor sharing against its definition, and work that is neither lost nor made.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use intarsia_des::{CustomerId, SharedServer, Span, Time};
use proptest::collection::vec;
use proptest::prelude::*;

const RATE_PER_SECOND: f64 = 10.0;
const LIMIT_PER_SECOND: f64 = 3.0;

#[derive(Clone, Debug)]
enum Step {
    Enter(f64),
    Abandon(usize),
    /// Lets pass this part of the time to the next completion.
    Wait(f64),
    Complete,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let work = prop_oneof![1 => Just(0.0), 3 => Just(5.0), 6 => 0.0..100.0_f64];
    let step = prop_oneof![
        3 => work.prop_map(Step::Enter),
        1 => any::<usize>().prop_map(Step::Abandon),
        2 => (0.0..1.0_f64).prop_map(Step::Wait),
        2 => Just(Step::Complete),
    ];
    vec(step, 1..100)
}

struct Customer {
    name: usize,
    id: CustomerId,
    left: f64,
}

struct Pair {
    server: SharedServer<usize>,
    customers: Vec<Customer>,
    entered: usize,
    now: Time,
    /// Each event is rounded to a nanosecond.
    tolerance: f64,
}

impl Pair {
    fn apply(&mut self, step: &Step) {
        self.tolerance += 1e-9 * LIMIT_PER_SECOND + 1e-12;
        match step {
            Step::Enter(work) => {
                let id = self.server.enter(self.entered, *work, self.now).unwrap();
                self.customers.push(Customer { name: self.entered, id, left: *work });
                self.entered += 1;
            }
            Step::Abandon(which) if !self.customers.is_empty() => {
                let customer = self.customers.remove(which % self.customers.len());
                let (name, left) = self.server.abandon(customer.id, self.now).unwrap();
                assert_eq!(name, customer.name);
                assert!((left - customer.left).abs() <= self.tolerance);
            }
            Step::Abandon(_) => {}
            Step::Wait(part) => {
                if let Some(next) = self.server.next_completion() {
                    let nanos = next.since(self.now).as_nanos() as f64 * part;
                    self.pass(self.now + Span::from_secs_f64(nanos / 1e9));
                }
            }
            Step::Complete => _ = self.complete(),
        }
        assert_eq!(self.server.customers(), self.customers.len());
    }

    /// Time passes in which nobody comes or goes.
    fn pass(&mut self, until: Time) {
        let share = RATE_PER_SECOND / self.customers.len().max(1) as f64;
        let work = until.since(self.now).as_secs_f64() * share.min(LIMIT_PER_SECOND);
        self.customers.iter_mut().for_each(|customer| customer.left -= work);
        self.now = until;
    }

    fn complete(&mut self) -> bool {
        let Some(next) = self.server.next_completion() else { return false };
        self.pass(next);
        let least = self.customers.iter().map(|customer| customer.left).fold(f64::MAX, f64::min);
        assert!(least.abs() <= self.tolerance, "{least} is left of the one who is done");
        let mut done = 0;
        while let Some(name) = self.server.complete(self.now) {
            let place = self.customers.iter().position(|customer| customer.name == name).unwrap();
            let left = self.customers.remove(place).left;
            assert!(left.abs() <= self.tolerance, "{left} is left");
            done += 1;
        }
        assert!(done > 0);
        true
    }
}

proptest! {
    #[test]
    fn everybody_gets_an_equal_share_and_no_work_is_lost(steps in steps()) {
        let server = SharedServer::new(RATE_PER_SECOND).unwrap().with_limit(LIMIT_PER_SECOND);
        let mut pair = Pair {
            server: server.unwrap(),
            customers: Vec::new(),
            entered: 0,
            now: Time::ZERO,
            tolerance: 0.0,
        };
        steps.iter().for_each(|step| pair.apply(step));
        while pair.complete() {}
        prop_assert!(pair.customers.is_empty());
    }
}

#[test]
fn a_wrong_parameter_is_named() {
    let error = SharedServer::<()>::new(0.0).unwrap_err();
    assert_eq!(error.to_string(), "shared server: rate must be positive and finite, not 0");
    let mut server = SharedServer::new(1.0).unwrap();
    let error = server.enter((), f64::NAN, Time::ZERO).unwrap_err();
    assert_eq!(error.to_string(), "shared server: work must be finite and not negative, not NaN");
}
