//! What happens: jobs run, fail, are repaired, restart and finish.
//!
//! ```text
//! running    ──failure──▶  repairing
//! repairing  ──failure──▶  repairing          the new repair is waited for as well
//! restarting ──failure──▶  repairing
//! repairing  ──repaired──▶ restarting         its nodes reboot, its state is read back
//! running    ──complete──▶ restarting         its nodes reboot
//! restarting ──rebooted──▶ running            when it was interrupted: it goes on from its checkpoint
//! restarting ──rebooted──▶ finished           when its work was complete: its nodes become idle
//! running    ──error───▶   restarting         a silent error was found: no reboot
//! running    ──step──────▶ running            only with transfers in the background or shared storages
//! ```
//!
//! An event that a failure makes pointless is cancelled by its ticket.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use intarsia_des::{Agenda, InvalidParameter, Model, Span, Tally, Time};
use rand::Rng;

use crate::checkpoint::errors::SilentError;
use crate::checkpoint::failure::{Damage, Failure, FailureProcess};
use crate::checkpoint::job::{Job, State, Trouble, rank};
use crate::checkpoint::ledger::{Category, Ledger};
use crate::checkpoint::nodes::NodePool;
use crate::checkpoint::plan::Plan;
use crate::checkpoint::scheme::Recovery;
use crate::checkpoint::setup::Setup;
use crate::checkpoint::shared_storage::SharedStorages;
use crate::checkpoint::steps::{Step, Steps};
use crate::checkpoint::workload::{Jobs, Request, TraceJob};

mod queue;
mod transfers;

pub(in crate::checkpoint) type JobId = u32;

/// The types of events.
#[derive(Clone, Copy, Debug)]
pub(in crate::checkpoint) enum Event {
    /// A job's work is complete.
    JobEnds(JobId),
    /// A step of a job ends that is followed step by step.
    StepEnds(JobId),
    /// Transfers through a shared storage are done.
    TransfersEnd(usize),
    /// A silent error is found: by a verification, or because it shows.
    ErrorFound(JobId),
    /// The repair of a job's nodes is complete.
    JobRecovers(JobId),
    /// A job's nodes have rebooted; it begins to read its state from a shared storage.
    ReadBegins(JobId),
    /// A job's nodes have rebooted, and its state has been read back.
    NodesReboot(JobId),
    /// The failure that was drawn last.
    NodeFailure,
    /// The next job is submitted.
    JobArrives,
    /// So many failed nodes are repaired and become spares.
    SparesReturn(u32),
}

/// Counts beside the ledger.
#[derive(Clone, Debug, Default)]
pub(in crate::checkpoint) struct Counts {
    pub(in crate::checkpoint) failures: u64,
    /// Failures that hit idle nodes alone.
    pub(in crate::checkpoint) idle_failures: u64,
    /// Failures times the jobs that each interrupted.
    pub(in crate::checkpoint) interruptions: u64,
    /// Silent errors that were found.
    pub(in crate::checkpoint) errors_found: u64,
    /// Those of them that all kept checkpoints held.
    pub(in crate::checkpoint) errors_irrecoverable: u64,
    /// Jobs that ended with an error that nobody had found.
    pub(in crate::checkpoint) wrong_results: u64,
    pub(in crate::checkpoint) finished: u64,
    /// Jobs that overtook others.
    pub(in crate::checkpoint) backfilled: u64,
    /// Jobs that started later than they were promised when they had become the first to wait.
    pub(in crate::checkpoint) reservations_missed: u64,
    pub(in crate::checkpoint) waits: Tally,
    /// Time from start to end over work.
    pub(in crate::checkpoint) stretches: Tally,
}

/// The state of the simulation.
pub(in crate::checkpoint) struct World<'s, R> {
    setup: &'s Setup,
    plans: HashMap<u32, Arc<Plan>>,
    pool: NodePool<JobId>,
    /// Nodes beside the pool that are ready to take the place of failed ones.
    spares: u32,
    /// Since when so many nodes are idle as are now.
    idle_since: Time,
    jobs: Vec<Option<Job>>,
    free_ids: Vec<JobId>,
    workload: Jobs<'s, R>,
    /// Jobs that have come, as far as the scheduler looks at them.
    queue: VecDeque<Request>,
    /// When the first of them starts at the latest, by what was known when it did not fit.
    reserved: Option<Time>,
    /// The next job, which has not come yet.
    upcoming: Option<Request>,
    is_arrival_scheduled: bool,
    failures: FailureProcess<R>,
    next_failure: Option<Failure>,
    errors: R,
    storages: SharedStorages,
    pub(in crate::checkpoint) ledger: Ledger,
    pub(in crate::checkpoint) counts: Counts,
    /// The jobs whose work is complete, if they are wanted.
    pub(in crate::checkpoint) finished: Option<Vec<TraceJob>>,
}

