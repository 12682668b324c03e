//! `stat` and everything that changes what it shows.

use std::sync::Arc;

use intarsia_meta::{Inode, Namespace};
use intarsia_sync::Instant;
use intarsia_types::{Attr, Error, FileKind, InodeId, Layout, Result, Timestamp};

use crate::body::Bodies;
use crate::directory::telling::Cover;
use crate::inode::following::Following;
use crate::inode::live::{LiveState, LiveTable};
use crate::inode::paging::Paging;
use crate::inode::removal::Removal;
use crate::kernel::Kernel;
use crate::members::Members;
use crate::vfs::caller::{Caller, without_set_id};
use crate::vfs::recollection::Recollections;

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present.
    Now,
    /// This time.
    At(Timestamp),
}

impl SetTime {
    pub(super) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::At(t) => t,
        }
    }
}

/// The attributes to change; the kernel has checked that the caller may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttrChange {
    /// Permission bits.
    pub perm: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length.
    pub size_bytes: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of the content.
    pub mtime: Option<SetTime>,
    /// Last change of the inode, when the kernel keeps it itself.
    pub ctime: Option<Timestamp>,
}

/// How long the kernel may keep attributes without asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Until the kernel itself changes them.
    Long,
    /// For a moment, under a lease on a directory; a recall of the lease waits until that is over.
    Leased(Cover),
    /// For a moment: a mapping may be changing the times unseen.
    Brief,
    /// Not at all: a process that outlived the last node may be changing the length.
    None,
}

/// The moment before a record was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    /// How many live entries had been dropped (see [`drops`](crate::inode::live::LiveTable::drops)).
    drops: u64,
    pub(super) at: Instant,
    /// How many commits this host had begun and ended; `None` in a store of one host.
    pub(super) commits: Option<u64>,
}

/// Tells the attributes of inodes, and clears the bits that a write clears.
pub(crate) struct Attributes {
    pub(crate) live: Arc<LiveTable>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) members: Members,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) recollections: Arc<Recollections>,
    pub(crate) removal: Arc<Removal>,
    pub(crate) following: Arc<Following>,
    pub(crate) paging: Arc<Paging>,
    pub(crate) kernel: Arc<Kernel>,
}

impl Attributes {
    /// The length of a regular file at this moment.
    pub(crate) fn length_now(&self, ino: InodeId) -> Result<u64> {
        match self.live.with_existing(ino, |s| s.body.is_some().then(|| s.size_bytes())).flatten() {
            Some(size_bytes) => size_bytes,
            None => Ok(self.namespace.get(ino)?.size_bytes),
        }
    }

    /// How long the kernel may keep what a name in `dir` means, or that it means nothing, if that was read
    /// after `read_after`.
    pub(crate) fn name_validity(&self, dir: InodeId, read_after: Instant) -> Validity {
        let cover = Cover { dir, read_after };
        if self.members.is_shared() { Validity::Leased(cover) } else { Validity::Long }
    }

    /// How long the kernel may keep the attributes of an inode whose record has them all. In a store of
    /// several hosts another one may change anything at any time, unless a lease covers it.
    fn lasting(&self, inode: &Inode, before: Before) -> Validity {
        match inode.covered_by() {
            _ if !self.members.is_shared() => Validity::Long,
            Some(dir) => Validity::Leased(Cover { dir, read_after: before.at }),
            None => Validity::None,
        }
    }

    fn validity(&self, state: &LiveState, inode: &Inode, before: Before) -> Validity {
        match (state.mark.is_unsettled(), state.mark.is_foreign()) {
            (true, _) if self.members.is_shared() => Validity::None,
            (false, _) if self.members.is_shared() && state.holds_lease() => Validity::None,
            (false, _) => self.lasting(inode, before),
            (true, false) => Validity::Brief,
            (true, true) => Validity::None,
        }
    }

    fn unless_shared(&self, validity: Validity) -> Validity {
        if self.members.is_shared() { Validity::None } else { validity }
    }

    /// Called before a record is read for its attributes.
    pub(crate) fn before_reading(&self) -> Before {
        let (drops, commits) = (self.live.drops(), self.namespace.commits_seen());
        Before { drops, at: Instant::now(), commits }
    }

