//! The workload on Intarsia's event kernel.

use intarsia_des::{Agenda, Model, Simulation, Time};

use crate::measure::{Measurement, Stopwatch, resident_bytes};
use crate::workload::{Entities, Workload};

struct Phold(Entities);

impl Model for Phold {
    type Event = u32;

    fn handle(&mut self, entity: u32, agenda: &mut Agenda<u32>) {
        let (delay, receiver) = self.0.visit(entity);
        agenda.after(delay, receiver);
    }
}

pub(crate) fn run(workload: &Workload) -> Measurement {
    let before_bytes = resident_bytes();
    let mut simulation = Simulation::new(Phold(workload.build()));
    let (model, agenda) = simulation.parts_mut();
    for entity in 0..workload.pending() {
        let (delay, _) = model.0.visit(entity);
        agenda.after(delay, entity);
    }
    let start = Time::ZERO + workload.warm_up();
    simulation.run_until(start);
    let warm_events = simulation.handled();
    let stopwatch = Stopwatch::start();
    simulation.run_until(start + workload.measured());
    stopwatch.stop(simulation.handled() - warm_events, workload.pending(), before_bytes)
}
