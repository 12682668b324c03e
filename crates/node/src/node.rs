//! The node itself: what it is made of, how it starts and stops.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use intarsia_meta::engines::{EmbeddedEngine, EmbeddedOptions, MemoryEngine};
use intarsia_meta::{MetaEngine, Namespace, RootSpec, TierRecord};
use intarsia_store::{Tier, TierOptions};
use intarsia_sync::{Instant, RwLock};
use intarsia_types::{Durability, Error, Result, RuleSet, TierClass, TierId, TierSpec};

use crate::background::queue::Queue;
use crate::body::lower::{Lower, OVERFLOW_NAME, open_tree};
use crate::body::parts::Parts;
use crate::body::{Bodies, BodyParts, OpensCopies};
use crate::cache::far_pages::FarPages;
use crate::cache::pages::OldPages;
use crate::cache::remote_cache::RemoteCache;
use crate::cache::spread::Spreads;
use crate::cache::vouch::Vouches;
use crate::clock::now;
use crate::directory::directory_lease::{DirectoryLeases, Neighbours};
use crate::directory::promises::Promises;
use crate::identity::Identity;
use crate::inode::copied_files::CopiedFiles;
use crate::inode::doubts::DoubtfulOrphans;
use crate::inode::elsewhere::Shortage;
use crate::inode::live::LiveTable;
use crate::inode::outdating::Outdating;
use crate::inode::passed::Passed;
use crate::kernel::{Kernel, PageCache, raise_descriptor_limit};
use crate::lifecycle::threads::Threads;
use crate::locks::Locks;
use crate::membership::cluster::Cluster;
use crate::membership::gate::Gate;
use crate::metrics::Metrics;
use crate::metrics::hinted::Hinted;
use crate::metrics::outlived::Outlived;
use crate::options::NodeOptions;
use crate::rebalance::fetch::Fetches;
use crate::record::Recorder;
use crate::replication::arrivals::{Receiver, ReceiverParts};
use crate::replication::copies::Copies;
use crate::replication::{ReplicaParts, Replicas};
use crate::space::inode_count::InodeCount;
use crate::space::ledger::{FileEvents, Ledger};
use crate::space::placing::Placing;
use crate::space::tiers::{MakesRoom, Tiers, clear_tier};
use crate::vfs::creations::Creations;
use crate::vfs::departed::Departed;
use crate::vfs::recollection::Recollections;

