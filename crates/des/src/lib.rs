//! A discrete-event kernel: sequential, deterministic for a seed, ties in insertion order.
//!
//! ```
//! use intarsia_des::{Agenda, Model, Simulation, Span, Time};
//!
//! struct Clock { ticks: u32 }
//! struct Tick;
//!
//! impl Model for Clock {
//!     type Event = Tick;
//!     fn handle(&mut self, _: Tick, agenda: &mut Agenda<Tick>) {
//!         self.ticks += 1;
//!         agenda.after(Span::from_secs_f64(1.0), Tick);
//!     }
//! }
//!
//! let mut simulation = Simulation::new(Clock { ticks: 0 });
//! simulation.parts_mut().1.at(Time::ZERO, Tick);
//! simulation.run_until(Time::from_nanos(10_000_000_000));
//! assert_eq!(simulation.model().ticks, 11);
//! ```

mod agenda;
mod parameter;
mod queue;
mod random;
mod replications;
mod resource;
mod simulation;
mod statistics;
mod time;

/// The random numbers that distributions are drawn with, in the version that this crate uses.
pub use rand;

pub use agenda::Agenda;
pub use parameter::InvalidParameter;
pub use queue::Ticket;
pub use random::{Distribution, Streams};
pub use replications::replicate;
pub use resource::{
    Alarm, Booking, CustomerId, FlowId, Fluid, LinkId, PriorityServer, Put, Server, SharedServer,
    Store, Taken, Timetable,
};
pub use simulation::{Model, Simulation};
pub use statistics::{BatchMeans, Histogram, Interval, Tally, TimeAverage, student};
pub use time::{Span, Time};
