//! A host of several that lost its power, or whose disk was unmounted under it: copies that may lack what was
//! written last.
//!
//! What was acknowledged of a file with copies is whole at the other hosts, so the copy here is given up before anybody can
//! read it, and made anew. Else the home would take what its disk still has for the present content. A file that is here
//! alone keeps what the disk has (docs/semantics.md, section 2).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::{Extra, Inode, Namespace};
use intarsia_store::Tier;
use intarsia_types::{BackingRef, Error, InodeId, Layout, Result, Timestamp};

use crate::clock::now;
use crate::replication::Replicas;
use crate::space::tiers::Tiers;

/// The kernel writes within half of this what nobody forces out (`vm.dirty_expire_centisecs`, 30 s).
const WRITTEN_WITHIN: Duration = Duration::from_secs(60);

/// What the disk has of a backing file.
#[derive(Clone, Copy)]
struct OnDisk {
    size_bytes: u64,
    mtime: Timestamp,
    ctime: Timestamp,
}

impl OnDisk {
    /// Whether this is from before an inode of `size_bytes` that came to be at `btime` and was changed last at `ctime` had
    /// the file: files are used again, and that one was emptied did not reach the disk either. Only for inodes that
    /// were changed not long before the end, at `last`.
    fn is_of_before(
        &self,
        btime: Timestamp,
        ctime: Timestamp,
        size_bytes: u64,
        last: Timestamp,
    ) -> bool {
        let is_older = self.ctime < btime || (size_bytes == 0 && self.ctime < ctime);
        !was_written_by(ctime, last) && self.size_bytes > 0 && is_older
    }
}

/// Looks at what a loss of power left in the tiers of this host.
pub(crate) struct PowerLoss {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) replicas: Arc<Replicas>,
}