    /// Whether the store lies over a lower file system.
    pub(crate) fn has_lower(&self) -> bool {
        self.bodies.lower.path().is_some()
    }

    /// How long the kernel may keep that a name in `dir` means nothing: the lower file system may bring it.
    pub(crate) fn absence_validity(&self, dir: InodeId, read_after: Instant) -> Validity {
        if self.has_lower() { Validity::None } else { self.name_validity(dir, read_after) }
    }

    /// A file of the lower file system may be changed there at any time.
    fn unless_lower(&self, inode: &Inode, validity: Validity) -> Validity {
        match (&inode.layout, validity) {
            (Layout::Lower { .. }, _) if inode.kind == FileKind::Regular => Validity::None,
            _ => validity,
        }
    }
}

impl Attributes {
    /// The attributes of an inode, and how long they hold.
    ///
    /// # Errors
    /// [`Error::NotFound`], or the system's own from a backing file.
    pub(crate) fn attributes(&self, ino: InodeId) -> Result<(Attr, Validity)> {
        if let Some((inode, before)) = self.recollections.just_found(ino) {
            return self.overlaid(&inode, before);
        }
        let before = self.before_reading();
        match self.namespace.get(ino) {
            Ok(inode) => {
                let inode = self.bodies.lower.renewed(inode)?;
                self.recollections.note_told(&inode, before);
                self.overlaid(&inode, before)
            }
            Err(Error::NotFound) => self.departed_attributes(ino).ok_or(Error::NotFound),
            Err(e) => Err(e),
        }
    }

    /// The last attributes of an inode without a record, for whoever still holds it.
    pub(crate) fn departed_attributes(&self, ino: InodeId) -> Option<(Attr, Validity)> {
        if let Some(attr) = self.removal.departed.get(ino) {
            return Some((attr, Validity::Long));
        }
        let open = self.live.with_existing(ino, |state| self.removed_elsewhere(state)).flatten()?;
        Some((open, self.unless_shared(Validity::Long)))
    }

    /// The attributes of a file that another host removed while it is open here, with what was written here since.
    fn removed_elsewhere(&self, state: &mut LiveState) -> Option<Attr> {
        let last = state.record.clone()?;
        let mut attr = Attr { nlink: 0, ..last.attr() };
        if let Err(error) = overlay(self, state, &last, &mut attr) {
            tracing::debug!(ino = %last.ino, %error, "a removed file is told of as it was recorded");
        }
        Some(attr)
    }

    /// The record's attributes, with those of the live entry where these are newer. `before` was taken before the record was
    /// read.
    pub(crate) fn overlaid(&self, inode: &Inode, before: Before) -> Result<(Attr, Validity)> {
        if inode.kind != FileKind::Regular {
            return Ok((inode.attr(), self.lasting(inode, before)));
        }
        let live = self.live.with_existing(inode.ino, |state| {
            // Read again with the entry locked: what the entry knew may have been recorded since the caller read the record,
            // and then neither of the two would have it.
            let recorded = match self.namespace.get(inode.ino) {
                Ok(recorded) => {
                    self.following.follow(state, &recorded)?;
                    recorded
                }
                Err(Error::NotFound) => inode.clone(),
                Err(error) => return Err(error),
            };
            if let Some(last) = self.removal.departed.get(inode.ino) {
                // The file was removed since, and its length may never have been recorded.
                return Ok((last, self.unless_shared(Validity::Long)));
            }
            let mut attr = recorded.attr();
            overlay(self, state, &recorded, &mut attr)?;
            self.paging.follow_length(state, &mut attr);
            let validity = self.unless_lower(&recorded, self.validity(state, &recorded, before));
            Ok((attr, validity))
        });
        if let Some(answer) = live {
            return answer;
        }
        if self.live.drops() == before.drops {
            return Ok(self.settled_attributes(inode, before));
        }
        // The file may have settled since the caller read the record: that would have an old length, which the kernel would
        // keep for long.
        match self.namespace.get(inode.ino) {
            Ok(settled) => Ok(self.settled_attributes(&settled, before)),
            // The file was removed, and its length may never have been recorded.
            Err(Error::NotFound) => Ok(match self.removal.departed.get(inode.ino) {
                Some(last) => (last, self.unless_shared(Validity::Long)),
                None => self.settled_attributes(inode, before),
            }),
            Err(error) => Err(error),
        }
    }

