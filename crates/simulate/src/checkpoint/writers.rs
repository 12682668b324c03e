//! Jobs that write checkpoints to one storage at the same time and share its bandwidth equally.

use intarsia_des::{Agenda, Alarm, CustomerId, InvalidParameter, SharedServer, Span};

use super::world::{Event, JobId};

/// The jobs that are writing.
pub(super) struct Writers {
    /// A second of its work is a second of the whole bandwidth.
    server: SharedServer<JobId>,
    alarm: Alarm,
}

impl Writers {
    /// Nobody writes.
    pub(super) fn new() -> Result<Self, InvalidParameter> {
        Ok(Self { server: SharedServer::new(1.0)?, alarm: Alarm::new() })
    }

    /// A job begins to write, which would take it the time `alone`.
    pub(super) fn enter(
        &mut self,
        job: JobId,
        alone: Span,
        agenda: &mut Agenda<Event>,
    ) -> Option<CustomerId> {
        let writer = self.server.enter(job, alone.as_secs_f64(), agenda.now()).ok();
        self.set_alarm(agenda);
        writer
    }

    /// A job ends to write before it is done.
    pub(super) fn leave(&mut self, writer: CustomerId, agenda: &mut Agenda<Event>) {
        self.server.abandon(writer, agenda.now());
        self.set_alarm(agenda);
    }

    /// The jobs that are done by now.
    pub(super) fn done(&mut self, agenda: &mut Agenda<Event>) -> Vec<JobId> {
        let done = std::iter::from_fn(|| self.server.complete(agenda.now())).collect();
        self.set_alarm(agenda);
        done
    }

    fn set_alarm(&mut self, agenda: &mut Agenda<Event>) {
        self.alarm.set(self.server.next_completion(), Event::CheckpointsWritten, agenda);
    }
}
