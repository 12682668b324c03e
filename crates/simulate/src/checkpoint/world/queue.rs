//! Jobs that wait for nodes.

use std::sync::Arc;

use intarsia_des::{Agenda, Span, Time};
use rand::Rng;

use super::{Event, World};
use crate::checkpoint::plan::Plan;
use crate::checkpoint::scheduler::Reservation;
use crate::checkpoint::workload::Request;

impl<R: Rng> World<'_, R> {
    /// Starts jobs in the order of their arrival, until one has not come yet or does not fit; then
    /// those behind it that may overtake it.
    pub(super) fn start_jobs(&mut self, agenda: &mut Agenda<Event>) {
        loop {
            self.fill_queue(agenda);
            let Some(head) = self.queue.front().copied() else { return };
            if !self.start_job(head, agenda) {
                break;
            }
            self.queue.pop_front();
            let reserved = self.reserved.take();
            let is_late = reserved.is_some_and(|reserved| agenda.now() > reserved);
            self.counts.reservations_missed += u64::from(is_late);
        }
        if self.setup.scheduler.queue_length() > 1 {
            self.backfill(agenda);
        }
    }

    /// Lets jobs that have come into the queue, as far as it is looked at.
    fn fill_queue(&mut self, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        while self.queue.len() < self.setup.scheduler.queue_length() {
            let next = self.upcoming.take().or_else(|| self.workload.next(now));
            let Some(request) = next else { return };
            if request.arrival > now {
                if !self.is_arrival_scheduled {
                    agenda.at(request.arrival, Event::JobArrives);
                    self.is_arrival_scheduled = true;
                }
                self.upcoming = Some(request);
                return;
            }
            self.queue.push_back(request);
        }
    }

    /// Starts jobs behind the first one that do not delay its reservation.
    fn backfill(&mut self, agenda: &mut Agenda<Event>) {
        let now = agenda.now();
        let Some(head) = self.queue.front() else { return };
        let running = self.jobs.iter().flatten().map(|job| (job.expected_end, job.request.nodes));
        let idle = self.pool.idle_count();
        let mut reservation = Reservation::new(head.nodes, idle, now, running.collect());
        self.reserved.get_or_insert(reservation.at);
        let mut index = 1;
        while let Some(request) = self.queue.get(index).copied() {
            let idle = self.pool.idle_count();
            if idle == 0 {
                return;
            }
            let duration = self.expected_duration(&request);
            let is_started = request.nodes <= idle
                && reservation.admits(request.nodes, duration, now)
                && self.start_job(request, agenda);
            if is_started {
                self.counts.backfilled += 1;
                self.queue.remove(index);
                self.fill_queue(agenda);
            } else {
                index += 1;
            }
        }
    }

    /// The plan of jobs on `nodes`.
    pub(super) fn plan(&mut self, nodes: u32) -> Arc<Plan> {
        let setup = self.setup;
        Arc::clone(self.plans.entry(nodes).or_insert_with(|| Arc::new(setup.plan(nodes))))
    }

    /// How long the scheduler expects a job to hold its nodes: its estimated work, with verifications,
    /// checkpoints and the reboot after it, but without failures and waits for a storage.
    fn expected_duration(&mut self, request: &Request) -> Span {
        let plan = self.plan(request.nodes);
        let work = self.setup.scheduler.estimated_work(request);
        plan.course(work).time_after(0) + plan.reboot
    }

    /// When the scheduler expects a job to give its nodes back that starts at `now`.
    pub(super) fn expected_end(&mut self, request: &Request, now: Time) -> Time {
        now + self.expected_duration(request)
    }
}
