//! The control socket: how the verbs of the command talk to a running node.
//!
//! One request and its replies per connection, each a line of JSON:
//!
//! ```text
//! → {"verb":"check","repair":false,"content":false}
//! ← {"progress":{"done":100,"total":4000}}      any number; they also keep the connection alive
//! ← {"done":{…}}                                or {"failed":{"exit":…,"message":…,"help":…}}
//! ```

mod client;
mod message;
mod server;
mod socket;

pub(crate) use client::{call, call_while};
pub(crate) use message::Request;
pub(crate) use server::{Operations, Server};

use std::time::Duration;

/// The longest wait for the next line from the other side.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
