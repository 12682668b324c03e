//! Which process of each other host is the newest.

use std::collections::HashMap;

use intarsia_sync::Mutex;
use intarsia_types::{Error, NodeId, Result};

use crate::membership::fence::refusal;

/// The newest process of each other host that has connected, by the life with which it began.
#[derive(Default)]
pub(crate) struct Lives(Mutex<HashMap<NodeId, u64>>);

impl Lives {
    /// A process of `host` connects that began with the life `epoch`.
    pub(crate) fn note(&self, host: &NodeId, epoch: u64) {
        let mut lives = self.0.lock();
        let newest = lives.entry(host.clone()).or_insert(epoch);
        *newest = epoch.max(*newest);
    }

    /// Refuses a process of `host`, which began with the life `epoch`, with EIO if a newer process has connected.
    pub(crate) fn require_newest(&self, host: &NodeId, epoch: u64) -> Result<()> {
        match self.0.lock().get(host) {
            Some(newest) if *newest > epoch => Err(outlived(host)),
            _ => Ok(()),
        }
    }
}

fn outlived(host: &NodeId) -> Error {
    refusal(&format!("host {host} has begun anew since"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_process_of_a_host_is_heard() {
        let lives = Lives::default();
        let (a, b) = (NodeId("a".into()), NodeId("b".into()));
        let is_heard = |host, epoch| lives.require_newest(host, epoch).is_ok();
        assert!(is_heard(&a, 1), "nobody has connected");
        lives.note(&a, 2);
        assert!(is_heard(&a, 2) && !is_heard(&a, 1) && is_heard(&b, 1));
        // What is left of the one before connects once more.
        lives.note(&a, 1);
        assert!(is_heard(&a, 2) && !is_heard(&a, 1));
    }
}
