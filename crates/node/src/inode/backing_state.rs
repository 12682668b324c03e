//! What is known of the owner of the backing file of a live inode, beside whether its record names it
//! ([`crate::inode::naming`]): the states, and how one passes to another.
//!
//! ```text
//!            doubt                              doubt
//!   Known ──────────→ Doubtful      Spared ──────────→ SparedDoubtful
//!         ←────────── resolve              ←────────── resolve
//!   Known, Doubtful ── spare ──→ Spared, SparedDoubtful ── keep ──→ Known, Doubtful
//! ```

/// What is known of the owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BackingState {
    /// The file is this inode's.
    #[default]
    Known,
    /// A change of the record had no answer, so that nobody knows whether it names the file.
    Doubtful,
    /// No record names the file any more. It stays as long as the kernel reads it past the process.
    Spared,
    /// [`Spared`](Self::Spared) and [`Doubtful`](Self::Doubtful) at once: the kernel reads the file, and a change of the record
    /// had no answer.
    SparedDoubtful,
}

impl BackingState {
    /// Whether nobody knows whether the record names the file.
    pub(crate) const fn is_doubtful(self) -> bool {
        matches!(self, Self::Doubtful | Self::SparedDoubtful)
    }

    /// Whether it stays only for those who have it open.
    pub(crate) const fn is_spared(self) -> bool {
        matches!(self, Self::Spared | Self::SparedDoubtful)
    }

    /// A change of the record had no answer.
    pub(crate) const fn doubt(&mut self) {
        *self = if self.is_spared() { Self::SparedDoubtful } else { Self::Doubtful };
    }

    /// It is known what the record says, or the ledger has taken the question over.
    pub(crate) const fn resolve(&mut self) {
        *self = if self.is_spared() { Self::Spared } else { Self::Known };
    }

    /// The file was found in the ledger, and the kernel reads it.
    pub(crate) const fn spare(&mut self) {
        *self = if self.is_doubtful() { Self::SparedDoubtful } else { Self::Spared };
    }

    /// The file is spared no longer: it was taken out of the ledger, or nobody reads it any more. Returns whether it was.
    pub(crate) const fn keep(&mut self) -> bool {
        let was_spared = self.is_spared();
        *self = if self.is_doubtful() { Self::Doubtful } else { Self::Known };
        was_spared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: BackingState = BackingState::Known;
    const DOUBTFUL: BackingState = BackingState::Doubtful;
    const SPARED: BackingState = BackingState::Spared;
    const BOTH: BackingState = BackingState::SparedDoubtful;
    const ALL: [BackingState; 4] = [KNOWN, DOUBTFUL, SPARED, BOTH];

    fn after(change: impl Fn(&mut BackingState)) -> [BackingState; 4] {
        ALL.map(|mut state| {
            change(&mut state);
            state
        })
    }

    #[test]
    fn every_transition_leads_where_it_is_said_to() {
        assert_eq!(after(BackingState::doubt), [DOUBTFUL, DOUBTFUL, BOTH, BOTH]);
        assert_eq!(after(BackingState::resolve), [KNOWN, KNOWN, SPARED, SPARED]);
        assert_eq!(after(BackingState::spare), [SPARED, BOTH, SPARED, BOTH]);
        assert_eq!(after(|state| _ = state.keep()), [KNOWN, DOUBTFUL, KNOWN, DOUBTFUL]);
        assert_eq!(ALL.map(|mut state| state.keep()), [false, false, true, true]);
        assert_eq!(ALL.map(BackingState::is_doubtful), [false, true, false, true]);
    }
}
