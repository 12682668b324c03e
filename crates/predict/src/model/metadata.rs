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
        let (file, host) = (message.file as usize, message.from);
        let (seconds, what) = match (request, &manager.allocate_shared) {
            (Request::Open, _) => (&manager.open, 7),
            (Request::Allocate, Some(shared)) if self.directories.is_shared(file, host, now) => {
                (shared, 15)
            }
            (Request::Allocate, _) => (&manager.allocate, 8),
            (Request::Name, _) => (&manager.commit, 14),
            (Request::Commit, _) => (&manager.commit, 9),
        };
        seconds.draw(self.draw(what, message, 0))
    }

    /// What a write has written is published: where it is summed, its host reads it once more, on processors that others want too.
    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    pub(super) fn sum_written(&mut self, message: &Message, agenda: &mut Agenda<Event>) {
        let operation =
            self.task_of(message.run).operations.get(self.running[message.run as usize].at);
        let Some(Operation::Write(extent)) = operation else { return };
        if !self.profile.client.sums_written {
            return;
        }
        let seconds = extent.size_bytes as f64 / self.profile.tiers[0].read.bytes_per_second;
        let then = Then { run: BESIDE | message.from, event: Event::DoneBeside };
        self.services.work(1, seconds, then, agenda);
    }
}
