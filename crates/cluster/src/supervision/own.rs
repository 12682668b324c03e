//! Which metadata servers a host has: those that it began with, and what moved since, as its directory tells.

use std::fs::File;
use std::path::Path;

use crate::deployment::{MAX_SERVERS_PER_HOST, ServerName};
use crate::formation::servers_per_host;
use crate::servers::Start;

use super::{Begin, Watch};

/// Tells that servers which the host began with are elsewhere now.
const MOVED: &str = "moved";
/// A server that was ever part of the Cluster has written this.
const STATE: &str = "nodes.conf";

/// The servers that are to run when the host begins. A crash takes those away that were added for others: what they hold
/// is elsewhere by then.
pub(super) fn servers(watch: &Watch, begin: Begin) -> Vec<ServerName> {
    let first = servers_per_host(&watch.deployment);
    let is_founding = watch.deployment.begins_with_servers(&watch.host) && !has_moved(&watch.dir);
    let begins_with = |number: u16| is_founding && number < first;
    let was_added = |number: u16| {
        begin == Begin::Form(Start::Kept) && is_there(&watch.dir.join(number.to_string()))
    };
    (0..MAX_SERVERS_PER_HOST)
        .filter(|number| begins_with(*number) || was_added(*number))
        .map(|number| ServerName { host: watch.host.clone(), number })
        .collect()
}

/// Whether the servers that began on a host, whose directory this is, are elsewhere now.
#[must_use]
pub fn has_moved(dir: &Path) -> bool {
    dir.join(MOVED).exists()
}

fn is_there(dir: &Path) -> bool {
    dir.join(STATE).exists()
}

/// Removes what a server has left that is not to come back: its shard is on other hosts.
pub(super) fn give_up(watch: &Watch, name: &ServerName) {
    let dir = watch.dir.join(name.number.to_string());
    let is_founding = watch.deployment.begins_with_servers(&watch.host);
    // The mark comes first: a directory without it would be taken for one that was never filled.
    if is_founding && name.number < servers_per_host(&watch.deployment) {
        let marked = File::create(watch.dir.join(MOVED));
        if let Err(error) = marked.and_then(|mark| mark.sync_all()) {
            tracing::warn!(server = %name, %error, "that a metadata server moved cannot be noted; it stays on the disk");
            return;
        }
    }
    if let Err(error) = std::fs::remove_dir_all(&dir) {
        tracing::warn!(server = %name, %error, "the directory of a metadata server that moved cannot be removed");
    }
}
