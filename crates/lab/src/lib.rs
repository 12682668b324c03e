//! Many hosts on one Linux machine, to try a cluster and to test one.
//!
//! A lab is a set of network namespaces. Each *node* of it (`n1`, `n2`, …) is a namespace with one
//! interface, `eth0`; the *hub* is a namespace with the bridge that joins them. A token bucket at both
//! ends of each link holds its rate in both directions, and a packet filter on the bridge cuts links, one
//! way too. The machine's own network has no leg in a lab and is not changed: every interface is made
//! inside a namespace of the lab.
//!
//! ```text
//!  n1 ─ eth0 ══ n1 ┐                 tbf at eth0: what the node sends
//!  n2 ─ eth0 ══ n2 ┼─ br0  (hub)     tbf at n2:   what it receives
//!  n3 ─ eth0 ══ n3 ┘                 nft at br0:  which node reaches which
//! ```
//!
//! Only the network is apart. Files, mounts, processes and users are those of the machine, so that a store
//! mounted from within a node is seen by everybody.
//!
//! The work is done by `ip`, `tc`, `nft` and `nsenter`, called with batches on standard input: they are on
//! every system that has namespaces, need no `unsafe` and no asynchronous runtime, and what they are told
//! can be printed and repeated by hand. A lab of 20 nodes takes a fraction of a second.
//!
//! ```no_run
//! use intarsia_lab::{Lab, LabName, Rate, Spec, Subnet};
//!
//! let spec = Spec::new("demo".parse()?, 4, Subnet::default(), Some(Rate::mbit(100)))?;
//! let lab = Lab::create(spec)?; // removed when it is dropped
//! let [n1, n2] = [lab.node("n1")?, lab.node("n2")?];
//! lab.cut(n1, n2)?;
//! let ping = lab.command(n1, "ping").args(["-c1", "-W1", &lab.address(n2).to_string()]).status();
//! lab.heal()?;
//! # let _ = ping;
//! # Ok::<(), intarsia_types::Error>(())
//! ```

mod call;
mod cut;
mod lab;
mod link;
mod name;
mod namespace;
mod occupant;
mod plan;
mod rate;
mod registry;
mod spec;
mod subnet;

pub use call::Call;
pub use cut::{Cut, Selection};
pub use lab::{Lab, Removal, Standing, remove_stale};
pub use name::{LabName, Node};
pub use occupant::Occupant;
pub use rate::Rate;
pub use spec::{MAX_NODES, Spec};
pub use subnet::Subnet;
