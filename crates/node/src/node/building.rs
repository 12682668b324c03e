//! Builds the rooms of a node, each from those below it.

use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::Namespace;
use intarsia_types::Result;

use crate::background::queue::Queue;
use crate::body::lower::{Lower, open_tree};
use crate::body::parts::Parts;
use crate::body::{Bodies, BodyParts, OpensCopies};
use crate::cache::far_pages::FarPages;
use crate::cache::pages::OldPages;
use crate::cache::remote_cache::RemoteCache;
use crate::cache::spread::Spreads;
use crate::cache::vouch::Vouches;
use crate::directory::directory_lease::DirectoryLeases;
use crate::directory::neighbours::Neighbours;
use crate::directory::promises::Promises;
use crate::inode::copied_files::CopiedFiles;
use crate::inode::live::LiveTable;
use crate::inode::outdating::Outdating;
use crate::inode::paging::Paging;
use crate::inode::passed::Passed;
use crate::inode::removal::{Removal, RemovalParts};
use crate::inode::summing::Summer;
use crate::inode::{InodeParts, Inodes};
use crate::kernel::{Kernel, raise_descriptor_limit};
use crate::locks::Locks;
use crate::members::Members;
use crate::membership::cluster::Cluster;
use crate::membership::gate::Gate;
use crate::metrics::Metrics;
use crate::metrics::hinted::Hinted;
use crate::metrics::outlived::Outlived;
use crate::options::NodeOptions;
use crate::rebalance::mover::Mover;
use crate::replication::arrivals::{Receiver, ReceiverParts};
use crate::replication::copies::Copies;
use crate::replication::{ReplicaParts, Replicas};
use crate::space::ledger::{FileEvents, Ledger};
use crate::space::placing::Placing;
use crate::space::tiers::{MakesRoom, Tiers};
use crate::status::lost::LostFiles;

use super::Node;
use super::opening::root_of;
use super::services::{Ends, Services};

impl Node {
    /// Builds the rooms; nothing runs yet but what shows the other hosts that this one starts.
    pub(super) fn build(
        options: NodeOptions,
        store: &str,
        gate: Option<Arc<Gate>>,
        namespace: Namespace,
        tiers: Tiers,
    ) -> Result<Self> {
        let promises = Promises::default();
        let (ground, files, parts) = parts_of(&options, namespace, tiers, &promises)?;
        let inode = Inodes::new(&parts);
        let mover = Arc::new(Mover::new(&parts, &inode));
        let (locks, outlived) = (ground.locks(), Arc::<Outlived>::default());
        let spreads = &files.spreads;
        let on = Services { options: &options, store, parts: &parts, inode: &inode, spreads };
        let reporter = on.reporter(&outlived);
        let syncer = Arc::new(on.syncer());
        let releaser = Arc::new(on.releaser(outlived));
        let recording = Arc::new(on.recording());
        let presence = Arc::new(on.presence(&mover, locks.as_ref()));
        let background = Arc::new(on.background(
            (&mover, &releaser, &syncer),
            locks.as_ref(),
            ground.summer(),
            promises.clone(),
        ));
        let with = Ends {
            mover: &mover,
            syncer: &syncer,
            recording: &recording,
            locks: locks.as_ref(),
            promises: &promises,
        };
        let calls = on.calls(&with);
        let closer = on.closer(gate, (&releaser, &recording), (&presence, &background));
        Ok(Self {
            lost: LostFiles {
                cluster: parts.cluster.clone(),
                namespace: Arc::clone(&parts.namespace),
            },
            reporter,
            checker: on.checker(),
            presence,
            background,
            closer,
            mover,
            recording,
            releaser,
            syncer,
            inode,
            locks,
            calls,
            members: parts.members,
            paging: parts.paging,
            directory_leases: parts.directory_leases,
            replicas: parts.replicas,
            removal: parts.removal,
            options,
            namespace: ground.namespace,
            tiers: ground.tiers,
            cluster: ground.cluster,
            finalizer_queue: ground.queue,
            live: ground.live,
            metrics: ground.metrics,
            kernel: ground.kernel,
        })
    }
}