impl PowerLoss {
    /// Gives up the copies in tiers that may lack writes, where other hosts have the file and the copy here may not
    /// be whole.
    pub(crate) fn give_up_doubtful_copies(&self) -> Result<()> {
        let doubtful: Vec<_> = self.tiers.iter().filter(|tier| tier.may_lack_writes()).collect();
        if doubtful.is_empty() {
            return Ok(());
        }
        let mut on_disk = HashMap::new();
        for tier in &doubtful {
            look_at(tier, &mut on_disk)?;
        }
        // About when the power failed, as far as the disk knows.
        let last = on_disk.values().map(|file| file.ctime).max().unwrap_or_default();
        let (mut copies, mut foreign, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        let mut alone = Vec::new();
        self.namespace.each_inode(|inode| {
            let mut own = inode.layout.copies().iter().copied();
            let own = own.find(|copy| doubtful.iter().any(|tier| tier.id() == copy.tier));
            match (&inode.layout, own) {
                (Layout::Replicated { .. }, Some(own)) => copies.push((inode, own)),
                (Layout::Local(_), Some(own)) => match on_disk.get(&own) {
                    Some(found) => {
                        let is_foreign =
                            found.is_of_before(inode.btime, inode.ctime, inode.size_bytes, last);
                        foreign.extend(is_foreign.then_some((inode.ino, own)));
                        let is_known =
                            inode.checksummed || is_surely_whole(&inode, own, Some(found), last);
                        alone.extend((!is_known).then_some((inode.ino, own)));
                    }
                    // The name of the backing file did not reach the disk. A file that is missing for longer is damage.
                    None if !was_written_by(inode.ctime, last) => missing.push((inode.ino, own)),
                    None => {}
                },
                _ => {}
            }
        })?;
        for (ino, own) in foreign {
            tracing::warn!(%ino, "its bytes did not reach the disk before the power was lost");
            self.tiers.get(own.tier)?.open_file(own.file, true)?.set_len(0)?;
        }
        for (ino, own) in missing {
            tracing::warn!(%ino, "nothing of it reached the disk before the power was lost");
            self.tiers.get(own.tier)?.create(own.file)?;
            self.tell_what_is_left(ino, own)?;
        }
        for (ino, own) in alone {
            self.tell_what_is_left(ino, own)?;
        }
        let (mut given_up, all) = (0_u64, copies.len());
        for (inode, own) in copies {
            let is_marked = self.marked_by_an_earlier_life(inode.ino)?;
            if is_marked || !is_surely_whole(&inode, own, on_disk.get(&own), last) {
                given_up += u64::from(self.give_up_copy(inode.ino, own, is_marked)?);
            }
        }
        tracing::warn!(
            given_up,
            all,
            "a tier was in use when its disk was unmounted or lost power; its copies of files that were written last are made anew from other hosts"
        );
        doubtful.iter().try_for_each(|tier| tier.trust())
    }

    /// Records the present length of a file that is here alone; the new version tells all hosts that cached copies of it are
    /// outdated. A file that was being written is recorded when it settles.
    fn tell_what_is_left(&self, ino: InodeId, own: BackingRef) -> Result<()> {
        if self.namespace.writer(ino)?.is_some() {
            return Ok(());
        }
        let stat = self.tiers.get(own.tier)?.open_file(own.file, false)?.stat()?;
        let told = self.namespace.change(ino, |inode, _| {
            if inode.layout == Layout::Local(own) {
                inode.size_bytes = stat.size_bytes;
                inode.blocks_512 = stat.blocks_512;
                inode.ctime = now();
            }
            Ok(())
        });
        match told {
            Ok(_) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn marked_by_an_earlier_life(&self, ino: InodeId) -> Result<bool> {
        let writer = self.namespace.writer(ino)?;
        Ok(writer.is_some_and(|writer| writer.node == self.namespace.owner().node))
    }

    /// `false` if the record does not name the copy any more, or names no other one.
    fn give_up_copy(&self, ino: InodeId, own: BackingRef, is_marked: bool) -> Result<bool> {
        let mut extras = vec![Extra::PutFree(own)];
        if is_marked {
            let me = self.namespace.owner();
            let Some(writer) = self.namespace.writer(ino)? else { return Ok(false) };
            if writer != me && !self.namespace.hand_over_write(ino, &writer, &me)? {
                return Ok(false);
            }
            extras.extend([Extra::HoldWritable, Extra::ClearWritable]);
        }
        let mut left = None;
        let outcome = self.namespace.change(ino, |inode, more| {
            left = None;
            let others: Vec<_> =
                inode.layout.copies().iter().copied().filter(|copy| *copy != own).collect();
            if others.is_empty() || others.len() == inode.layout.copies().len() {
                return Ok(());
            }
            left = others.first().copied().map(|first| (first, inode.size_bytes));
            more.extend_from_slice(&extras);
            inode.layout = Layout::of_copies(others);
            Ok(())
        });
        match outcome {
            Ok(_) => {}
            Err(Error::NotFound) => return Ok(false),
            Err(error) => return Err(error),
        }
        if let Some((first, size_bytes)) = left {
            self.replicas.note_lost(first, ino, size_bytes);
        }
        Ok(left.is_some())
    }
}

fn look_at(tier: &Tier, on_disk: &mut HashMap<BackingRef, OnDisk>) -> Result<()> {
    let mut files = Vec::new();
    tier.scan(|file, _| files.push(file))?;
    for file in files {
        let stat = tier.open_file(file, false)?.stat()?;
        let found = OnDisk { size_bytes: stat.size_bytes, mtime: stat.mtime, ctime: stat.ctime };
        on_disk.insert(BackingRef { tier: tier.id(), file }, found);
    }
    Ok(())
}

/// Whether what was changed at `ctime` was surely on the disk at `last`.
fn was_written_by(ctime: Timestamp, last: Timestamp) -> bool {
    i128::from(ctime.secs) + i128::from(WRITTEN_WITHIN.as_secs()) < i128::from(last.secs)
}

/// Whether the disk has all of a copy for sure: it was complete so long before that it was written out. A home's
/// file is rewritten in place, so that an older one can be there, which its times tell.
fn is_surely_whole(
    inode: &Inode,
    own: BackingRef,
    found: Option<&OnDisk>,
    last: Timestamp,
) -> bool {
    let Some(found) = found else { return false };
    let is_home = inode.layout.backing() == Some(own);
    found.size_bytes == inode.size_bytes
        && was_written_by(found.ctime, last)
        && (!is_home || found.mtime == inode.mtime)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp { secs, ..Timestamp::default() }
    }

    #[test]
    fn what_another_file_left_behind_is_told_from_what_was_written() {
        let found = |size_bytes, ctime| OnDisk { size_bytes, mtime: at(ctime), ctime: at(ctime) };
        let is_foreign = |found: OnDisk, btime, ctime, size_bytes| {
            found.is_of_before(at(btime), at(ctime), size_bytes, at(1000))
        };
        assert!(is_foreign(found(8192, 980), 990, 995, 700), "of the file's owner before");
        assert!(!is_foreign(found(700, 991), 990, 995, 700), "written since");
        assert!(!is_foreign(found(0, 980), 990, 995, 700), "there is nothing");
        assert!(is_foreign(found(8192, 980), 500, 990, 0), "emptied since");
        assert!(!is_foreign(found(8192, 995), 500, 990, 0), "a writer that has not closed it");
        assert!(!is_foreign(found(8192, 480), 500, 500, 700), "long ago: another clock, perhaps");
    }
}
