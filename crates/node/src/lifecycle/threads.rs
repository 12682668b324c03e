//! The threads that a node has of its own: they begin once it is whole, and end before its files are put in order.

use std::sync::{Arc, Weak};

use intarsia_sync::Mutex;
use intarsia_types::{InodeId, Result};

use crate::background::finalizer::{Chores, Finalizer};
use crate::background::queue::Task;
use crate::directory::promises::Keeper;
use crate::locks::LockedFiles;
use crate::node::Node;
use crate::replication::replicator::{Attempted, CopyChores};

/// Those that are stopped one by one; the others end with what they work for.
#[derive(Default)]
pub(crate) struct Threads {
    finalizer: Mutex<Option<Finalizer>>,
    keeper: Mutex<Option<Keeper>>,
}

impl Node {
    pub(crate) fn start_background(self: &Arc<Self>) -> Result<()> {
        let threads = &self.threads;
        let finalizer = Finalizer::start(&self.finalizer_queue, Arc::downgrade(self))?;
        *threads.finalizer.lock() = Some(finalizer);
        if let Some(locks) = &self.locks {
            locks.start(Arc::downgrade(&self.lockable) as Weak<dyn LockedFiles>)?;
        }
        if let Some(cluster) = &self.cluster {
            let keeper = Keeper::start(&self.promises, &self.namespace, cluster)?;
            *threads.keeper.lock() = Some(keeper);
            self.replicas.start(&Arc::downgrade(self))?;
        }
        if self.tiers.iter().any(|t| !t.is_counted()) {
            self.finalizer_queue.recount();
        }
        Ok(())
    }

    pub(crate) fn stop_background(&self) {
        if let Some(keeper) = self.threads.keeper.lock().take() {
            keeper.stop();
        }
        self.replicas.stop();
        if let Some(finalizer) = self.threads.finalizer.lock().take() {
            finalizer.stop();
        }
    }
}

impl CopyChores for Node {
    fn survey(&self) -> Result<()> {
        self.replicas.survey()
    }

    fn make_up(&self, ino: InodeId) -> Result<Attempted> {
        self.replicas.make_up(ino, &*self.inode.leases)
    }

    fn publish(&self, ino: InodeId) -> Result<()> {
        self.inode.publisher.publish_copies(ino)
    }
}

impl Chores for Node {
    fn carry_out(&self, task: Task) -> Result<()> {
        match task {
            Task::Refill => self.tiers.refill(&self.namespace),
            Task::Recount => self.inode.reclaimer.recount_tiers(),
            Task::Collect => self.inode.reclaimer.collect(),
            Task::Depart(ino) => {
                self.releaser.end_lingering(ino);
                Ok(())
            }
            Task::MakeRoom => {
                self.inode.reclaimer.make_room();
                Ok(())
            }
            Task::Reclaim(files) => self.inode.reclaimer.reclaim(&files),
            Task::Settle(waiting) => self.inode.settler.settle_some(waiting),
            Task::Sum(ino) => self.summer.sum(ino),
            Task::ChangeTier(waiting) => self.mover.tier_changes.change_tier_as_hinted(waiting),
        }
    }
}
