//! The workload on the simplest sequential kernel there is: what a binary heap alone can do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use intarsia_des::{Span, Time};

use crate::measure::{Measurement, Stopwatch, resident_bytes};
use crate::workload::{Entities, Workload};

struct Loop {
    entities: Entities,
    queue: BinaryHeap<Reverse<(Time, u64, u32)>>,
    sequence: u64,
}

impl Loop {
    fn push(&mut self, time: Time, entity: u32) {
        self.queue.push(Reverse((time, self.sequence, entity)));
        self.sequence += 1;
    }

    fn run_until(&mut self, horizon: Time) -> u64 {
        let mut handled = 0;
        while let Some(Reverse((time, _, entity))) = self.queue.pop() {
            if time > horizon {
                self.push(time, entity);
                break;
            }
            handled += 1;
            let (delay, receiver) = self.entities.visit(entity);
            self.push(time + delay, receiver);
        }
        handled
    }
}

pub(crate) fn run(workload: &Workload) -> Measurement {
    let before_bytes = resident_bytes();
    let mut kernel = Loop { entities: workload.build(), queue: BinaryHeap::new(), sequence: 0 };
    for entity in 0..workload.pending() {
        let (delay, _): (Span, _) = kernel.entities.visit(entity);
        kernel.push(Time::ZERO + delay, entity);
    }
    let start = Time::ZERO + workload.warm_up();
    kernel.run_until(start);
    let stopwatch = Stopwatch::start();
    let events = kernel.run_until(start + workload.measured());
    stopwatch.stop(events, workload.pending(), before_bytes)
}