impl<'s, R: Rng> World<'s, R> {
    /// An idle machine.
    ///
    /// # Errors
    /// Never: a shared storage's rate is valid.
    pub(in crate::checkpoint) fn new(
        setup: &'s Setup,
        workload: Jobs<'s, R>,
        failures: FailureProcess<R>,
        errors: R,
    ) -> Result<Self, InvalidParameter> {
        Ok(Self {
            setup,
            plans: HashMap::new(),
            pool: NodePool::new(setup.machine.nodes),
            spares: setup.machine.spares,
            idle_since: Time::ZERO,
            jobs: Vec::new(),
            free_ids: Vec::new(),
            workload,
            queue: VecDeque::new(),
            reserved: None,
            upcoming: None,
            is_arrival_scheduled: false,
            failures,
            next_failure: None,
            errors,
            storages: SharedStorages::new(setup.shared_storages)?,
            ledger: Ledger::default(),
            counts: Counts::default(),
            finished: None,
        })
    }

    /// Schedules what happens first.
    pub(in crate::checkpoint) fn start(&mut self, agenda: &mut Agenda<Event>) {
        self.draw_failure(agenda);
        self.start_jobs(agenda);
    }

    /// Accounts for what is under way at the end of the simulation.
    pub(in crate::checkpoint) fn close(&mut self, now: Time) {
        self.settle_idle(now);
        for index in 0..self.jobs.len() {
            if let Some(mut job) = self.jobs.get_mut(index).and_then(Option::take) {
                job.settle(now, Category::Unsettled, &mut self.ledger);
            }
        }
    }

    /// Accounts for idle nodes, before their number changes.
    fn settle_idle(&mut self, now: Time) {
        let idle = now.since(self.idle_since);
        self.ledger.add(Category::Idle, self.pool.idle_count(), idle);
        self.idle_since = now;
    }

    fn draw_failure(&mut self, agenda: &mut Agenda<Event>) {
        self.next_failure = self.failures.next_failure();
        if let Some(failure) = &self.next_failure {
            agenda.at(failure.at, Event::NodeFailure);
        }
    }

    fn start_job(&mut self, request: Request, agenda: &mut Agenda<Event>) -> bool {
        let id = self.free_ids.last().copied().or_else(|| JobId::try_from(self.jobs.len()).ok());
        let Some(id) = id else { return false };
        if self.pool.idle_count() < request.nodes {
            return false;
        }
        self.settle_idle(agenda.now());
        let Some(ranges) = self.pool.allocate(request.nodes, id) else { return false };
        if self.free_ids.pop().is_none() {
            self.jobs.push(None);
        }
        let plan = self.plan(request.nodes);
        let now = agenda.now();
        let job = Job {
            request,
            started: now,
            expected_end: self.expected_end(&request, now),
            newest: vec![0; plan.levels().len()],
            course: plan.course(request.work),
            plan,
            ranges,
            state: State::Running,
            since: now,
            checkpoint: 0,
            level: None,
            is_complete: false,
            trouble: Trouble::default(),
            error: None,
            transfers: Vec::new(),
            steps: None,
            next: None,
        };
        self.counts.waits.record(now.since(request.arrival).as_secs_f64());
        self.run(id, job, agenda);
        true
    }

    /// Lets a job run until its end or until an error is found, if no failure comes before.
    fn run(&mut self, id: JobId, mut job: Job, agenda: &mut Agenda<Event>) {
        job.state = State::Running;
        job.since = agenda.now();
        job.trouble = Trouble::default();
        if let (None, Some(errors)) = (&job.error, &job.plan.errors) {
            job.error = errors.draw(&job.course, job.checkpoint, job.since, &mut self.errors);
        }
        if job.plan.is_followed {
            job.steps = Some(Steps::new(&job.course, job.checkpoint, job.since));
            return self.await_step(id, job, agenda);
        }
        let end = job.since + job.course.time_after(job.checkpoint);
        let next = match &job.error {
            Some(error) if error.found <= end => {
                agenda.cancellable(error.found, Event::ErrorFound(id))
            }
            _ => agenda.cancellable(end, Event::JobEnds(id)),
        };
        job.next = Some(next);
        self.put(id, job);
    }

