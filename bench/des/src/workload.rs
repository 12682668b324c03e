//! What is simulated: nothing at all, or PHOLD.

use intarsia_des::{Span, Streams};
use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Which workload, and how long.
pub(crate) struct Workload {
    entities: Option<u32>,
    events: u64,
    seed: u64,
}

/// What happens at each event.
///
/// PHOLD (R. M. Fujimoto, "Performance of Time Warp under synthetic workloads", 1990): each event
/// schedules one at a random entity after a delay that is exponential with a mean of one second, so
/// there are always as many pending events as entities. The empty model has one event, which
/// schedules itself again a second later.
pub(crate) enum Entities {
    Empty,
    Phold { visits: Vec<u64>, rng: Xoshiro256PlusPlus },
}

impl Workload {
    pub(crate) fn new(entities: Option<u32>, events: u64, seed: u64) -> Self {
        Self { entities, events, seed }
    }

    /// How many events are pending at any time.
    pub(crate) fn pending(&self) -> u32 {
        self.entities.unwrap_or(1)
    }

    pub(crate) fn build(&self) -> Entities {
        match self.entities {
            None => Entities::Empty,
            Some(entities) => Entities::Phold {
                visits: vec![0; entities as usize],
                rng: Streams::new(self.seed).stream("phold", 0),
            },
        }
    }

    /// Virtual time until each entity has had three events: the kernel's steady state.
    pub(crate) fn warm_up(&self) -> Span {
        Span::from_secs_f64(3.0)
    }

    /// Virtual time that holds about the wanted number of events.
    pub(crate) fn measured(&self) -> Span {
        Span::from_secs_f64(self.events as f64 / f64::from(self.pending()))
    }
}

impl Entities {
    /// An event at `entity`: gives the delay and the entity of the next one.
    #[inline]
    pub(crate) fn visit(&mut self, entity: u32) -> (Span, u32) {
        match self {
            Self::Empty => (Span::from_nanos(1_000_000_000), entity),
            Self::Phold { visits, rng } => {
                visits[entity as usize] += 1;
                let receiver = rng.random_range(0..visits.len());
                let delay: f64 = Exp1.sample(rng);
                (Span::from_secs_f64(delay), u32::try_from(receiver).unwrap_or(entity))
            }
        }
    }
}
