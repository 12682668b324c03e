//! What goes wrong: hosts that fail, tasks that take suspiciously long, and second runs of these.
//!
//! A host fails after a time from a Weibull distribution and is back after its repair. The runs there are lost, and their
//! tasks are run again. What it has in memory is lost, on its disks where the profile says so: see `lost`. The rest is there
//! when it is back; who asks for it waits, or reads a copy elsewhere. A
//! *straggler* is a run whose computations take several times as long. A second run of a task begins where a host is idle, once
//! three quarters of its stage have ended and it has taken so many times the median of these; the first of both that ends
//! counts (J. Dean and S. Ghemawat, "MapReduce", OSDI 2004; the rule is that of Apache Spark's `spark.speculation`).

use intarsia_des::{Agenda, Distribution, Span, Streams, Time};
use serde::Serialize;

use super::tasks::number;
use super::{Event, World};
use crate::Problem;
use crate::profile::mixed;
use crate::workload::TaskId;

/// The part of a stage that must have ended before the rest of it is suspected.
const ENDED_SHARE: f64 = 0.75;
/// A task that was begun so often never ends.
const MOST_RUNS: u32 = 1_000;

/// What went wrong in a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Mishaps {
    /// Hosts that failed, each time counted.
    pub host_failures: u64,
    /// Runs that were lost with their host, or with a file that they needed.
    pub lost_runs: u64,
    /// Files that were lost with a host; of a file with copies elsewhere, never one.
    pub lost_files: u64,
    /// Inputs of the workload that were lost, and brought again.
    pub lost_inputs: u64,
    /// Tasks that had ended and were run again, since what they made was lost.
    pub remade_tasks: u64,
    /// Runs that were stragglers.
    pub stragglers: u64,
    /// Second runs that were begun because the first took long.
    pub second_runs: u64,
}

/// The state of all that.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    pub(super) counts: Mishaps,
    /// By host: until when it is down.
    down_until: Vec<Time>,
    /// By host: how many failures it had.
    failures: Vec<u64>,
    /// By stage: how long its tasks took that have ended, shortest first.
    took: Vec<Vec<Span>>,
    /// By stage: what a run may take before it is suspected.
    limits: Vec<Option<Span>>,
    /// Runs that take long, while no host was idle.
    suspects: Vec<u32>,
}

