//! The file of this host that has all bytes of a body, and is changed with them: the body's *own* file.
//!
//! A cached copy of another host's file is none, since it is only read. Programs, and the kernel past this process, may have
//! written to an own file what no record says yet: whoever publishes, copies, settles or gives back such a file asks here.

use std::sync::Arc;

use intarsia_store::{BackingFile, BackingStat, is_unshared, is_unwritten};
use intarsia_types::{BackingRef, Error, Result, TierId};

use super::{Body, LocalBody};
use crate::space::tiers::Tiers;

/// An own file as it was at one moment.
pub(crate) struct OwnFile {
    pub(crate) backing: BackingRef,
    pub(crate) file: Arc<BackingFile>,
    pub(crate) stat: BackingStat,
}

impl Body {
    /// Where the own file is.
    pub(crate) fn own_backing(&self) -> Option<BackingRef> {
        self.as_local().map(|local| local.backing)
    }

    /// The tier that the own file is in.
    pub(crate) fn own_tier(&self) -> Option<TierId> {
        self.own_backing().map(|backing| backing.tier)
    }

    /// The own file, open for reading.
    pub(crate) fn own_file(&self) -> Option<&Arc<BackingFile>> {
        self.as_local().map(|local| &local.ro)
    }

    /// Length, disk use and times of the own file.
    pub(crate) fn own_stat(&self) -> Result<Option<BackingStat>> {
        self.own_file().map(|file| file.stat()).transpose()
    }

    /// The own file as it is now.
    pub(crate) fn own_now(&self) -> Result<Option<OwnFile>> {
        let Some(local) = self.as_local() else { return Ok(None) };
        let (backing, file) = (local.backing, Arc::clone(&local.ro));
        Ok(Some(OwnFile { backing, stat: file.stat()?, file }))
    }

    /// All that the own file holds, unless that is more than `most_bytes`.
    pub(crate) fn own_content(&self, most_bytes: usize) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.own_file() else { return Ok(None) };
        // One byte more shows that it is longer, or has grown meanwhile.
        let mut content = vec![0; most_bytes.saturating_add(1)];
        let n = file.read_at(&mut content, 0)?;
        content.truncate(n);
        Ok(Some(content).filter(|content| content.len() <= most_bytes))
    }

    /// Whether nobody can write to the own file: no process has it open for that, or mapped. Without such a file nothing is
    /// written past this process.
    ///
    /// # Errors
    /// The system's own.
    pub(crate) fn is_unwritten(&self) -> Result<bool> {
        self.own_file().map_or(Ok(true), |file| {
            is_unwritten(file.file()).map_err(|error| Error::io("ask for a lease", error))
        })
    }

    /// Whether somebody else may have the own file open, or mapped.
    pub(crate) fn may_be_held_by_others(&self) -> bool {
        self.own_file().is_some_and(|file| !is_unshared(file.file()).unwrap_or(false))
    }

    /// The descriptor of the own file that this process writes through.
    ///
    /// # Errors
    /// [`Error::BadHandle`] without an own file; the system's own.
    pub(crate) fn writer(&mut self, tiers: &Tiers) -> Result<Arc<BackingFile>> {
        self.as_local_mut().ok_or(Error::BadHandle)?.writer(tiers)
    }

    /// Closes what this process writes to the own file through.
    pub(crate) fn close_writer(&mut self) {
        if let Some(local) = self.as_local_mut() {
            local.rw = None;
        }
    }

    /// Brings the accounting of the own file's tier, which knows of `known_512` blocks, up to date. Returns how many it knows of
    /// after that.
    pub(crate) fn account(&self, tiers: &Tiers, known_512: u64) -> Result<u64> {
        let Some(local) = self.as_local() else { return Ok(known_512) };
        let blocks_512 = local.ro.stat()?.blocks_512;
        tiers.get(local.backing.tier)?.account(known_512, blocks_512);
        Ok(blocks_512)
    }

    /// The own file, for whoever goes on with it alone.
    pub(crate) fn into_own(self) -> Option<LocalBody> {
        match self {
            Self::Local(local) => Some(local),
            _ => None,
        }
    }
}
