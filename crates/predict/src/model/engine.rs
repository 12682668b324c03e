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
    /// For how long processors are used, where hosts share them.
    pub(super) work: EngineWork,
    /// Whether tasks sleep instead of computing.
    pub(super) sleeps: bool,
    pub(super) counter: Counter,
}

/// Seconds of a processor that nothing else wants.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EngineWork {
    /// Of the engine, for a task.
    pub(super) task_seconds: f64,
    /// Of the host of a task, to start it.
    pub(super) start_seconds: f64,
}

impl EngineWork {
    fn new(described: &profile::Engine) -> Self {
        Self {
            task_seconds: described.task_processor_seconds.unwrap_or(described.task_seconds),
            start_seconds: described.start_alone_seconds.unwrap_or(described.start_seconds),
        }
    }
}

impl Engine {
    pub(super) fn new(described: Option<&profile::Engine>) -> Self {
        Self {
            queue: Timetable::new(1).ok(),
            task_seconds: described.map_or(0.0, |engine| engine.task_seconds),
            start: Span::from_secs_f64(described.map_or(0.0, |engine| engine.start_seconds)),
            work: described.map(EngineWork::new).unwrap_or_default(),
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
