//! The hosts of a deployment and the metadata servers on them; nothing of the file system.
//!
//! - [`hosts`]: which hosts, from the command line, a file or the batch system;
//! - [`meta_hosts`]: which of them get metadata servers;
//! - [`deployment`]: their addresses and the deployment's secrets, as written by `intarsia up`;
//! - [`servers`]: one Redis or Valkey process: configuration, start, stop;
//! - [`formation`]: one Cluster out of the servers of all hosts;
//! - [`recovery`]: the same without some of them;
//! - [`supervision`]: the watch over the servers of one host, and what happens when one dies;
//! - [`survey`]: the state of all shards, for `status`;
//! - [`topology`]: what the Cluster says of itself;
//! - [`launch`]: a command on all hosts; [`watchdog`]: its end when the launcher is gone;
//! - [`claim`]: who may start and stop what in a directory, held by a lock;
//! - [`process`]: processes of this host, named so that a reused number is not mistaken.
//!
//! There is no consensus of our own: who is primary is decided by the servers.

mod asking;
pub mod claim;
pub mod client;
pub mod deployment;
mod document;
pub mod formation;
pub mod hosts;
pub mod launch;
pub mod meta_hosts;
pub mod private;
pub mod process;
pub mod recovery;
pub mod secrets;
pub mod servers;
pub mod supervision;
pub mod survey;
pub mod topology;
pub mod watchdog;
