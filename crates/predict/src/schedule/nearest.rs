//! Which of the tasks that wait a free host had best take.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::waiting::Waiting;
use crate::as_float;

/// The largest share first, as the bits of a number that is not negative; of equal ones most bytes, then who came first.
type Entry = Reverse<(Reverse<u64>, Reverse<u64>, u64, u32)>;

/// Tasks by the hosts that have their input, those first of which a host has the largest share.
///
/// What later tasks read beside what a task makes counts as its input does.
#[derive(Debug)]
pub(super) struct Nearest {
    by_host: Vec<BinaryHeap<Entry>>,
    /// By task and host what counts, of tasks that wait.
    counts: HashMap<(u32, u32), Entry>,
    /// By task: the pass in which it was taken last.
    taken_in: Vec<u64>,
    taken: Vec<(u32, Entry)>,
    pass: u64,
}

impl Nearest {
    pub(super) fn new(hosts: usize, tasks: usize) -> Self {
        Self {
            by_host: vec![BinaryHeap::new(); hosts],
            counts: HashMap::new(),
            taken_in: vec![0; tasks],
            taken: Vec::new(),
            pass: 1,
        }
    }

    /// Takes a task in that came as the one of a number.
    pub(super) fn add(&mut self, task: u32, turn: u64, waiting: &Waiting) {
        waiting.near_hosts().for_each(|host| self.count(task, turn, host, waiting));
    }

    /// Takes in what a host has of a task.
    pub(super) fn count(&mut self, task: u32, turn: u64, host: u32, waiting: &Waiting) {
        let held = waiting.near_bytes(host);
        let Some(heap) = self.by_host.get_mut(host as usize).filter(|_| held > 0) else { return };
        let share = as_float(held) / as_float(held.max(waiting.whole_bytes()));
        let entry = Reverse((Reverse(share.to_bits()), Reverse(held), turn, task));
        if self.counts.insert((task, host), entry) != Some(entry) {
            heap.push(entry);
        }
    }

    /// Forgets a task.
    pub(super) fn discard(&mut self, task: u32, waiting: &Waiting) {
        for host in waiting.near_hosts() {
            self.counts.remove(&(task, host));
        }
    }

    /// The task of which one of these hosts has the largest share; the next call gives another one.
    pub(super) fn take(&mut self, hosts: impl Iterator<Item = u32>) -> Option<u32> {
        let tops = hosts.filter_map(|host| Some((self.top(host)?, host)));
        let (entry, host) = tops.max()?;
        self.by_host[host as usize].pop();
        self.taken.push((host, entry));
        let Reverse((.., task)) = entry;
        self.taken_in[task as usize] = self.pass;
        Some(task)
    }

    /// Whether a task was taken since the last [`Self::put_back`].
    pub(super) fn is_taken(&self, task: u32) -> bool {
        self.taken_in[task as usize] == self.pass
    }

    /// Offers again what was taken and still waits.
    pub(super) fn put_back(&mut self) {
        for (host, entry) in self.taken.drain(..) {
            let Reverse((.., task)) = entry;
            if self.counts.get(&(task, host)) == Some(&entry) {
                self.by_host[host as usize].push(entry);
            }
        }
        self.pass += 1;
    }

    fn top(&mut self, host: u32) -> Option<Entry> {
        loop {
            let entry = *self.by_host[host as usize].peek()?;
            let Reverse((.., task)) = entry;
            if self.counts.get(&(task, host)) != Some(&entry) {
                self.by_host[host as usize].pop();
            } else if self.is_taken(task) {
                self.by_host[host as usize].pop();
                self.taken.push((host, entry));
            } else {
                return Some(entry);
            }
        }
    }
}
