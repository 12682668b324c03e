//! The work of a host that slows down when there is more of it: tasks that copy, the store's own process, the kernel.
//!
//! Two groups do not slow each other down: what processors do (names, copies, writes that memory takes in) and what a
//! device does (reads, and writes that nothing takes in). Within a group each task runs at the share that [`Crowding`]
//! gives it for so many tasks. A task does one piece of work of a group after the other: the chunks of one operation are
//! no crowd, as the seed's single reader and writer have several under way as well.

use intarsia_des::{Alarm, Span, Time};

use super::Event;
use crate::profile::{Crowding, Work};

/// For whom work is done, and what happens when it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Then {
    /// The run of a task.
    pub run: u32,
    pub event: Event,
}

/// What is left of a piece of work.
#[derive(Clone, Copy, Debug)]
struct Job {
    work: Work,
    is_on_device: bool,
    left_seconds: f64,
    then: Then,
    /// Whether it is what its run does now in its group; others of the run wait for it.
    is_first: bool,
}

impl Job {
    fn shares_with(&self, other: &Self) -> bool {
        self.then.run == other.then.run && self.is_on_device == other.is_on_device
    }
}

/// A nanosecond: times are whole numbers of them, so less is nothing.
pub(super) const NOTHING: f64 = 1e-9;

/// The work of one host.
#[derive(Debug)]
pub(super) struct Crowd {
    crowding: Crowding,
    takes_writes_in: bool,
    jobs: Vec<Job>,
    updated: Time,
    busy: Span,
    storage_busy: Span,
    pub(super) alarm: Alarm,
}

impl Crowd {
    /// `takes_writes_in`: whether memory takes in what is written, so that it needs no device at first.
    pub(super) const fn new(crowding: Crowding, takes_writes_in: bool) -> Self {
        Self {
            crowding,
            takes_writes_in,
            jobs: Vec::new(),
            updated: Time::ZERO,
            busy: Span::ZERO,
            storage_busy: Span::ZERO,
            alarm: Alarm::new(),
        }
    }

    /// Work that takes so long alone; `then` happens when it is done.
    pub(super) fn enter(&mut self, work: Work, seconds: f64, then: Then, now: Time) {
        self.advance(now);
        let is_on_device = match work {
            Work::Names | Work::Copy => false,
            Work::Read => true,
            Work::Write => !self.takes_writes_in,
        };
        let mut job = Job { work, is_on_device, left_seconds: seconds, then, is_first: false };
        job.is_first = !self.jobs.iter().any(|other| other.shares_with(&job));
        self.jobs.push(job);
    }

    /// When the next piece is done, if no other comes before.
    pub(super) fn next(&self) -> Option<Time> {
        let [here, device] = self.present();
        let under_way = self.jobs.iter().filter(|job| job.is_first);
        let seconds = under_way.map(|job| job.left_seconds / self.speed(job, here, device));
        let first = seconds.min_by(f64::total_cmp)?;
        // Upwards: at that time it is done for certain.
        Some(self.updated + Span::from_secs_f64(first.max(0.0) + NOTHING / 2.0))
    }

    /// Takes out one piece that is done by now.
    pub(super) fn complete(&mut self, now: Time) -> Option<Event> {
        self.advance(now);
        let is_done = |job: &Job| job.is_first && job.left_seconds <= NOTHING;
        let done = self.jobs.remove(self.jobs.iter().position(is_done)?);
        if let Some(next) = self.jobs.iter_mut().find(|job| job.shares_with(&done)) {
            next.is_first = true;
        }
        Some(done.then.event)
    }

    /// How long there was any work.
    pub(super) const fn busy(&self) -> Span {
        self.busy
    }

    /// How long anything was read from a tier or written to one.
    pub(super) const fn storage_busy(&self) -> Span {
        self.storage_busy
    }

    /// How many runs want the processors, and how many the device.
    fn present(&self) -> [u32; 2] {
        let runs = |is_on_device| {
            self.jobs.iter().filter(|job| job.is_first && job.is_on_device == is_on_device).count()
        };
        [runs(false), runs(true)].map(super::tasks::number)
    }