/// What is built before there is anything that changes live inodes.
fn parts_of(
    options: &NodeOptions,
    namespace: Namespace,
    tiers: Tiers,
    promises: &Promises,
) -> Result<(Ground, Files, InodeParts)> {
    let tree = open_tree(options.lower.as_deref(), &namespace)?;
    let ground = Ground::new(options, namespace, tiers, promises)?;
    let files = Files::new(options, &ground);
    let old_pages = Arc::<OldPages>::default();
    let changes = Outdating::new(&ground.live, &old_pages);
    let lower = Lower::new(tree, &ground.namespace, changes);
    let bodies = Arc::new(files.bodies(options, &ground, lower));
    let receiver = Arc::new(files.receiver(options, &ground));
    let parts = files.inode_parts(options, &ground, bodies, &receiver, &old_pages);
    Ok((ground, files, parts))
}

/// For tests of single rooms: what live inodes are made of, over these names and tiers.
#[cfg(test)]
pub(crate) fn inode_parts(
    options: &NodeOptions,
    namespace: Namespace,
    tiers: Tiers,
) -> Result<InodeParts> {
    parts_of(options, namespace, tiers, &Promises::default()).map(|(_, _, parts)| parts)
}

/// What most rooms are built from.
struct Ground {
    namespace: Arc<Namespace>,
    tiers: Arc<Tiers>,
    cluster: Option<Arc<Cluster>>,
    placing: Arc<Placing>,
    /// The finalizer's queue.
    queue: Arc<Queue>,
    live: Arc<LiveTable>,
    hinted: Arc<Hinted>,
    metrics: Arc<Metrics>,
    kernel: Arc<Kernel>,
}

impl Ground {
    fn new(
        options: &NodeOptions,
        namespace: Namespace,
        tiers: Tiers,
        promises: &Promises,
    ) -> Result<Self> {
        let cluster = options
            .cluster
            .as_ref()
            .map(|c| Cluster::new(c, &options.name, root_of(options), options.pace()));
        let cluster = cluster.transpose()?.map(Arc::new);
        let namespace = Arc::new(shared(namespace, cluster.as_ref(), promises));
        let tiers = Arc::new(tiers);
        let (own_tiers, names) = (Arc::clone(&tiers), Arc::clone(&namespace));
        Ok(Self {
            placing: Arc::new(Placing::new(options, own_tiers, names, cluster.clone())),
            namespace,
            tiers,
            cluster,
            queue: Arc::new(Queue::new(raise_descriptor_limit())),
            live: Arc::new(LiveTable::new()),
            hinted: Arc::default(),
            metrics: Arc::default(),
            kernel: Arc::default(),
        })
    }

    fn locks(&self) -> Option<Arc<Locks>> {
        let cluster = self.cluster.as_ref()?;
        Some(Locks::new(Arc::clone(cluster), Arc::clone(&self.namespace)))
    }

    fn directory_leases(&self, options: &NodeOptions) -> DirectoryLeases {
        let (namespace, cluster) = (Arc::clone(&self.namespace), self.cluster.clone());
        DirectoryLeases::new(namespace, cluster, options.directory_leases)
    }

    fn summer(&self) -> Summer {
        Summer {
            namespace: Arc::clone(&self.namespace),
            tiers: Arc::clone(&self.tiers),
            live: Arc::clone(&self.live),
            queue: Arc::clone(&self.queue),
            metrics: Arc::clone(&self.metrics),
        }
    }

    fn replicas(&self, options: &NodeOptions, receiver: &Arc<Receiver>) -> Replicas {
        let files = CopiedFiles {
            live: Arc::clone(&self.live),
            namespace: Arc::clone(&self.namespace),
            tiers: Arc::clone(&self.tiers),
            placing: Arc::clone(&self.placing),
            kernel: Arc::clone(&self.kernel),
        };
        Replicas::new(
            options,
            ReplicaParts {
                namespace: &self.namespace,
                tiers: &self.tiers,
                placing: &self.placing,
                receiver,
                cluster: self.cluster.as_ref(),
                metrics: &self.metrics,
                files: Arc::new(files),
            },
        )
    }
}

/// What is known of backing files here, and of copies of those at other hosts.
struct Files {
    remote_cache: Arc<RemoteCache>,
    spreads: Arc<Spreads>,
    parts: Arc<Parts>,
    ledger: Arc<Ledger>,
    copies: Arc<Copies>,
}

