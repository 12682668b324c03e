//! The mark of unsettled inodes, as this host knows it of a live file: its states, and how one passes to another.
//!
//! ```text
//!             set                         find (at a start)
//!   Settled ──────→ Unsettled      any ─────────────────────→ Foreign
//!           ←────── clear ── Unsettled, Foreign
//! ```

/// Whether the namespace says that a file may be being written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It does not.
    #[default]
    Settled,
    /// It does, since this node has opened the file for writing.
    Unsettled,
    /// It did when this node started: a process from before may still write to the file.
    Foreign,
}

impl Mark {
    /// Whether the file may be being written.
    pub(crate) const fn is_unsettled(self) -> bool {
        !matches!(self, Self::Settled)
    }

    /// Whether a process may write to it of which this node knows nothing.
    pub(crate) const fn is_foreign(self) -> bool {
        matches!(self, Self::Foreign)
    }

    /// It is recorded, or known to be, that the file may change from now on. What may be written to from before stays so.
    pub(crate) const fn set(&mut self) {
        if !self.is_unsettled() {
            *self = Self::Unsettled;
        }
    }

    /// It was found recorded at a start.
    pub(crate) const fn find(&mut self) {
        *self = Self::Foreign;
    }

    /// Nobody can write to the file any more, or another file is in its place.
    pub(crate) const fn clear(&mut self) {
        *self = Self::Settled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Mark; 3] = [Mark::Settled, Mark::Unsettled, Mark::Foreign];

    fn after(change: impl Fn(&mut Mark)) -> [Mark; 3] {
        ALL.map(|mut mark| {
            change(&mut mark);
            mark
        })
    }

    #[test]
    fn every_transition_leads_where_it_is_said_to() {
        assert_eq!(after(Mark::set), [Mark::Unsettled, Mark::Unsettled, Mark::Foreign]);
        assert_eq!(after(Mark::find), [Mark::Foreign; 3]);
        assert_eq!(after(Mark::clear), [Mark::Settled; 3]);
        assert_eq!(ALL.map(Mark::is_unsettled), [false, true, true]);
        assert_eq!(ALL.map(Mark::is_foreign), [false, false, true]);
    }
}
