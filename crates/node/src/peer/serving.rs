//! What requests of other hosts are answered with: calls like those of programs, and the rooms below.

use std::sync::Arc;
use std::time::Duration;

use intarsia_types::{Durability, InodeId, NodeId, Result};
use intarsia_wire::{LockPlace, LockQuestion, PublishedFor, Response};

use crate::body::parts::Parts;
use crate::cache::spread::Spreads;
use crate::cache::vouch::Vouches;
use crate::directory::directory_lease::DirectoryLeases;
use crate::inode::elsewhere::Elsewhere;
use crate::inode::followers::Followers;
use crate::inode::lease::Leases;
use crate::inode::paging::Paging;
use crate::locks::Locks;
use crate::members::Members;
use crate::metrics::Metrics;
use crate::peer::handles::HandleNumbers;
use crate::rebalance::fetch::Fetches;
use crate::rebalance::tiers::TierChanges;
use crate::replication::arrivals::Receiver;
use crate::replication::replicator::{Asked, CopyQueue};
use crate::vfs::locking::OF_ONE_HOST;

/// Calls on files of this host that are made for another host, as they are for programs.
pub(crate) trait PeerFiles: Send + Sync {
    /// Reads into `buffer`. Returns how many bytes were read.
    fn read(&self, ino: InodeId, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize>;

    /// How long a file is now, in bytes.
    fn length(&self, ino: InodeId) -> Result<u64>;

    /// Writes to a file that was opened for that.
    fn write(&self, ino: InodeId, offset_bytes: u64, bytes: &[u8]) -> Result<()>;

    /// Gives a file that was opened for writing another length, in bytes.
    fn cut(&self, ino: InodeId, size_bytes: u64) -> Result<()>;

    /// Does what `fallocate` does with `bits` as its mode.
    fn allocate(&self, ino: InodeId, offset_bytes: u64, len_bytes: u64, bits: u32) -> Result<()>;

    /// Publishes what was written. If that takes long, returns the pause after which the host has to ask again, and puts into
    /// `asked` what it has to ask for then.
    fn publish(
        &self,
        ino: InodeId,
        published_for: PublishedFor,
        asked: &mut Option<Asked>,
    ) -> Result<Option<Duration>>;

    /// A handle that was opened for another host is closed.
    fn close(&self, ino: InodeId, may_write: bool);
}

/// The rooms that serve other hosts, besides [`PeerFiles`].
pub(crate) struct Peer {
    pub(crate) durability: Durability,
    pub(crate) members: Members,
    /// Numbers what other hosts open here; goes on counting when this host serves again after a pause.
    pub(crate) handles: HandleNumbers,
    pub(crate) metrics: Arc<Metrics>,
    /// Locks of processes, in a store of several hosts.
    pub(crate) locks: Option<Arc<Locks>>,
    pub(crate) directory_leases: Arc<DirectoryLeases>,
    /// Parts of striped files.
    pub(crate) parts: Arc<Parts>,
    pub(crate) spreads: Arc<Spreads>,
    pub(crate) vouches: Arc<Vouches>,
    pub(crate) receiver: Arc<Receiver>,
    /// Files that lack copies on other hosts.
    pub(crate) copy_queue: Arc<CopyQueue>,
    pub(crate) paging: Arc<Paging>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) followers: Arc<Followers>,
    pub(crate) elsewhere: Arc<Elsewhere>,
    pub(crate) fetches: Arc<Fetches>,
    pub(crate) tier_changes: Arc<TierChanges>,
}

impl Peer {
    /// Answers a question about locks.
    ///
    /// # Errors
    /// [`OF_ONE_HOST`], and those of [`Locks::answer_lock`].
    pub(super) fn answer_lock(
        &self,
        host: &NodeId,
        place: LockPlace,
        number: Option<u64>,
        question: LockQuestion,
    ) -> Result<Response> {
        let locks = self.locks.as_ref().ok_or(OF_ONE_HOST)?;
        locks.answer_lock(host, place, number, question).map(Response::Lock)
    }
}
