//! Replicas: complete copies of files on several hosts.
//!
//! Owns replicas on their way here, the work of making those that are missing, and its threads ([`Replicas`]).
//! Asks `body` for sums, `cache` for room, `space` for backing files, `membership` for hosts, and `intarsia_policy` for
//! which.
//! Promises that a replica is compared with its sum where it arrives, that it becomes the file's or is removed, and
//! that a record names a content only once its replicas are made. It knows nothing of live inodes: [`LiveFiles`] says
//! what there is to copy, and names it.

mod alone;
pub(crate) mod arrivals;
pub(crate) mod copies;
pub(crate) mod further;
mod making;
pub(crate) mod push;
pub(crate) mod repair;
pub(crate) mod replicate;
pub(crate) mod replicator;
mod survey;
mod unfinished;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use intarsia_meta::Namespace;
use intarsia_sync::Mutex;
use intarsia_types::{BackingRef, InodeId, NodeId, Result};

use crate::background::throttle::Throttle;
use crate::background::turns::Turns;
use crate::membership::cluster::Cluster;
use crate::metrics::Metrics;
use crate::options::NodeOptions;
use crate::replication::arrivals::Receiver;
use crate::replication::replicate::LiveFiles;
use crate::replication::replicator::{CopyChores, CopyMetrics, CopyQueue, Replicator};
use crate::replication::survey::FIRST_SURVEY;
use crate::replication::unfinished::Unfinished;
use crate::space::placing::Placing;
use crate::space::tiers::Tiers;

/// What [`Replicas`] are made of.
pub(crate) struct ReplicaParts<'p> {
    pub(crate) namespace: &'p Arc<Namespace>,
    pub(crate) tiers: &'p Arc<Tiers>,
    pub(crate) placing: &'p Arc<Placing>,
    /// Takes in what other hosts send.
    pub(crate) receiver: &'p Arc<Receiver>,
    /// The other hosts, in a store of several.
    pub(crate) cluster: Option<&'p Arc<Cluster>>,
    pub(crate) metrics: &'p Arc<Metrics>,
    pub(crate) files: Arc<dyn LiveFiles>,
}

/// Makes copies of files on other hosts, and sees to it that there are as many as there should be.
pub(crate) struct Replicas {
    /// The name of this host.
    me: NodeId,
    /// How many copies a file has whose hints do not say.
    replicas: u16,
    namespace: Arc<Namespace>,
    tiers: Arc<Tiers>,
    placing: Arc<Placing>,
    receiver: Arc<Receiver>,
    /// The other hosts, in a store of several.
    cluster: Option<Arc<Cluster>>,
    files: Arc<dyn LiveFiles>,
    /// Files that lack copies on other hosts.
    pub(crate) queue: Arc<CopyQueue>,
    /// Files that lost the copy here, each with another copy of it, whose host has still to be told.
    lacking: Mutex<Vec<(BackingRef, InodeId, u64)>>,
    /// Whether files here may lack copies of which only an earlier process knew; the next survey looks for them.
    is_after_crash: AtomicBool,
    /// For making copies of a file, which takes long.
    turns: Turns,
    /// For copies that nobody waits for.
    throttle: Throttle,
    pub(crate) counts: CopyMetrics,
    metrics: Arc<Metrics>,
    threads: Mutex<Option<Replicator>>,
    unfinished: Unfinished,
}

impl Replicas {
    pub(crate) fn new(options: &NodeOptions, of: ReplicaParts<'_>) -> Self {
        Self {
            me: options.name.clone(),
            replicas: options.replicas,
            namespace: Arc::clone(of.namespace),
            tiers: Arc::clone(of.tiers),
            placing: Arc::clone(of.placing),
            receiver: Arc::clone(of.receiver),
            cluster: of.cluster.cloned(),
            files: of.files,
            queue: Arc::default(),
            lacking: Mutex::default(),
            is_after_crash: AtomicBool::default(),
            turns: Turns::default(),
            throttle: Throttle::new(options.copy_rate.0),
            counts: CopyMetrics::default(),
            metrics: Arc::clone(of.metrics),
            threads: Mutex::default(),
            unfinished: Unfinished::of(&options.dir),
        }
    }

    /// A file has lost the copy here. The host of `first`, another copy, is told at the first survey.
    pub(crate) fn note_lost(&self, first: BackingRef, ino: InodeId, size_bytes: u64) {
        self.lacking.lock().push((first, ino, size_bytes));
    }

    /// Which files were to get copies was known to the process that ended, and to nobody else. If it crashed, or some still
    /// waited when it stopped, the first survey looks at those that have their first copy here, in whosever share they are.
    pub(crate) fn note_earlier_life(&self, has_crashed: bool) {
        if self.unfinished.take() || has_crashed {
            self.is_after_crash.store(true, Ordering::Relaxed);
        }
    }

    fn is_urgent(&self) -> bool {
        !self.lacking.lock().is_empty() || self.is_after_crash.load(Ordering::Relaxed)
    }

    /// Has `chores` do what comes up, until [`stop`](Self::stop).
    ///
    /// # Errors
    /// That there can be no more threads.
    pub(crate) fn start<C: CopyChores>(&self, chores: &Weak<C>) -> Result<()> {
        *self.threads.lock() = Some(Replicator::start(&self.queue, chores)?);
        self.queue.survey_in(if self.is_urgent() { Duration::ZERO } else { FIRST_SURVEY });
        Ok(())
    }

    /// Ends the threads, if they were started.
    pub(crate) fn stop(&self) {
        if let Some(threads) = self.threads.lock().take() {
            self.throttle.stop();
            threads.stop();
        }
    }

    /// This host stops: if files still wait for copies, leaves a mark, so that its next process looks for them.
    ///
    /// # Errors
    /// The system's own: the mark cannot be set.
    pub(crate) fn note_end(&self) -> Result<()> {
        let is_left = self.is_urgent() || self.queue.backlog().files > 0;
        if is_left { self.unfinished.set() } else { Ok(()) }
    }
}
