//! The threads that a node has of its own: they begin once it is whole, and end before its files are put in order.

use std::sync::{Arc, Weak};

use intarsia_meta::Namespace;
use intarsia_sync::Mutex;
use intarsia_types::{InodeId, Result};

use crate::background::finalizer::{Chores, Finalizer};
use crate::background::queue::{Queue, Task};
use crate::directory::promises::{Keeper, Promises};
use crate::inode::lease::Leases;
use crate::inode::publication::Publisher;
use crate::inode::reclaiming::Reclaimer;
use crate::inode::settling::Settler;
use crate::inode::summing::Summer;
use crate::locks::{LockedFiles, Locks};
use crate::membership::cluster::Cluster;
use crate::rebalance::tiers::TierChanges;
use crate::replication::Replicas;
use crate::replication::replicator::{Attempted, CopyChores};
use crate::space::tiers::Tiers;
use crate::vfs::locking::Lockable;
use crate::vfs::release::Releaser;

/// What the threads of a node do, and those that are stopped one by one; the others end with what they work for.
pub(crate) struct Background {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) tiers: Arc<Tiers>,
    /// The other hosts, in a store of several.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// Locks of processes, in a store of several hosts.
    pub(crate) locks: Option<Arc<Locks>>,
    pub(crate) lockable: Arc<Lockable>,
    /// The finalizer's.
    pub(crate) queue: Arc<Queue>,
    pub(crate) promises: Promises,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) summer: Summer,
    pub(crate) reclaimer: Arc<Reclaimer>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) settler: Arc<Settler>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) tier_changes: Arc<TierChanges>,
    pub(crate) releaser: Arc<Releaser>,
    pub(crate) finalizer: Mutex<Option<Finalizer>>,
    pub(crate) keeper: Mutex<Option<Keeper>>,
}

impl Background {
    /// Starts all threads.
    ///
    /// # Errors
    /// That there can be no more of them.
    pub(crate) fn start(self: &Arc<Self>) -> Result<()> {
        let finalizer = Finalizer::start(&self.queue, Arc::downgrade(self))?;
        *self.finalizer.lock() = Some(finalizer);
        if let Some(locks) = &self.locks {
            locks.start(Arc::downgrade(&self.lockable) as Weak<dyn LockedFiles>)?;
        }
        if let Some(cluster) = &self.cluster {
            let keeper = Keeper::start(&self.promises, &self.namespace, cluster)?;
            *self.keeper.lock() = Some(keeper);
            self.replicas.start(&Arc::downgrade(self))?;
        }
        if self.tiers.iter().any(|t| !t.is_counted()) {
            self.queue.recount();
        }
        Ok(())
    }

    /// Ends those that are stopped one by one.
    pub(crate) fn stop(&self) {
        if let Some(keeper) = self.keeper.lock().take() {
            keeper.stop();
        }
        self.replicas.stop();
        if let Some(finalizer) = self.finalizer.lock().take() {
            finalizer.stop();
        }
    }
}

impl CopyChores for Background {
    fn survey(&self) -> Result<()> {
        self.replicas.survey()
    }

    fn make_up(&self, ino: InodeId) -> Result<Attempted> {
        self.replicas.make_up(ino, &*self.leases)
    }

    fn publish(&self, ino: InodeId) -> Result<()> {
        self.publisher.publish_copies(ino)
    }
}

impl Chores for Background {
    fn carry_out(&self, task: Task) -> Result<()> {
        match task {
            Task::Refill => self.tiers.refill(&self.namespace),
            Task::Recount => self.reclaimer.recount_tiers(),
            Task::Collect => self.reclaimer.collect(),
            Task::Depart(ino) => {
                self.releaser.end_lingering(ino);
                Ok(())
            }
            Task::MakeRoom => {
                self.reclaimer.make_room();
                Ok(())
            }
            Task::Reclaim(files) => self.reclaimer.reclaim(&files),
            Task::Settle(waiting) => self.settler.settle_some(waiting),
            Task::Sum(ino) => self.summer.sum(ino),
            Task::ChangeTier(waiting) => self.tier_changes.change_tier_as_hinted(waiting),
        }
    }
}
