//! Parts of striped files on this host: plain backing files that several hosts write to at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use intarsia_meta::Namespace;
use intarsia_store::{BackingFile, BackingStat, Tier};
use intarsia_sync::Mutex;
use intarsia_types::{BackingRef, Error, InodeId, Result};

use crate::space::ledger::FileEvents;
use crate::space::tiers::{MakesRoom, Tiers};

/// Closed parts are removed from the table when it has grown to twice what the last sweep left, and to this at least.
const SWEPT_FROM: usize = 64;

/// The parts of this host that are open, by itself or for other hosts.
pub(crate) struct Parts {
    tiers: Arc<Tiers>,
    namespace: Arc<Namespace>,
    makes_room: Arc<dyn MakesRoom>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    files: HashMap<BackingRef, Weak<PartFile>>,
    swept_len: usize,
}

/// An open part.
pub(crate) struct PartFile {
    tiers: Arc<Tiers>,
    makes_room: Arc<dyn MakesRoom>,
    backing: BackingRef,
    file: BackingFile,
    space: Mutex<Space>,
}

/// The space of a part, as its tier has counted it.
struct Space {
    blocks_512: u64,
    /// The part was removed, so its space is no longer counted.
    is_gone: bool,
}

impl Parts {
    pub(crate) fn new(
        tiers: &Arc<Tiers>,
        namespace: &Arc<Namespace>,
        makes_room: &Arc<dyn MakesRoom>,
    ) -> Self {
        Self {
            tiers: Arc::clone(tiers),
            namespace: Arc::clone(namespace),
            makes_room: Arc::clone(makes_room),
            open: Mutex::default(),
        }
    }

    fn get(&self, backing: BackingRef) -> Option<Arc<PartFile>> {
        self.open.lock().files.get(&backing).and_then(Weak::upgrade)
    }

    /// Opens a part of the inode `ino`. A part that is open already can be opened even if its file was removed since, because
    /// programs that have a removed file open can go on using it.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the file was removed, [`Error::Busy`] when its record names another part.
    pub(crate) fn open_named(&self, ino: InodeId, backing: BackingRef) -> Result<Arc<PartFile>> {
        if let Some(open) = self.get(backing) {
            return Ok(open);
        }
        if !self.namespace.get(ino)?.layout.files().contains(&backing) {
            return Err(Error::Busy("a part of the file has moved to another host".into()));
        }
        self.open(backing).map_err(|error| match self.namespace.get(ino) {
            // The file was removed since its record was read, and the part with it.
            Err(Error::NotFound) => Error::NotFound,
            _ => error,
        })
    }

    /// Opens a part. All who have it open at the same time share one descriptor and one account of its space.
    pub(crate) fn open(&self, backing: BackingRef) -> Result<Arc<PartFile>> {
        let mut open = self.open.lock();
        if let Some(part) = open.files.get(&backing).and_then(Weak::upgrade) {
            return Ok(part);
        }
        let file = self.tiers.get(backing.tier)?.open_file(backing.file, true)?;
        let blocks_512 = file.stat()?.blocks_512;
        let part = Arc::new(PartFile {
            tiers: Arc::clone(&self.tiers),
            makes_room: Arc::clone(&self.makes_room),
            backing,
            file,
            space: Mutex::new(Space { blocks_512, is_gone: false }),
        });
        if open.files.len() >= SWEPT_FROM.max(2 * open.swept_len) {
            open.files.retain(|_, part| part.strong_count() > 0);
            open.swept_len = open.files.len();
        }
        open.files.insert(backing, Arc::downgrade(&part));
        Ok(part)
    }
}

impl FileEvents for Parts {
    fn note_gone(&self, backing: BackingRef) -> bool {
        let Some(part) = self.get(backing) else { return false };
        let mut space = part.space.lock();
        if let (Ok(tier), false) = (part.tier(), space.is_gone) {
            tier.account(space.blocks_512, 0);
        }
        space.is_gone = true;
        true
    }
}

impl PartFile {
    fn tier(&self) -> Result<&Tier> {
        self.tiers.get(self.backing.tier)
    }

    /// Reads into `buffer`; fewer bytes only at the end of the part.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset_bytes: u64) -> Result<usize> {
        self.file.read_at(buffer, offset_bytes)
    }

    /// Writes all of `data`.
    pub(crate) fn write_all_at(&self, data: &[u8], offset_bytes: u64) -> Result<()> {
        self.require_room(data.len() as u64)?;
        let written = self.file.write_all_at(data, offset_bytes);
        self.account().and(written)
    }

    pub(crate) fn set_len(&self, size_bytes: u64) -> Result<()> {
        self.file.set_len(size_bytes)?;
        self.account()
    }

    /// As `fallocate(2)`.
    pub(crate) fn allocate(&self, mode: u32, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        const PUNCH_HOLE: u32 = 2;
        if mode & PUNCH_HOLE == 0 {
            self.require_room(len_bytes)?;
        }
        let allocated = self.file.allocate(mode, offset_bytes, len_bytes);
        self.account().and(allocated)
    }

    pub(crate) fn stat(&self) -> Result<BackingStat> {
        self.file.stat()
    }

    pub(crate) fn sync(&self, data_only: bool) -> Result<()> {
        self.file.sync(data_only)
    }

    /// Below the watermark, refuses what does not fit the tier. A capacity holds to the byte then, because each write is accounted
    /// at once.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    fn require_room(&self, bytes: u64) -> Result<()> {
        let tier = self.tier()?;
        if !tier.is_low() {
            return Ok(());
        }
        self.makes_room.make_room();
        if tier.fits(bytes) {
            Ok(())
        } else {
            Err(Error::NoSpace(format!("tier {} is full", tier.dir().display())))
        }
    }

    /// Tells the tier by how much the part has grown or shrunk.
    fn account(&self) -> Result<()> {
        let mut space = self.space.lock();
        let blocks_512 = self.file.stat()?.blocks_512;
        if !space.is_gone && blocks_512 != space.blocks_512 {
            self.tier()?.account(space.blocks_512, blocks_512);
        }
        space.blocks_512 = blocks_512;
        Ok(())
    }
}
