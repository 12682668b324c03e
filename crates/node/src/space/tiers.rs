//! The tiers of this host together with their pools of ready files.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use intarsia_meta::{FreeFile, Namespace};
use intarsia_policy::TierState;
use intarsia_store::{BackingFile, Pool, PooledFile, Space, Tier};
use intarsia_sync::Mutex;
use intarsia_types::{BackingRef, Error, Result, TierId};

/// How many ready files each pool is filled up to.
const POOL_FILES: usize = 256;
/// How many files are made at once when a create finds the pool empty.
const REFILL_AT_ONCE: u32 = 16;

#[derive(Debug)]
pub(crate) struct TierWithPool {
    pub(crate) tier: Tier,
    pool: Pool,
    /// It takes only what no other tier has room for, so no files are made ready in it.
    is_overflow: bool,
}

impl TierWithPool {
    /// Whether its pool is to be filled up.
    fn wants_files(&self) -> bool {
        !self.tier.is_low() && !self.is_overflow
    }
}

/// Whoever keeps cached copies in the tiers, which make way for files.
pub(crate) trait MakesRoom: Send + Sync {
    /// Removes cached copies where a tier has little room: all of them in a tier below its watermark, and elsewhere until those
    /// that are left take no more than what is free.
    fn make_room(&self);
}

/// All tiers, in the order of the configuration.
#[derive(Debug)]
pub(crate) struct Tiers {
    entries: Vec<TierWithPool>,
    /// Whether what is acknowledged has to be on stable storage, as `durability=sync` promises. That takes the name of a new
    /// backing file, before the file has an owner, and the bytes that move to one, before a record names it.
    is_durable: bool,
    filling: Arc<Mutex<HashSet<BackingRef>>>,
}

/// A backing file that is being filled, for as long as that takes, and that no record names yet. A check takes it for no leftover
/// until this is dropped.
#[derive(Debug)]
pub(crate) struct Filling {
    all: Arc<Mutex<HashSet<BackingRef>>>,
    backing: BackingRef,
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.all.lock().remove(&self.backing);
    }
}

impl Tiers {
    /// `overflow` is the directory of the tier that takes only what no other has room for, if there is such a tier.
    pub(crate) fn new(tiers: Vec<Tier>, overflow: Option<&Path>, is_durable: bool) -> Self {
        let with_pool = |tier: Tier| TierWithPool {
            is_overflow: overflow == Some(tier.dir()),
            tier,
            pool: Pool::new(POOL_FILES),
        };
        let entries = tiers.into_iter().map(with_pool).collect();
        Self { entries, is_durable, filling: Arc::default() }
    }

