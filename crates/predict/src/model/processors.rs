//! The processors of a machine that runs several hosts at once, as network namespaces or virtual machines do.
//!
//! What tasks compute and copy, what the store does for them, and the engine itself all want the same processors, and have equal shares
//! where there are more of them than processors: processor sharing in the sense of queueing theory, each piece on one processor at most.
//! A run does one piece after the other, and so does the engine.

use intarsia_des::{Alarm, Span, Time};

use super::Event;
use super::crowd::{NOTHING, Then};

/// What is left of a piece of work.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// Processors that it keeps busy.
    width: u32,
    left_seconds: f64,
    then: Then,
    /// Whether it is what its run does now; others of the run wait for it.
    is_first: bool,
}

/// The processors, and who wants them.
#[derive(Debug)]
pub(super) struct Processors {
    count: u32,
    jobs: Vec<Job>,
    updated: Time,
    busy_seconds: f64,
    pub(super) alarm: Alarm,
}

impl Processors {
    pub(super) const fn new(count: u32) -> Self {
        Self {
            count,
            jobs: Vec::new(),
            updated: Time::ZERO,
            busy_seconds: 0.0,
            alarm: Alarm::new(),
        }
    }

    /// Work that takes so long where `width` processors are free for it; `then` happens when it is done.
    pub(super) fn enter(&mut self, width: u32, seconds: f64, then: Then, now: Time) {
        self.advance(now);
        let is_first = !self.jobs.iter().any(|job| job.then.run == then.run);
        self.jobs.push(Job { width, left_seconds: seconds, then, is_first });
    }

    /// When the next piece is done, if no other comes before.
    pub(super) fn next(&self) -> Option<Time> {
        let under_way = self.jobs.iter().filter(|job| job.is_first);
        let first = under_way.map(|job| job.left_seconds).min_by(f64::total_cmp)?;
        // Upwards: at that time it is done for certain.
        let seconds = (first / self.speed()).max(0.0) + NOTHING / 2.0;
        Some(self.updated + Span::from_secs_f64(seconds))
    }

    /// Takes out one piece that is done by now.
    pub(super) fn complete(&mut self, now: Time) -> Option<Event> {
        self.advance(now);
        let is_done = |job: &Job| job.is_first && job.left_seconds <= NOTHING;
        let done = self.jobs.remove(self.jobs.iter().position(is_done)?);
        if let Some(next) = self.jobs.iter_mut().find(|job| job.then.run == done.then.run) {
            next.is_first = true;
        }
        Some(done.then.event)
    }

    /// Takes out all that a run wants: it goes on no more.
    pub(super) fn leave(&mut self, run: u32, now: Time) {
        self.advance(now);
        self.jobs.retain(|job| job.then.run != run);
    }

    /// Seconds that processors were busy, in the mean over all of them.
    pub(super) fn busy_seconds(&self) -> f64 {
        self.busy_seconds / f64::from(self.count)
    }

    fn wanted(&self) -> u32 {
        self.jobs.iter().filter(|job| job.is_first).map(|job| job.width).sum()
    }

    /// The part of its speed alone that each piece has.
    fn speed(&self) -> f64 {
        let wanted = self.wanted().max(1);
        (f64::from(self.count) / f64::from(wanted)).min(1.0)
    }

    fn advance(&mut self, now: Time) {
        let seconds = now.since(self.updated).as_secs_f64();
        self.updated = self.updated.max(now);
        if self.jobs.is_empty() || seconds <= 0.0 {
            return;
        }
        let speed = self.speed();
        self.busy_seconds += seconds * f64::from(self.wanted().min(self.count));
        for job in self.jobs.iter_mut().filter(|job| job.is_first) {
            job.left_seconds -= seconds * speed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of a run.
    fn step(run: u32) -> Then {
        Then { run, event: Event::Step(run) }
    }

    fn run(processors: &mut Processors) -> Vec<(u32, f64)> {
        let mut ends = Vec::new();
        while let Some(at) = processors.next() {
            while let Some(event) = processors.complete(at) {
                let Event::Step(number) = event else { continue };
                ends.push((number, (at.as_secs_f64() * 1e6).round() / 1e6));
            }
        }
        ends
    }

    #[test]
    fn who_finds_a_processor_is_not_slowed_down() {
        let mut two = Processors::new(2);
        two.enter(1, 3.0, step(1), Time::ZERO);
        two.enter(1, 5.0, step(2), Time::ZERO);
        assert_eq!(run(&mut two), [(1, 3.0), (2, 5.0)]);
        assert!((two.busy_seconds() - 4.0).abs() < 1e-6, "8 of 10 seconds of processors");
    }

    #[test]
    fn three_share_two_processors_until_one_has_ended() {
        let mut two = Processors::new(2);
        for run in 1..4 {
            two.enter(1, 2.0 * f64::from(run), step(run), Time::ZERO);
        }
        // At 2/3 until 3 s; then two are alone with 2 s and 4 s left.
        assert_eq!(run(&mut two), [(1, 3.0), (2, 5.0), (3, 7.0)]);
    }

    #[test]
    fn pieces_of_one_run_follow_each_other() {
        let mut two = Processors::new(2);
        for piece in 1..4 {
            let then = Then { run: 7, event: Event::Step(piece) };
            two.enter(1, 1.0, then, Time::ZERO);
        }
        assert_eq!(run(&mut two), [(1, 1.0), (2, 2.0), (3, 3.0)]);
    }

    #[test]
    fn what_is_given_up_slows_nobody_down_any_more() {
        let mut one = Processors::new(1);
        one.enter(1, 4.0, step(1), Time::ZERO);
        one.enter(1, 4.0, step(2), Time::ZERO);
        one.enter(1, 9.0, step(2), Time::ZERO);
        one.leave(2, Time::ZERO + Span::from_secs_f64(2.0));
        assert_eq!(run(&mut one), [(1, 5.0)]);
    }

    #[test]
    fn a_piece_for_several_processors_weighs_as_many() {
        let mut two = Processors::new(2);
        two.enter(3, 1.0, step(1), Time::ZERO);
        two.enter(1, 1.0, step(2), Time::ZERO);
        assert_eq!(run(&mut two), [(1, 2.0), (2, 2.0)]);
    }
}