    /// Clears set-id bits after somebody without privilege wrote.
    pub(crate) fn clear_set_id(&self, ino: InodeId) -> Result<()> {
        self.change_perm(ino, |inode| without_set_id(inode.perm))
    }

    /// As [`clear_set_id`](Self::clear_set_id), with all that is known of who wrote.
    pub(crate) fn clear_set_id_for(&self, caller: Caller, ino: InodeId) -> Result<()> {
        self.change_perm(ino, |inode| caller.set_id_cleared(inode))
    }

    /// Clears the set-group-id bit, whoever asks.
    ///
    /// # Errors
    /// The engine's own.
    pub(crate) fn clear_set_group_id(&self, ino: InodeId) -> Result<()> {
        self.change_perm(ino, |inode| inode.perm & !0o2000)
    }

    fn change_perm(&self, ino: InodeId, perm: impl Fn(&Inode) -> u16) -> Result<()> {
        self.namespace
            .update(ino, |inode| {
                inode.perm = perm(inode);
                Ok(())
            })
            .map(|_| ())
    }
}

impl Attributes {
    /// The attributes of an inode that was not live before its record was read: the record has them all.
    pub(crate) fn settled_attributes(&self, inode: &Inode, before: Before) -> (Attr, Validity) {
        let mut attr = inode.attr();
        if matches!(inode.layout, Layout::Inline) {
            attr.blocks_512 = inode.size_bytes.div_ceil(512);
        }
        (attr, self.unless_lower(inode, self.lasting(inode, before)))
    }
}

/// Lays what a live file knows over the record's attributes.
fn overlay(of: &Attributes, state: &mut LiveState, inode: &Inode, attr: &mut Attr) -> Result<()> {
    if state.body.as_ref().is_some_and(|body| body.lay_over(attr)) {
        return Ok(());
    }
    if of.members.is_shared() && !state.holds_lease() && !state.writes_remotely() {
        // The host that may write records what others are to see.
        return Ok(());
    }
    if state.body.is_none() {
        if !state.mark.is_unsettled() {
            return Ok(());
        }
        // After a crash a process from before may have written since, so the backing file itself is looked at.
        of.following.load(state, inode)?;
    }
    attr.mtime = state.overlay.mtime.unwrap_or(attr.mtime);
    attr.ctime = state.overlay.ctime.map_or(attr.ctime, |ctime| attr.ctime.max(ctime));
    let Some(stat) = state.body_stat()? else { return Ok(()) };
    attr.size_bytes = stat.size_bytes;
    attr.blocks_512 = stat.blocks_512.unwrap_or(attr.blocks_512);
    if let Some((mtime, ctime)) = stat.times
        && state.has_newer_mtime(ctime, inode)
        && state.trusts_backing_times(&of.kernel)
    {
        attr.mtime = mtime;
        attr.ctime = attr.ctime.max(ctime);
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use intarsia_types::ByteCount;

    use super::*;
    use crate::node::Node;
    use crate::options::NodeOptions;
    use crate::vfs::names::NewName;

    #[test]
    fn a_length_that_never_came_into_the_record_is_told_to_who_asks_while_the_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let options =
            NodeOptions { watermark: ByteCount(0), ..NodeOptions::new(dir.path().join("store")) };
        let node = Node::open(options).unwrap();
        let caller = Caller { uid: 0, gid: 0 };
        let new = NewName { kind: FileKind::Regular, perm: 0o644, umask: 0, rdev: 0, target: None };
        let no_kernel = |_: std::os::fd::BorrowedFd<'_>| Err(std::io::Error::other("no kernel"));
        let (attr, _) =
            node.create_file(caller, InodeId::ROOT, b"f", &new, true, &no_kernel).unwrap();
        // The caller reads the record, and is delayed until everything else is done.
        let before = node.calls.attributes.before_reading();
        let record = node.namespace.get(attr.ino).unwrap();
        node.write(attr.ino, 0, b"content", false, false).unwrap();
        node.release(attr.ino, true);
        node.unlink(InodeId::ROOT, b"f").unwrap();
        assert_eq!(node.calls.attributes.overlaid(&record, before).unwrap().0.size_bytes, 7);
        node.close().unwrap();
    }
}