    /// The tiers of this host.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Tier> {
        self.entries.iter().map(|t| &t.tier)
    }

    fn entry(&self, id: TierId) -> Result<&TierWithPool> {
        self.entries.iter().find(|t| t.tier.id() == id).ok_or_else(|| {
            Error::io(
                format!("tier {id} is not configured on this node; add it to 'intarsia up --tier'"),
                std::io::Error::from_raw_os_error(5),
            )
        })
    }

    /// Whether the tier is one of this host.
    pub(crate) fn has(&self, id: TierId) -> bool {
        self.entries.iter().any(|entry| entry.tier.id() == id)
    }

    /// The tier of this host with this number.
    ///
    /// # Errors
    /// EIO when this host has no such tier.
    pub(crate) fn get(&self, id: TierId) -> Result<&Tier> {
        self.entry(id).map(|t| &t.tier)
    }

    /// Refuses to put a copy of so many bytes into a tier that has no room for it.
    ///
    /// # Errors
    /// [`Error::NoSpace`], naming the tier.
    pub(crate) fn require_room(&self, tier: TierId, size_bytes: u64) -> Result<()> {
        let tier = self.get(tier)?;
        if tier.fits(size_bytes) {
            return Ok(());
        }
        let dir = tier.dir().display();
        Err(Error::NoSpace(format!("tier {dir} has no room for a copy of the file")))
    }

    /// Whether what is acknowledged has to be on stable storage.
    pub(crate) const fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// With `durability=sync`: puts the bytes that moved to a backing file on stable storage, since they may have been
    /// acknowledged where they were before. To be called before a record names the file.
    pub(crate) fn force_out(&self, file: &BackingFile) -> Result<()> {
        if self.is_durable { file.sync(true) } else { Ok(()) }
    }

    /// Capacity, use and free bytes over all tiers.
    pub(crate) fn space(&self) -> Space {
        self.iter().map(Tier::space).fold(Space::default(), |a, b| Space {
            capacity_bytes: a.capacity_bytes + b.capacity_bytes,
            used_bytes: a.used_bytes + b.used_bytes,
            free_bytes: a.free_bytes + b.free_bytes,
        })
    }

    /// What the policy needs to know of the tiers.
    pub(crate) fn states(&self) -> Vec<TierState> {
        self.entries.iter().map(|entry| state_of(&entry.tier, entry.is_overflow)).collect()
    }

    /// An empty backing file in `tier`, from the pool or made now.
    pub(crate) fn take_file(
        &self,
        tier: TierId,
        namespace: &Namespace,
    ) -> Result<(BackingRef, BackingFile)> {
        let entry = self.entry(tier)?;
        let file = match entry.pool.take() {
            Some(file) => file,
            None => {
                self.make_files(entry, namespace, REFILL_AT_ONCE)?;
                entry.pool.take().ok_or_else(full)?
            }
        };
        tracing::trace!(file = %file.id, %tier, "a backing file is taken");
        Ok((BackingRef { tier, file: file.id }, file.file))
    }

    fn make_files(&self, entry: &TierWithPool, namespace: &Namespace, count: u32) -> Result<()> {
        let ids = namespace.reserve_files(entry.tier.id(), count)?;
        let (files, outcome) = entry.tier.create_all(&ids);
        if files.is_empty() {
            return outcome;
        }
        if self.is_durable
            && let Err(error) = entry.tier.sync_names(&ids)
        {
            files.iter().try_for_each(|file| entry.tier.remove(file.id))?;
            return Err(error);
        }
        // Also if others could not be made: nothing but the pool knows of these files.
        entry.pool.add(files);
        if let Err(error) = outcome {
            tracing::debug!(%error, "fewer files were made ready than there should be");
        }
        Ok(())
    }

    /// Gives back a file that was taken and found no owner; nothing was written to it.
    pub(crate) fn untake_file(&self, backing: BackingRef, file: BackingFile) {
        let Ok(entry) = self.entry(backing.tier) else { return };
        if !entry.pool.put(PooledFile { id: backing.file, file })
            && let Err(error) = entry.tier.remove(backing.file)
        {
            tracing::warn!(file = %backing.file, %error, "a file without an owner stays on disk");
        }
    }

    /// Takes back a file that has no owner any more: recycles it if nobody else has it open and the pool has room, else removes
    /// it. Returns whether it was recycled: then it has to stay in the ledger, if that lists ready files.
    pub(crate) fn give_back(&self, backing: BackingRef, file: BackingFile) -> Result<bool> {
        let entry = self.entry(backing.tier)?;
        let recycle = || {
            let recycled = entry.tier.recycle(backing.file, file);
            recycled.unwrap_or_else(|error| {
                tracing::debug!(file = %backing.file, %error, "a file is removed, not recycled");
                None
            })
        };
        if entry.pool.len() < POOL_FILES * 2
            && let Some(clean) = recycle()
            && entry.pool.put(PooledFile { id: backing.file, file: clean })
        {
            tracing::trace!(file = %backing.file, tier = %backing.tier, "a backing file is ready again");
            return Ok(true);
        }
        entry.tier.remove(backing.file)?;
        Ok(false)
    }

    /// A file that was taken is going to be filled.
    pub(crate) fn fill(&self, backing: BackingRef) -> Filling {
        self.filling.lock().insert(backing);
        Filling { all: Arc::clone(&self.filling), backing }
    }

    /// Whether a file is being filled.
    pub(crate) fn is_filling(&self, backing: BackingRef) -> bool {
        self.filling.lock().contains(&backing)
    }

    /// Whether a file is in the pool, ready for an owner.
    pub(crate) fn is_pooled(&self, backing: BackingRef) -> bool {
        self.entry(backing.tier).is_ok_and(|entry| entry.pool.holds(backing.file))
    }

    /// Fills up every pool. Called in the background.
    pub(crate) fn refill(&self, namespace: &Namespace) -> Result<()> {
        for entry in &self.entries {
            let missing = entry.pool.shortage();
            if missing > 0 && entry.wants_files() {
                self.make_files(entry, namespace, u32::try_from(missing).unwrap_or(u32::MAX))?;
            }
        }
        Ok(())
    }

    /// Whether some pool wants files.
    pub(crate) fn is_short(&self) -> bool {
        self.entries.iter().any(|e| e.pool.shortage() > 0 && e.wants_files())
    }

    /// Empties the pools for a clean stop: removes their files from disk, and from the ledger if that lists them.
    pub(crate) fn drain(&self, namespace: &Namespace) -> Result<()> {
        for entry in &self.entries {
            let files = entry.pool.drain().into_iter().map(|f| FreeFile::reserved(f.id));
            let files: Vec<_> = files.collect();
            files.iter().try_for_each(|free| entry.tier.remove(free.file))?;
            if namespace.records_reserved_files() {
                namespace.forget_files(entry.tier.id(), &files)?;
            }
        }
        Ok(())
    }
}

