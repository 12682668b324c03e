//! What becomes of this host's right to write a file after the others may have given this host up, or after a commit that had
//! no answer: it is claimed for the next life, confirmed, or found to be another host's.

use intarsia_meta::{Extra, Inode, Owner, WriteLease};
use intarsia_types::{Error, InodeId, Result};

use crate::inode::live::LiveState;
use crate::inode::removal::Removal;
use crate::inode::rights::Rights;
use crate::inode::unawaited::limit_unawaited;
use crate::membership::fence::refusal;

impl Rights {
    /// As [`Members::await_sure_membership`], if a change of the file's content is about to be acknowledged.
    ///
    /// [`Members::await_sure_membership`]: crate::members::Members::await_sure_membership
    pub(crate) fn await_membership_to_publish(&self, ino: InodeId) -> Result<()> {
        let is_writer = |state: &mut LiveState| {
            state.holds_lease() || state.writes_remotely() || state.writes_without_right()
        };
        match self.live.with_existing(ino, is_writer) {
            Some(true) => self.members.await_sure_membership(),
            _ => self.members.await_membership(),
        }
    }

    /// Claims the leases of live files for the life `next`, and gives up those that others have taken over.
    pub(crate) fn claim_leases(&self, next: &Owner) -> Result<()> {
        self.namespace.break_promises();
        let before = self.namespace.owner();
        // Before any claim, so that threads that work on files meanwhile take claimed rights for this host's own. They claim
        // others themselves.
        self.namespace.set_owner(next.clone());
        self.directory_leases.lose_directories();
        for live in self.live.entries() {
            let claim = |state: &mut LiveState| {
                let is_claimed = !state.holds_lease()
                    || self.namespace.hand_over_write(live.ino, &before, next)?;
                if is_claimed { Ok(()) } else { self.reconcile(live.ino, state) }
            };
            let _limit = limit_unawaited();
            self.live.with_existing(live.ino, claim).transpose()?;
        }
        Ok(())
    }

