//! What must be over some time after everything was mended: nothing unsettled, every file with all its copies, and no
//! backing file that nobody has.

use std::time::Duration;

use intarsia_sync::{Instant, thread};

use crate::cluster::Cluster;
use crate::host::{Care, Deployment};

/// What a lost answer of the metadata left is given back within two minutes of its answering again, and what another host
/// removed within half a minute (8.10 of docs/semantics.md).
const WITHIN: Duration = Duration::from_secs(150);
/// How a check tells of a file whose bytes are nowhere.
const IS_LOST: &str = "its bytes are lost; reading the file gives EIO";
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
        if cluster.deployment.care == Care::Frail {
            // What did not reach the disk is told of for as long as its file is there.
            unrest.retain(|what| !what.ends_with(IS_LOST));
        }
        left.extend(unrest.into_iter().map(|what| format!("{} does not rest: {what}", host.name)));
    }
    let Deployment { metadata, replicas, .. } = &*cluster.deployment;
    for host in &cluster.hosts {
        for ino in metadata.writable_by(&host.name)? {
            let inode = metadata.namespace()?.get(ino);
            left.push(format!(
                "{} may write to inode {ino}, which nobody has open: {inode:?}",
                host.name
            ));
        }
    }
    for (ino, inode) in metadata.lacking(*replicas)? {
        // The copies of a file that somebody may write to are made afterwards.
        if !metadata.has_writer(ino)? {
            left.push(format!("inode {ino} lacks copies: {inode:?}"));
        }
    }
    Ok(left)
}