    fn speed(&self, job: &Job, here: u32, device: u32) -> f64 {
        self.crowding.share(job.work, if job.is_on_device { device } else { here })
    }

    fn advance(&mut self, now: Time) {
        let span = now.since(self.updated);
        self.updated = self.updated.max(now);
        if self.jobs.is_empty() || span == Span::ZERO {
            return;
        }
        self.busy += span;
        if self.jobs.iter().any(|job| matches!(job.work, Work::Read | Work::Write)) {
            self.storage_busy += span;
        }
        let ([here, device], seconds) = (self.present(), span.as_secs_f64());
        for place in 0..self.jobs.len() {
            if !self.jobs[place].is_first {
                continue;
            }
            let done = seconds * self.speed(&self.jobs[place], here, device);
            self.jobs[place].left_seconds -= done;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CROWDING: Crowding =
        Crowding { at_once: 2, names: 1.0, write: 1.5, read: 1.0, copy: 2.0 };

    /// A step of a run.
    fn step(run: u32) -> Then {
        Then { run, event: Event::Step(run) }
    }

    fn run(crowd: &mut Crowd) -> Vec<(u32, f64)> {
        let mut ends = Vec::new();
        while let Some(at) = crowd.next() {
            while let Some(event) = crowd.complete(at) {
                let Event::Step(number) = event else { continue };
                ends.push((number, (at.as_secs_f64() * 1e6).round() / 1e6));
            }
        }
        ends
    }

    #[test]
    fn two_writers_get_one_and_a_half_times_of_one() {
        let mut crowd = Crowd::new(CROWDING, true);
        crowd.enter(Work::Write, 3.0, step(1), Time::ZERO);
        crowd.enter(Work::Write, 6.0, step(2), Time::ZERO);
        // Both at 0.75 until 4 s, then 3 s of the second are left, alone.
        assert_eq!(run(&mut crowd), [(1, 4.0), (2, 7.0)]);
        assert!((crowd.busy().as_secs_f64() - 7.0).abs() < 1e-6);
    }

    #[test]
    fn a_device_and_the_processors_do_not_wait_for_each_other() {
        let mut crowd = Crowd::new(CROWDING, true);
        crowd.enter(Work::Names, 1.0, step(1), Time::ZERO);
        crowd.enter(Work::Read, 1.0, step(2), Time::ZERO);
        assert_eq!(run(&mut crowd), [(1, 1.0), (2, 1.0)]);
        let mut crowd = Crowd::new(CROWDING, false);
        crowd.enter(Work::Write, 1.0, step(1), Time::ZERO);
        crowd.enter(Work::Read, 1.0, step(2), Time::ZERO);
        // The reader has half a device, the writer three quarters of what it has alone.
        assert_eq!(run(&mut crowd), [(1, 1.333_333), (2, 1.666_667)]);
    }

    #[test]
    fn what_one_task_has_under_way_is_no_crowd() {
        let mut crowd = Crowd::new(Crowding { write: 0.1, ..CROWDING }, true);
        for chunk in 1..4 {
            crowd.enter(Work::Write, 1.0, Then { run: 7, event: Event::Step(chunk) }, Time::ZERO);
        }
        assert_eq!(run(&mut crowd), [(1, 1.0), (2, 2.0), (3, 3.0)]);
    }

    #[test]
    fn a_task_with_many_pieces_has_the_share_of_one_with_one() {
        let mut crowd = Crowd::new(CROWDING, true);
        for chunk in 1..4 {
            crowd.enter(Work::Names, 1.0, Then { run: 7, event: Event::Step(chunk) }, Time::ZERO);
        }
        crowd.enter(Work::Names, 2.0, Then { run: 8, event: Event::Step(9) }, Time::ZERO);
        // Both at a half until the second has ended.
        assert_eq!(run(&mut crowd), [(1, 2.0), (2, 4.0), (9, 4.0), (3, 5.0)]);
        assert!((crowd.busy().as_secs_f64() - 5.0).abs() < 1e-6);
    }
}
