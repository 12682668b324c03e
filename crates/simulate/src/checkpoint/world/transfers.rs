//! What jobs move through shared storages.

use intarsia_des::Agenda;
use rand::Rng;

use super::{Event, Job, JobId, World};
use crate::checkpoint::shared_storage::Purpose;

impl<R: Rng> World<'_, R> {
    /// Begins the transfers that the job's present step wants and that are not under way yet.
    pub(super) fn enter_storages(&mut self, id: JobId, job: &mut Job, agenda: &mut Agenda<Event>) {
        let (Some(steps), Some(scheme)) = (&job.steps, &job.plan.scheme) else { return };
        for purpose in [Purpose::Write, Purpose::Flush] {
            if job.transfers.iter().any(|transfer| transfer.purpose == purpose) {
                continue;
            }
            if let Some((storage, alone)) = steps.wanted(purpose, scheme) {
                job.transfers.extend(self.storages.enter(storage, id, purpose, alone, agenda));
            }
        }
    }

    /// Ends the job's transfers before they are done.
    pub(super) fn leave_storages(&mut self, job: &mut Job, agenda: &mut Agenda<Event>) {
        for transfer in job.transfers.drain(..) {
            self.storages.leave(transfer, agenda);
        }
    }

    pub(super) fn read_begins(&mut self, id: JobId, agenda: &mut Agenda<Event>) {
        let Some(mut job) = self.take(id) else { return };
        job.next = None;
        let wanted = job.restore_level().and_then(|level| {
            let storage = level.sharing.restore?;
            Some((storage, level.restore))
        });
        if let Some((storage, alone)) = wanted {
            let transfer = self.storages.enter(storage, id, Purpose::Restore, alone, agenda);
            job.transfers.extend(transfer);
        }
        self.put(id, job);
    }

    pub(super) fn transfers_end(&mut self, storage: usize, agenda: &mut Agenda<Event>) {
        for (id, purpose) in self.storages.done(storage, agenda) {
            self.transfer_ends(id, purpose, agenda);
        }
    }

    fn transfer_ends(&mut self, id: JobId, purpose: Purpose, agenda: &mut Agenda<Event>) {
        let Some(mut job) = self.take(id) else { return };
        let under_way = job.transfers.iter().position(|transfer| transfer.purpose == purpose);
        let Some(index) = under_way else {
            // The job went on without it when another transfer ended at the same moment.
            return self.put(id, job);
        };
        job.transfers.swap_remove(index);
        if purpose == Purpose::Restore {
            self.put(id, job);
            return self.nodes_reboot(id, agenda);
        }
        if let Some(next) = job.next.take() {
            agenda.cancel(next);
        }
        if let Some(steps) = &mut job.steps {
            steps.complete(purpose, job.plan.levels(), agenda.now());
        }
        self.put(id, job);
        self.step_ends(id, agenda);
    }
}
