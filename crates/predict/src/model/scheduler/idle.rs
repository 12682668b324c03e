//! Tasks for whatever host is idle.
//!
//! *Workqueue*, as `intarsia run --schedule workqueue`: of the tasks for which a host has room, first those that read a file
//! of the store, which go before those that begin a chain, and then the one that waits longest. It goes to the host with most
//! idle slots; of equal ones to that which joined the run first, which is a matter of moments in a run, and drawn here for all
//! its tasks. *Location*: an idle host takes the first task of which it holds more than any other host; what is left goes as with
//! the workqueue, because nobody waits for a busy host.

use std::collections::{BTreeSet, VecDeque};

use crate::profile::mixed;

/// Whether a task reads nothing that is stored, and which turn it has.
type Turn = (bool, u64);

/// Tasks that are ready, and hosts that are idle.
#[derive(Debug)]
pub(in crate::model) struct Idle {
    waiting: BTreeSet<(Turn, u32)>,
    /// Of each task that waits in a queue.
    turns: Vec<Option<Turn>>,
    /// Turns that were given.
    given: u64,
    /// By host, the tasks that read most from it.
    nearby: Vec<VecDeque<u32>>,
    idle: Vec<u32>,
    /// Slots of hosts that are closed.
    closed: Vec<u32>,
    slots: Vec<u32>,
    /// Hosts in the order in which they joined the run.
    joined: Vec<u32>,
    /// Hosts at which something changed since tasks were dealt last.
    changed: Vec<u32>,
}

impl Idle {
    /// Hosts with so many slots, and tasks that take so many each.
    pub(super) fn new(idle: Vec<u32>, slots: Vec<u32>, seed: u64) -> Self {
        let mut joined: Vec<u32> = (0..).zip(&idle).map(|(host, _)| host).collect();
        joined.sort_by_key(|host| mixed(seed, 2, u64::from(*host)));
        Self {
            waiting: BTreeSet::new(),
            turns: vec![None; slots.len()],
            given: 0,
            nearby: vec![VecDeque::new(); idle.len()],
            closed: vec![0; idle.len()],
            idle,
            slots,
            joined,
            changed: Vec::new(),
        }
    }

    /// A task is ready, which reads something that is stored or does not. `near` is the host that holds most of that.
    pub(in crate::model) fn add(&mut self, task: u32, reads_stored: bool, near: Option<u32>) {
        self.given += 1;
        let turn = (!reads_stored, self.given);
        self.waiting.insert((turn, task));
        self.turns[task as usize] = Some(turn);
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
        let turn = self.turns[task as usize].take();
        turn.is_some_and(|turn| self.waiting.remove(&(turn, task)))
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
        let most = self.idle.iter().max().copied().filter(|idle| *idle > 0)?;
        let task = self.first_within(most)?;
        let host = self.first_with(most)?;
        self.start(task, host);
        Some((task, host))
    }

    fn next_nearby(&mut self, host: u32) -> Option<u32> {
        let queue = &mut self.nearby[host as usize];
        while queue.front().is_some_and(|task| self.turns[*task as usize].is_none()) {
            queue.pop_front();
        }
        let task = *queue.front()?;
        if self.idle[host as usize] < self.slots[task as usize] {
            return None;
        }
        self.start(task, host);
        Some(task)
    }

    /// The first task that takes at most so many slots.
    fn first_within(&self, idle: u32) -> Option<u32> {
        let mut tasks = self.waiting.iter().map(|(_, task)| *task);
        tasks.find(|task| self.slots[*task as usize] <= idle)
    }

    /// Of the hosts with so many idle slots the one that joined first.
    fn first_with(&self, idle: u32) -> Option<u32> {
        self.joined.iter().copied().find(|host| self.idle[*host as usize] == idle)
    }

    fn start(&mut self, task: u32, host: u32) {
        self.withdraw(task);
        self.idle[host as usize] -= self.slots[task as usize];
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn a_chain_goes_on_before_another_begins() {
        let mut ready = Idle::new(vec![1, 1], vec![1; 5], 7);
        (0..4).for_each(|task| ready.add(task, false, None));
        let (first, there) = ready.next().unwrap();
        ready.next().unwrap();
        assert_eq!(ready.next(), None);
        // What the first has made is read next, by the host that is idle, though others wait longer.
        ready.leave(first, there);
        ready.add(4, true, None);
        assert_eq!(ready.next(), Some((4, there)));
        ready.leave(4, there);
        assert_eq!(ready.next(), Some((2, there)));
    }

    #[test]
    fn tasks_one_after_the_other_stay_on_the_host_that_joined_first() {
        for seed in 0..8 {
            let mut ready = Idle::new(vec![1; 4], vec![1; 3], seed);
            let mut places = Vec::new();
            for task in 0..3 {
                ready.add(task, true, None);
                let (_, host) = ready.next().unwrap();
                ready.leave(task, host);
                places.push(host);
            }
            assert_eq!(places, [places[0]; 3]);
        }
    }

    #[test]
    fn a_task_goes_to_the_host_with_most_room_and_a_large_one_holds_no_small_one_up() {
        let mut ready = Idle::new(vec![1, 3, 2], vec![4, 1, 2, 1], 7);
        (0..4).for_each(|task| ready.add(task, true, None));
        assert_eq!(ready.next(), Some((1, 1)));
        let (task, host) = ready.next().unwrap();
        assert_eq!(task, 2);
        assert!(host > 0, "{host}");
        let (task, _) = ready.next().unwrap();
        assert_eq!(task, 3);
        assert_eq!(ready.next(), None);
        // It is ready still, and may be taken back.
        assert!(ready.withdraw(0));
        assert!(!ready.withdraw(0));
    }
}
