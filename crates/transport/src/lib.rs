//! Connections between nodes: mutually authenticated, pipelined, with bounded memory and bounded waits.
//!
//! [`Peers`] asks, [`Server`] answers; both run on one [`Runtime`]. Callers are plain threads: [`Peers::call`] blocks
//! until the answer or the deadline, [`Peers::start`] returns at once. Only this crate knows that the bytes go over
//! TCP: `link` makes connections and protects frames, everything above it moves whole frames. In a simulation `simulated`
//! takes the place of all that is below [`Peers`] and [`Server`].
//!
//! `docs/internals/wire.md` describes the protocol and what each kind of protection is worth.

mod bond;
mod buffer;
mod client;
mod config;
mod connection;
mod error;
mod frame;
mod handler;
mod job;
mod key;
mod lane;
mod link;
mod lobby;
mod members;
mod outbox;
mod peers;
mod pending;
mod runtime;
mod server;
mod session;
mod simulated;
mod sockets;
mod waiting;
mod workers;

pub use buffer::{Buffer, BufferPool};
pub use client::Answer;
pub use config::{Config, MAX_PATIENCE, MAX_SLOWNESS, Patience};
pub use error::{CallError, PeerError, PeerFailure, StartError};
pub use handler::{Handler, Reply};
pub use key::{DeploymentKey, Identity};
pub use peers::{PeerStatus, Peers};
pub use pending::Pending;
pub use runtime::Runtime;
pub use server::Server;
pub use session::Session;
pub use simulated::{Link, Network};
