//! Copies made ahead of tasks: what a waiting task reads goes to the host that is free soonest, while others run.
//!
//! The scheduler is that of `intarsia run --schedule wow`, after WOW (arXiv 2503.13072, 2025): the host that is free soonest
//! is to run the task of whose input it lacks least, and takes a copy of what it lacks, one at a time; then the next host
//! chooses, and after the last one each for the task after. Which host is free soonest is guessed from who began longest ago. A copy reads as a task does; that its host writes it to its
//! own tier is not counted.

use std::collections::{BTreeSet, HashSet};

use intarsia_des::{Agenda, Time};

use super::scheduler::Ready;
use super::tasks::{Running, number};
use super::{Event, World};
use crate::configuration::Scheduler;
use crate::workload::{FileId, Operation, TaskId};

/// Tasks that are looked at: those behind them wait long enough.
const LOOKED_AT: usize = 64;

/// Copies under way, and those that are there.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Runs that copy.
    runs: BTreeSet<u32>,
    /// Tasks for which a copy was begun.
    tasks: HashSet<TaskId>,
    held: HashSet<(u32, FileId)>,
}

impl World<'_> {
    /// Whether a host has a file because it was copied there ahead of a task.
    pub(super) fn is_copied_to(&self, host: u32, file: FileId) -> bool {
        !self.ahead.held.is_empty() && self.ahead.held.contains(&(host, file))
    }

    /// Begins copies for tasks that wait.
    pub(super) fn copy_ahead(&mut self, agenda: &mut Agenda<Event>) {
        let stores_run_tasks = self.roles.stores == self.roles.app;
        let Ready::Cheapest(cheapest) = &self.ready else { return };
        if self.configuration.scheduler != Scheduler::Wow || !stores_run_tasks {
            return;
        }
        let under_way: Vec<TaskId> =
            self.ahead.runs.iter().map(|run| self.running[*run as usize].task).collect();
        let mut tasks: Vec<TaskId> =
            cheapest.waiting(LOOKED_AT).into_iter().map(|task| task as usize).collect();
        tasks.retain(|task| !under_way.contains(task));
        let mut hosts: Vec<(Time, u32)> = self
            .roles
            .app
            .clone()
            .filter(|host| !self.takes_copy(*host))
            .map(|host| (self.began_longest_ago(host), host))
            .collect();
        hosts.sort_unstable();
        for (_, host) in hosts.iter().chain(&hosts).copied() {
            // What the host would take next; of equal ones that which waits longest.
            let lacks = |at: &usize| self.lacks(tasks[*at], host);
            let Some(at) = (0..tasks.len()).min_by_key(lacks) else { return };
            let task = tasks.remove(at);
            let is_served = self.takes_copy(host) || self.ahead.tasks.contains(&task);
            if !is_served && self.lacks(task, host) > 0 {
                self.begin_copy(task, host, agenda);
            }
        }
    }

    fn takes_copy(&self, host: u32) -> bool {
        self.ahead.runs.iter().any(|run| self.running[*run as usize].host == host)
    }

    /// When the run began that has been on a host for longest; a host without any is free now.
    fn began_longest_ago(&self, host: u32) -> Time {
        let runs = self.tasks.iter().flat_map(|task| &task.runs);
        let there = runs.map(|run| &self.running[*run as usize]).filter(|run| run.host == host);
        there.map(|run| run.started).min().unwrap_or(Time::ZERO)
    }

    /// How many bytes that a task reads are not on a host.
    fn lacks(&self, task: TaskId, host: u32) -> u64 {
        let (held, input_bytes) = self.located(task);
        input_bytes.saturating_sub(held.of(host))
    }

    /// The hosts that take a copy of what a task reads.
    pub(super) fn copied_to(&self, task: TaskId) -> impl Iterator<Item = u32> {
        let copies = self.ahead.runs.iter().map(|run| &self.running[*run as usize]);
        copies.filter(move |run| run.task == task).map(|run| run.host)
    }

    fn begin_copy(&mut self, task: TaskId, host: u32, agenda: &mut Agenda<Event>) {
        let run = number(self.running.len());
        let now = agenda.now();
        self.running.push(Running { is_copy: true, ..Running::new(task, host, now, 1.0) });
        self.ahead.runs.insert(run);
        self.ahead.tasks.insert(task);
        self.tell_anew(vec![task]);
        agenda.at(now, Event::Step(run));
    }

    /// A copy is there: its task had best begin there.
    pub(super) fn copy_ended(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        let Running { task, host, .. } = self.running[run as usize];
        self.running[run as usize].is_over = true;
        self.ahead.runs.remove(&run);
        for operation in &self.workload.tasks[task].operations {
            if let Operation::Read(extent) = operation {
                self.ahead.held.insert((host, extent.file));
            }
        }
        self.has_read(task, host);
        self.tell_anew(vec![task]);
        self.deal(agenda);
    }

    /// A copy cannot be made.
    pub(super) fn copy_fails(&mut self, run: u32) {
        self.running[run as usize].is_over = true;
        self.ahead.runs.remove(&run);
        self.tell_anew(vec![self.running[run as usize].task]);
    }

    /// A host has failed: what was on its way there is not, and copies there are not counted on.
    pub(super) fn copies_fail(&mut self, host: u32) {
        self.ahead.held.retain(|(other, _)| *other != host);
        let running = &mut self.running;
        self.ahead.runs.retain(|run| {
            let state = &mut running[*run as usize];
            state.is_over |= state.host == host;
            !state.is_over
        });
    }
}
