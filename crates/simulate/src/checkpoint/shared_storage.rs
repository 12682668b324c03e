//! Storages whose bandwidth all transfers share that are under way at the same time.
//!
//! Each of n transfers gets an n-th of the bandwidth, recomputed when one begins or ends (processor
//! sharing: L. Kleinrock, "Time-shared systems: a theoretical treatment", JACM 14(2), 1967). It is the
//! usual model of a parallel file system that coordinated checkpoints of several jobs meet in.

use intarsia_des::{Agenda, Alarm, CustomerId, InvalidParameter, SharedServer, Span};

use super::world::{Event, JobId};

/// What a job moves through a shared storage; never two of the same at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A checkpoint is written while the job is blocked.
    Write,
    /// A checkpoint is transferred in the background.
    Flush,
    /// A checkpoint is read back.
    Restore,
}

/// A transfer that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) purpose: Purpose,
    storage: usize,
    customer: CustomerId,
}

/// All storages that are shared, by their numbers.
pub(super) struct SharedStorages {
    storages: Vec<SharedStorage>,
}

struct SharedStorage {
    /// A second of its work is a second of the whole bandwidth.
    server: SharedServer<(JobId, Purpose)>,
    alarm: Alarm,
}

impl SharedStorages {
    /// Storages on which nothing is under way.
    ///
    /// # Errors
    /// Never: the share of time of each is a valid rate.
    pub(super) fn new(number: usize) -> Result<Self, InvalidParameter> {
        let storage = || Ok(SharedStorage { server: SharedServer::new(1.0)?, alarm: Alarm::new() });
        Ok(Self { storages: (0..number).map(|_| storage()).collect::<Result<_, _>>()? })
    }

    /// A job begins a transfer that would take the time `alone` if there were no others.
    pub(super) fn enter(
        &mut self,
        storage: usize,
        job: JobId,
        purpose: Purpose,
        alone: Span,
        agenda: &mut Agenda<Event>,
    ) -> Option<Transfer> {
        let shared = self.storages.get_mut(storage)?;
        let customer =
            shared.server.enter((job, purpose), alone.as_secs_f64(), agenda.now()).ok()?;
        shared.set_alarm(storage, agenda);
        Some(Transfer { purpose, storage, customer })
    }

    /// A transfer ends before it is done.
    pub(super) fn leave(&mut self, transfer: Transfer, agenda: &mut Agenda<Event>) {
        if let Some(shared) = self.storages.get_mut(transfer.storage) {
            shared.server.abandon(transfer.customer, agenda.now());
            shared.set_alarm(transfer.storage, agenda);
        }
    }

    /// The transfers through `storage` that are done by now.
    pub(super) fn done(
        &mut self,
        storage: usize,
        agenda: &mut Agenda<Event>,
    ) -> Vec<(JobId, Purpose)> {
        let Some(shared) = self.storages.get_mut(storage) else { return Vec::new() };
        let done = std::iter::from_fn(|| shared.server.complete(agenda.now())).collect();
        shared.set_alarm(storage, agenda);
        done
    }
}

impl SharedStorage {
    fn set_alarm(&mut self, storage: usize, agenda: &mut Agenda<Event>) {
        self.alarm.set(self.server.next_completion(), Event::TransfersEnd(storage), agenda);
    }
}
