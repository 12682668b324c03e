//! Files that are lost with a host, and the tasks that make them again.
//!
//! It goes as with `intarsia run --lineage`: what nobody reads any more is not missed. A run that comes to a lost file, or
//! stands at one when it is lost, is over; the task that made the file runs again, and before it, transitively, those whose
//! files it reads and that are lost too. Everything else goes on. Results, which no task reads, are made again when all
//! else has ended, as by the same command given once more. Lost inputs are brought again from where they came from, and
//! are there when the host is back.

use intarsia_des::Agenda;

use super::tasks::number;
use super::{Event, World};
use crate::workload::{FileId, Operation, TaskId};

impl World<'_> {
    /// A host has failed, and what it had is gone: runs that stand at a file of which nothing is left are over.
    pub(super) fn files_fail(&mut self, host: u32, is_all: bool, agenda: &mut Agenda<Event>) {
        let (lost, inputs) = self.places.lose(host, is_all);
        let is_whole = |file: &&FileId| {
            self.workload.files[**file].writer.is_some_and(|writer| self.tasks[writer].is_ended)
        };
        self.trouble.counts.lost_files += lost.iter().filter(is_whole).count() as u64;
        self.trouble.counts.lost_inputs += inputs.len() as u64;
        if lost.is_empty() {
            return;
        }
        lost.iter().for_each(|file| self.broadcasts.forget(*file));
        let stands_at_one = |run: &u32| {
            let state = &self.running[*run as usize];
            let operation = self.task_of(*run).operations.get(state.at);
            !state.is_over && file_of(operation).is_some_and(|file| lost.contains(&file))
        };
        let over: Vec<u32> = (0..number(self.running.len())).filter(stands_at_one).collect();
        for run in over {
            self.misses(run, agenda);
        }
    }

    /// Whether a run has come to a file that was lost. What its own task writes it makes itself.
    pub(super) fn is_without(&self, run: u32, operation: Option<&Operation>) -> bool {
        let (Some(Operation::Open(_) | Operation::Read(_)), Some(file)) =
            (operation, file_of(operation))
        else {
            return false;
        };
        let writer = self.workload.files[file].writer;
        self.places.is_lost(file) && writer != Some(self.running[run as usize].task)
    }

    /// A run cannot go on without a file. What it needs is made again.
    pub(super) fn misses(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        if self.running[run as usize].is_copy {
            return self.copy_fails(run);
        }
        let task = self.running[run as usize].task;
        self.stop(run, agenda);
        self.trouble.counts.lost_runs += 1;
        if !self.is_without_runs(run, agenda) {
            return;
        }
        let mut ready = self.remake(task, agenda);
        if self.tasks[task].waits_for == 0 {
            ready.push(task);
        }
        self.are_ready(ready);
    }

    /// All tasks have ended: those whose results were lost run again.
    pub(super) fn remake_results(&mut self, agenda: &mut Agenda<Event>) {
        let lost = |file: &FileId| {
            self.workload.files[*file].readers.is_empty() && self.places.is_lost(*file)
        };
        let results: Vec<FileId> = (0..self.workload.files.len()).filter(lost).collect();
        for file in results {
            let Some(maker) = self.workload.files[file].writer else { continue };
            if !self.tasks[maker].is_ended {
                continue;
            }
            self.runs_again(maker, agenda);
            let mut ready = self.remake(maker, agenda);
            if self.tasks[maker].waits_for == 0 {
                ready.push(maker);
            }
            self.are_ready(ready);
        }
    }

    /// Has a task wait for those that make again what it reads and is lost. Gives the ones of these that wait for nobody.
    fn remake(&mut self, task: TaskId, agenda: &mut Agenda<Event>) -> Vec<TaskId> {
        let workload = self.workload;
        let (mut left, mut again) = (vec![task], Vec::new());
        while let Some(reader) = left.pop() {
            for maker in self.makers_of_lost(reader) {
                if self.tasks[maker].is_ended {
                    self.runs_again(maker, agenda);
                    again.push(maker);
                    left.push(maker);
                    // Others that have not begun would come to the same file.
                    for other in &workload.tasks[maker].children {
                        if self.makers_of_lost(*other).contains(&maker)
                            && self.ready.withdraw(number(*other))
                        {
                            left.push(*other);
                        }
                    }
                }
                let Some(waiters) = &mut self.tasks[maker].waiters else { continue };
                if !waiters.contains(&reader) {
                    waiters.push(reader);
                    self.tasks[reader].waits_for += 1;
                }
            }
        }
        again.retain(|maker| self.tasks[*maker].waits_for == 0);
        again
    }

    /// The tasks that wrote files that a task reads and that are lost.
    fn makers_of_lost(&self, reader: TaskId) -> Vec<TaskId> {
        let operations = &self.workload.tasks[reader].operations;
        let lost = operations.iter().filter_map(|operation| file_of(Some(operation)));
        let makers = lost
            .filter(|file| self.places.is_lost(*file))
            .filter_map(|file| self.workload.files[file].writer)
            .filter(|maker| *maker != reader);
        let mut makers: Vec<TaskId> = makers.collect();
        makers.sort_unstable();
        makers.dedup();
        makers
    }

    fn runs_again(&mut self, maker: TaskId, agenda: &mut Agenda<Event>) {
        let progress = &mut self.tasks[maker];
        progress.is_ended = false;
        progress.waiters = Some(Vec::new());
        self.ended -= 1;
        self.trouble.counts.remade_tasks += 1;
        self.is_tried_too_often(maker, agenda);
    }
}

/// The file of an operation.
const fn file_of(operation: Option<&Operation>) -> Option<FileId> {
    match operation {
        Some(Operation::Open(file) | Operation::Close(file)) => Some(*file),
        Some(Operation::Read(extent) | Operation::Write(extent)) => Some(extent.file),
        Some(Operation::Compute(_)) | None => None,
    }
}
