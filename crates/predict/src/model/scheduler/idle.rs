//! Tasks for whatever host is idle.
//!
//! *Workqueue*: the task that waits longest goes to any idle host, drawn from a number of its own. *Location*: an idle host
//! takes the first task of which it holds more than any other host; what is left goes as with the workqueue, because nobody
//! waits for a busy host. A task with several slots blocks those behind it until a host has room for it.

use std::collections::VecDeque;

use crate::profile::{mixed, one_of};

/// Tasks that are ready, and hosts that are idle.
#[derive(Debug)]
pub(in crate::model) struct Idle {
    waiting: VecDeque<u32>,
    /// By host, the tasks that read most from it.
    nearby: Vec<VecDeque<u32>>,
    idle: Vec<u32>,
    /// Slots of hosts that are closed.
    closed: Vec<u32>,
    slots: Vec<u32>,
    /// Waits in a queue.
    is_waiting: Vec<bool>,
    seed: u64,
    /// Hosts at which something changed since tasks were dealt last.
    changed: Vec<u32>,
}

impl Idle {
    /// Hosts with so many slots, and tasks that take so many each.
    pub(super) fn new(idle: Vec<u32>, slots: Vec<u32>, seed: u64) -> Self {
        Self {
            waiting: VecDeque::new(),
            nearby: vec![VecDeque::new(); idle.len()],
            closed: vec![0; idle.len()],
            idle,
            is_waiting: vec![false; slots.len()],
            slots,
            seed,
            changed: Vec::new(),
        }
    }

    /// A task is ready. `near` is the host that holds most of what it reads, if one does.
    pub(in crate::model) fn add(&mut self, task: u32, near: Option<u32>) {
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
