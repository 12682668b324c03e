//! The node: one process per host that holds the namespace, the tiers and every open file.
//!
//! ```text
//! mount ── vfs/names (lookup, create, rename …) ── Namespace ── engine
//!      └── vfs/open, read, write, sync … ── live inode ── body ── tier
//!                                              └── finalizer: settle → fold or keep → checksum
//! ```
//! A record in the namespace is the truth about an inode that nobody has open. While it is open, or may still be
//! written through a mapping that outlived the close, its entry in [`inode::live`] counts instead.
//!
//! Each module below is a *room*; the header of its file says what it owns, whom it asks and what it promises, and
//! `docs/internals/rooms.md` says in which order the rooms use each other.

// Clock, locks and threads are those of `intarsia_sync`, which a simulation replaces.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod background;
mod body;
mod cache;
mod clock;
mod directory;
mod identity;
mod inode;
mod kernel;
mod lifecycle;
mod locks;
mod members;
mod membership;
mod metrics;
mod node;
mod options;
mod peer;
mod ranks;
mod rebalance;
mod record;
mod replication;
mod space;
mod status;
mod vfs;

pub use body::lower::OVERFLOW_NAME;
pub use body::remote::read::RemoteRead;
pub use body::striped::read::{FarRead, StripedRead};
pub use cache::brief_pages::Asked;
pub use cache::far_pages::DropPages;
pub use cache::remote_cache::RemoteCacheStatus;
pub use directory::telling::{Cover, Telling};
pub use directory::told::AttributeDropper;
pub use inode::departed::gone_twice;
pub use intarsia_meta::{CheckProgress, CheckReport, DirEntry, RenameMode, SetMode, allowance};
pub use intarsia_policy::Transfer;
pub use intarsia_store::tier_at as tier_found_at;
pub use intarsia_trace::NameChange;
pub use intarsia_transport::DeploymentKey;
pub use kernel::PageCache;
pub use lifecycle::checking::CheckOptions;
pub use lifecycle::closing::{ClosingMode, ClosingProgress, ClosingStep};
pub use locks::{LockClaim, LockDone, LockKind, LockMode, LockOutcome, LockSpan};
pub use membership::cluster::{ClusterOptions, HostPresence, member_counter};
pub use membership::description::SharedDescription;
pub use metrics::{Metrics, Op, OpTimer, RequestTimes, TimeBucket};
pub use node::Node;
pub use options::NodeOptions;
pub use rebalance::mover::{MoveOptions, MoveProgress, MoveReport, Moved, Place, StuckFile};
pub use record::{
    Access, ChangedName, Detail, Direction, OpenedFile, RECORDS_DIRECTORY, RecordStatus, Recorder,
    recorded_as,
};
pub use status::lost::{LostFile, LostHost, LostSummary};
pub use status::{HostStatus, Location, Status, TierStatus};
pub use vfs::attributes::{AttrChange, SetTime, Validity};
pub use vfs::caller::Caller;
pub use vfs::locating::Located;
pub use vfs::names::NewName;
pub use vfs::open::{KernelBacking, Opened, Pages, Registrar};
pub use vfs::read::Reading;
pub use vfs::recollection::begin_answering;
pub use vfs::sync::Wait;
