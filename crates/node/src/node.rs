//! The node itself: what it is made of, how it starts and stops.
//!
//! Owns all rooms, which it builds with exactly what each needs.
//! Asks each room for what belongs to it: its own functions only pass on.
//! Promises that no other room knows it as a whole, and that it decides nothing itself.

pub(crate) mod building;
mod calls;
mod files;
mod handles;
mod kernel_pages;
mod locking;
mod moves;
mod opening;
mod presence;
mod reports;
mod services;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use intarsia_meta::{MetaEngine, Namespace};
use intarsia_sync::Instant;
use intarsia_types::{Durability, Result};

use crate::background::queue::Queue;
use crate::directory::directory_lease::DirectoryLeases;
use crate::identity::Identity;
use crate::inode::Inodes;
use crate::inode::live::LiveTable;
use crate::inode::paging::Paging;
use crate::inode::removal::Removal;
use crate::kernel::{Kernel, PageCache};
use crate::lifecycle::checking::Checker;
use crate::lifecycle::closing::{Closer, ClosingMode, ClosingProgress};
use crate::lifecycle::presence::Presence;
use crate::lifecycle::threads::Background;
use crate::locks::Locks;
use crate::members::Members;
use crate::membership::cluster::Cluster;
use crate::membership::gate::Gate;
use crate::metrics::Metrics;
use crate::node::opening::{add_tiers, open_parts};
use crate::options::NodeOptions;
use crate::rebalance::mover::Mover;
use crate::replication::Replicas;
use crate::space::tiers::Tiers;
use crate::status::Reporter;
use crate::status::lost::LostFiles;
use crate::vfs::Calls;
use crate::vfs::recording::Recording;
use crate::vfs::release::Releaser;
use crate::vfs::sync::Syncer;

/// The store of one host: the namespace, the tiers and the open files.
pub struct Node {
    pub(crate) options: NodeOptions,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) live: Arc<LiveTable>,
    /// What the kernel keeps of files that others may change.
    pub(crate) paging: Arc<Paging>,
    /// Whether there are other hosts, and whether this one is a member.
    pub(crate) members: Members,
    /// The other hosts, in a store of several.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// Locks of processes, in a store of several hosts.
    pub(crate) locks: Option<Arc<Locks>>,
    /// Which directories this host has leased, of those that it shares with others.
    pub(crate) directory_leases: Arc<DirectoryLeases>,
    pub(crate) calls: Calls,
    /// Makes copies of files on other hosts.
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) mover: Arc<Mover>,
    /// Removes inodes that have no name left.
    pub(crate) removal: Arc<Removal>,
    /// What changes live inodes.
    pub(crate) inode: Inodes,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) recording: Arc<Recording>,
    pub(crate) syncer: Arc<Syncer>,
    pub(crate) releaser: Arc<Releaser>,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) reporter: Reporter,
    pub(crate) lost: LostFiles,
    pub(crate) checker: Checker,
    pub(crate) presence: Arc<Presence>,
    pub(crate) background: Arc<Background>,
    pub(crate) closer: Closer,
    pub(crate) finalizer_queue: Arc<Queue>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("dir", &self.options.dir).finish_non_exhaustive()
    }
}

impl Node {
    /// Opens the store, founding it in a new directory, and brings what a crash left into order.
    ///
    /// # Errors
    /// Unusable directories, a store in use, foreign or newer formats: each with the path and the remedy.
    pub fn open(mut options: NodeOptions) -> Result<Arc<Self>> {
        let shared = options.cluster.as_ref().map(|cluster| cluster.store.as_str());
        let is_new = !options.dir.join("store.json").exists();
        let mut identity = Identity::load_or_found(&options.dir, options.durability, shared)?;
        let overflow = add_tiers(&mut options, &identity.store)?;
        let gate = options.cluster.as_mut().map(|cluster| {
            let gate = Gate::new(Arc::clone(&cluster.engine));
            cluster.engine = Arc::clone(&gate) as Arc<dyn MetaEngine>;
            gate
        });
        let (namespace, tiers) = open_parts(&options, &mut identity, is_new)?;
        let is_durable = options.durability == Durability::Sync;
        let tiers = Tiers::new(tiers, overflow.as_deref(), is_durable);
        let node = Arc::new(Self::build(options, &identity.store, gate, namespace, tiers)?);
        node.presence.begin_beating()?;
        node.recovery().recover()?;
        node.join_cluster()?;
        node.recording.begin(node.options.record)?;
        node.background.start()?;
        Ok(node)
    }

    /// The settings in force.
    #[must_use]
    pub const fn options(&self) -> &NodeOptions {
        &self.options
    }

    /// Whether other hosts work in the same store.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.members.is_shared()
    }

    /// Whether this host was told to leave.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.members.is_leaving()
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> &Metrics {
        &self.metrics
    }

    /// Waits until every closed file has settled and been summed, or the deadline has passed.
    #[must_use]
    pub fn wait_until_settled(&self, deadline: impl Into<Instant>) -> bool {
        self.inode.settler.wait_until_settled(deadline)
    }

    /// The mount says how the kernel serves files.
    pub fn set_kernel_mode(&self, passthrough: bool, write_back: bool) {
        self.kernel.begin(passthrough, write_back);
    }

    /// The mount offers to put bytes into the kernel's page cache.
    pub fn set_page_cache(&self, store: Box<PageCache>) {
        self.kernel.offer_page_cache(store);
    }

    /// Stops in order: settles what can be settled, writes back, records a clean stop. Idempotent.
    ///
    /// # Errors
    /// As [`close_with`](Self::close_with).
    pub fn close(&self) -> Result<()> {
        self.close_with(ClosingMode::Keep, &mut |_| {})
    }

    /// Stops in order, as `mode` says; idempotent. `progress` is told about twice a second how far it is.
    ///
    /// The metadata of a store of several hosts is waited for some 10 s in all. If it does not answer, what is left
    /// keeps its durable marks, and the next start brings it into order as after a crash.
    ///
    /// # Errors
    /// With [`ClosingMode::Keep`] the first failure, with what is left undone where the metadata did not answer; the
    /// rest is tried all the same.
    pub fn close_with(
        &self,
        mode: ClosingMode,
        progress: &mut dyn FnMut(ClosingProgress),
    ) -> Result<()> {
        self.closer.close_with(mode, progress)
    }

    /// Puts everything acknowledged so far on stable storage.
    ///
    /// # Errors
    /// The system's own.
    pub fn sync_all(&self) -> Result<()> {
        self.closer.sync_all()
    }

    /// Ends all that the node does by itself and records nothing, as a crash would; for tests of such.
    pub fn abandon(&self) {
        self.closer.is_closed.store(true, Ordering::Release);
        self.presence.stop_heartbeat();
        self.stop_serving();
        self.background.stop();
    }

    /// Stops the background work and leaves everything as it is, as a crash would; for tests of such.
    pub fn crash(&self) {
        self.closer.is_closed.store(true, Ordering::Release);
        self.background.stop();
    }
}
