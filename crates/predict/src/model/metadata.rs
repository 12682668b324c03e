//! What metadata servers take for a request, and what publishing a file brings about.

use intarsia_des::{Agenda, Time};

use super::crowd::Then;
use super::{Event, Message, Request, World};
use crate::workload::Operation;

/// What of a host's own work is done beside its runs, one piece after the other: these numbers are no run's.
const BESIDE: u32 = 1 << 31;

impl World<'_> {
    /// Seconds of a metadata server.
    pub(super) fn manager_seconds(&self, request: Request, message: &Message, now: Time) -> f64 {
        let manager = &self.profile.manager;
        let (seconds, what) = match request {
            Request::Open => (&manager.open, 7),
            Request::Allocate => match &manager.allocate_shared {
                Some(shared) if self.is_in_shared_directory(message, now) => (shared, 15),
                _ => (&manager.allocate, 8),
            },
            Request::Name => (&manager.commit, 14),
            Request::Commit => (&manager.commit, 9),
        };
        seconds.draw(self.draw(what, message, 0))
    }

    fn is_in_shared_directory(&self, message: &Message, now: Time) -> bool {
        let directories = self.directories.as_ref();
        directories.is_some_and(|all| all.is_shared(message.file as usize, message.from, now))
    }

    /// What a write has written is published: where it is summed, its host reads it once more, on processors that others want too.
    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    pub(super) fn sum_written(&mut self, message: &Message, agenda: &mut Agenda<Event>) {
        if !self.profile.client.sums_written {
            return;
        }
        let operation =
            self.task_of(message.run).operations.get(self.running[message.run as usize].at);
        let Some(Operation::Write(extent)) = operation else { return };
        let seconds = extent.size_bytes as f64 / self.profile.tiers[0].read.bytes_per_second;
        let then = Then { run: BESIDE | message.from, event: Event::DoneBeside };
        self.services.work(1, seconds, then, agenda);
    }
}