impl Files {
    fn new(options: &NodeOptions, on: &Ground) -> Self {
        let Ground { namespace, tiers, cluster, queue, hinted, .. } = on;
        let remote_cache = RemoteCache::new(
            Arc::clone(tiers),
            Arc::clone(&on.placing),
            Arc::clone(namespace),
            Arc::clone(hinted),
            Arc::clone(queue),
        );
        let spreads =
            Arc::new(Spreads::new(cluster.clone(), Arc::clone(&remote_cache), Arc::clone(hinted)));
        let makes_room = Arc::clone(&remote_cache) as Arc<dyn MakesRoom>;
        let parts = Arc::new(Parts::new(tiers, namespace, &makes_room));
        let ledger = Arc::new(Ledger::new(
            Arc::clone(tiers),
            Arc::clone(namespace),
            Arc::clone(queue),
            Arc::clone(&parts) as Arc<dyn FileEvents>,
            cluster.is_some(),
        ));
        let (me, cluster) = (&options.name, cluster.as_ref());
        let copies = Arc::new(Copies::new(me, tiers, cluster, &remote_cache, &spreads, hinted));
        Self { remote_cache, spreads, parts, ledger, copies }
    }

    fn bodies(&self, options: &NodeOptions, on: &Ground, lower: Lower) -> Bodies {
        Bodies::new(
            options,
            BodyParts {
                namespace: &on.namespace,
                tiers: &on.tiers,
                placing: &on.placing,
                ledger: &self.ledger,
                parts: &self.parts,
                hinted: &on.hinted,
                cluster: on.cluster.as_ref(),
                makes_room: Arc::clone(&self.remote_cache) as Arc<dyn MakesRoom>,
                copies: Arc::clone(&self.copies) as Arc<dyn OpensCopies>,
                lower,
            },
        )
    }

    fn inode_parts(
        &self,
        options: &NodeOptions,
        on: &Ground,
        bodies: Arc<Bodies>,
        receiver: &Arc<Receiver>,
        old_pages: &Arc<OldPages>,
    ) -> InodeParts {
        let far_pages = Arc::default();
        let directory_leases = Arc::new(on.directory_leases(options));
        let passed = Arc::default();
        InodeParts {
            me: options.name.clone(),
            uncertain: Duration::from_millis(options.uncertain_ms),
            members: Members::new(on.cluster.clone()),
            cluster: on.cluster.clone(),
            namespace: Arc::clone(&on.namespace),
            tiers: Arc::clone(&on.tiers),
            placing: Arc::clone(&on.placing),
            ledger: Arc::clone(&self.ledger),
            bodies,
            remote_cache: Arc::clone(&self.remote_cache),
            vouches: Arc::new(Vouches::new()),
            paging: Arc::new(self.paging(&on.live, &far_pages, old_pages, &directory_leases)),
            directory_leases,
            far_pages,
            old_pages: Arc::clone(old_pages),
            copies: Arc::clone(&self.copies),
            replicas: Arc::new(on.replicas(options, receiver)),
            receiver: Arc::clone(receiver),
            live: Arc::clone(&on.live),
            removal: Arc::new(self.removal(on, &passed)),
            passed,
            queue: Arc::clone(&on.queue),
            hinted: Arc::clone(&on.hinted),
            metrics: Arc::clone(&on.metrics),
            kernel: Arc::clone(&on.kernel),
        }
    }

    fn removal(&self, on: &Ground, passed: &Arc<Passed>) -> Removal {
        Removal::new(&RemovalParts {
            namespace: &on.namespace,
            tiers: &on.tiers,
            cluster: on.cluster.as_ref(),
            ledger: &self.ledger,
            queue: &on.queue,
            live: &on.live,
            passed,
        })
    }

    fn paging(
        &self,
        live: &Arc<LiveTable>,
        far_pages: &Arc<FarPages>,
        old_pages: &Arc<OldPages>,
        directory_leases: &Arc<DirectoryLeases>,
    ) -> Paging {
        Paging {
            live: Arc::clone(live),
            far_pages: Arc::clone(far_pages),
            old_pages: Arc::clone(old_pages),
            directory_leases: Arc::clone(directory_leases),
            spreads: Arc::clone(&self.spreads),
        }
    }

    fn receiver(&self, options: &NodeOptions, on: &Ground) -> Receiver {
        Receiver::new(
            options,
            &ReceiverParts {
                tiers: &on.tiers,
                placing: &on.placing,
                namespace: &on.namespace,
                ledger: &self.ledger,
                remote_cache: &self.remote_cache,
                queue: &on.queue,
            },
        )
    }
}

/// The namespace, as this host uses it beside others.
fn shared(namespace: Namespace, cluster: Option<&Arc<Cluster>>, promises: &Promises) -> Namespace {
    let Some(cluster) = cluster else { return namespace };
    namespace.set_owner(cluster.owner());
    let later = promises.clone();
    let namespace = namespace.with_remains(move || later.look());
    namespace.with_leases(Arc::new(Neighbours(Arc::clone(cluster))))
}
