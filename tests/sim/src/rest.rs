//! What must be over some time after everything was mended: nothing unsettled, every file with all its copies, and no
//! backing file that nobody has.

use std::time::Duration;

use intarsia_sync::{Instant, thread};

use crate::cluster::Cluster;
use crate::host::{Deployment, Host};

/// What a lost answer of the metadata left is given back within two minutes of its answering again, and what another host
/// removed within half a minute (8.10 of docs/semantics.md).
const WITHIN: Duration = Duration::from_secs(150);
/// Between two looks.
const PAUSE: Duration = Duration::from_secs(5);

/// Waits until the store rests; what is left if it does not.
pub(crate) fn await_rest(cluster: &Cluster) -> Result<Vec<String>, String> {
    let deadline = Instant::now() + WITHIN;
    loop {
        let left = left_over(cluster)?;
        if left.is_empty() || Instant::now() > deadline {
            return Ok(left);
        }
        thread::sleep(PAUSE);
    }
}

fn left_over(cluster: &Cluster) -> Result<Vec<String>, String> {
    let mut left = Vec::new();
    for host in &cluster.hosts {
        let unrest = cluster.on(host, "rest", |program| program.unrest())?;
        let mut unrest = unrest.map_err(|e| format!("{} cannot be checked: {e}", host.name))?;
        if has_failed(cluster, host) {
            // What it could not make or remove may stay until it starts again: nothing is promised of that.
            unrest.retain(|what| !what.contains("belongs to no inode"));
        }
        left.extend(unrest.into_iter().map(|what| format!("{} does not rest: {what}", host.name)));
    }
    let Deployment { metadata, replicas, .. } = &*cluster.deployment;
    for (ino, tier) in metadata.lacking(*replicas)? {
        // Hosts start in order, so that tiers are numbered as they are.
        let home = cluster.hosts.get(usize::from(tier.0));
        // Whoever may write sees to the copies afterwards; of what a disk refused to read there may be none.
        if !metadata.has_writer(ino)? && !home.is_some_and(|home| has_failed(cluster, home)) {
            left.push(format!("inode {ino} of tier {tier} lacks copies"));
        }
    }
    Ok(left)
}

fn has_failed(cluster: &Cluster, host: &Host) -> bool {
    cluster.deployment.disks.has_failed(host.place())
}
