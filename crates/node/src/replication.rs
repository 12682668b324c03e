//! Replicas: complete copies of files on several hosts.
//!
//! Owns replicas on their way here, the work of making those that are missing, and its threads ([`Replicas`]).
//! Asks `body` for sums, `cache` for room, `space` for backing files, `membership` for the other hosts, and
//! `intarsia_policy` which of these are to have replicas.
//! Promises that a replica is compared with its sum where it arrives, that a record comes to name it or it is removed, and
//! that a record names new content only once its replicas are made. This room does not know live inodes: [`LiveFiles`]
//! says what is to be copied of one, and commits the record that names the copies.

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
    /// Takes in the replicas that other hosts send.
    pub(crate) receiver: &'p Arc<Receiver>,
    /// The other hosts, in a store of several.
    pub(crate) cluster: Option<&'p Arc<Cluster>>,
    pub(crate) metrics: &'p Arc<Metrics>,
    pub(crate) files: Arc<dyn LiveFiles>,
}

/// Makes replicas of files on other hosts, so that each file has as many copies as it should.
pub(crate) struct Replicas {
    /// The name of this host.
    me: NodeId,
    /// How many copies a file is to have if its hints do not say, the one at its home among them.
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
    /// Files whose copy on this host was given up, as after a loss of power: the first copy that is left, the inode, and its
    /// length in bytes. The next survey tells the host of that copy to make another.
    lacking: Mutex<Vec<(BackingRef, InodeId, u64)>>,
    /// Set where an earlier process of this host may have left files without their copies, since the list of them ended with
    /// it. The next survey looks for such files.
    is_after_crash: AtomicBool,
    /// Lets one thread at a time make copies of a file.
    turns: Turns,
    /// Bounds how fast copies are made that nobody waits for.
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

    /// The copy here of a file was given up. The next survey tells the host of `first`, a copy that is left, to make another.
    pub(crate) fn note_lost(&self, first: BackingRef, ino: InodeId, size_bytes: u64) {
        self.lacking.lock().push((first, ino, size_bytes));
    }

    /// To be called at the start. The list of files that wait for copies is only in memory. If the process before this one
    /// crashed, or stopped while files still waited, the first survey looks at all files that have a copy here, also at those
    /// in the shares of other hosts.
    pub(crate) fn note_earlier_life(&self, has_crashed: bool) {
        if self.unfinished.take() || has_crashed {
            self.is_after_crash.store(true, Ordering::Relaxed);
        }
    }

    fn is_urgent(&self) -> bool {
        !self.lacking.lock().is_empty() || self.is_after_crash.load(Ordering::Relaxed)
    }

    /// Starts the threads. They have `chores` do what is in the queue, until [`stop`](Self::stop).
    ///
    /// # Errors
    /// The system's own: a thread cannot be started.
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

    /// To be called at a clean stop: if files still wait for copies, sets a mark on disk that has the next process look for
    /// them (see [`note_earlier_life`](Self::note_earlier_life)).
    ///
    /// # Errors
    /// The system's own: the mark cannot be set.
    pub(crate) fn note_end(&self) -> Result<()> {
        let is_left = self.is_urgent() || self.queue.backlog().files > 0;
        if is_left { self.unfinished.set() } else { Ok(()) }
    }
}
