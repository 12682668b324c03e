//! What entities wait for and share.
//!
//! A resource decides who is served and how fast. It schedules nothing itself: the model does, with
//! the times that the resource tells, and for resources whose times change with every arrival an
//! [`Alarm`] keeps the one event that is needed.

mod alarm;

mod first;
mod fluid;
mod max_min;
mod priority_server;
mod server;
mod shared_server;
mod store;
mod timetable;

pub use alarm::Alarm;
pub use fluid::{FlowId, Fluid, LinkId};
pub use priority_server::PriorityServer;
pub use server::Server;
pub use shared_server::{CustomerId, SharedServer};
pub use store::{Put, Store, Taken};
pub use timetable::{Booking, Timetable};
