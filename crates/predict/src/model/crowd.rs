//! The work of a host that slows down when there is more of it: tasks that copy, the store's own process, the kernel.
//!
//! Two groups do not slow each other down: what processors do (names, copies, writes that memory takes in) and what a
//! device does (reads, and writes that nothing takes in). Within a group each piece of work runs at the share that
//! [`Crowding`] gives it for so many.

use intarsia_des::{Alarm, Span, Time};

use super::Event;
use crate::profile::{Crowding, Work};

/// What is left of a piece of work.
#[derive(Clone, Copy, Debug)]
struct Job {
    work: Work,
    is_on_device: bool,
    left_seconds: f64,
    then: Event,
}

/// A nanosecond: times are whole numbers of them, so less is nothing.
const NOTHING: f64 = 1e-9;

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
    pub(super) fn enter(&mut self, work: Work, seconds: f64, then: Event, now: Time) {
        self.advance(now);
        let is_on_device = match work {
            Work::Names | Work::Copy => false,
            Work::Read => true,
            Work::Write => !self.takes_writes_in,
        };
        self.jobs.push(Job { work, is_on_device, left_seconds: seconds, then });
    }

    /// When the next piece is done, if no other comes before.
    pub(super) fn next(&self) -> Option<Time> {
        let [here, device] = self.present();
        let seconds = self.jobs.iter().map(|job| job.left_seconds / self.speed(job, here, device));
        let first = seconds.min_by(f64::total_cmp)?;
        // Upwards: at that time it is done for certain.
        Some(self.updated + Span::from_secs_f64(first.max(0.0) + NOTHING / 2.0))
    }

    /// Takes out one piece that is done by now.
    pub(super) fn complete(&mut self, now: Time) -> Option<Event> {
        self.advance(now);
        let place = self.jobs.iter().position(|job| job.left_seconds <= NOTHING)?;
        Some(self.jobs.remove(place).then)
    }

    /// How long there was any work.
    pub(super) const fn busy(&self) -> Span {
        self.busy
    }

    /// How long anything was read from a tier or written to one.
    pub(super) const fn storage_busy(&self) -> Span {
        self.storage_busy
    }

    fn present(&self) -> [u32; 2] {
        let device = self.jobs.iter().filter(|job| job.is_on_device).count();
        [self.jobs.len() - device, device].map(super::tasks::number)
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
        crowd.enter(Work::Write, 3.0, Event::Step(1), Time::ZERO);
        crowd.enter(Work::Write, 6.0, Event::Step(2), Time::ZERO);
        // Both at 0.75 until 4 s, then 3 s of the second are left, alone.
        assert_eq!(run(&mut crowd), [(1, 4.0), (2, 7.0)]);
        assert!((crowd.busy().as_secs_f64() - 7.0).abs() < 1e-6);
    }

    #[test]
    fn a_device_and_the_processors_do_not_wait_for_each_other() {
        let mut crowd = Crowd::new(CROWDING, true);
        crowd.enter(Work::Names, 1.0, Event::Step(1), Time::ZERO);
        crowd.enter(Work::Read, 1.0, Event::Step(2), Time::ZERO);
        assert_eq!(run(&mut crowd), [(1, 1.0), (2, 1.0)]);
        let mut crowd = Crowd::new(CROWDING, false);
        crowd.enter(Work::Write, 1.0, Event::Step(1), Time::ZERO);
        crowd.enter(Work::Read, 1.0, Event::Step(2), Time::ZERO);
        // The reader has half a device, the writer three quarters of what it has alone.
        assert_eq!(run(&mut crowd), [(1, 1.333_333), (2, 1.666_667)]);
    }
}