/// The store of one host: the namespace, the tiers and the open files.
pub struct Node {
    pub(crate) options: NodeOptions,
    pub(crate) store: String,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) tiers: Arc<Tiers>,
    /// Copies of other hosts' files.
    pub(crate) remote_cache: Arc<RemoteCache>,
    /// Opens the bytes of files, and makes and names those here.
    pub(crate) bodies: Bodies,
    /// Finds and opens the copies of files.
    pub(crate) copies: Arc<Copies>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) old_pages: Arc<OldPages>,
    /// What the kernel keeps of other hosts' files.
    pub(crate) far_pages: Arc<FarPages>,
    /// What other hosts may keep of files here.
    pub(crate) vouches: Vouches,
    /// Files that spread over their readers.
    pub(crate) spreads: Arc<Spreads>,
    /// How often the hints of a pattern were followed.
    pub(crate) hinted: Arc<Hinted>,
    /// Files that went with their last reader.
    pub(crate) outlived: Outlived,
    /// The other hosts, in a store of several.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// Locks of processes, in a store of several hosts.
    pub(crate) locks: Option<Arc<Locks>>,
    /// Which directories this host has leased, of those that it shares with others.
    pub(crate) directory_leases: DirectoryLeases,
    pub(crate) recollections: Recollections,
    pub(crate) passed: Passed,
    pub(crate) departed: Departed,
    /// Where new files go.
    pub(crate) placing: Arc<Placing>,
    pub(crate) shortage: Shortage,
    pub(crate) inode_count: InodeCount,
    /// Makes copies of files on other hosts.
    pub(crate) replicas: Replicas,
    /// Files that come here to stay, as another host asks for it.
    pub(crate) fetches: Fetches,
    /// Takes in what other hosts send.
    pub(crate) receiver: Arc<Receiver>,
    /// Backing files without an owner.
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) doubtful_orphans: DoubtfulOrphans,
    pub(crate) creations: Creations,
    pub(crate) promises: Promises,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) recorder: Recorder,
    pub(crate) rules: RwLock<Arc<RuleSet>>,
    pub(crate) kernel: Arc<Kernel>,
    /// What the metadata engine takes on disk, now and then asked.
    pub(crate) inline_total: std::sync::atomic::AtomicU64,
    pub(crate) started: Instant,
    pub(crate) threads: Threads,
    pub(crate) settler_queue: Arc<Queue>,
    pub(crate) is_closed: AtomicBool,
    /// In a store of several hosts: bounds what closing waits for.
    pub(crate) gate: Option<Arc<Gate>>,
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
        let syncs_names = options.durability == Durability::Sync;
        let tiers = Tiers::new(tiers, overflow.as_deref(), syncs_names);
        let node = Arc::new(Self::build(options, identity.store, gate, namespace, tiers)?);
        node.begin_beating()?;
        node.recover()?;
        node.join_cluster()?;
        node.record(node.options.record)?;
        node.start_background()?;
        Ok(node)
    }

    /// Builds the rooms, each from those below it; nothing runs yet but what shows the other hosts that this one starts.
    fn build(
        options: NodeOptions,
        store: String,
        gate: Option<Arc<Gate>>,
        namespace: Namespace,
        tiers: Tiers,
    ) -> Result<Self> {
        let lower = open_tree(options.lower.as_deref(), &namespace)?;
        let cluster = options
            .cluster
            .as_ref()
            .map(|c| Cluster::new(c, &options.name, root_of(&options), options.pace()));
        let cluster = cluster.transpose()?.map(Arc::new);
        let promises = Promises::default();
        let namespace = Arc::new(shared(namespace, cluster.as_ref(), &promises));
        let tiers = Arc::new(tiers);
        let directory_leases =
            DirectoryLeases::new(Arc::clone(&namespace), cluster.clone(), options.directory_leases);
        let placing = Arc::new(Placing::new(
            &options,
            Arc::clone(&tiers),
            Arc::clone(&namespace),
            cluster.clone(),
        ));
        let settler_queue = Arc::new(Queue::new(raise_descriptor_limit()));
        let hinted = Arc::new(Hinted::default());
        let remote_cache = RemoteCache::new(
            Arc::clone(&tiers),
            Arc::clone(&placing),
            Arc::clone(&namespace),
            Arc::clone(&hinted),
            Arc::clone(&settler_queue),
        );
        let spreads =
            Arc::new(Spreads::new(cluster.clone(), Arc::clone(&remote_cache), Arc::clone(&hinted)));
        let makes_room = Arc::clone(&remote_cache) as Arc<dyn MakesRoom>;
        let parts = Arc::new(Parts::new(&tiers, &namespace, &makes_room));
        let ledger = Arc::new(Ledger::new(
            Arc::clone(&tiers),
            Arc::clone(&namespace),
            Arc::clone(&settler_queue),
            Arc::clone(&parts) as Arc<dyn FileEvents>,
            cluster.is_some(),
        ));
        let copies = Arc::new(Copies::new(
            &options.name,
            &tiers,
            cluster.as_ref(),
            &remote_cache,
            &spreads,
            &hinted,
        ));
        let live = Arc::new(LiveTable::new());
        let old_pages = Arc::new(OldPages::default());
        let lower = Lower::new(lower, &namespace, Outdating::new(&live, &old_pages));
        let bodies = Bodies::new(
            &options,
            BodyParts {
                namespace: &namespace,
                tiers: &tiers,
                placing: &placing,
                ledger: &ledger,
                parts: &parts,
                hinted: &hinted,
                cluster: cluster.as_ref(),
                makes_room,
                copies: Arc::clone(&copies) as Arc<dyn OpensCopies>,
                lower,
            },
        );
        let receiver = Arc::new(Receiver::new(
            &options,
            &ReceiverParts {
                tiers: &tiers,
                placing: &placing,
                namespace: &namespace,
                ledger: &ledger,
                remote_cache: &remote_cache,
                queue: &settler_queue,
            },
        ));
        let (metrics, kernel) = (Arc::<Metrics>::default(), Arc::<Kernel>::default());
        let files = CopiedFiles {
            live: Arc::clone(&live),
            namespace: Arc::clone(&namespace),
            tiers: Arc::clone(&tiers),
            placing: Arc::clone(&placing),
            kernel: Arc::clone(&kernel),
        };
        let replicas = Replicas::new(
            &options,
            ReplicaParts {
                namespace: &namespace,
                tiers: &tiers,
                placing: &placing,
                receiver: &receiver,
                cluster: cluster.as_ref(),
                metrics: &metrics,
                files: Arc::new(files),
            },
        );
        let inode_count = InodeCount::new(cluster.is_some());
        let locks = cluster.as_ref().map(|c| Locks::new(Arc::clone(c), Arc::clone(&namespace)));
        Ok(Self {
            store,
            namespace,
            bodies,
            copies,
            remote_cache,
            tiers,
            live,
            old_pages,
            far_pages: Arc::default(),
            vouches: Vouches::new(),
            spreads,
            hinted,
            outlived: Outlived::default(),
            locks,
            cluster,
            directory_leases,
            recollections: Recollections::default(),
            passed: Passed::default(),
            departed: Departed::new(),
            placing,
            shortage: Shortage::default(),
            inode_count,
            replicas,
            fetches: Fetches::default(),
            receiver,
            ledger,
            doubtful_orphans: DoubtfulOrphans::default(),
            creations: Creations::default(),
            promises,
            metrics,
            recorder: Recorder::default(),
            rules: RwLock::new(Arc::new(options.rules.clone())),
            kernel,
            inline_total: std::sync::atomic::AtomicU64::new(0),
            started: Instant::now(),
            threads: Threads::default(),
            settler_queue,
            is_closed: AtomicBool::new(false),
            gate,
            options,
        })
    }

    /// The settings in force.
    #[must_use]
    pub const fn options(&self) -> &NodeOptions {
        &self.options
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> &Metrics {
        &self.metrics
    }

    /// The mount says how the kernel serves files.
    pub fn set_kernel_mode(&self, passthrough: bool, write_back: bool) {
        self.kernel.begin(passthrough, write_back);
    }

    /// The mount offers to put bytes into the kernel's page cache.
    pub fn set_page_cache(&self, store: Box<PageCache>) {
        self.kernel.offer_page_cache(store);
    }

    /// Ends all that the node does by itself and records nothing, as a crash would; for tests of such.
    pub fn abandon(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.stop_heart();
        self.stop_serving();
        self.stop_background();
    }

    /// Stops the background work and leaves everything as it is, as a crash would; for tests of such.
    pub fn crash(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.stop_background();
    }
}

