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

    /// Handles every event up to `horizon`, that instant included; later ones stay pending. Returns
    /// early when a handler calls [`Agenda::stop`]; the next call goes on from there.
    pub fn run_until(&mut self, horizon: Time) {
        self.run_observed(horizon, |_, _, _| ());
    }

    /// Like [`run_until`](Self::run_until), but handles `most` events at most: for a progress bar, a
    /// time limit, or a look in between. Returns whether events up to `horizon` may still be pending.
    pub fn run_some(&mut self, horizon: Time, most: u64) -> bool {
        self.agenda.take_stop();
        for _ in 0..most {
            if !self.handle_next(horizon, &mut |_, _, _| ()) {
                return false;
            }
            if self.agenda.take_stop() {
                return true;
            }
        }
        true
    }

    /// Like [`run_until`](Self::run_until), and shows `observer` each event before it is handled: its
    /// time, itself, and the model as it is then. For traces and for statistics that are no business of
    /// the model.
    ///
    /// ```
    /// # use intarsia_des::{Agenda, Model, Simulation, Time};
    /// # struct Ticks;
    /// # impl Model for Ticks {
    /// #     type Event = u32;
    /// #     fn handle(&mut self, _: u32, _: &mut Agenda<u32>) {}
    /// # }
    /// let mut simulation = Simulation::new(Ticks);
    /// simulation.parts_mut().1.at(Time::from_nanos(5), 7);
    /// let mut trace = Vec::new();
    /// simulation.run_observed(Time::NEVER, |time, event, _| trace.push((time.as_nanos(), *event)));
    /// assert_eq!(trace, [(5, 7)]);
    /// ```
    pub fn run_observed(&mut self, horizon: Time, mut observer: impl FnMut(Time, &M::Event, &M)) {
        self.agenda.take_stop();
        while self.handle_next(horizon, &mut observer) && !self.agenda.take_stop() {}
    }

    /// Handles the next event and says whether there was one.
    pub fn step(&mut self) -> bool {
        self.handle_next(Time::NEVER, &mut |_, _, _| ())
    }

    fn handle_next(
        &mut self,
        horizon: Time,
        observer: &mut impl FnMut(Time, &M::Event, &M),
    ) -> bool {
        let Some(event) = self.agenda.pop_until(horizon) else { return false };
        self.handled += 1;
        observer(self.agenda.now(), &event, &self.model);
        self.model.handle(event, &mut self.agenda);
        true
    }
}
