//! The loop: take the next event, let the model handle it.

use crate::agenda::Agenda;
use crate::time::Time;

/// What is simulated: state that changes at events and schedules further ones.
pub trait Model {
    /// What can happen. Keep it small: every pending event holds one.
    type Event;

    /// Handles `event`, which happens at `agenda.now()`.
    fn handle(&mut self, event: Self::Event, agenda: &mut Agenda<Self::Event>);
}

/// A model and its pending events.
pub struct Simulation<M: Model> {
    model: M,
    agenda: Agenda<M::Event>,
    handled: u64,
}

impl<M: Model> Simulation<M> {
    /// A simulation of `model` at time zero with nothing pending.
    pub fn new(model: M) -> Self {
        Self { model, agenda: Agenda::new(), handled: 0 }
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The model and the agenda, to schedule what happens first.
    pub fn parts_mut(&mut self) -> (&mut M, &mut Agenda<M::Event>) {
        (&mut self.model, &mut self.agenda)
    }

    /// Ends the simulation and hands the model out.
    pub fn into_model(self) -> M {
        self.model
    }

    /// The present instant.
    pub fn now(&self) -> Time {
        self.agenda.now()
    }

    /// How many events were handled.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// Runs until nothing is pending.
    pub fn run(&mut self) {
        self.run_until(Time::NEVER);
    }

    /// Handles every event up to `horizon`, that instant included; later ones stay pending.
    pub fn run_until(&mut self, horizon: Time) {
        while let Some(event) = self.agenda.pop_until(horizon) {
            self.handled += 1;
            self.model.handle(event, &mut self.agenda);
        }
    }
}