    fn await_step(&mut self, id: JobId, mut job: Job, agenda: &mut Agenda<Event>) {
        self.enter_storages(id, &mut job, agenda);
        let next = job.steps.as_ref().map(|steps| steps.next(job.plan.levels()));
        job.next = next
            .filter(|next| *next < Time::NEVER)
            .map(|next| agenda.cancellable(next, Event::StepEnds(id)));
        self.put(id, job);
    }

    fn step_ends(&mut self, id: JobId, agenda: &mut Agenda<Event>) {
        let Some(mut job) = self.take(id) else { return };
        loop {
            match job.advance(agenda.now(), &mut self.ledger) {
                None => return self.await_step(id, job, agenda),
                Some(Step::Verified { work, .. })
                    if job.error.is_some_and(|error| error.is_held_by(work)) =>
                {
                    self.put(id, job);
                    return self.error_found(id, agenda);
                }
                Some(Step::Verified { is_complete: true, .. }) => {
                    self.put(id, job);
                    return self.job_ends(id, agenda);
                }
                Some(_) => {}
            }
        }
    }

    fn take(&mut self, id: JobId) -> Option<Job> {
        self.jobs.get_mut(id as usize)?.take()
    }

    fn put(&mut self, id: JobId, job: Job) {
        if let Some(place) = self.jobs.get_mut(id as usize) {
            *place = Some(job);
        }
    }

    fn job_ends(&mut self, id: JobId, agenda: &mut Agenda<Event>) {
        let Some(mut job) = self.take(id) else { return };
        let nodes = job.request.nodes;
        job.finish(agenda.now(), &mut self.ledger);
        self.leave_storages(&mut job, agenda);
        self.counts.finished += 1;
        let is_wrong = job.error.take().is_some_and(|error| error.has_struck(agenda.now()));
        self.counts.wrong_results += u64::from(is_wrong);
        let elapsed = agenda.now().since(job.started).as_secs_f64();
        self.counts.stretches.record(elapsed / job.request.work.as_secs_f64());
        if let Some(finished) = &mut self.finished {
            finished.push(TraceJob::finished(
                job.request.arrival.as_secs_f64(),
                job.started.since(job.request.arrival).as_secs_f64(),
                elapsed,
                f64::from(nodes),
            ));
        }
        self.restart(id, job, agenda);
    }

    fn job_recovers(&mut self, id: JobId, agenda: &mut Agenda<Event>) {
        let Some(mut job) = self.take(id) else { return };
        job.settle(agenda.now(), Category::Lost, &mut self.ledger);
        self.restart(id, job, agenda);
    }

    /// Reboots the nodes, unless only processes ended, and reads the state back.
    fn restart(&mut self, id: JobId, mut job: Job, agenda: &mut Agenda<Event>) {
        let needs_reboot = job.is_complete || job.trouble.damage > Some(Damage::Process);
        let reboot = if needs_reboot { job.plan.reboot } else { Span::ZERO };
        job.state = State::Restarting { reboot };
        job.since = agenda.now();
        let rebooted = job.since + reboot;
        let (end, event) = match job.restore_level() {
            Some(level) if level.sharing.restore.is_some() => (rebooted, Event::ReadBegins(id)),
            Some(level) => (rebooted + level.restore, Event::NodesReboot(id)),
            None => (rebooted, Event::NodesReboot(id)),
        };
        job.next = Some(agenda.cancellable(end, event));
        self.put(id, job);
    }

    fn nodes_reboot(&mut self, id: JobId, agenda: &mut Agenda<Event>) {
        let Some(mut job) = self.take(id) else { return };
        job.settle(agenda.now(), Category::Lost, &mut self.ledger);
        if job.is_complete {
            self.settle_idle(agenda.now());
            self.pool.release(&job.ranges);
            self.free_ids.push(id);
            return self.start_jobs(agenda);
        }
        self.run(id, job, agenda);
    }

    fn error_found(&mut self, id: JobId, agenda: &mut Agenda<Event>) {
        let Some(mut job) = self.take(id) else { return };
        job.settle(agenda.now(), Category::Lost, &mut self.ledger);
        self.leave_storages(&mut job, agenda);
        job.trouble.damage = Some(Damage::Process);
        let recovery = job.recovery();
        let newest = recovery.map_or(0, |recovery| recovery.checkpoint);
        if let (Some(error), Some(errors)) = (job.error.take(), &job.plan.errors) {
            let clean = errors.clean_checkpoint(&error, &job.course, newest);
            self.counts.errors_found += 1;
            self.counts.errors_irrecoverable += u64::from(clean == 0 && newest > 0);
            let recovery = recovery.map(|r| Recovery { checkpoint: clean, ..r });
            job.go_back(recovery.filter(|_| clean > 0), &mut self.ledger);
        }
        self.restart(id, job, agenda);
    }

