//! Backing files that are made here for what stood beside an inode or in the lower file system, and records that name them.

use intarsia_meta::{Extra, Inode};
use intarsia_store::BackingFile;
use intarsia_types::{Error, HintSet, InodeId, Layout, Result, TierId, Timestamp};

use crate::body::lower::{LowerBody, changing, copy_unchanged};
use crate::body::{Bodies, LocalBody};

impl Bodies {
    /// The tier here for a file with such hints, after cached copies have made way.
    pub(crate) fn tier_here(&self, hints: &HintSet) -> Result<TierId> {
        self.makes_room.make_room();
        self.placing.tier_here(hints.tier())
    }

    /// A new backing file of `tier`, which no record names yet.
    fn take(&self, tier: TierId) -> Result<LocalBody> {
        let (backing, file) = self.tiers.take_file(tier, &self.namespace)?;
        Ok(LocalBody::new(backing, file))
    }

    /// Fills a new backing file; the descriptor for that is closed afterwards.
    fn fill(&self, new: &LocalBody, fill: impl FnOnce(&BackingFile) -> Result<()>) -> Result<()> {
        let tier = self.tiers.get(new.backing.tier)?;
        fill(&tier.open_file(new.backing.file, true)?)
    }

    /// Passes on the outcome of something that was done with a new backing file; gives the file back if it failed.
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

    /// Makes a backing file of `tier` that holds `bytes`, last changed at `mtime` if that is known. No record names it yet.
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

    /// Has the record of `ino` name a new backing file, in place of what stands beside the inode, and say that it may
    /// be being written. `extras` is what the change depends on.
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

    /// A new backing file, and whether it got the content of a lower file. Blocks are shared where the file system can.
    fn copy_lower(&self, lower: &LowerBody, hints: &HintSet) -> Result<(LocalBody, Result<()>)> {
        let stamp = lower.stamp;
        let tier = self.tier_here(hints)?;
        if !self.tiers.get(tier)?.fits(stamp.size_bytes) {
            let dir = self.tiers.get(tier)?.dir().display().to_string();
            return Err(Error::NoSpace(format!("tier {dir} has no room for a copy of the file")));
        }
        let new = self.take(tier)?;
        let copied = self.fill(&new, |target| copy_unchanged(&lower.file, target, stamp));
        Ok((new, copied))
    }

    /// Copies a file of the lower file system to a tier, where it can be written, unless it was `copied` before. Returns the
    /// copy and the new record, which is changed once the bytes are there. `extras` is what the change depends on.
    pub(crate) fn copy_up(
        &self,
        ino: InodeId,
        lower: &LowerBody,
        hints: &HintSet,
        copied: Option<LocalBody>,
        mut extras: Vec<Extra>,
    ) -> Result<(LocalBody, Inode)> {
        let stamp = lower.stamp;
        let (new, copied) = match copied {
            Some(copied) => (copied, Ok(())),
            None => self.copy_lower(lower, hints)?,
        };
        let backing = new.backing;
        let recorded = copied.and_then(|()| self.tiers.force_out(&new.ro)).and_then(|()| {
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
        // So that a later write past the process shows as a newer time. A failure changes nothing: the record names the file.
        if let Err(error) = new.ro.set_mtime(inode.mtime) {
            tracing::debug!(%ino, %error, "a file counts as written since it was copied");
        }
        Ok((new, inode))
    }

    /// Records durably that the backing file of an inode may change from now on. `extras` is what the change depends on.
    pub(crate) fn mark_unsettled(&self, ino: InodeId, mut extras: Vec<Extra>) -> Result<()> {
        extras.push(Extra::MarkWritable);
        self.namespace.update_with(ino, &extras, |inode| {
            inode.checksummed = false;
            Ok(())
        })?;
        if self.is_durable {
            // Else a loss of power could keep new bytes and lose the mark.
            self.namespace.sync()?;
        }
        Ok(())
    }
}
