//! Which hosts make, or have made, what later tasks read together with what a task makes.

use std::collections::HashMap;

use super::waiting::ByHost;
use crate::workload::{TaskId, Workload};

/// A task that reads more files than this reads them from all hosts anyway, and a file that more tasks read than this is
/// wanted on all of them.
const NEIGHBOURS_MAX: usize = 16;

/// Where tasks had best run for the sake of those that read what they make.
///
/// A later task runs where most of its input is. Of what a task makes for it as much stays where it is as is there of the
/// rest of its input, if that is on one host.
#[derive(Debug)]
pub(crate) struct Affinity {
    /// By task: the tasks that read what it makes beside what others make, and how much of it they read.
    read: Vec<Vec<(TaskId, u64)>>,
    /// By task that reads: the tasks that make what it reads.
    makers: HashMap<TaskId, Vec<TaskId>>,
    /// By task that reads: how much of its input each host has; bytes of tasks that began again are taken back.
    held: HashMap<TaskId, Vec<(u32, u64)>>,
    /// By task: the host for which it was counted.
    counted: Vec<Option<u32>>,
    /// By task: one that stands for all whose outputs are read together, or with those of such.
    groups: Vec<usize>,
}

impl Affinity {
    /// Of a workload in which nothing has begun.
    pub(crate) fn new(workload: &Workload) -> Self {
        let tasks = workload.tasks.len();
        let mut read: Vec<Vec<(TaskId, u64)>> = vec![Vec::new(); tasks];
        let mut makers: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
        for (reader, task) in workload.tasks.iter().enumerate() {
            let inputs = task.inputs();
            if !(2..=NEIGHBOURS_MAX).contains(&inputs.len()) {
                continue;
            }
            for file in inputs {
                let described = &workload.files[file];
                let Some(maker) = described.writer.filter(|maker| *maker != reader) else {
                    continue;
                };
                let of_reader = makers.entry(reader).or_default();
                if !of_reader.contains(&maker) {
                    of_reader.push(maker);
                }
                if described.readers.len() > NEIGHBOURS_MAX {
                    continue;
                }
                match read[maker].iter_mut().find(|(other, _)| *other == reader) {
                    Some((_, bytes)) => *bytes += described.size_bytes,
                    None => read[maker].push((reader, described.size_bytes)),
                }
            }
        }
        let groups = groups_of(tasks, makers.values());
        Self { read, makers, held: HashMap::new(), counted: vec![None; tasks], groups }
    }

    /// Deals tasks from groups that have nothing to do with each other, one of each in turn: so hosts that are all idle
    /// begin far from each other.
    pub(crate) fn in_turns(&self, tasks: Vec<TaskId>) -> Vec<TaskId> {
        let mut turns: HashMap<usize, u32> = HashMap::new();
        let mut dealt: Vec<(u32, TaskId)> = Vec::new();
        for task in tasks {
            let turn = turns.entry(self.groups[task]).or_default();
            dealt.push((*turn, task));
            *turn += 1;
        }
        dealt.sort_by_key(|(turn, _)| *turn);
        dealt.into_iter().map(|(_, task)| task).collect()
    }

    /// A task has begun on a host; gives the tasks that have not and that this is of importance to.
    pub(crate) fn began(&mut self, task: TaskId, host: u32) -> Vec<TaskId> {
        self.forget(task);
        self.counted[task] = Some(host);
        let mut others = Vec::new();
        for (reader, bytes) in &self.read[task] {
            let held = self.held.entry(*reader).or_default();
            match held.iter_mut().find(|(other, _)| *other == host) {
                Some((_, sum)) => *sum += bytes,
                None => held.push((host, *bytes)),
            }
            others.extend(self.makers.get(reader).into_iter().flatten().copied());
        }
        others.retain(|other| self.counted[*other].is_none());
        others.sort_unstable();
        others.dedup();
        others
    }

    /// What a task made is gone, or never came to be.
    pub(crate) fn forget(&mut self, task: TaskId) {
        let Some(host) = self.counted[task].take() else { return };
        for (reader, bytes) in &self.read[task] {
            let held = self.held.entry(*reader).or_default();
            if let Some((_, sum)) = held.iter_mut().find(|(other, _)| *other == host) {
                *sum -= bytes;
            }
        }
    }

    /// By host the bytes that later tasks need not move if a task runs there.
    pub(crate) fn of(&self, task: TaskId) -> ByHost {
        let mut found = ByHost::default();
        for (reader, bytes) in &self.read[task] {
            let Some(held) = self.held.get(reader) else { continue };
            let most = held.iter().map(|(_, held)| *held).max().unwrap_or(0);
            let host = held.iter().find(|(_, held)| *held == most);
            if let Some((host, held)) = host.filter(|_| most > 0) {
                found.add(*host, (*bytes).min(*held));
            }
        }
        found
    }
}

/// Joins the makers of what one task reads.
fn groups_of<'a>(tasks: usize, makers: impl Iterator<Item = &'a Vec<TaskId>>) -> Vec<usize> {
    let mut parent: Vec<usize> = (0..tasks).collect();
    let first = |parent: &mut Vec<usize>, task: usize| {
        let mut at = task;
        while parent[at] != at {
            parent[at] = parent[parent[at]];
            at = parent[at];
        }
        at
    };
    for together in makers {
        for pair in together.windows(2) {
            let (a, b) = (first(&mut parent, pair[0]), first(&mut parent, pair[1]));
            parent[a] = b;
        }
    }
    (0..tasks).map(|task| first(&mut parent, task)).collect()
}
