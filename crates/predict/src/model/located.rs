//! What the scheduler is told of where the input of tasks lies.

use super::World;
use super::scheduler::{Cheapest, Ready};
use super::tasks::number;
use crate::schedule::ByHost;
use crate::workload::{FileId, Operation, TaskId};

impl World<'_> {
    /// Tasks that are ready at the same time.
    pub(super) fn are_ready(&mut self, tasks: Vec<TaskId>) {
        let tasks = match &self.ready {
            Ready::Cheapest(cheapest) => cheapest.in_turns(tasks),
            Ready::Anywhere(_) | Ready::Nearby(_) => tasks,
        };
        for task in tasks {
            let asks = matches!(self.ready, Ready::Anywhere(_) | Ready::Nearby(_));
            let nearest = asks.then(|| self.nearest(task)).flatten();
            match &mut self.ready {
                Ready::Anywhere(idle) => idle.add(number(task), nearest.is_some(), None),
                Ready::Nearby(idle) => idle.add(number(task), nearest.is_some(), nearest),
                Ready::Cheapest(cheapest) => {
                    cheapest.forget(task);
                    self.tell_where(task);
                }
            }
        }
    }

    /// A task has begun on a host: where others are best made that are read together with what it makes.
    pub(super) fn has_begun(&mut self, task: TaskId, host: u32) {
        let Some(cheapest) = self.cheapest() else { return };
        let others = cheapest.began(task, host);
        self.tell_anew(others);
    }

    /// A host keeps what a task has read, or what was copied there for it.
    pub(super) fn has_read(&mut self, task: TaskId, host: u32) {
        let workload = self.workload;
        if self.cheapest().is_none() {
            return;
        }
        for file in workload.tasks[task].inputs() {
            let described = &workload.files[file];
            let of_file = self.bytes_stored(file, described.size_bytes);
            let more = described.size_bytes.saturating_sub(of_file.of(host));
            let Some(cheapest) = self.cheapest().filter(|_| !of_file.is_empty()) else { continue };
            if cheapest.has_read(host, file) && more > 0 {
                let readers = described.readers.iter().map(|reader| number(*reader));
                readers.for_each(|reader| cheapest.gains(reader, host, more));
            }
        }
    }

    /// A host has failed: where the input of all tasks lies that wait.
    pub(super) fn tell_all_anew(&mut self, failed: u32) {
        let Some(cheapest) = self.cheapest() else { return };
        cheapest.host_fails(failed);
        let tasks = cheapest.waiting(usize::MAX);
        self.tell_anew(tasks.into_iter().map(|task| task as usize).collect());
    }

    /// Tells of those among these tasks that wait.
    pub(super) fn tell_anew(&mut self, tasks: Vec<TaskId>) {
        for task in tasks {
            if self.cheapest().is_some_and(|cheapest| cheapest.waits(number(task))) {
                self.tell_where(task);
            }
        }
    }

    fn tell_where(&mut self, task: TaskId) {
        let located = self.located(task);
        if let Some(cheapest) = self.cheapest() {
            cheapest.add(task, number(task), located);
        }
    }

    const fn cheapest(&mut self) -> Option<&mut Cheapest> {
        match &mut self.ready {
            Ready::Cheapest(cheapest) => Some(cheapest),
            Ready::Anywhere(_) | Ready::Nearby(_) => None,
        }
    }

    /// How many bytes of what a task reads each host has, files counted whole, and all bytes of it that lie anywhere.
    pub(super) fn located(&self, task: TaskId) -> (ByHost, u64) {
        let (mut held, mut input_bytes) = (ByHost::default(), 0);
        for file in self.workload.tasks[task].inputs() {
            let size_bytes = self.workload.files[file].size_bytes;
            let of_file = self.located_file(task, file, size_bytes);
            if !of_file.is_empty() {
                input_bytes += size_bytes;
            }
            of_file.iter().for_each(|(host, bytes)| held.add(host, bytes));
        }
        (held, input_bytes)
    }

    /// The same of one file.
    fn located_file(&self, task: TaskId, file: FileId, size_bytes: u64) -> ByHost {
        let mut held = self.bytes_stored(file, size_bytes);
        if let Ready::Cheapest(cheapest) = &self.ready
            && !held.is_empty()
        {
            let hosts = cheapest.keepers(file).chain(self.copied_to(task));
            hosts.for_each(|host| held.set(host, size_bytes));
        }
        held
    }

    /// Whether a file stands beside its inode, on no host.
    fn is_inline(&self, file: FileId) -> bool {
        self.workload.files[file].size_bytes <= self.profile.client.inline_bytes
    }

    /// How many bytes of a file each host stores, as whoever asks is told.
    fn bytes_stored(&self, file: FileId, size_bytes: u64) -> ByHost {
        let mut held = ByHost::default();
        if self.is_inline(file) {
            return held;
        }
        let places = self.places.of(file).into_iter();
        let bytes = places.flat_map(|place| place.bytes_by_host(size_bytes));
        bytes.filter(|(_, bytes)| *bytes > 0).for_each(|(host, bytes)| held.add(host, bytes));
        held
    }

    /// The host that holds most of what a task reads; the first of equals.
    fn nearest(&self, task: TaskId) -> Option<u32> {
        let mut held = ByHost::default();
        for operation in &self.workload.tasks[task].operations {
            let Operation::Read(extent) = operation else { continue };
            if self.is_inline(extent.file) {
                continue;
            }
            let Some(place) = self.places.of(extent.file) else { continue };
            let bytes = place.bytes_by_host(extent.size_bytes);
            bytes
                .filter(|(host, bytes)| *bytes > 0 && self.roles.app.contains(host))
                .for_each(|(host, bytes)| held.add(host, bytes));
        }
        held.most()
    }
}
