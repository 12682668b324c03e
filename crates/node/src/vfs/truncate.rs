//! A file is cut, or made longer, to a length.

use intarsia_policy::IoMode;
use intarsia_types::{Error, InodeId, Result};

use crate::body::sums::change::Change;
use crate::clock::now;
use crate::inode::attempt::Attempt;
use crate::inode::lease::Content;
use crate::inode::live::LiveState;
use crate::vfs::caller::Caller;
use crate::vfs::write::Writer;

impl Writer {
    pub(super) fn truncate(&self, caller: Caller, ino: InodeId, size_bytes: u64) -> Result<()> {
        let content = if size_bytes == 0 { Content::Dropped } else { Content::Kept };
        let far = self.leases.with_live(ino, |state| {
            if let Some(retry) = self.followers.recall_followers(ino, state) {
                return Ok(Attempt::Again(retry));
            }
            match self.leases.prepare(ino, state, Some(content)) {
                Err(Error::NotSupported(_)) => {
                    return Err(Error::Invalid("only regular files have a length to set".into()));
                }
                Err(Error::NotFound) if state.is_open() && state.may_be_written() => {
                    // Another host removed the file, and programs that have it open cut their bytes of it; or a deferred create
                    // failed.
                    self.namespace.keep_promise(ino)?;
                    state.names.lose();
                }
                Err(error) => return Err(error),
                Ok(Attempt::Again(retry)) => return Ok(Attempt::Again(retry)),
                Ok(Attempt::Done(inode)) => {
                    self.following.ensure_loaded(ino, state)?;
                    if content == Content::Kept
                        && let Some(retry) = self.leases.after_lower_copy(ino, state)?
                    {
                        return Ok(Attempt::Again(retry));
                    }
                    self.followers.spare_followers(inode, state, size_bytes)?;
                }
            }
            self.truncate_live(ino, state, size_bytes, caller)?;
            self.after_idle_write(ino, state).map(Attempt::Done)
        })?;
        far.map_or(Ok(()), |far| far.flush(&self.bodies.stripes, ino, false))
    }

    /// Sets the length of a loaded live file and the times that go with it.
    pub(crate) fn truncate_live(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        size_bytes: u64,
        caller: Caller,
    ) -> Result<()> {
        if !state.resize_beside(size_bytes, self.inline_bytes) {
            self.elsewhere.unfold(ino, state)?;
            if state.resize_far(&self.bodies.stripes, ino, size_bytes)? {
                return self.clear_set_id_when_cut(ino, state, caller);
            }
            self.resize_file(ino, state, size_bytes)?;
        }
        let now = now();
        state.overlay.size_bytes = size_bytes;
        state.overlay.note_written();
        state.overlay.mtime = Some(now);
        state.overlay.ctime = Some(now);
        let is_published_later = state.handles > 0 && state.has_published_elsewhere();
        if (state.mode == IoMode::Passthrough || state.handles == 0) && !is_published_later {
            match self.publisher.persist(ino, state) {
                Err(Error::NotFound) if state.names.is_orphan() => state.overlay.is_dirty = false,
                persisted => persisted?,
            }
        }
        state.mark_seen();
        self.clear_set_id_when_cut(ino, state, caller)
    }

    /// Cuts or grows the file of this host that has the bytes.
    fn resize_file(&self, ino: InodeId, state: &mut LiveState, size_bytes: u64) -> Result<()> {
        state.mark_unsettled(&self.bodies, ino)?;
        let file = state.writer(&self.tiers)?;
        let renewed = self.sums_after(ino, state, &file, Change::Length(size_bytes))?;
        state.sums.unless_failed(file.set_len(size_bytes))?;
        state.sums.renew(renewed);
        state.account(&self.tiers)
    }

    fn clear_set_id_when_cut(&self, ino: InodeId, state: &LiveState, caller: Caller) -> Result<()> {
        if caller.keeps_set_id() {
            return Ok(());
        }
        match self.attributes.clear_set_id_for(caller, ino) {
            // Another host has removed the file.
            Err(Error::NotFound) if state.names.is_orphan() => Ok(()),
            cleared => cleared,
        }
    }
}
