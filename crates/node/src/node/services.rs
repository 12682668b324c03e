//! Builds what serves programs, other hosts and whoever runs the store, from what changes live inodes and below.

use std::sync::Arc;

use intarsia_sync::Instant;

use crate::cache::spread::Spreads;
use crate::inode::{InodeParts, Inodes};
use crate::lifecycle::checking::Checker;
use crate::lifecycle::power_loss::PowerLoss;
use crate::lifecycle::recovery::Recovery;
use crate::locks::Locks;
use crate::metrics::outlived::Outlived;
use crate::options::NodeOptions;
use crate::peer::serving::Peer;
use crate::rebalance::mover::Mover;
use crate::record::{Place, RECORDS_DIRECTORY, Recorder};
use crate::space::inode_count::InodeCount;
use crate::status::Reporter;
use crate::vfs::locking::Lockable;
use crate::vfs::recording::Recording;
use crate::vfs::release::Releaser;
use crate::vfs::sync::Syncer;

use super::Node;

impl Node {
    /// What brings an earlier life of this host into order.
    pub(super) fn recovery(&self) -> Recovery {
        Recovery {
            members: self.members.clone(),
            namespace: Arc::clone(&self.namespace),
            tiers: Arc::clone(&self.tiers),
            replicas: Arc::clone(&self.replicas),
            live: Arc::clone(&self.live),
            removal: Arc::clone(&self.removal),
            reclaimer: Arc::clone(&self.inode.reclaimer),
            queue: Arc::clone(&self.finalizer_queue),
            power_loss: PowerLoss {
                namespace: Arc::clone(&self.namespace),
                tiers: Arc::clone(&self.tiers),
                replicas: Arc::clone(&self.replicas),
            },
        }
    }
}

pub(super) fn reporter(
    options: &NodeOptions,
    store: &str,
    parts: &InodeParts,
    inode: &Inodes,
    spreads: &Arc<Spreads>,
    outlived: &Arc<Outlived>,
) -> Reporter {
    Reporter {
        me: options.name.clone(),
        store: store.to_owned(),
        dir: options.dir.clone(),
        durability: options.durability,
        started: Instant::now(),
        members: parts.members.clone(),
        cluster: parts.cluster.clone(),
        namespace: Arc::clone(&parts.namespace),
        inode_count: InodeCount::new(parts.members.is_shared()),
        tiers: Arc::clone(&parts.tiers),
        bodies: Arc::clone(&parts.bodies),
        copies: Arc::clone(&parts.copies),
        remote_cache: Arc::clone(&parts.remote_cache),
        spreads: Arc::clone(spreads),
        replicas: Arc::clone(&parts.replicas),
        live: Arc::clone(&parts.live),
        reclaimer: Arc::clone(&inode.reclaimer),
        queue: Arc::clone(&parts.queue),
        counters: Arc::clone(&parts.metrics),
        hinted: Arc::clone(&parts.hinted),
        outlived: Arc::clone(outlived),
    }
}

pub(super) fn checker(parts: &InodeParts, inode: &Inodes) -> Checker {
    Checker {
        members: parts.members.clone(),
        namespace: Arc::clone(&parts.namespace),
        tiers: Arc::clone(&parts.tiers),
        copies: Arc::clone(&parts.copies),
        remote_cache: Arc::clone(&parts.remote_cache),
        settler: Arc::clone(&inode.settler),
        kernel: Arc::clone(&parts.kernel),
    }
}

pub(super) fn peer(
    options: &NodeOptions,
    parts: &InodeParts,
    inode: &Inodes,
    mover: &Mover,
    spreads: &Arc<Spreads>,
    locks: Option<&Arc<Locks>>,
) -> Peer {
    Peer {
        durability: options.durability,
        members: parts.members.clone(),
        metrics: Arc::clone(&parts.metrics),
        locks: locks.cloned(),
        directory_leases: Arc::clone(&parts.directory_leases),
        parts: Arc::clone(&parts.bodies.parts),
        spreads: Arc::clone(spreads),
        vouches: Arc::clone(&parts.vouches),
        receiver: Arc::clone(&parts.receiver),
        copy_queue: Arc::clone(&parts.replicas.queue),
        paging: Arc::clone(&parts.paging),
        leases: Arc::clone(&inode.leases),
        followers: Arc::clone(&inode.followers),
        elsewhere: Arc::clone(&inode.elsewhere),
        fetches: Arc::clone(&mover.fetches),
        tier_changes: Arc::clone(&mover.tier_changes),
    }
}

pub(super) fn syncer(options: &NodeOptions, parts: &InodeParts, inode: &Inodes) -> Syncer {
    Syncer {
        durability: options.durability,
        namespace: Arc::clone(&parts.namespace),
        bodies: Arc::clone(&parts.bodies),
        live: Arc::clone(&parts.live),
        rights: Arc::clone(&inode.rights),
        publisher: Arc::clone(&inode.publisher),
        copy_queue: Arc::clone(&parts.replicas.queue),
    }
}

pub(super) fn releaser(parts: &InodeParts, inode: &Inodes, outlived: Arc<Outlived>) -> Releaser {
    Releaser {
        members: parts.members.clone(),
        namespace: Arc::clone(&parts.namespace),
        tiers: Arc::clone(&parts.tiers),
        ledger: Arc::clone(&parts.ledger),
        queue: Arc::clone(&parts.queue),
        copies: Arc::clone(&parts.copies),
        remote_cache: Arc::clone(&parts.remote_cache),
        old_pages: Arc::clone(&parts.old_pages),
        far_pages: Arc::clone(&parts.far_pages),
        live: Arc::clone(&parts.live),
        removal: Arc::clone(&parts.removal),
        publisher: Arc::clone(&inode.publisher),
        outlived,
    }
}

pub(super) fn lockable(parts: &InodeParts, inode: &Inodes, syncer: &Arc<Syncer>) -> Lockable {
    Lockable {
        namespace: Arc::clone(&parts.namespace),
        live: Arc::clone(&parts.live),
        publisher: Arc::clone(&inode.publisher),
        following: Arc::clone(&inode.following),
        leases: Arc::clone(&inode.leases),
        syncer: Arc::clone(syncer),
    }
}

pub(super) fn recording(options: &NodeOptions, store: &str, parts: &InodeParts) -> Recording {
    Recording {
        recorder: Recorder::default(),
        place: Place {
            dir: options.dir.join(RECORDS_DIRECTORY),
            host: options.name.0.clone(),
            store: store.to_owned(),
            limit_bytes: options.record_limit.0,
        },
        kernel: Arc::clone(&parts.kernel),
        namespace: Arc::clone(&parts.namespace),
        live: Arc::clone(&parts.live),
    }
}