    fn node_failure(&mut self, agenda: &mut Agenda<Event>) {
        let Some(failure) = self.next_failure.take() else { return };
        self.draw_failure(agenda);
        self.counts.failures += 1;
        let victims = self.victims(&failure);
        if victims.is_empty() {
            self.counts.idle_failures += 1;
        }
        for (id, nodes) in victims {
            self.interrupt(id, &failure, &nodes, agenda);
        }
    }

    /// How long a job has to wait until failed nodes are repaired, and what is left of them: it does
    /// not wait when only processes ended, nor when there are spares for the nodes, which however
    /// cannot read what the nodes under repair hold.
    fn replace(
        &mut self,
        failure: &Failure,
        nodes: usize,
        agenda: &mut Agenda<Event>,
    ) -> (Span, Damage) {
        match (failure.damage, u32::try_from(nodes)) {
            (Damage::Process, _) => (Span::ZERO, Damage::Process),
            (Damage::Reboot | Damage::Loss, Ok(nodes))
                if nodes <= self.spares && failure.repair > Span::ZERO =>
            {
                self.spares -= nodes;
                agenda.after(failure.repair, Event::SparesReturn(nodes));
                (Span::ZERO, Damage::Loss)
            }
            (damage, _) => (failure.repair, damage),
        }
    }

    /// The jobs that a failure hits, with the nodes that it takes from each.
    fn victims(&self, failure: &Failure) -> Vec<(JobId, Vec<u32>)> {
        if failure.damage == Damage::Machine {
            let ids = (0..).zip(&self.jobs).filter(|(_, job)| job.is_some());
            return ids.map(|(id, _)| (id, Vec::new())).collect();
        }
        let mut victims: Vec<(JobId, Vec<u32>)> = Vec::new();
        for node in &failure.nodes {
            let Some(id) = self.pool.holder(*node) else { continue };
            match victims.iter_mut().find(|(victim, _)| *victim == id) {
                Some((_, nodes)) => nodes.push(*node),
                None => victims.push((id, vec![*node])),
            }
        }
        victims
    }

    fn interrupt(
        &mut self,
        id: JobId,
        failure: &Failure,
        nodes: &[u32],
        agenda: &mut Agenda<Event>,
    ) {
        let Some(mut job) = self.take(id) else { return };
        let now = agenda.now();
        self.counts.interruptions += 1;
        job.settle(now, Category::Lost, &mut self.ledger);
        let (repair, damage) = self.replace(failure, nodes.len(), agenda);
        let trouble = &mut job.trouble;
        trouble.damage = trouble.damage.max(Some(damage));
        trouble.lost.extend(nodes.iter().filter_map(|node| rank(&job.ranges, *node)));
        trouble.repaired = trouble.repaired.max(now + repair);
        let repaired = trouble.repaired;
        if !job.is_complete {
            let recovery = job.recovery();
            job.go_back(recovery, &mut self.ledger);
        }
        let is_undone = |e: &SilentError| {
            // Verified work is free of errors wherever it goes on from.
            job.plan.is_followed || e.is_undone(&job.course, job.checkpoint, now)
        };
        job.error = job.error.filter(|error| !is_undone(error));
        if let Some(next) = job.next.take() {
            agenda.cancel(next);
        }
        self.leave_storages(&mut job, agenda);
        job.state = State::Repairing;
        job.since = now;
        job.next = Some(agenda.cancellable(repaired, Event::JobRecovers(id)));
        self.put(id, job);
    }
}

impl<R: Rng> Model for World<'_, R> {
    type Event = Event;

    fn handle(&mut self, event: Event, agenda: &mut Agenda<Event>) {
        match event {
            Event::JobEnds(id) => self.job_ends(id, agenda),
            Event::StepEnds(id) => self.step_ends(id, agenda),
            Event::TransfersEnd(storage) => self.transfers_end(storage, agenda),
            Event::ReadBegins(id) => self.read_begins(id, agenda),
            Event::ErrorFound(id) => self.error_found(id, agenda),
            Event::JobRecovers(id) => self.job_recovers(id, agenda),
            Event::NodesReboot(id) => self.nodes_reboot(id, agenda),
            Event::NodeFailure => self.node_failure(agenda),
            Event::SparesReturn(nodes) => self.spares += nodes,
            Event::JobArrives => {
                self.is_arrival_scheduled = false;
                self.start_jobs(agenda);
            }
        }
    }
}