/// Adds the tiers that go without saying: one in the store's directory if none is named, and the overflow, whose
/// directory it returns.
fn add_tiers(options: &mut NodeOptions, store: &str) -> Result<Option<PathBuf>> {
    let spec = |dir| TierSpec { dir, class: None, capacity: None };
    if options.tiers.is_empty() {
        options.tiers.push(spec(options.dir.join("tier")));
    }
    let overflow = options.overflow.then(|| overflow_dir(options, store)).transpose()?;
    options.tiers.extend(overflow.clone().map(spec));
    Ok(overflow)
}

/// The namespace, as this host uses it beside others.
fn shared(namespace: Namespace, cluster: Option<&Arc<Cluster>>, promises: &Promises) -> Namespace {
    let Some(cluster) = cluster else { return namespace };
    namespace.set_owner(cluster.owner());
    let later = promises.clone();
    let namespace = namespace.with_remains(move || later.look());
    namespace.with_leases(Arc::new(Neighbours(Arc::clone(cluster))))
}

/// The tiers first: on a full disk the metadata takes what is left for its own needs. But with several hosts
/// the metadata numbers the tiers.
/// `is_new` tells that nothing of the store was in the directory.
fn open_parts(
    options: &NodeOptions,
    identity: &mut Identity,
    is_new: bool,
) -> Result<(Namespace, Vec<Tier>)> {
    let is_volatile = identity.is_volatile;
    if options.cluster.is_none() {
        let tiers = open_tiers(options, identity, None)?;
        return Ok((open_namespace(options, is_volatile)?, tiers));
    }
    let namespace = open_namespace(options, is_volatile)?;
    take_up_former(options, identity, &namespace, is_new)?;
    let tiers = open_tiers(options, identity, Some(&namespace))?;
    Ok((namespace, tiers))
}

