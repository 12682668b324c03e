//! Tasks: when one is ready, who runs it, and what it does next.

use intarsia_des::{Agenda, Span, Time};

use super::{Event, World};
use crate::profile::mixed;
use crate::workload::{Operation, Task, TaskId};

/// A task in the run.
#[derive(Debug)]
pub(super) struct Running {
    /// Parents that have not ended.
    pub(super) waits_for: usize,
    pub(super) host: u32,
    pub(super) started: Time,
    pub(super) ended: Time,
    /// Index of the operation that it does.
    pub(super) at: usize,
    /// When that began.
    pub(super) since: Time,
    /// Bytes up to here are asked for or sent.
    pub(super) sent_to: u64,
    /// Answers that are outstanding.
    pub(super) outstanding: u32,
    /// Bytes of this operation that were in memory.
    pub(super) remembered: u64,
}

impl Running {
    pub(super) fn new(task: &Task) -> Self {
        Self {
            waits_for: task.parents.len(),
            host: 0,
            started: Time::ZERO,
            ended: Time::ZERO,
            at: 0,
            since: Time::ZERO,
            sent_to: 0,
            outstanding: 0,
            remembered: 0,
        }
    }
}

impl World<'_> {
    /// Starts the tasks that wait for nobody.
    pub(super) fn begin(&mut self, agenda: &mut Agenda<Event>) {
        for task in 0..self.running.len() {
            if self.running[task].waits_for == 0 {
                self.is_ready(task);
            }
        }
        self.deal(agenda);
    }

    fn is_ready(&mut self, task: TaskId) {
        let near = if self.ready.asks_for_location() { self.nearest(task) } else { None };
        self.ready.add(number(task), near);
    }

    /// The host that holds most of what a task reads; the first of equals.
    fn nearest(&self, task: TaskId) -> Option<u32> {
        let mut held: Vec<(u32, u64)> = Vec::new();
        for operation in &self.workload.tasks[task].operations {
            let Operation::Read(extent) = operation else { continue };
            let Some(place) = self.places.of(extent.file) else { continue };
            for (host, bytes) in place.bytes_by_host(extent.size_bytes) {
                match held.iter_mut().find(|(other, _)| *other == host) {
                    Some((_, sum)) => *sum += bytes,
                    None => held.push((host, bytes)),
                }
            }
        }
        let held =
            held.into_iter().filter(|(host, bytes)| *bytes > 0 && self.roles.app.contains(host));
        held.max_by_key(|(host, bytes)| (*bytes, std::cmp::Reverse(*host))).map(|(host, _)| host)
    }

    /// Starts what can be started.
    fn deal(&mut self, agenda: &mut Agenda<Event>) {
        while let Some((task, host)) = self.ready.next() {
            let now = agenda.now();
            let run = &mut self.running[task as usize];
            (run.host, run.started, run.since) = (host, now, now);
            let overhead = self.workload.tasks[task as usize].overhead_seconds;
            agenda.after(Span::from_secs_f64(overhead), Event::Step(task));
        }
    }

    /// Begins the next operation of a task, or ends it.
    pub(super) fn step(&mut self, task: u32, agenda: &mut Agenda<Event>) {
        let run = &mut self.running[task as usize];
        run.since = agenda.now();
        let (at, host) = (run.at, run.host);
        match self.workload.tasks[task as usize].operations.get(at) {
            None => self.end(task, agenda),
            Some(Operation::Compute(seconds)) => {
                let seconds = seconds / self.profile.host(host).speed;
                self.stage_of(task).compute_seconds += seconds;
                self.running[task as usize].at += 1;
                agenda.after(Span::from_secs_f64(seconds), Event::Step(task));
            }
            Some(_) => {
                let draw = mixed(self.seed, 3, (u64::from(task) << 24) + at as u64);
                let seconds = self.profile.client.operation.draw(draw);
                if seconds > 0.0 {
                    let end = self.services.client(host, agenda.now(), seconds);
                    agenda.at(end, Event::Begin(task));
                } else {
                    self.begin_operation(task, agenda);
                }
            }
        }
    }

    /// The operation of a task is over.
    pub(super) fn operation_ended(&mut self, task: u32, agenda: &mut Agenda<Event>) {
        let run = &self.running[task as usize];
        let seconds = agenda.now().since(run.since).as_secs_f64();
        let operation = self.workload.tasks[task as usize].operations.get(run.at).copied();
        let stage = self.stage_of(task);
        match operation {
            Some(Operation::Read(_)) => stage.read_seconds += seconds,
            Some(Operation::Write(_)) => stage.write_seconds += seconds,
            _ => stage.metadata_seconds += seconds,
        }
        self.running[task as usize].at += 1;
        // An event rather than a call: a task with many short operations must not use up the stack.
        agenda.after(Span::ZERO, Event::Step(task));
    }

    fn stage_of(&mut self, task: u32) -> &mut super::StageTimes {
        &mut self.stages[self.workload.tasks[task as usize].stage]
    }

    fn end(&mut self, task: u32, agenda: &mut Agenda<Event>) {
        let workload = self.workload;
        let run = &mut self.running[task as usize];
        run.ended = agenda.now();
        let host = run.host;
        self.ended += 1;
        self.ready.leave(task, host);
        for child in &workload.tasks[task as usize].children {
            let run = &mut self.running[*child];
            run.waits_for -= 1;
            if run.waits_for == 0 {
                self.is_ready(*child);
            }
        }
        self.deal(agenda);
    }
}

/// Tasks and files are counted in 32 bits; a workload has fewer.
pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