/// What the policy needs to know of a tier.
pub(crate) fn state_of(tier: &Tier, is_overflow: bool) -> TierState {
    let space = tier.space();
    TierState {
        id: tier.id(),
        class: tier.class(),
        capacity_bytes: space.capacity_bytes,
        free_bytes: space.free_bytes,
        is_low: tier.is_low(),
        is_overflow,
        is_stackable: tier.file_system().is_stackable,
    }
}

/// Removes every backing file in a tier.
pub(crate) fn clear_tier(tier: &Tier) -> Result<()> {
    let mut files = Vec::new();
    tier.scan(|id, _| files.push(id))?;
    files.into_iter().try_for_each(|id| tier.remove(id))?;
    tier.recount().map(|_| ())
}

/// ENOSPC: no tier of this host has room.
pub(crate) fn full() -> Error {
    Error::NoSpace("every tier is full; remove files or add a tier".into())
}

/// One tier in a directory, for tests of rooms by themselves.
#[cfg(test)]
pub(crate) fn one_tier(dir: &Path) -> Tiers {
    one_tier_as(dir, TierId(0))
}

/// One tier in a directory, with that number among those of all hosts.
#[cfg(test)]
pub(crate) fn one_tier_as(dir: &Path, id: TierId) -> Tiers {
    let tier = Tier::open(intarsia_store::TierOptions {
        spec: intarsia_types::TierSpec { dir: dir.to_owned(), class: None, capacity: None },
        id,
        watermark: intarsia_types::ByteCount(0),
        store: "0".repeat(32),
    });
    Tiers::new(vec![tier.unwrap()], None, false)
}

#[cfg(test)]
mod tests {
    use intarsia_types::BackingFileId;

    use super::*;
    use crate::membership::cluster::lone::lone;

    fn on_disk(tiers: &Tiers) -> Vec<BackingFileId> {
        let mut found = Vec::new();
        tiers.get(TierId(0)).unwrap().scan(|id, _| found.push(id)).unwrap();
        found.sort_unstable();
        found
    }

    #[test]
    fn files_that_were_made_before_one_could_not_be_are_ready_for_owners() {
        let dir = tempfile::tempdir().unwrap();
        let (tiers, (_, namespace)) = (one_tier(&dir.path().join("tier")), lone());
        let tier = tiers.get(TierId(0)).unwrap();
        let first = tiers.take_file(TierId(0), &namespace).unwrap().0.file;
        // The third file of the next batch cannot be made.
        let in_the_way = BackingFileId(first.0 + u64::from(REFILL_AT_ONCE) + 2);
        tier.create(in_the_way).unwrap();
        let more = REFILL_AT_ONCE - 1 + 2;
        let taken: Vec<_> = (0..more)
            .map(|_| tiers.take_file(TierId(0), &namespace).unwrap().0.file)
            .chain([first, in_the_way])
            .collect();
        let is_known = |id: &BackingFileId| {
            taken.contains(id) || tiers.is_pooled(BackingRef { tier: TierId(0), file: *id })
        };
        assert!(on_disk(&tiers).iter().all(is_known), "nobody has one of them");
        assert_eq!(u32::try_from(taken.len()), Ok(REFILL_AT_ONCE + 3));
    }

    #[test]
    fn a_file_that_cannot_be_emptied_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (tiers, (_, namespace)) = (one_tier(&dir.path().join("tier")), lone());
        let (backing, file) = tiers.take_file(TierId(0), &namespace).unwrap();
        // Opening it for writing fails.
        let tier = tiers.get(TierId(0)).unwrap();
        tier.remove(backing.file).unwrap();
        assert!(!tiers.give_back(backing, file).unwrap());
        assert!(!tiers.is_pooled(backing) && !on_disk(&tiers).contains(&backing.file));
    }
}
