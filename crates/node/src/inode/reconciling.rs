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
    /// As [`Members::await_sure_membership`], where a change of the file's content is to be
    /// acknowledged.
    ///
    /// [`Members::await_sure_membership`]: crate::members::Members::await_sure_membership
    pub(crate) fn await_membership_to_publish(&self, ino: InodeId) -> Result<()> {
        let is_writer = |state: &mut LiveState| {
            state.holds_lease() || state.writes_remotely() || state.writes_stripes()
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
        // First of all: whoever is at work on a file meanwhile must know a right that has been claimed already for this host's
        // own. One that has not he claims himself.
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

    /// The lease of a live file could not be claimed as it was. It still counts if nobody has changed what
    /// the file is.
    fn reconcile(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        let acquired = self.passed.acquire_write(&self.namespace, ino);
        // Asked after that: the next life may have begun meanwhile.
        let me = self.namespace.owner();
        match acquired {
            Ok(WriteLease::Held(inode)) => {
                if self.is_as_left(&inode, state)? {
                    return Ok(());
                }
                self.clear(ino)?;
                quarantine(&self.removal, ino, state);
                Ok(())
            }
            // Of this process, before it came back.
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
                // Removed by another host: whoever has it open here keeps what there is.
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

    /// Gets back the lease on a file that this host held and does not any more: that went with a change that had no
    /// answer. `false`, and the file is given up, if another host has it, or had it meanwhile; `false` too if nothing
    /// was amiss.
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

    /// As [`reconcile_if_taken`](Self::reconcile_if_taken), of a file whose state the caller has.
    pub(crate) fn regain(&self, ino: InodeId, state: &mut LiveState) -> Result<bool> {
        if !state.holds_lease() {
            return Ok(false);
        }
        let is_mine = |holder: Owner| holder == self.namespace.owner();
        if self.namespace.writer(ino)?.is_some_and(is_mine) {
            // With the right to write goes what is not published, also when it has come back since.
            let named = state.local().filter(|_| state.unnamed().is_none());
            let Some(backing) = named.map(|local| local.backing) else { return Ok(false) };
            if self.namespace.get(ino)?.layout.copies().contains(&backing) {
                return Ok(false);
            }
        }
        self.reconcile(ino, state)?;
        Ok(state.holds_lease() && !state.right.is_taken_over())
    }

    /// Finds out whether this host still holds the lease on a file that is about to be written, after a change that
    /// had no answer: it may have given the lease back, and put the content beside the inode. No such change is made
    /// any more afterwards.
    pub(crate) fn confirm_lease(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        if !state.holds_lease() || !state.backing.is_doubtful() || state.writers > 0 {
            return Ok(());
        }
        if let WriteLease::Held(_) = self.passed.acquire_write(&self.namespace, ino)? {
            // The record is another one now, on which no earlier change is conditional.
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

    /// Whether the record says of the content what this host last knew, or made of it in a change that had no answer.
    fn is_as_left(&self, inode: &Inode, state: &mut LiveState) -> Result<bool> {
        let backing = state.local().map(|local| local.backing);
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

/// Whether the record says of the content what this host last knew.
fn is_as_known(inode: &Inode, state: &LiveState) -> bool {
    match state.local() {
        Some(_) if state.unnamed().is_none() => false,
        None if state.body.is_none() => !state.overlay.is_dirty,
        None if state.inline().is_none() => false,
        _ => state.record.as_ref().is_some_and(|known| {
            (&known.layout, known.size_bytes, known.mtime)
                == (&inode.layout, inode.size_bytes, inode.mtime)
        }),
    }
}

/// Keeps what was written here to a file that is another host's now from ever being published.
fn quarantine(removal: &Removal, ino: InodeId, state: &mut LiveState) {
    tracing::error!(
        %ino,
        "another host has taken over the file; what was written to it here since its last close is not kept, and its open handles give EIO"
    );
    if state.is_open() {
        state.right.lose();
    } else {
        // Nor is it shown here any more, if it is a new file that could not be recorded.
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
