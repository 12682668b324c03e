//! The node: one process per host that holds the namespace, the tiers and every open file.
//!
//! ```text
//! mount ── names (lookup, create, rename …) ── Namespace ── engine
//!      └── files (open, read, write, flush …) ── live inode ── body ── tier
//!                                              └── settler: settle → fold or keep → checksum
//! ```
//! A record in the namespace is the truth about an inode that nobody has open. While it is open, or
//! may still be written by somebody who outlived his close, a [`live`] entry overlays it.

mod acl;
mod arrivals;
mod attributes;
mod body;
mod clock;
mod closing;
mod cluster;
mod copies;
mod creations;
mod description;
mod directory_lease;
mod doubts;
mod early_fold;
mod elsewhere;
mod far_pages;
mod fence;
mod files;
mod gate;
mod heart;
mod hints;
mod identity;
mod integrity;
mod lease;
mod live;
mod locks;
mod lost;
mod lower;
mod maintenance;
mod membership;
mod metrics;
mod mover;
mod names;
mod node;
mod options;
mod pages;
mod parts;
mod peer;
mod pieces;
mod power_loss;
mod promises;
mod push;
mod readahead;
mod recovery;
mod remote;
mod remote_cache;
mod repair;
mod replicate;
mod replicator;
mod settler;
mod sight;
mod status;
mod striped;
mod stripes;
mod throttle;
mod tiers;
mod turns;
mod vouch;
mod xattrs;

pub use attributes::{AttrChange, SetTime, Validity};
pub use closing::{ClosingMode, ClosingProgress, ClosingStep};
pub use cluster::{ClusterOptions, HostPresence, member_counter};
pub use description::SharedDescription;
pub use directory_lease::{Cover, Telling};
pub use far_pages::{DropPages, Stamp};
pub use files::{Caller, KernelBacking, Opened, Reading, Registrar};
pub use intarsia_meta::{CheckProgress, CheckReport, DirEntry, RenameMode, SetMode, allowance};
pub use intarsia_policy::Transfer;
pub use intarsia_transport::DeploymentKey;
pub use locks::{LockClaim, LockDone, LockKind, LockMode, LockOutcome, LockSpan};
pub use lost::{LostFile, LostHost, LostSummary};
pub use lower::OVERFLOW_NAME;
pub use maintenance::CheckOptions;
pub use metrics::{Metrics, Op, OpTimer};
pub use mover::{MoveOptions, MoveProgress, MoveReport, StuckFile};
pub use names::NewName;
pub use node::{Node, PageCache};
pub use options::NodeOptions;
pub use remote::RemoteRead;
pub use remote_cache::RemoteCacheStatus;
pub use status::{HostStatus, Location, Status, TierStatus};
pub use striped::{FarRead, StripedRead};
