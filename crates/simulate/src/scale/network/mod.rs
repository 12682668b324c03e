//! The network: messages over links that are computed, never stored as objects.
//!
//! A message crosses its route by virtual cut-through: its head waits at each link for the work
//! that is booked there, its body follows without gaps, and buffers are large enough to hold it.
//! Three ways of congestion, from cheap to exact:
//!
//! - [`Congestion::None`]: every message has its route for itself;
//! - [`Congestion::Route`]: the whole route is booked when the message is sent, one event a message.
//!   A link takes the work up at once, so a message that waits upstream leaves no hole downstream:
//!   a link is never idle while it has work, and no link carries more than its rate;
//! - [`Congestion::Hops`]: first come, first served at every link, one event a hop. Exact for this
//!   kind of link, and the reference for `Route`.

mod booking;
mod dragonfly;
mod fat_tree;
mod forwarding;
mod topology;
mod torus;
mod usage;

pub use booking::{Advance, Congestion, Crossing, Network};
pub use dragonfly::{Dragonfly, Routing};
pub use fat_tree::FatTree;
pub use forwarding::Forwarding;
pub use topology::{LinkKind, Topology};
pub use torus::Torus;
pub use usage::{HotLink, LinkUsage};
