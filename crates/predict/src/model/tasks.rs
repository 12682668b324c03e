//! Tasks: when one is ready, who runs it, and what it does next.
//!
//! A task is run once, and again where its host failed meanwhile or where it takes suspiciously long (see `mishaps`); the
//! run that ends first counts. Events and messages name the run, so that those of one that is over are easily told.

use intarsia_des::{Agenda, Span, Time};

use super::crowd::Then;
use super::parts::PartsAsked;
use super::{Event, World};
use crate::profile::mixed;
use crate::workload::{Operation, Task, TaskId};

/// For whom the engine works: no run has this number.
const ENGINE: u32 = u32::MAX;

/// A task.
#[derive(Debug)]
pub(super) struct Progress {
    /// Parents that have not ended.
    pub(super) waits_for: usize,
    pub(super) is_ended: bool,
    /// Who waits for it when it runs again; `None`: its children, for the first time.
    pub(super) waiters: Option<Vec<TaskId>>,
    /// Its runs that are under way.
    pub(super) runs: Vec<u32>,
    /// How often it was begun.
    pub(super) begun: u32,
    pub(super) host: u32,
    pub(super) started: Time,
    pub(super) ended: Time,
}

impl Progress {
    pub(super) fn new(task: &Task) -> Self {
        Self {
            waits_for: task.parents.len(),
            is_ended: false,
            waiters: None,
            runs: Vec::new(),
            begun: 0,
            host: 0,
            started: Time::ZERO,
            ended: Time::ZERO,
        }
    }
}

/// A task that is run on a host.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) task: TaskId,
    pub(super) host: u32,
    pub(super) started: Time,
    /// It only copies what the task reads, ahead of it.
    pub(super) is_copy: bool,
    /// It has ended, or was ended.
    pub(super) is_over: bool,
    /// Its computations take so many times as long.
    pub(super) slowdown: f64,
    /// Index of the operation that it does.
    pub(super) at: usize,
    /// When that began.
    pub(super) since: Time,
    /// Bytes up to here are asked for or sent.
    pub(super) sent_to: u64,
    /// Answers that are outstanding.
    pub(super) outstanding: u32,
    /// What these are of, where parts of a file were asked.
    pub(super) parts_asked: PartsAsked,
    /// Bytes of this operation that were in memory.
    pub(super) remembered: u64,
}

impl Running {
    pub(super) const fn new(task: TaskId, host: u32, now: Time, slowdown: f64) -> Self {
        Self {
            task,
            host,
            started: now,
            is_copy: false,
            is_over: false,
            slowdown,
            at: 0,
            since: now,
            sent_to: 0,
            outstanding: 0,
            parts_asked: PartsAsked::Open,
            remembered: 0,
        }
    }
}

impl<'a> World<'a> {
    /// Starts the tasks that wait for nobody.
    pub(super) fn begin(&mut self, agenda: &mut Agenda<Event>) {
        let ready = (0..self.tasks.len()).filter(|task| self.tasks[*task].waits_for == 0);
        self.are_ready(ready.collect());
        self.begin_mishaps(agenda);
        self.deal(agenda);
    }

