//! The content of a long file that is about to be written here, fetched from other hosts or from the lower file system before
//! the file gets its backing file here.
//!
//! Meanwhile the file's entry is not locked and this host does not hold the right to write, so that other programs can open,
//! read and write the file however long the transfer takes. Every writer changes the record's version before the first byte.
//! So what was fetched while nobody had the right is the file's content as long as the record has the version that it had at
//! the beginning; else it is thrown away, and fetched anew.

use std::mem;
use std::sync::Arc;

use intarsia_meta::Inode;
use intarsia_store::BackingFile;
use intarsia_types::{BackingRef, Error, InodeId, LowerStamp, NodeId, Result, TierId};

use crate::body::LocalBody;
use crate::body::changing::MovesFrom;
use crate::body::lower::{LowerBody, copy_unchanged};
use crate::inode::live::LiveState;
use crate::inode::moving::{Moving, require_bytes};
use crate::membership::cluster::Cluster;
use crate::replication::copies::open_elsewhere;
use crate::space::tiers::{Filling, Tiers};

/// Shorter content is fetched while the entry is locked: over a link of 100 Mbit/s that takes less than a second.
const LONG_BYTES: u64 = 8 << 20;
/// Content is fetched ahead so many times for one call; then it is fetched while the entry is locked, so that the call ends
/// although other hosts keep changing the file.
pub(super) const TRIES: u32 = 3;

/// What an attempt to write to a file finds of its content here.
#[derive(Default)]
pub(crate) enum Ahead {
    /// Nothing was fetched yet.
    #[default]
    Nothing,
    /// All of it, of one version.
    Fetched(FetchedFile),
    /// It is to be fetched while the entry is locked.
    Refused,
}

/// Which content a file had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    /// That of a version of its record, while nobody had the right to write.
    OfRecord(u64),
    /// That of a state of the file in the lower file system.
    OfLower(LowerStamp),
}

/// A backing file with the content of an inode. Goes back to its tier unless it becomes the inode's.
pub(crate) struct FetchedFile {
    tiers: Arc<Tiers>,
    ino: InodeId,
    version: Version,
    backing: BackingRef,
    file: Option<BackingFile>,
    _filling: Filling,
}

impl Drop for FetchedFile {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        if let Err(error) = self.tiers.give_back(self.backing, file) {
            tracing::warn!(backing = ?self.backing, %error, "a file that was fetched in vain stays until the next start");
        }
    }
}

impl Ahead {
    /// Takes the file out if it has the content of `inode`.
    pub(super) fn take_of(&mut self, inode: &Inode) -> Option<LocalBody> {
        self.take(inode.ino, Version::OfRecord(inode.version))
    }

    /// Takes the file out if it has the content of a lower file.
    pub(super) fn take_of_lower(&mut self, ino: InodeId, lower: &LowerBody) -> Option<LocalBody> {
        self.take(ino, Version::OfLower(lower.stamp()))
    }

    fn take(&mut self, ino: InodeId, version: Version) -> Option<LocalBody> {
        let Self::Fetched(fetched) = self else { return None };
        if (fetched.ino, fetched.version) != (ino, version) {
            return None;
        }
        let body = LocalBody::new(fetched.backing, fetched.file.take()?);
        *self = Self::Nothing;
        Some(body)
    }

    /// Whether this content is to be fetched, or fetched anew, with the entry unlocked.
    fn lacks(&self, ino: InodeId, version: Version) -> bool {
        match self {
            Self::Nothing => true,
            Self::Fetched(fetched) => (fetched.ino, fetched.version) != (ino, version),
            Self::Refused => false,
        }
    }

    /// Runs one attempt on the locked entry with this; what it leaves comes back, to be dropped when the entry is free.
    pub(super) fn lend<T>(
        &mut self,
        state: &mut LiveState,
        attempt: impl FnOnce(&mut LiveState) -> T,
    ) -> T {
        state.ahead = mem::take(self);
        let outcome = attempt(state);
        *self = mem::take(&mut state.ahead);
        outcome
    }
}

/// Content that an attempt wants in a tier here before the next one.
pub(crate) struct Wanted {
    ino: InodeId,
    source: WantedFrom,
}

/// Where it is.
enum WantedFrom {
    /// At hosts, of which the first that answers is asked.
    Hosts { cluster: Arc<Cluster>, hosts: Vec<NodeId>, tier: TierId },
    /// In the lower file system.
    Lower { file: Arc<BackingFile>, stamp: LowerStamp, tier: TierId },
    /// Another call fetches it.
    Another,
}

