//! The right of this host to write to a file that several hosts share: its states, and how it passes from one to another.
//!
//! ```text
//!           acquire               lose (open here)
//!   None ────────────→ Held ─────────────────────────→ TakenOver ──→ None, once nobody has it open
//!        ←──────────── release, forget                    ↑
//!   None ────────────────────────── lose ─────────────────┘
//! ```

/// The right to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriteRight {
    /// Another host has it, or nobody. Always so without other hosts.
    #[default]
    None,
    /// This host alone may write, and the metadata says so (see [`crate::inode::lease`]).
    Held,
    /// Another host has taken the file over while this one was lost, and it is open here still: what was written
    /// here does not count (see [`crate::inode::reconciling`]).
    TakenOver {
        /// This host had the right until then, so whoever has the file open here is shown what was written here.
        shows_own: bool,
    },
}

impl WriteRight {
    /// Whether what is here of the file is of the host that may write, or may have been.
    pub(crate) const fn is_writers(self) -> bool {
        matches!(self, Self::Held | Self::TakenOver { shows_own: true })
    }

    /// Whether another host has taken the file over.
    pub(crate) const fn is_taken_over(self) -> bool {
        matches!(self, Self::TakenOver { .. })
    }

    /// Whether changes of content are conditional on the right: they fail where it is another host's by now.
    pub(crate) const fn binds_changes(self) -> bool {
        !matches!(self, Self::None)
    }

    /// The metadata gave it to this host. Refused for a file that was taken over: what is open here is not what the
    /// right is to now, so it has to be closed first. Whether it was taken.
    pub(crate) fn acquire(&mut self) -> bool {
        let is_free = !self.is_taken_over();
        debug_assert!(is_free, "a file that was taken over is closed before it is written again");
        if is_free {
            *self = Self::Held;
        }
        is_free
    }

    /// This host has given it up, or passed it on. Whether it had it.
    pub(crate) fn release(&mut self) -> bool {
        let had = self.is_writers();
        *self = match *self {
            Self::None | Self::Held => Self::None,
            Self::TakenOver { .. } => Self::TakenOver { shows_own: false },
        };
        had
    }

    /// Another host has taken the file over while it is open here.
    pub(crate) const fn lose(&mut self) {
        *self = Self::TakenOver { shows_own: self.is_writers() };
    }

    /// The entry goes, or begins anew: nothing is known of the right any more.
    pub(crate) const fn forget(&mut self) {
        *self = Self::None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: WriteRight = WriteRight::TakenOver { shows_own: true };
    const LOST_ELSEWHERE: WriteRight = WriteRight::TakenOver { shows_own: false };
    const ALL: [WriteRight; 4] = [WriteRight::None, WriteRight::Held, LOST, LOST_ELSEWHERE];

    fn after(mut right: WriteRight, change: impl FnOnce(&mut WriteRight)) -> WriteRight {
        change(&mut right);
        right
    }

    #[test]
    fn every_transition_leads_where_it_is_said_to() {
        let released = ALL.map(|right| after(right, |r| _ = r.release()));
        assert_eq!(released, [WriteRight::None, WriteRight::None, LOST_ELSEWHERE, LOST_ELSEWHERE]);
        let had = ALL.map(|mut right| right.release());
        assert_eq!(had, [false, true, true, false]);
        let lost = ALL.map(|right| after(right, WriteRight::lose));
        assert_eq!(lost, [LOST_ELSEWHERE, LOST, LOST, LOST_ELSEWHERE]);
        let forgotten = ALL.map(|right| after(right, WriteRight::forget));
        assert_eq!(forgotten, [WriteRight::None; 4]);
        for right in [WriteRight::None, WriteRight::Held] {
            assert_eq!(after(right, |r| assert!(r.acquire())), WriteRight::Held);
        }
    }

    #[test]
    fn a_file_that_was_taken_over_is_not_acquired() {
        for right in [LOST, LOST_ELSEWHERE] {
            let refused = std::panic::catch_unwind(move || after(right, |r| _ = r.acquire()));
            assert!(refused.is_err() || refused.is_ok_and(|after| after == right));
        }
    }

    #[test]
    fn who_lost_the_right_is_still_bound_by_it_and_shows_what_it_wrote() {
        assert_eq!(ALL.map(WriteRight::is_writers), [false, true, true, false]);
        assert_eq!(ALL.map(WriteRight::is_taken_over), [false, false, true, true]);
        assert_eq!(ALL.map(WriteRight::binds_changes), [false, true, true, true]);
    }
}
