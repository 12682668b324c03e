//! The tables on disk: an LSM store (`fjall`), here called the store, with its own tables in memory and its own journal.

use std::sync::atomic::{AtomicBool, Ordering};

use fjall::{AbstractTree, Database, Keyspace, PersistMode, Readable};
use intarsia_types::Result;

use super::failed;
use super::front::ScanBounds;
use crate::engines::Changes;
use crate::{Key, Value, keys};

/// A table in memory of this size is sealed, to be written out by the store's worker. It is small, because several can exist at
/// once, and large enough that a burst of creates is written out in pieces of some 20,000 files.
const MEMTABLE_BYTES: u64 = 16 << 20;
/// If so much waits in memory, the drain waits before it adds more, since the worker writes nothing out while it merges tables
/// on disk.
const CROWDED_BYTES: u64 = 3 * MEMTABLE_BYTES;

/// The open database. Bodies and checksums have a table of their own, so that their bytes are not rewritten when names are
/// compacted, and not read when names are listed.
pub(super) struct Tables {
    database: Database,
    names: Keyspace,
    bodies: Keyspace,
    /// Whether a write failed. The store takes no more writes then, and what became of that write is known only once the
    /// database has been opened again.
    failed: AtomicBool,
}

impl Tables {
    pub(super) const fn new(database: Database, names: Keyspace, bodies: Keyspace) -> Self {
        Self { database, names, bodies, failed: AtomicBool::new(false) }
    }

    /// Whether a write failed, one of ours or one of the store's worker. The worker ends then without telling; only the next
    /// write, or the question that is asked here, finds out.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.database.persist(PersistMode::Buffer).is_err()
    }

    /// How many bytes of memory the tables in memory and the cache of blocks take, about.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.unwritten_bytes() + self.database.cache_size()
    }

    /// Seals tables in memory that are full. The store could do that by itself, but then it sends its worker a request with
    /// every write until that is done. These requests fill the worker's queue, and the worker waits for itself.
    pub(super) fn seal_full(&self) -> Result<()> {
        for table in [&self.names, &self.bodies] {
            if table.tree.active_memtable().size() > MEMTABLE_BYTES {
                table.rotate_memtable().map_err(failed("seal a table"))?;
            }
        }
        Ok(())
    }

    /// Seals all tables in memory, however little they hold, so that what was removed leaves the disk.
    pub(super) fn seal_all(&self) -> Result<()> {
        for table in [&self.names, &self.bodies] {
            table.rotate_memtable().map_err(failed("seal a table"))?;
        }
        Ok(())
    }

    /// Adds a table that only removes records which were never there, so that the store merges older tables.
    pub(super) fn seal_with_nothing(&self) -> Result<()> {
        let nothing = [&[0][..], &[keys::BODY][..]].map(|key| (Key::from(key), None));
        self.write(&nothing.into()).map_err(failed("write out"))?;
        self.seal_all()
    }

    /// How many bytes the tables in memory hold, about. The store's own count never returns to zero, since old versions that
    /// are dropped when a table is written out stay in it.
    fn unwritten_bytes(&self) -> u64 {
        let of = |table: &Keyspace| {
            let sealed = table.sealed_memtable_count() as u64;
            table.tree.active_memtable().size() + sealed * MEMTABLE_BYTES
        };
        of(&self.names) + of(&self.bodies)
    }

    /// Whether so much waits in memory that it should be written out before anything is added.
    pub(super) fn is_crowded(&self) -> bool {
        self.unwritten_bytes() > CROWDED_BYTES
    }

    fn of(&self, key: &[u8]) -> &Keyspace {
        match key.first() {
            Some(&(keys::BODY | keys::CHECKSUM)) => &self.bodies,
            _ => &self.names,
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.of(key).get(key).map_err(failed("read"))?.map(Value::from))
    }

    /// The records within the bounds, in order. They are read from a snapshot, since a plain range may show half a batch.
    pub(super) fn scan(
        &self,
        prefix: &[u8],
        bounds: &ScanBounds,
    ) -> impl Iterator<Item = Result<(Key, Value)>> + use<> {
        let range = (bounds.from.clone(), bounds.to.clone());
        self.database.snapshot().range::<Vec<u8>, _>(self.of(prefix), range).map(|record| {
            let (key, value) = record.into_inner().map_err(failed("scan"))?;
            Ok((key.into(), value.into()))
        })
    }

    /// Puts everything written so far on stable storage.
    pub(super) fn persist(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(failed("sync"))
    }

    /// Writes all changes or none. The error `Poisoned` means none, because something else had failed before.
    pub(super) fn write(&self, changes: &Changes) -> fjall::Result<()> {
        let mut batch = self.database.batch();
        for (key, value) in changes {
            let table = self.of(key);
            match value {
                Some(value) => {
                    batch.insert(table, key.clone().into_slice(), value.clone().into_slice());
                }
                None => batch.remove(table, key.clone().into_slice()),
            }
        }
        batch.commit().inspect_err(|_| self.failed.store(true, Ordering::Relaxed))
    }
}
