//! How a node is set up.
//!
//! Owns the settings that a node is opened with, and their defaults.
//! Asks the environment and the system for the name of the host.
//! Promises that the settings stay the same while the node runs.

use std::path::PathBuf;
use std::time::Duration;

use intarsia_types::{ByteCount, Durability, NodeId, RuleSet, TierSpec};

use crate::membership::Pace;
use crate::membership::cluster::ClusterOptions;
use crate::record::{Detail, LIMIT};

/// Settings of a node. [`NodeOptions::new`] gives the defaults.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Holds the metadata, the identity, the socket and the log.
    pub dir: PathBuf,
    /// The tiers in order of preference between equals; none means one tier `DIR/tier`.
    pub tiers: Vec<TierSpec>,
    /// The host, in the name that the batch system uses.
    pub name: NodeId,
    /// What an acknowledged close survives.
    pub durability: Durability,
    /// With `durability=interval`: the longest time that power loss can take back, in milliseconds.
    pub interval_ms: u64,
    /// Largest file that is kept beside its inode; 0 for none.
    pub inline_bytes: ByteCount,
    /// Room for all such files.
    pub inline_budget: ByteCount,
    /// Free bytes below which a tier takes no new files.
    pub watermark: ByteCount,
    /// Memory for cached metadata.
    pub cache: ByteCount,
    /// Whether passthrough is wanted where the kernel offers it.
    pub passthrough: bool,
    /// Hints by path.
    pub rules: RuleSet,
    /// How many copies a file has on different hosts where no hint says.
    pub replicas: u16,
    /// Bytes a second that copies in the background may take; 0 for no bound.
    pub copy_rate: ByteCount,
    /// Owner of a new store's root directory.
    pub root_uid: u32,
    /// Group of a new store's root directory.
    pub root_gid: u32,
    /// Permissions of a new store's root directory.
    pub root_perm: u16,
    /// A file system whose tree appears in the store's, and is only read. Without, the one that the store
    /// was made with, if any.
    pub lower: Option<PathBuf>,
    /// Whether new files for which no tier has room go to the lower file system, into a directory there
    /// that does not show.
    pub overflow: bool,
    /// What makes the node one of several; none for a store of this host alone.
    pub cluster: Option<ClusterOptions>,
    /// With several hosts: whether this one keeps what it reads of directories, under leases.
    pub directory_leases: bool,
    /// How much of what programs do is recorded from the beginning.
    pub record: Detail,
    /// What the log of a recording may take.
    pub record_limit: ByteCount,
    /// With several hosts: how often each shows the others that it lives, in milliseconds.
    pub beat_ms: u64,
    /// A host that the others have not heard of for so many milliseconds is lost.
    pub lost_after_ms: u64,
    /// A change of the metadata that was not answered is over, one way or the other, after so many milliseconds.
    pub uncertain_ms: u64,
}

impl NodeOptions {
    /// The defaults for a store in `dir`.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            tiers: Vec::new(),
            name: host_name(),
            durability: Durability::Interval,
            interval_ms: 1000,
            inline_bytes: ByteCount::kib(4),
            inline_budget: ByteCount::gib(4),
            watermark: ByteCount::mib(64),
            cache: ByteCount::mib(128),
            passthrough: true,
            rules: RuleSet::default(),
            replicas: 1,
            copy_rate: ByteCount::mib(100),
            root_uid: rustix::process::geteuid().as_raw(),
            root_gid: rustix::process::getegid().as_raw(),
            root_perm: 0o755,
            lower: None,
            overflow: false,
            cluster: None,
            directory_leases: true,
            record: Detail::Off,
            record_limit: LIMIT,
            beat_ms: 1000,
            lost_after_ms: 5000,
            uncertain_ms: 60_000,
        }
    }

    pub(crate) const fn pace(&self) -> Pace {
        Pace {
            interval: Duration::from_millis(self.beat_ms),
            lost_after: Duration::from_millis(self.lost_after_ms),
        }
    }
}

/// The name that the batch system uses for this host, else its short host name.
fn host_name() -> NodeId {
    let name = std::env::var("SLURMD_NODENAME").ok().filter(|n| !n.is_empty());
    NodeId(name.unwrap_or_else(|| {
        let uname = rustix::system::uname();
        let full = uname.nodename().to_string_lossy().into_owned();
        full.split('.').next().unwrap_or("localhost").to_owned()
    }))
}