    pub(super) fn task_of(&self, run: u32) -> &'a Task {
        &self.workload.tasks[self.running[run as usize].task]
    }

    /// Starts what can be started.
    pub(super) fn deal(&mut self, agenda: &mut Agenda<Event>) {
        while let Some((task, host)) = self.ready.next(agenda.now()) {
            self.start(task as usize, host, agenda);
        }
        let look = self.ready.look_again(agenda.now());
        if let Some(at) = look.filter(|at| self.look.is_none_or(|look| *at < look)) {
            self.look = Some(at);
            agenda.at(at, Event::Look);
        }
        self.deal_copies(agenda);
        self.copy_ahead(agenda);
    }

    /// Starts a run of a task.
    pub(super) fn start(&mut self, task: TaskId, host: u32, agenda: &mut Agenda<Event>) {
        let (now, run) = (agenda.now(), number(self.running.len()));
        let slowdown = self.slowdown(task);
        let progress = &mut self.tasks[task];
        progress.runs.push(run);
        progress.begun += 1;
        self.running.push(Running::new(task, host, now, slowdown));
        if self.services.share_processors() {
            let then = Then { run: ENGINE, event: Event::HandedOver(run) };
            let (seconds, _) = self.engine.alone_seconds;
            self.engine.counter.count(Span::from_secs_f64(seconds));
            self.services.work(1, seconds, then, agenda);
        } else {
            let overhead = self.workload.tasks[task].overhead_seconds;
            let begins = self.engine.hands_over(now) + Span::from_secs_f64(overhead);
            agenda.after(begins, Event::Step(run));
        }
        self.has_begun(task, host);
        self.watch(run, agenda);
    }

    /// The host of a run starts it, on processors that it shares with others.
    pub(super) fn starts_up(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        let (_, start) = self.engine.alone_seconds;
        let overhead = self.task_of(run).overhead_seconds;
        if start == 0.0 {
            // An overhead was found by runs that had the hosts for themselves, so what it waited for processors is in it.
            return agenda.after(Span::from_secs_f64(overhead), Event::Step(run));
        }
        self.services.work(1, start + overhead, Then { run, event: Event::Step(run) }, agenda);
    }

    /// Begins the next operation of a run, or ends it.
    pub(super) fn step(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        let state = &mut self.running[run as usize];
        state.since = agenda.now();
        let (at, host, slowdown) = (state.at, state.host, state.slowdown);
        let task = self.task_of(run);
        if self.running[run as usize].is_copy {
            return self.copy_on(run, agenda);
        }
        if self.is_without(run, task.operations.get(at)) {
            self.misses(run, agenda);
            return self.deal(agenda);
        }
        match task.operations.get(at) {
            None => self.end(run, agenda),
            Some(Operation::Compute(seconds)) => {
                let seconds = seconds * slowdown / self.speed(host);
                self.stages[task.stage].compute_seconds += seconds;
                let slots = f64::from(task.slots) / f64::from(self.profile.host(host).slots);
                self.computed[host as usize] += seconds * slots;
                self.running[run as usize].at += 1;
                if self.services.share_processors() && !self.engine.sleeps {
                    let then = Then { run, event: Event::Step(run) };
                    self.services.work(task.slots, seconds, then, agenda);
                } else {
                    agenda.after(Span::from_secs_f64(seconds), Event::Step(run));
                }
            }
            Some(_) => {
                let number = self.running[run as usize].task as u64;
                let draw = mixed(self.seed, 3, (number << 24) + at as u64);
                let seconds = self.profile.client.operation.draw(draw);
                if seconds > 0.0 {
                    self.services.client(
                        host,
                        seconds,
                        Then { run, event: Event::Begin(run) },
                        agenda,
                    );
                } else {
                    self.begin_operation(run, agenda);
                }
            }
        }
    }

    /// Copies the next file that a task reads.
    fn copy_on(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        let operations = &self.task_of(run).operations;
        let at = self.running[run as usize].at;
        let reads = |operation: &Operation| matches!(operation, Operation::Read(_));
        match operations.iter().skip(at).position(reads) {
            Some(further) => {
                self.running[run as usize].at += further;
                match self.is_without(run, operations.get(at + further)) {
                    true => self.copy_fails(run),
                    false => self.begin_operation(run, agenda),
                }
            }
            None => self.copy_ended(run, agenda),
        }
    }

    /// How fast a host computes, at the frequency that is chosen.
    fn speed(&self, host: u32) -> f64 {
        let described = self.profile.host(host);
        let chosen = self.configuration.frequency_mhz.and_then(|mhz| described.frequency(mhz));
        described.speed * chosen.map_or(1.0, |frequency| frequency.speed)
    }

    /// The operation of a run is over.
    pub(super) fn operation_ended(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        let state = &self.running[run as usize];
        if state.is_over {
            return;
        }
        let seconds = agenda.now().since(state.since).as_secs_f64();
        let task = self.task_of(run);
        let operation = task.operations.get(state.at).copied();
        let stage = &mut self.stages[task.stage];
        match operation {
            _ if state.is_copy => {}
            Some(Operation::Read(_)) => stage.read_seconds += seconds,
            Some(Operation::Write(_)) => stage.write_seconds += seconds,
            _ => stage.metadata_seconds += seconds,
        }
        self.running[run as usize].at += 1;
        // An event rather than a call: a task with many short operations must not use up the stack.
        agenda.after(Span::ZERO, Event::Step(run));
    }

    /// A run has done all: its task has ended, and its other runs with it.
    fn end(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        let (workload, now) = (self.workload, agenda.now());
        let Running { task, host, started, .. } = self.running[run as usize];
        let progress = &mut self.tasks[task];
        (progress.is_ended, progress.host) = (true, host);
        (progress.started, progress.ended) = (started, now);
        for other in std::mem::take(&mut progress.runs) {
            self.stop(other, agenda);
        }
        self.ended += 1;
        self.task_took(task, now.since(started), agenda);
        for operation in &workload.tasks[task].operations {
            if let Operation::Write(extent) = operation {
                self.places.is_made(extent.file);
            }
        }
        self.has_read(task, host);
        let again = self.tasks[task].waiters.take();
        let mut ready = Vec::new();
        for child in again.as_ref().unwrap_or(&workload.tasks[task].children) {
            let progress = &mut self.tasks[*child];
            progress.waits_for -= 1;
            if progress.waits_for == 0 {
                ready.push(*child);
            }
        }
        self.are_ready(ready);
        if self.ended == self.tasks.len() {
            self.remake_results(agenda);
        }
        self.deal(agenda);
    }

    /// A run goes on no more, and its slots are free.
    pub(super) fn stop(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        let state = &mut self.running[run as usize];
        state.is_over = true;
        let (task, host) = (state.task, state.host);
        self.services.stops_working(run, agenda);
        self.ready.leave(number(task), host, agenda.now());
    }
}

/// Tasks and files are counted in 32 bits; a workload has fewer.
pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
