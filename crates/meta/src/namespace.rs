//! The tree of names and inodes, over any engine.
//!
//! Every operation is one transaction, on the conditions that what it read is unchanged. If another one came between, it is
//! tried again from the start, for a bounded time. Within one partition a transaction is one commit of the engine; over several
//! it follows the protocol of `two_phase`.

mod check;
mod create;
mod deployment;
mod directory_lease;
mod free;
mod group;
mod lease;
mod link;
mod list;
mod lock_master;
mod lookup;
mod lower;
mod name;
mod numbers;
mod orphan;
mod owner;
mod path;
mod patience;
mod preparation;
mod promises;
mod recover;
mod remains;
mod rename;
mod shared_lease;
mod superblock;
mod transaction;
mod two_phase;
mod update;
mod xattr;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use intarsia_sync::{Instant, RwLock};
use intarsia_types::{Error, InodeId, Result, Timestamp};

pub use self::check::{CheckProgress, CheckReport, Finding, Outcome};
pub use self::create::{NewInode, Origin};
pub use self::deployment::{MemberRecord, MemberState, MemberTier, TierRecord};
pub use self::directory_lease::{Recall, Recalled};
pub use self::free::FreeFile;
pub use self::group::GroupRecord;
pub use self::lease::WriteLease;
pub use self::link::LINK_MAX;
pub use self::list::{DirEntry, Naming};
pub use self::lock_master::LockMaster;
pub use self::owner::Owner;
pub use self::recover::Recovered;
pub use self::rename::RenameMode;
pub use self::shared_lease::{Invalidated, Invalidation};
pub use self::superblock::{Counts, RootSpec};
pub use self::update::Extra;
pub use self::xattr::{SetMode, XATTR_NAME_MAX, XATTR_VALUE_MAX};
pub use crate::keys::NAME_MAX;

use self::directory_lease::Leases;
use self::lookup::Recent;
use self::numbers::Numbers;
use self::patience::{PATIENCE, Suspects};
use self::recover::Sightings;
use self::remains::Leftovers;
use self::transaction::Transaction;
use crate::{EngineStats, Inode, MetaEngine, OpId, Value, allowance, keys};

/// While others keep changing what an operation read, it is tried at least so often and, counted from when it first rests, for
/// at least so long.
const ATTEMPTS: u32 = 1000;
const ATTEMPTED: Duration = Duration::from_secs(8);
/// Attempts that follow each other at once; from then on the thread lets others run first.
const EAGER_ATTEMPTS: u32 = 4;
/// Attempts before the thread also sleeps in between, since the one in the way may need the processor.
const RESTLESS_ATTEMPTS: u32 = 100;
const REST: Duration = Duration::from_millis(1);

/// The namespace of one store.
pub struct Namespace {
    engine: Arc<dyn MetaEngine>,
    /// Seed of the name hashes.
    seed: u64,
    /// Random: tells the commits and transactions of this namespace from those of all others.
    session: u64,
    next_op: AtomicU64,
    numbers: Numbers,
    /// The owner that marks made here name; without a name in a store of one host.
    owner: RwLock<Owner>,
    /// How long an undecided transaction is left to the node that began it.
    patience: Duration,
    suspects: Suspects,
    sightings: Sightings,
    leftovers: Leftovers,
    recent: Recent,
    /// Leases on directories, where other hosts have them too.
    leases: Option<Leases>,
}

/// An inode, and the bytes that it was decoded from, which a commit has as its condition.
struct Stored {
    inode: Inode,
    value: Value,
}

impl Namespace {
    /// Opens the namespace in `engine`, creating its superblock and root when there is none.
    pub fn open(engine: Arc<dyn MetaEngine>, root: RootSpec, now: Timestamp) -> Result<Self> {
        let seed = superblock::open(&*engine, root, now)?;
        let numbers = Numbers::new(engine.partitions());
        Ok(Self {
            engine,
            seed,
            session: superblock::random(),
            next_op: AtomicU64::new(0),
            numbers,
            owner: RwLock::default(),
            patience: PATIENCE,
            suspects: Suspects::default(),
            sightings: Sightings::default(),
            leftovers: Leftovers::default(),
            recent: Recent::default(),
            leases: None,
        })
    }

    /// As [`open`](Self::open), but creates nothing: `None` if there is no store in the engine yet.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_existing(engine: Arc<dyn MetaEngine>, now: Timestamp) -> Result<Option<Self>> {
        if !superblock::exists(&*engine)? {
            return Ok(None);
        }
        // The root is there already, so it is not made of this.
        Self::open(engine, RootSpec { perm: 0, uid: 0, gid: 0 }, now).map(Some)
    }

    /// Sets how long an undecided transaction over several partitions is left to the node that began it, before it is aborted;
    /// 1 s without this.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The inode with this number.
    pub fn get(&self, ino: InodeId) -> Result<Inode> {
        Ok(self.stored(ino)?.inode)
    }

    /// Returns when everything done so far is on stable storage.
    pub fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    /// Figures of the engine.
    #[must_use]
    pub fn engine_stats(&self) -> EngineStats {
        self.engine.stats()
    }

    fn stored(&self, ino: InodeId) -> Result<Stored> {
        let value = self.read(ino.partition(), &keys::by_inode(keys::INODE, ino))?;
        let value = value.ok_or(Error::NotFound)?;
        Ok(Stored { inode: Inode::decode(ino, &value)?, value })
    }

    fn next_op(&self) -> OpId {
        OpId { session: self.session, number: self.next_op.fetch_add(1, Ordering::Relaxed) }
    }

    /// Repeats `attempt` until it returns a value or an error. An attempt that returns `None` met a change of somebody else.
    ///
    /// # Errors
    /// [`Error::Busy`] after at least [`ATTEMPTS`] attempts, once [`ATTEMPTED`] or the deadline of the thread's call is over.
    #[track_caller]
    fn retry<T>(&self, mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let mut deadline = None;
        for round in 0.. {
            if let Some(done) = attempt()? {
                return Ok(done);
            }
            if round >= RESTLESS_ATTEMPTS {
                let until = || Instant::now() + allowance::of(ATTEMPTED);
                if Instant::now() > *deadline.get_or_insert_with(until) && round >= ATTEMPTS {
                    break;
                }
                intarsia_sync::thread::sleep(REST);
            } else if round >= EAGER_ATTEMPTS {
                intarsia_sync::thread::yield_now();
            }
        }
        let place = std::panic::Location::caller();
        tracing::warn!(%place, "an operation was outrun by others all the time");
        Err(Error::Busy("the metadata kept changing under this operation".into()))
    }
}
