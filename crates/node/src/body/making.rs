//! Makes backing files on this host for bytes that stood beside an inode or in the lower file system, and has records name them.

use intarsia_meta::{Extra, Inode};
use intarsia_store::BackingFile;
use intarsia_types::{HintSet, InodeId, Layout, Result, TierId, Timestamp};

use crate::body::lower::{LowerBody, changing, copy_unchanged};
use crate::body::{Bodies, LocalBody};

impl Bodies {
    /// The tier of this host for a new file with these hints, after cached copies have made way.
    pub(crate) fn tier_here(&self, hints: &HintSet) -> Result<TierId> {
        self.makes_room.make_room();
        self.placing.tier_here(hints.tier())
    }

    /// Takes an empty backing file of `tier`, which no record names yet.
    fn take(&self, tier: TierId) -> Result<LocalBody> {
        let (backing, file) = self.tiers.take_file(tier, &self.namespace)?;
        Ok(LocalBody::new(backing, file))
    }

    /// Has `fill` write a new backing file through a descriptor that is closed afterwards.
    fn fill(&self, new: &LocalBody, fill: impl FnOnce(&BackingFile) -> Result<()>) -> Result<()> {
        let tier = self.tiers.get(new.backing.tier)?;
        fill(&tier.open_file(new.backing.file, true)?)
    }

    /// Returns the new backing file with the value of `outcome`, what was done with it. If that failed, removes the file and
    /// returns the error; if it is a commit that may have been made, the file is kept as an in-doubt file.
    fn or_give_back<T>(
        &self,
        ino: InodeId,
        new: LocalBody,
        outcome: Result<T>,
    ) -> Result<(LocalBody, T)> {
        match outcome {
            Ok(value) => Ok((new, value)),
            Err(error) => {
                let backing = new.backing;
                drop(new);
                self.ledger.discard_unrecorded(ino, backing, &error)?;
                Err(error)
            }
        }
    }

    /// Makes a backing file of `tier` that holds `bytes`, with the modification time `mtime` if that is given. No record names it
    /// yet.
    pub(crate) fn write_out(
        &self,
        ino: InodeId,
        bytes: &[u8],
        tier: TierId,
        mtime: Option<Timestamp>,
    ) -> Result<LocalBody> {
        let new = self.take(tier)?;
        let written = match bytes {
            [] => Ok(()),
            _ => self
                .fill(&new, |file| file.write_all_at(bytes, 0))
                .and_then(|()| self.tiers.force_out(&new.ro)),
        };
        let written = written.and_then(|()| mtime.map_or(Ok(()), |mtime| new.ro.set_mtime(mtime)));
        self.or_give_back(ino, new, written).map(|(new, ())| new)
    }

    /// Has the record of `ino` name a new backing file in place of the bytes beside the inode, and marks the inode as unsettled in
    /// the same commit. `extras` are the conditions of the commit.
    pub(crate) fn name(
        &self,
        ino: InodeId,
        new: LocalBody,
        size_bytes: u64,
        mut extras: Vec<Extra>,
    ) -> Result<LocalBody> {
        let backing = new.backing;
        extras.extend([Extra::TakeFree(backing), Extra::DeleteBody, Extra::MarkWritable]);
        let named = self.namespace.update_with(ino, &extras, |inode| {
            inode.layout = Layout::Local(backing);
            inode.size_bytes = size_bytes;
            inode.checksummed = false;
            Ok(())
        });
        self.or_give_back(ino, new, named).map(|(new, _)| new)
    }

    /// A new backing file with the content of a lower file. Blocks are shared where the file system can.
    fn copy_lower(&self, ino: InodeId, lower: &LowerBody, hints: &HintSet) -> Result<LocalBody> {
        let tier = self.tier_here(hints)?;
        self.tiers.require_room(tier, lower.stamp.size_bytes)?;
        let new = self.take(tier)?;
        let copied = self.fill(&new, |target| copy_unchanged(&lower.file, target, lower.stamp));
        self.or_give_back(ino, new, copied).map(|(new, ())| new)
    }

    /// Copies a file of the lower file system to a tier, where it can be written, unless it was `copied` before, and then has the
    /// record name the copy. Returns the copy and the new record. `extras` are the conditions of the commit.
    ///
    /// # Errors
    /// [`intarsia_types::Error::NoSpace`] if the copy does not fit the tier, [`intarsia_types::Error::Busy`] if the file changes
    /// meanwhile; the system's own.
    pub(crate) fn copy_up(
        &self,
        ino: InodeId,
        lower: &LowerBody,
        hints: &HintSet,
        copied: Option<LocalBody>,
        mut extras: Vec<Extra>,
    ) -> Result<(LocalBody, Inode)> {
        let stamp = lower.stamp;
        let new = match copied {
            Some(copied) => copied,
            None => self.copy_lower(ino, lower, hints)?,
        };
        let backing = new.backing;
        let recorded = self.tiers.force_out(&new.ro).and_then(|()| {
            extras.extend([Extra::TakeFree(backing), Extra::MarkWritable]);
            self.namespace.update_with(ino, &extras, |inode| match &inode.layout {
                Layout::Lower { stamp: now, .. } if *now == stamp => {
                    inode.layout = Layout::Local(backing);
                    inode.size_bytes = stamp.size_bytes;
                    inode.checksummed = false;
                    Ok(())
                }
                _ => Err(changing()),
            })
        });
        let (new, inode) = self.or_give_back(ino, new, recorded)?;
        // The copy gets the record's time, so that a later write by passthrough shows as a newer one. If that fails the copy is
        // valid all the same, because the record names it already.
        if let Err(error) = new.ro.set_mtime(inode.mtime) {
            tracing::debug!(%ino, %error, "a file counts as written since it was copied");
        }
        Ok((new, inode))
    }

    /// Marks an inode as unsettled before its backing file may change. `extras` are the conditions of the commit.
    pub(crate) fn mark_unsettled(&self, ino: InodeId, mut extras: Vec<Extra>) -> Result<()> {
        extras.push(Extra::MarkWritable);
        self.namespace.update_with(ino, &extras, |inode| {
            inode.checksummed = false;
            Ok(())
        })?;
        if self.is_durable {
            // Otherwise a loss of power could lose the mark and keep new bytes.
            self.namespace.sync()?;
        }
        Ok(())
    }
}
