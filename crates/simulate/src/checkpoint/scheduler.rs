//! Which of the waiting jobs starts next.

use intarsia_des::{Span, Time};

use super::workload::Request;
use crate::scenario::{Problem, Section};

/// Waiting jobs behind the first one that are looked at when the scenario does not say.
const DEPTH: i64 = 100;
/// The largest number of them that is accepted: all of them are looked at whenever a job ends.
const MOST_DEPTH: u64 = 65_536;

/// The order in which jobs start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scheduler {
    /// First come, first served: nobody overtakes.
    Fcfs,
    /// EASY backfilling: the first waiting job has a reservation at the earliest time at which enough
    /// nodes are free by the estimates of the running jobs; jobs behind it start before it when they do
    /// not delay that (D. A. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995; as A. W. Mu'alem
    /// and D. G. Feitelson write it down, IEEE TPDS 12(6), 2001).
    Easy {
        /// How many jobs behind the first one are looked at.
        depth: usize,
        /// The estimate of a job over its work; the trace's requested time when there is none.
        factor: Option<f64>,
    },
}

#[derive(Clone, Copy)]
enum Name {
    Fcfs,
    Easy,
}

static NAMES: [(&str, Name); 2] = [("fcfs", Name::Fcfs), ("easy", Name::Easy)];

/// What the first waiting job is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    /// When it starts at the latest, if no running job overruns its estimate.
    pub(super) at: Time,
    /// Nodes that are free then beside those that it needs.
    pub(super) extra: u32,
}

impl Scheduler {
    /// Reads the fields of `[workload]` that concern it.
    pub(super) fn read(section: &mut Section<'_>) -> Result<Self, Problem> {
        match section.choice("scheduler", &NAMES).or("fcfs")? {
            Name::Easy => {
                let depth = section.integer("backfill_depth").at_least(1).at_most(MOST_DEPTH);
                let depth = usize::try_from(depth.or(DEPTH)?).unwrap_or(usize::MAX);
                let factor = section.number("estimate_factor").positive().optional()?;
                Ok(Self::Easy { depth, factor })
            }
            Name::Fcfs => {
                let needless = ["backfill_depth", "estimate_factor"];
                match needless.into_iter().find(|field| section.has(field)) {
                    None => Ok(Self::Fcfs),
                    Some(field) => Err(section
                        .refuse(field, "has no meaning when nobody overtakes")
                        .with_help("add scheduler = \"easy\", or leave it out")),
                }
            }
        }
    }

    /// How many waiting jobs are looked at.
    pub(super) fn queue_length(self) -> usize {
        match self {
            Self::Fcfs => 1,
            Self::Easy { depth, .. } => depth + 1,
        }
    }

    /// The work of a job as the scheduler knows it.
    pub(super) fn estimated_work(self, request: &Request) -> Span {
        match self {
            Self::Easy { factor: Some(factor), .. } => {
                Span::from_secs_f64(request.work.as_secs_f64() * factor)
            }
            _ => request.requested.unwrap_or(request.work),
        }
    }
}

impl Reservation {
    /// For a job on `nodes` when `idle` nodes are free now and `running` jobs are expected to end, each
    /// with so many nodes. A job that has overrun its estimate is expected to end now.
    pub(super) fn new(nodes: u32, idle: u32, now: Time, mut running: Vec<(Time, u32)>) -> Self {
        running.sort_unstable();
        let mut free = idle;
        let mut at = now;
        for (end, released) in running {
            if free >= nodes && end > at {
                break;
            }
            at = at.max(end);
            free = free.saturating_add(released);
        }
        Self { at, extra: free.saturating_sub(nodes) }
    }

    /// Whether a job that begins `now` and takes `duration` on `nodes` does not delay it. If it needs
    /// extra nodes for that, they are taken.
    pub(super) fn admits(&mut self, nodes: u32, duration: Span, now: Time) -> bool {
        if now + duration <= self.at {
            return true;
        }
        let is_beside = nodes <= self.extra;
        if is_beside {
            self.extra -= nodes;
        }
        is_beside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn a_reservation_is_at_the_first_end_that_frees_enough() {
        let running = vec![(at(30), 4), (at(10), 2), (at(20), 3), (at(20), 1)];
        let reserve = |nodes| Reservation::new(nodes, 1, at(5), running.clone());
        assert_eq!(reserve(3), Reservation { at: at(10), extra: 0 });
        assert_eq!(reserve(4), Reservation { at: at(20), extra: 3 }, "all that end then");
        assert_eq!(reserve(11), Reservation { at: at(30), extra: 0 });
        let late = Reservation::new(3, 1, at(15), running.clone());
        assert_eq!(late, Reservation { at: at(15), extra: 0 }, "overrun");
    }

    #[test]
    fn jobs_that_end_in_time_or_use_extra_nodes_are_admitted() {
        let mut reservation = Reservation { at: at(20), extra: 3 };
        assert!(reservation.admits(9, Span::from_nanos(15), at(5)));
        assert!(!reservation.admits(4, Span::from_nanos(16), at(5)));
        assert!(reservation.admits(2, Span::from_nanos(16), at(5)));
        assert!(!reservation.admits(2, Span::from_nanos(16), at(5)), "one is left");
    }
}
