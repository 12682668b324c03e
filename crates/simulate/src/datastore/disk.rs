//! A disk: a head that moves, a platter that turns, a queue that is served in one direction.

use std::collections::VecDeque;

use intarsia_des::Span;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::settings::DiskSettings;

/// A forward gap that the platter passes sooner than the head would seek.
const PASSED_OVER_BYTES: u64 = 128 * 1024;
/// The oldest job lets so many queues' worth of others pass.
const PATIENCE: usize = 2;

/// A piece of work for one disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// Old content is read, and the new one written a revolution later.
    pub(super) is_update: bool,
    /// Whose part this is.
    pub(super) work: usize,
}

/// A disk and its queue.
#[derive(Debug)]
pub(super) struct Disk {
    settings: DiskSettings,
    head: u64,
    waiting: VecDeque<Job>,
    /// How many the oldest job let pass.
    passed: usize,
    /// What it works on.
    current: Option<Job>,
    random: Xoshiro256PlusPlus,
}

impl Disk {
    pub(super) fn new(settings: DiskSettings, random: Xoshiro256PlusPlus) -> Self {
        Self { settings, head: 0, waiting: VecDeque::new(), passed: 0, current: None, random }
    }

    /// Takes a job; gives the time until the disk is done with it if it was idle.
    pub(super) fn submit(&mut self, job: Job) -> Option<Span> {
        self.waiting.push_back(job);
        if self.current.is_some() { None } else { self.begin() }
    }

    /// Ends the present job; gives the work it belongs to and how long the next one takes.
    pub(super) fn finish(&mut self) -> (Option<usize>, Option<Span>) {
        let done = self.current.take().map(|job| job.work);
        (done, self.begin())
    }

    fn begin(&mut self) -> Option<Span> {
        let choice = self.choice()?;
        self.passed = if choice == 0 { 0 } else { self.passed + 1 };
        let job = self.waiting.remove(choice)?;
        let span = Span::from_secs_f64(self.service_secs(&job));
        self.head = job.start + job.bytes;
        self.current = Some(job);
        Some(span)
    }

    /// The next one upwards, else the lowest (C-LOOK); the oldest when it let many pass.
    fn choice(&self) -> Option<usize> {
        if self.passed >= PATIENCE * self.settings.queue {
            return Some(0);
        }
        let seen = self.waiting.iter().take(self.settings.queue).enumerate();
        let order = |job: &Job| (job.start < self.head, job.start);
        seen.min_by_key(|(_, job)| order(job)).map(|(index, _)| index)
    }

    fn service_secs(&mut self, job: &Job) -> f64 {
        let revolution = 60.0 / self.settings.rpm;
        let transfer = job.bytes as f64 / self.settings.bytes_per_second;
        let update = if job.is_update { revolution } else { 0.0 };
        self.positioning_secs(job.start, revolution) + transfer + update
    }

    fn positioning_secs(&mut self, start: u64, revolution: f64) -> f64 {
        if start >= self.head && start - self.head <= PASSED_OVER_BYTES {
            return (start - self.head) as f64 / self.settings.bytes_per_second;
        }
        let share = start.abs_diff(self.head) as f64 / self.settings.capacity_bytes as f64;
        let reach = self.settings.seek_full_ms - self.settings.seek_min_ms;
        let seek = (self.settings.seek_min_ms + reach * share.min(1.0).sqrt()) / 1e3;
        seek + self.random.random_range(0.0..1.0) * revolution
    }
}
