//! The engine hands tasks to hosts, one after the other.

use intarsia_des::{Span, Time, Timetable};

use super::services::Counter;
use crate::profile;

/// What it has to do, and has done; a task takes no time where the profile does not say how much.
#[derive(Debug)]
pub(super) struct Engine {
    queue: Option<Timetable>,
    task_seconds: f64,
    start: Span,
    /// Seconds of a processor that a task takes of the engine, and of its host to start it, where hosts share processors.
    pub(super) alone_seconds: (f64, f64),
    /// Whether tasks sleep instead of computing.
    pub(super) sleeps: bool,
    pub(super) counter: Counter,
}

impl Engine {
    pub(super) fn new(described: Option<&profile::Engine>) -> Self {
        Self {
            queue: Timetable::new(1).ok(),
            task_seconds: described.map_or(0.0, |engine| engine.task_seconds),
            start: Span::from_secs_f64(described.map_or(0.0, |engine| engine.start_seconds)),
            alone_seconds: described.map_or((0.0, 0.0), profile::Engine::alone_seconds),
            sleeps: described.is_some_and(|engine| engine.sleeps),
            counter: Counter::default(),
        }
    }

    /// How long it takes from `now`, when a task has a slot of a host, until it begins there.
    pub(super) fn hands_over(&mut self, now: Time) -> Span {
        let handed = self.counter.book(self.queue.as_mut(), now, self.task_seconds);
        handed.since(now) + self.start
    }
}
