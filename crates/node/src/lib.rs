//! The node: one process per host that holds the namespace, the tiers and every open file.
//!
//! ```text
//! mount ── vfs/names (lookup, create, rename …) ── Namespace ── engine
//!      └── vfs/files (open, read, write, flush …) ── live inode ── body ── tier
//!                                                  └── settler: settle → fold or keep → checksum
//! ```
//! A record in the namespace is the truth about an inode that nobody has open. While it is open, or
//! may still be written by somebody who outlived his close, a [`inode::live`] entry overlays it.

mod background;
mod body;
mod cache;
mod clock;
mod directory;
mod identity;
mod inode;
mod lifecycle;
mod locks;
mod membership;
mod metrics;
mod node;
mod options;
mod peer;
mod rebalance;
mod replication;
mod space;
mod status;
mod vfs;

pub use background::maintenance::CheckOptions;
pub use body::lower::OVERFLOW_NAME;
pub use body::remote::read::RemoteRead;
pub use body::striped::read::{FarRead, StripedRead};
pub use cache::brief_pages::Asked;
pub use cache::far_pages::{DropPages, Stamp};
pub use cache::remote_cache::RemoteCacheStatus;
pub use directory::directory_lease::{Cover, Telling};
pub use intarsia_meta::{CheckProgress, CheckReport, DirEntry, RenameMode, SetMode, allowance};
pub use intarsia_policy::Transfer;
pub use intarsia_transport::DeploymentKey;
pub use lifecycle::closing::{ClosingMode, ClosingProgress, ClosingStep};
pub use locks::{LockClaim, LockDone, LockKind, LockMode, LockOutcome, LockSpan};
pub use membership::cluster::{ClusterOptions, HostPresence, member_counter};
pub use membership::description::SharedDescription;
pub use membership::lost::{LostFile, LostHost, LostSummary};
pub use metrics::{Metrics, Op, OpTimer};
pub use node::{Node, PageCache};
pub use options::NodeOptions;
pub use rebalance::mover::{MoveOptions, MoveProgress, MoveReport, Moved, Place, StuckFile};
pub use status::{HostStatus, Location, Status, TierStatus};
pub use vfs::attributes::{AttrChange, SetTime, Validity};
pub use vfs::caller::Caller;
pub use vfs::locating::Located;
pub use vfs::names::NewName;
pub use vfs::open::{KernelBacking, Opened, Registrar};
pub use vfs::read::Reading;
