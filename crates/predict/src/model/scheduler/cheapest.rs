//! Tasks for the host that costs them least: what `intarsia run` knows of hosts, files and tasks.
//!
//! The run takes a host to keep what its tasks have read there, whether its memory does or not.

use std::collections::{BTreeSet, HashMap};

use intarsia_des::{Span, Time};

use crate::schedule::{Affinity, ByHost, TaskQueue, Waiting};
use crate::workload::{FileId, TaskId, Workload};

/// The run looks at tasks that wait so often, whether anything has happened or not.
const TICK_SECONDS: f64 = 0.2;

/// Tasks that wait, and what is known of hosts.
#[derive(Debug)]
pub(in crate::model) struct Cheapest {
    queue: TaskQueue,
    /// None where tasks do not go by what later ones read together.
    affinity: Option<Affinity>,
    /// By file: the hosts whose tasks have read it.
    kept: HashMap<FileId, BTreeSet<u32>>,
    /// By task and by host.
    wanted: Vec<u32>,
    slots: Vec<u32>,
}

impl Cheapest {
    pub(super) fn new(
        workload: &Workload,
        slots: Vec<u32>,
        link_bytes_per_s: f64,
        is_by_affinity: bool,
    ) -> Self {
        Self {
            queue: TaskQueue::new(slots.clone(), workload.tasks.len(), link_bytes_per_s),
            affinity: is_by_affinity.then(|| Affinity::new(workload)),
            kept: HashMap::new(),
            wanted: workload.tasks.iter().map(|task| task.slots).collect(),
            slots,
        }
    }

    /// The order in which tasks that are ready at the same time come.
    pub(in crate::model) fn in_turns(&self, tasks: Vec<TaskId>) -> Vec<TaskId> {
        match &self.affinity {
            Some(affinity) => affinity.in_turns(tasks),
            None => tasks,
        }
    }

    /// A task that is ready, or that waits and of which more is known; `held` is where its input lies.
    pub(in crate::model) fn add(
        &mut self,
        task: TaskId,
        number: u32,
        (held, input_bytes): (ByHost, u64),
    ) {
        let affinity = self.affinity.as_ref().map(|affinity| affinity.of(task)).unwrap_or_default();
        let slots = self.wanted[task];
        self.queue.add(number, Waiting::new(held, input_bytes, slots, affinity));
    }

    /// What a task made is gone, or it was never made.
    pub(in crate::model) fn forget(&mut self, task: TaskId) {
        if let Some(affinity) = &mut self.affinity {
            affinity.forget(task);
        }
    }

    /// A task has begun; gives those that wait and that this is of importance to.
    pub(in crate::model) fn began(&mut self, task: TaskId, host: u32) -> Vec<TaskId> {
        self.affinity.as_mut().map(|affinity| affinity.began(task, host)).unwrap_or_default()
    }

    /// A task has read a file on a host; whether that is news.
    pub(in crate::model) fn has_read(&mut self, host: u32, file: FileId) -> bool {
        self.kept.entry(file).or_default().insert(host)
    }

    /// A host has more of the input of a task, if that waits.
    pub(in crate::model) fn gains(&mut self, task: u32, host: u32, bytes: u64) {
        self.queue.gains(task, host, bytes);
    }

    /// The hosts that keep a file because it was read there.
    pub(in crate::model) fn keepers(&self, file: FileId) -> impl Iterator<Item = u32> {
        self.kept.get(&file).into_iter().flatten().copied()
    }

    /// A host has failed, and with it what it kept.
    pub(in crate::model) fn host_fails(&mut self, host: u32) {
        for hosts in self.kept.values_mut() {
            hosts.remove(&host);
        }
    }

    pub(in crate::model) fn waits(&self, task: u32) -> bool {
        self.queue.waits(task)
    }

    /// Tasks that wait, the first ones.
    pub(in crate::model) fn waiting(&self, most: usize) -> Vec<u32> {
        self.queue.first_waiting(most)
    }

    pub(super) fn leave(&mut self, task: u32, host: u32, now: Time) {
        self.queue.finish(task, host, seconds(now));
    }

    pub(super) fn withdraw(&mut self, task: u32) -> bool {
        self.queue.discard(task)
    }

    pub(super) fn close(&mut self, host: u32) {
        if (host as usize) < self.slots.len() {
            self.queue.set_slots(host, 0);
        }
    }

    pub(super) fn open(&mut self, host: u32) {
        if let Some(slots) = self.slots.get(host as usize) {
            self.queue.set_slots(host, *slots);
        }
    }

    pub(super) fn take_besides(&mut self, task: u32, host: u32, now: Time) -> Option<u32> {
        self.queue.begin_besides(task, self.wanted[task as usize], host, seconds(now))
    }

    /// When a task may be better off elsewhere than where it waits to run, though nothing happens until then.
    pub(super) fn look_again(&self, now: Time) -> Option<Time> {
        let wait_s = self.queue.look_s()? - seconds(now);
        Some(now + Span::from_secs_f64(wait_s.max(TICK_SECONDS)))
    }

    pub(super) fn next(&mut self, now: Time) -> Option<(u32, u32)> {
        self.queue.next(seconds(now))
    }
}

fn seconds(now: Time) -> f64 {
    now.since(Time::ZERO).as_secs_f64()
}