/// Compares what the metadata knows of this host's tiers with the disks: a tier that is there goes on under its
/// number, also when the host's directory is lost; one that is not, on a disk that was replaced, counts as that of a
/// lost host, so that its files are read from their other copies and copied anew.
fn take_up_former(
    options: &NodeOptions,
    identity: &mut Identity,
    namespace: &Namespace,
    is_new: bool,
) -> Result<()> {
    let is_configured =
        |dir: &str| options.tiers.iter().any(|spec| absolute(&spec.dir) == Path::new(dir));
    let own = namespace.tiers()?.into_iter().filter(|(_, tier)| tier.host == options.name.0);
    let (there, missing): (Vec<_>, Vec<_>) = own.partition(|(id, tier)| {
        intarsia_store::tier_at(Path::new(&tier.dir), &identity.store) == Some(*id)
    });
    identity.keep_tiers(there.into_iter().map(|(id, tier)| (id, PathBuf::from(tier.dir))));
    // The capacity is recorded once a tier is in use; before, nothing is on it.
    let is_gone =
        |tier: &TierRecord| tier.capacity_bytes > 0 && (is_new || is_configured(&tier.dir));
    let gone: Vec<TierId> =
        missing.into_iter().filter(|(_, tier)| is_gone(tier)).map(|(id, _)| id).collect();
    identity.drop_tiers(&gone);
    if let Some(former) = namespace.retire_tiers(&options.name, &gone, now())? {
        tracing::error!(
            host = %options.name, %former, tiers = ?gone,
            "tiers of this host come back empty; what they held counts as that of a lost host"
        );
    }
    Ok(())
}

fn absolute(dir: &Path) -> PathBuf {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned())
}

/// The directory of the overflow in the lower file system, made; each host of each store has its own.
fn overflow_dir(options: &NodeOptions, store: &str) -> Result<PathBuf> {
    let lower = options.lower.as_deref().ok_or_else(|| {
        Error::Invalid("an overflow needs a lower file system; name one with --lower".into())
    })?;
    let parent = lower.join(OVERFLOW_NAME).join(store);
    std::fs::create_dir_all(&parent)
        .map_err(|e| Error::io(format!("make the overflow {}", parent.display()), e))?;
    Ok(parent.join(&options.name.0))
}

/// Opens the tiers, numbered by `numbering` in a store of several hosts.
fn open_tiers(
    options: &NodeOptions,
    identity: &mut Identity,
    numbering: Option<&Namespace>,
) -> Result<Vec<Tier>> {
    let record = |dir: &Path, class, capacity_bytes| TierRecord {
        host: options.name.0.clone(),
        dir: dir.to_string_lossy().into_owned(),
        class,
        capacity_bytes,
    };
    let register = |dir: &Path| match numbering {
        Some(namespace) => namespace.register_tier(&record(dir, TierClass::Disk, 0)),
        None => Err(Error::Engine("a tier was to be numbered for other hosts".into())),
    };
    let ids = identity.number_tiers(&options.tiers, numbering.map(|_| &register as _))?;
    for (id, dir) in identity.absent_tiers(&ids) {
        tracing::warn!(%id, dir = %dir.display(), "a tier of this store is not configured; its files give EIO");
    }
    let mut tiers = Vec::with_capacity(ids.len());
    for (spec, id) in options.tiers.iter().zip(ids) {
        let tier = Tier::open(TierOptions {
            spec: spec.clone(),
            id,
            store: identity.store.clone(),
            watermark: options.watermark,
        })?;
        if options.durability == Durability::Memory {
            clear_tier(&tier)?;
        }
        if let Some(namespace) = numbering {
            // Now that it is known what it is.
            let dir = absolute(&spec.dir);
            let capacity_bytes = tier.space().capacity_bytes;
            namespace.register_tier(&record(&dir, tier.class(), capacity_bytes))?;
        }
        tiers.push(tier);
    }
    identity.save(&options.dir)?;
    Ok(tiers)
}

const fn root_of(options: &NodeOptions) -> RootSpec {
    RootSpec { perm: options.root_perm, uid: options.root_uid, gid: options.root_gid }
}

fn open_namespace(options: &NodeOptions, is_volatile: bool) -> Result<Namespace> {
    let root = root_of(options);
    match &options.cluster {
        Some(cluster) => Namespace::open(Arc::clone(&cluster.engine), root, now()),
        None => Namespace::open(open_engine(options, is_volatile)?, root, now()),
    }
}

fn open_engine(options: &NodeOptions, is_volatile: bool) -> Result<Arc<dyn MetaEngine>> {
    if is_volatile || options.durability == Durability::Memory {
        return Ok(Arc::new(MemoryEngine::new(1)));
    }
    let interval = std::time::Duration::from_millis(options.interval_ms);
    let settings = EmbeddedOptions {
        cache_bytes: options.cache.0,
        flush_interval: Some(interval),
        ..EmbeddedOptions::default()
    };
    Ok(Arc::new(EmbeddedEngine::open(&options.dir.join("meta"), &settings)?))
}