impl World<'_> {
    pub(super) fn begin_mishaps(&mut self, agenda: &mut Agenda<Event>) {
        let hosts = self.configuration.hosts as usize;
        self.trouble.down_until = vec![Time::ZERO; hosts];
        self.trouble.failures = vec![0; hosts];
        self.trouble.took = vec![Vec::new(); self.workload.stages.len()];
        self.trouble.limits = vec![None; self.workload.stages.len()];
        for host in 0..self.configuration.hosts {
            self.fails_next(host, agenda);
        }
    }

    /// Draws when a host fails next; that its numbers follow from host and failure keeps configurations comparable.
    fn fails_next(&mut self, host: u32, agenda: &mut Agenda<Event>) {
        let Some(failures) = &self.profile.failures else { return };
        let law = Distribution::weibull_with_mean(failures.shape, failures.mean_seconds);
        let index = (u64::from(host) << 32) + self.trouble.failures[host as usize];
        let mut stream = Streams::new(self.seed).stream("host failure", index);
        if let Ok(law) = law {
            agenda.after(Span::from_secs_f64(law.sample(&mut stream)), Event::Fails(host));
        }
    }

    /// A host fails.
    pub(super) fn host_fails(&mut self, host: u32, agenda: &mut Agenda<Event>) {
        let Some(failures) = &self.profile.failures else { return };
        if self.ended == self.tasks.len() {
            return;
        }
        let back = agenda.now() + Span::from_secs_f64(failures.repair_seconds);
        self.trouble.counts.host_failures += 1;
        self.trouble.failures[host as usize] += 1;
        self.trouble.down_until[host as usize] = back;
        self.services.caches[host as usize].forget();
        self.broadcasts.host_fails(host);
        let there = |run: &u32| self.running[*run as usize].host == host;
        let lost: Vec<u32> = {
            let alive = self.tasks.iter().flat_map(|task| &task.runs);
            alive.copied().filter(there).collect()
        };
        for run in &lost {
            self.stop(*run, agenda);
        }
        self.copies_fail(host);
        self.places.host_is(host, false);
        self.ready.close(host);
        self.files_fail(host, failures.loses_disks, agenda);
        self.tell_all_anew(host);
        for run in lost {
            self.trouble.counts.lost_runs += 1;
            self.begin_again(run, agenda);
        }
        agenda.at(back, Event::Back(host));
        self.deal(agenda);
    }

    /// The task of a run that was lost is ready again, unless another run of it goes on.
    fn begin_again(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        if self.is_without_runs(run, agenda) {
            self.are_ready(vec![self.running[run as usize].task]);
        }
    }

    /// A run of a task is over: whether that was the last one.
    pub(super) fn is_without_runs(&mut self, run: u32, agenda: &mut Agenda<Event>) -> bool {
        let task = self.running[run as usize].task;
        let progress = &mut self.tasks[task];
        progress.runs.retain(|other| *other != run);
        progress.runs.is_empty() && !self.is_tried_too_often(task, agenda)
    }

    /// Gives up where a task would be begun for ever.
    pub(super) fn is_tried_too_often(&mut self, task: TaskId, agenda: &mut Agenda<Event>) -> bool {
        if self.tasks[task].begun < MOST_RUNS {
            return false;
        }
        let why = format!(
            "task '{}' was lost {MOST_RUNS} times: it takes longer than hosts stay up",
            self.workload.tasks[task].name
        );
        let help = "take a longer time between failures, or shorter tasks";
        self.fail(Problem::new(why).with_help(help), agenda);
        true
    }

    /// A host is back.
    pub(super) fn host_is_back(&mut self, host: u32, agenda: &mut Agenda<Event>) {
        self.ready.open(host);
        self.places.host_is(host, true);
        self.fails_next(host, agenda);
        self.deal(agenda);
    }

    /// Until when a host is down that is asked for something now.
    pub(super) fn down_until(&self, host: u32, now: Time) -> Option<Time> {
        self.trouble.down_until.get(host as usize).copied().filter(|until| *until > now)
    }

    /// How many times as long the computations of the next run of a task take.
    pub(super) fn slowdown(&mut self, task: TaskId) -> f64 {
        let Some(stragglers) = &self.profile.stragglers else { return 1.0 };
        let index = ((task as u64) << 16) + u64::from(self.tasks[task].begun);
        if unit(mixed(self.seed, 10, index)) >= stragglers.share {
            return 1.0;
        }
        self.trouble.counts.stragglers += 1;
        stragglers.slowdown
    }

    /// A task has ended: what the others of its stage may take is known better.
    pub(super) fn task_took(&mut self, task: TaskId, took: Span, agenda: &mut Agenda<Event>) {
        let Some(percent) = self.configuration.second_run_percent else { return };
        let stage = self.workload.tasks[task].stage;
        let times = &mut self.trouble.took[stage];
        let place = times.partition_point(|other| *other <= took);
        times.insert(place, took);
        let of_stage = |task: &&crate::workload::Task| task.stage == stage;
        let all = self.workload.tasks.iter().filter(of_stage).count();
        if (times.len() as f64) < ENDED_SHARE * all as f64 {
            return;
        }
        let median = times[times.len() / 2].as_secs_f64();
        let limit = Span::from_secs_f64(median * f64::from(percent) / 100.0);
        if self.trouble.limits[stage].replace(limit).is_some() {
            return;
        }
        let under_way = self.tasks.iter().flat_map(|task| task.runs.iter().copied());
        let of_stage = |run: &u32| self.task_of(*run).stage == stage;
        let watched: Vec<u32> = under_way.filter(of_stage).collect();
        watched.into_iter().for_each(|run| self.watch(run, agenda));
    }

    /// Looks at a run again when it has taken what it may, if that is known.
    pub(super) fn watch(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        let stage = self.task_of(run).stage;
        let Some(limit) = self.trouble.limits.get(stage).copied().flatten() else { return };
        agenda.at(self.running[run as usize].started + limit, Event::Suspect(run));
    }

    /// A run has taken long.
    pub(super) fn suspect(&mut self, run: u32, agenda: &mut Agenda<Event>) {
        self.trouble.suspects.push(run);
        self.deal_copies(agenda);
    }

    /// Starts second runs of what takes long, as far as hosts are idle.
    pub(super) fn deal_copies(&mut self, agenda: &mut Agenda<Event>) {
        let mut waiting = Vec::new();
        for run in std::mem::take(&mut self.trouble.suspects) {
            let state = &self.running[run as usize];
            let (task, host) = (state.task, state.host);
            if state.is_over || self.tasks[task].runs.len() > 1 {
                continue;
            }
            match self.ready.take_besides(number(task), host, agenda.now()) {
                Some(other) => {
                    self.trouble.counts.second_runs += 1;
                    self.start(task, other, agenda);
                }
                None => waiting.push(run),
            }
        }
        self.trouble.suspects.append(&mut waiting);
    }
}

/// A number between 0 and 1 for one of 64 bits.
#[expect(clippy::cast_precision_loss, reason = "a probability")]
const fn unit(draw: u64) -> f64 {
    (draw >> 11) as f64 / (1_u64 << 53) as f64
}