    /// The lease of a live file could not be claimed as it was. It is got anew if nobody has changed the file meanwhile;
    /// else the file is given up.
    fn reconcile(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        let asker = self.namespace.owner();
        let acquired = self.passed.acquire_write(&self.namespace, ino);
        // Read after the question: the next life may have begun meanwhile.
        let me = self.namespace.owner();
        match acquired {
            // Then the right may be that of the life that asked.
            Ok(WriteLease::Held(_)) if asker != me => {
                self.namespace.hand_over_write(ino, &asker, &me)?;
                self.reconcile(ino, state)
            }
            Ok(WriteLease::Held(inode)) => {
                if self.is_as_left(&inode, state)? {
                    return Ok(());
                }
                self.clear(ino).inspect_err(|_| self.passed.doubt_right(ino, &self.queue))?;
                quarantine(&self.removal, ino, state);
                Ok(())
            }
            // The holder is this process, in an earlier life.
            Ok(WriteLease::HeldBy(before))
                if (&before.node, before.epoch < me.epoch) == (&me.node, true)
                    && self.namespace.hand_over_write(ino, &before, &me)? =>
            {
                self.reconcile(ino, state)
            }
            Ok(WriteLease::HeldBy(_) | WriteLease::Unneeded(_)) => {
                quarantine(&self.removal, ino, state);
                Ok(())
            }
            Err(Error::NotFound) => {
                // Another host removed the file: programs that have it open here keep its bytes.
                if state.is_open() {
                    state.names.lose();
                    state.right.release();
                    state.overlay.is_dirty = false;
                } else {
                    self.removal.forget(ino, state);
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Gets back a lease that this host thinks it holds and does not, because a change without an answer gave it up. `false` if
    /// the lease was there, and `false` if another host has it, or had it meanwhile: then the file is given up.
    pub(crate) fn reconcile_if_taken(&self, ino: InodeId) -> Result<bool> {
        self.live.with_existing(ino, |state| self.regain(ino, state)).unwrap_or(Ok(false))
    }

    /// Does `work`, which changes a file that this host writes; once more if it failed because the right to write was gone
    /// and could be got back.
    pub(crate) fn with_right(&self, ino: InodeId, work: impl Fn() -> Result<()>) -> Result<()> {
        let outcome = work();
        if outcome.is_err()
            && self.members.is_shared()
            && self.reconcile_if_taken(ino).unwrap_or(false)
        {
            return work();
        }
        outcome
    }

    /// As [`reconcile_if_taken`](Self::reconcile_if_taken), for a file whose entry the caller has locked.
    pub(crate) fn regain(&self, ino: InodeId, state: &mut LiveState) -> Result<bool> {
        if !state.holds_lease() {
            return Ok(false);
        }
        let is_mine = |holder: Owner| holder == self.namespace.owner();
        if self.namespace.writer(ino)?.is_some_and(is_mine) {
            // Content that is not published counts only if the record still names the backing file.
            let named = state.own_backing().filter(|_| state.unnamed().is_none());
            let Some(backing) = named else { return Ok(false) };
            if self.namespace.get(ino)?.layout.copies().contains(&backing) {
                return Ok(false);
            }
        }
        self.reconcile(ino, state)?;
        Ok(state.holds_lease() && !state.right.is_taken_over())
    }

    /// Finds out whether this host still holds the lease on a file that is about to be written, after a change without an
    /// answer: that may have given the lease back, and have put the content beside the inode. After this such a change cannot
    /// take effect any more.
    pub(crate) fn confirm_lease(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        if !state.holds_lease() || !state.backing.is_doubtful() || state.writers > 0 {
            return Ok(());
        }
        if let WriteLease::Held(_) = self.passed.acquire_write(&self.namespace, ino)? {
            // The record has a new version now, so an earlier change, conditional on the old one, fails.
            let inode = self.namespace.update_with(ino, &[Extra::HoldWritable], |_| Ok(()))?;
            if self.is_as_left(&inode, state)? {
                state.record = Some(inode);
                state.backing.resolve();
                return Ok(());
            }
        }
        if state.is_open() {
            return self.reconcile(ino, state);
        }
        self.removal.forget_bytes(ino, state);
        Ok(())
    }

    /// Whether the record describes the content as this host last knew it, or as a change without an answer would have left it.
    fn is_as_left(&self, inode: &Inode, state: &mut LiveState) -> Result<bool> {
        let backing = state.own_backing();
        if backing.is_some() && inode.layout.backing() == backing {
            state.naming.name();
            return Ok(true);
        }
        if let Some(attempted) = state.attempted
            && attempted.is_beside(inode, &self.namespace)?
        {
            if backing.is_some() {
                state.naming.fold(attempted);
            }
            return Ok(true);
        }
        Ok(is_as_known(inode, state))
    }
}

/// Whether the record describes the content as this host last knew it.
fn is_as_known(inode: &Inode, state: &LiveState) -> bool {
    if state.body.is_none() {
        return !state.overlay.is_dirty;
    }
    let is_beside = state.to_record().is_some() || state.unnamed().is_some();
    is_beside
        && state.record.as_ref().is_some_and(|known| {
            (&known.layout, known.size_bytes, known.mtime)
                == (&inode.layout, inode.size_bytes, inode.mtime)
        })
}

/// Another host has the file now: what was written here is never published.
fn quarantine(removal: &Removal, ino: InodeId, state: &mut LiveState) {
    tracing::error!(
        %ino,
        "another host has taken over the file; what was written to it here since its last close is not kept, and its open handles give EIO"
    );
    if state.is_open() {
        state.right.lose();
    } else {
        // A new file that could not be recorded does not show here any more either.
        removal.forget(ino, state);
    }
    state.overlay.is_dirty = false;
}

impl LiveState {
    /// Refuses what is asked of a file that another host has taken over.
    pub(crate) fn require_ours(&self) -> Result<()> {
        if self.right.is_taken_over() {
            return Err(refusal(
                "another host has taken over the file while this one was lost; close it and open it again",
            ));
        }
        Ok(())
    }
}