impl Moving {
    /// What to fetch before this host becomes the home of `inode`, which `hosts` have; `None` if that can be done at once.
    pub(super) fn wanted_ahead(
        &self,
        cluster: &Arc<Cluster>,
        inode: &Inode,
        hosts: &[NodeId],
        state: &LiveState,
    ) -> Result<Option<Wanted>> {
        // The kernel reads that very file past us, so that its content has to be brought up to date in place.
        if inode.size_bytes <= LONG_BYTES
            || state.passed_copy().is_some()
            || !state.ahead.lacks(inode.ino, Version::OfRecord(inode.version))
            || self.remote_cache.has_true_copy(inode)
        {
            return Ok(None);
        }
        let tier = self.placing.tier_here(state.hints.tier())?;
        let (cluster, hosts) = (Arc::clone(cluster), hosts.to_vec());
        let source = WantedFrom::Hosts { cluster, hosts, tier };
        Ok(Some(Wanted { ino: inode.ino, source }))
    }

    /// What to wait for before the right to write is asked for: while another call here fetches the content, its home counts the
    /// file as in use.
    pub(super) fn wanted_by_another(&self, ino: InodeId, state: &LiveState) -> Option<Wanted> {
        let waits = self.fetches.is_taken(ino) && !matches!(state.ahead, Ahead::Refused);
        waits.then_some(Wanted { ino, source: WantedFrom::Another })
    }

    /// What to copy before a file of the lower file system is written; `None` if that can be done at once.
    pub(super) fn lower_wanted_ahead(
        &self,
        ino: InodeId,
        state: &LiveState,
    ) -> Result<Option<Wanted>> {
        let Some(MovesFrom::Below(lower)) = state.moves_from() else { return Ok(None) };
        let stamp = lower.stamp();
        if stamp.size_bytes <= LONG_BYTES || !state.ahead.lacks(ino, Version::OfLower(stamp)) {
            return Ok(None);
        }
        let tier = self.placing.tier_here(state.hints.tier())?;
        let source = WantedFrom::Lower { file: Arc::clone(&lower.file), stamp, tier };
        Ok(Some(Wanted { ino, source }))
    }

    /// Fetches content. The caller has no entry locked.
    ///
    /// # Errors
    /// [`Error::NoSpace`] without room for it; those of the hosts that have it, or of the lower file system.
    pub(super) fn fetch_ahead(&self, wanted: &Wanted) -> Result<Ahead> {
        let Some(_turn) = self.fetches.try_lock(wanted.ino) else {
            drop(self.fetches.lock(wanted.ino));
            return Ok(Ahead::Nothing);
        };
        let fetched = match &wanted.source {
            WantedFrom::Hosts { cluster, hosts, tier } => {
                self.fetch_from(wanted.ino, cluster, hosts, *tier)
            }
            WantedFrom::Lower { file, stamp, tier } => {
                self.copy_lower(wanted.ino, file, *stamp, *tier)
            }
            WantedFrom::Another => Ok(None),
        };
        match fetched {
            Ok(Some(fetched)) => Ok(Ahead::Fetched(fetched)),
            // It has moved or changed since.
            Ok(None) | Err(Error::Busy(_)) => Ok(Ahead::Nothing),
            Err(error) => Err(error),
        }
    }

    fn fetch_from(
        &self,
        ino: InodeId,
        cluster: &Arc<Cluster>,
        hosts: &[NodeId],
        tier: TierId,
    ) -> Result<Option<FetchedFile>> {
        let (inode, writer) = self.namespace.get_with_writer(ino)?;
        if writer.is_some() {
            // Whoever may write already need not change the version again.
            return Ok(None);
        }
        let fetched =
            self.take_for(ino, Version::OfRecord(inode.version), inode.size_bytes, tier)?;
        let source = Arc::new(open_elsewhere(cluster, &inode, hosts)?);
        let size_bytes = self.renewal.copy_here(&source, fetched.backing)?;
        require_bytes(&source, &inode, size_bytes)?;
        self.complete(fetched).map(Some)
    }

    fn copy_lower(
        &self,
        ino: InodeId,
        lower: &BackingFile,
        stamp: LowerStamp,
        tier: TierId,
    ) -> Result<Option<FetchedFile>> {
        let fetched = self.take_for(ino, Version::OfLower(stamp), stamp.size_bytes, tier)?;
        let target = self.tiers.get(tier)?.open_file(fetched.backing.file, true)?;
        copy_unchanged(lower, &target, stamp)?;
        self.complete(fetched).map(Some)
    }

    /// A backing file in `tier` for so many bytes.
    fn take_for(
        &self,
        ino: InodeId,
        version: Version,
        size_bytes: u64,
        tier: TierId,
    ) -> Result<FetchedFile> {
        self.remote_cache.make_room();
        self.tiers.require_room(tier, size_bytes)?;
        let (backing, file) = self.tiers.take_file(tier, &self.namespace)?;
        let tiers = Arc::clone(&self.tiers);
        let filling = tiers.fill(backing);
        Ok(FetchedFile { tiers, ino, version, backing, file: Some(file), _filling: filling })
    }

    /// All bytes are there: has them on disk where the store is durable, so that nobody waits for that with the entry locked.
    fn complete(&self, fetched: FetchedFile) -> Result<FetchedFile> {
        fetched.file.as_ref().map_or(Ok(()), |file| self.tiers.force_out(file))?;
        Ok(fetched)
    }
}
