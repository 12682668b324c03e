//! Who runs a task that is ready.
//!
//! *Workqueue*: the task that waits longest goes to any idle host, drawn from a number of its own. *Location*: an idle host
//! takes the first task of which it holds more than any other host; what is left goes as with the workqueue, because nobody
//! waits for a busy host. *Wow*: the same, and what waiting tasks read is copied ahead of them (see `ahead`). A task with several slots blocks those behind it until a host has room for it.

use std::collections::VecDeque;

use crate::Problem;
use crate::configuration::{Configuration, Roles, Scheduler};
use crate::profile::{Profile, mixed, one_of};
use crate::workload::Workload;

/// Tasks that are ready, and hosts that are idle.
#[derive(Debug)]
pub(super) struct Ready {
    waiting: VecDeque<u32>,
    /// By host, the tasks that read most from it.
    nearby: Vec<VecDeque<u32>>,
    idle: Vec<u32>,
    /// Slots of hosts that are closed.
    closed: Vec<u32>,
    slots: Vec<u32>,
    /// Waits in a queue.
    is_waiting: Vec<bool>,
    is_by_location: bool,
    seed: u64,
    /// Hosts at which something changed since tasks were dealt last.
    changed: Vec<u32>,
}

impl Ready {
    pub(super) fn new(
        workload: &Workload,
        profile: &Profile,
        configuration: &Configuration,
        roles: &Roles,
        seed: u64,
    ) -> Result<Self, Problem> {
        let idle: Vec<u32> = roles.app.clone().map(|host| profile.host(host).slots).collect();
        let most = idle.iter().max().copied().unwrap_or(0);
        if let Some(task) = workload.tasks.iter().find(|task| task.slots > most) {
            let why = format!(
                "task '{}' needs {} slots, and no host has more than {most}",
                task.name, task.slots
            );
            return Err(Problem::new(why).with_help("raise 'slots' of the profile's hosts"));
        }
        Ok(Self {
            waiting: VecDeque::new(),
            nearby: vec![VecDeque::new(); idle.len()],
            closed: vec![0; idle.len()],
            idle,
            slots: workload.tasks.iter().map(|task| task.slots).collect(),
            is_waiting: vec![false; workload.tasks.len()],
            is_by_location: configuration.scheduler != Scheduler::Workqueue,
            seed,
            changed: Vec::new(),
        })
    }

    /// Whether it must be known where the files of a task lie.
    pub(super) const fn asks_for_location(&self) -> bool {
        self.is_by_location
    }

    /// A task is ready. `near` is the host that holds most of what it reads, if one does.
    pub(super) fn add(&mut self, task: u32, near: Option<u32>) {
        self.waiting.push_back(task);
        self.is_waiting[task as usize] = true;
        if let Some(host) = near.filter(|host| (*host as usize) < self.nearby.len()) {
            self.nearby[host as usize].push_back(task);
            self.changed.push(host);
        }
    }

    /// A task has ended there.
    pub(super) fn leave(&mut self, task: u32, host: u32) {
        self.idle[host as usize] += self.slots[task as usize];
        self.changed.push(host);
    }

    /// Tasks that wait, the first ones.
    pub(super) fn waiting(&self, most: usize) -> Vec<u32> {
        let waits = |task: &&u32| self.is_waiting[**task as usize];
        self.waiting.iter().filter(waits).take(most).copied().collect()
    }

    /// A task that waits had best run there.
    pub(super) fn is_near(&mut self, task: u32, host: u32) {
        if self.is_waiting[task as usize] {
            self.nearby[host as usize].push_back(task);
            self.changed.push(host);
        }
    }

    /// A task that waits for a host must wait for others first; false if it does not wait here.
    pub(super) fn withdraw(&mut self, task: u32) -> bool {
        std::mem::take(&mut self.is_waiting[task as usize])
    }

    /// A host takes no tasks; nobody runs one there.
    pub(super) fn close(&mut self, host: u32) {
        if let Some(idle) = self.idle.get_mut(host as usize) {
            self.closed[host as usize] = std::mem::take(idle);
        }
    }

    /// It does again.
    pub(super) fn open(&mut self, host: u32) {
        if let Some(idle) = self.idle.get_mut(host as usize) {
            *idle += std::mem::take(&mut self.closed[host as usize]);
            self.changed.push(host);
        }
    }

    /// Takes slots of an idle host for a task, of any but `host`.
    pub(super) fn take_besides(&mut self, task: u32, host: u32) -> Option<u32> {
        let slots = self.slots[task as usize];
        let has_room = |(other, idle): &(u32, &u32)| *other != host && **idle >= slots;
        let (other, _) = (0..).zip(&self.idle).find(has_room)?;
        self.idle[other as usize] -= slots;
        Some(other)
    }

    /// The next task that starts, and where.
    pub(super) fn next(&mut self) -> Option<(u32, u32)> {
        while let Some(host) = self.changed.last().copied() {
            if let Some(task) = self.next_nearby(host) {
                return Some((task, host));
            }
            self.changed.pop();
        }
        let task = self.head()?;
        let host = self.any_idle(task)?;
        self.start(task, host);
        Some((task, host))
    }

    fn next_nearby(&mut self, host: u32) -> Option<u32> {
        let queue = &mut self.nearby[host as usize];
        while queue.front().is_some_and(|task| !self.is_waiting[*task as usize]) {
            queue.pop_front();
        }
        let task = *queue.front()?;
        if self.idle[host as usize] < self.slots[task as usize] {
            return None;
        }
        self.start(task, host);
        Some(task)
    }

    fn head(&mut self) -> Option<u32> {
        while self.waiting.front().is_some_and(|task| !self.is_waiting[*task as usize]) {
            self.waiting.pop_front();
        }
        self.waiting.front().copied()
    }

    /// One of the hosts with room, each as likely as the others.
    fn any_idle(&self, task: u32) -> Option<u32> {
        let slots = self.slots[task as usize];
        let has_room = |(_, idle): &(u32, &u32)| **idle >= slots;
        let roomy = (0..).zip(&self.idle).filter(has_room).count();
        let place = one_of(roomy, mixed(self.seed, 2, task.into()));
        (0..).zip(&self.idle).filter(has_room).nth(place).map(|(host, _)| host)
    }

    fn start(&mut self, task: u32, host: u32) {
        self.is_waiting[task as usize] = false;
        self.idle[host as usize] -= self.slots[task as usize];
    }
}
