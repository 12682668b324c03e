//! What changes attributes.

use std::sync::Arc;

use intarsia_meta::{Inode, Namespace};
use intarsia_policy::IoMode;
use intarsia_types::{Attr, Error, FileKind, InodeId, Result, Timestamp};

use crate::body::Bodies;
use crate::clock::now;
use crate::inode::live::LiveTable;
use crate::vfs::attributes::{AttrChange, Attributes, Validity};
use crate::vfs::caller::{Caller, without_set_id};
use crate::vfs::write::Writer;
use crate::vfs::xattrs::Xattrs;

/// Changes attributes.
pub(crate) struct Setter {
    pub(crate) attributes: Arc<Attributes>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) xattrs: Arc<Xattrs>,
}

impl Setter {
    /// Changes attributes.
    ///
    /// # Errors
    /// As `chmod`, `chown`, `truncate` and `utimensat`.
    pub(crate) fn set_attributes(
        &self,
        caller: Caller,
        ino: InodeId,
        change: &AttrChange,
    ) -> Result<(Attr, Validity)> {
        match self.change_attributes(caller, ino, change) {
            // The kernel may flush the times of a file after its last name and handle went.
            Err(Error::NotFound) => self.attributes.attributes(ino),
            other => other,
        }
    }

    fn change_attributes(
        &self,
        caller: Caller,
        ino: InodeId,
        change: &AttrChange,
    ) -> Result<(Attr, Validity)> {
        if *change == AttrChange::default() {
            return self.drop_set_id(caller, ino);
        }
        if let Some(size_bytes) = change.size_bytes {
            self.writer.truncate(caller, ino, size_bytes)?;
        }
        let is_size_alone =
            *change == AttrChange { size_bytes: change.size_bytes, ..AttrChange::default() };
        if is_size_alone {
            return self.attributes.attributes(ino);
        }
        if self.defer_times(ino, change) {
            return self.attributes.attributes(ino);
        }
        if change.mtime.is_some() {
            self.publish_elsewhere(ino)?;
        }
        let now = now();
        let before = self.attributes.before_reading();
        let inode = self.namespace.set_attributes(ino, |inode| {
            apply(inode, change, now);
            Ok(())
        })?;
        self.live.with_existing(ino, |state| state.note_own_change(&inode));
        if let (Some(perm), true) = (change.perm, inode.has_xattrs) {
            self.xattrs.chmod_acl(ino, perm)?;
        }
        if let Some(mtime) = change.mtime {
            self.carry_mtime(ino, mtime.resolve(now))?;
        }
        self.attributes.overlaid(&inode, before)
    }

    /// A change of nothing is how the kernel has set-id bits cleared before a write, and with an owner set
    /// to what it was. It takes the bits from the answer.
    fn drop_set_id(&self, caller: Caller, ino: InodeId) -> Result<(Attr, Validity)> {
        let inode = self.namespace.get(ino)?;
        if inode.kind != FileKind::Directory && caller.set_id_cleared(&inode) != inode.perm {
            self.attributes.clear_set_id_for(caller, ino)?;
        }
        self.attributes.attributes(ino)
    }

    /// Times alone, of an open file served through the process, wait for its flush: the kernel sends
    /// them once per file when it writes back.
    fn defer_times(&self, ino: InodeId, change: &AttrChange) -> bool {
        let AttrChange { mtime: Some(mtime), ctime, .. } = *change else { return false };
        let is_times_alone = change.perm.is_none()
            && change.uid.is_none()
            && change.gid.is_none()
            && change.size_bytes.is_none()
            && change.atime.is_none();
        if !is_times_alone {
            return false;
        }
        let now = now();
        self.live
            .with_existing(ino, |state| {
                let is_elsewhere = state.far().is_some_and(|far| far.takes_writes());
                let defers = state.writers > 0 && state.mode == IoMode::Cached && !is_elsewhere;
                if defers {
                    state.overlay.mtime = Some(mtime.resolve(now));
                    state.overlay.ctime = Some(ctime.unwrap_or(now));
                    state.overlay.note_written();
                }
                defers
            })
            .unwrap_or(false)
    }

    /// Publishes what was written here of a file whose bytes are at other hosts. Else its publication would put the time of
    /// the last write over one that is set now.
    fn publish_elsewhere(&self, ino: InodeId) -> Result<()> {
        let far = self.live.with_existing(ino, |state| state.far()).flatten();
        far.map_or(Ok(()), |far| far.flush(&self.bodies.stripes, ino, false))
    }

    /// Puts an explicit modification time on the backing file of a live inode too, so that a later write
    /// past the process shows against it.
    fn carry_mtime(&self, ino: InodeId, mtime: Timestamp) -> Result<()> {
        self.live
            .with_existing(ino, |state| {
                state.overlay.mtime = None;
                if let Some(file) = state.own_file() {
                    file.set_mtime(mtime)?;
                    state.mark_seen();
                }
                Ok(())
            })
            .unwrap_or(Ok(()))
    }
}

fn apply(inode: &mut Inode, change: &AttrChange, now: Timestamp) {
    if let Some(perm) = change.perm {
        inode.perm = perm & 0o7777;
    }
    let is_chown = change.uid.is_some() || change.gid.is_some();
    if is_chown && inode.kind != FileKind::Directory && change.perm.is_none() {
        inode.perm = without_set_id(inode.perm);
    }
    inode.uid = change.uid.unwrap_or(inode.uid);
    inode.gid = change.gid.unwrap_or(inode.gid);
    if let Some(t) = change.atime {
        inode.atime = t.resolve(now);
    }
    if let Some(t) = change.mtime {
        inode.mtime = t.resolve(now);
    }
    inode.ctime = change.ctime.unwrap_or(now);
}
