//! Whether a live inode has a name left: the states, and how one passes to another.
//!
//! ```text
//!          lose                   linger
//!   Some ───────→ None      any ─────────→ Lingering ── end_lingering ──→ None
//!        ←─────── regain ── None
//! ```
//! An inode that lingers has lost its name just now to another one. Whoever looked the name up before may open it still, so
//! a record that shows a name again does not end that; only time does.

/// Whether a name is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NamesLeft {
    /// There is one, as far as this host knows.
    #[default]
    Some,
    /// Its name has just been given to another file: it stays for a moment, as if it were open.
    Lingering,
    /// None: it goes at the last release.
    None,
}

impl NamesLeft {
    /// Whether it goes at the last release.
    pub(crate) const fn is_orphan(self) -> bool {
        !matches!(self, Self::Some)
    }

    /// Whether somebody may be just about to open it by the name that it had.
    pub(crate) const fn is_lingering(self) -> bool {
        matches!(self, Self::Lingering)
    }

    /// The last name is gone.
    pub(crate) const fn lose(&mut self) {
        if !self.is_lingering() {
            *self = Self::None;
        }
    }

    /// The last name is another file's now.
    pub(crate) const fn linger(&mut self) {
        *self = Self::Lingering;
    }

    /// Nobody opens it any more by the name that it had. Whether it lingered.
    pub(crate) const fn end_lingering(&mut self) -> bool {
        let lingered = self.is_lingering();
        if lingered {
            *self = Self::None;
        }
        lingered
    }

    /// Its record says that it has a name.
    pub(crate) const fn regain(&mut self) {
        if !self.is_lingering() {
            *self = Self::Some;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [NamesLeft; 3] = [NamesLeft::Some, NamesLeft::Lingering, NamesLeft::None];

    fn after(change: impl Fn(&mut NamesLeft)) -> [NamesLeft; 3] {
        ALL.map(|mut names| {
            change(&mut names);
            names
        })
    }

    #[test]
    fn every_transition_leads_where_it_is_said_to() {
        let (some, lingering, none) = (NamesLeft::Some, NamesLeft::Lingering, NamesLeft::None);
        assert_eq!(after(NamesLeft::lose), [none, lingering, none]);
        assert_eq!(after(NamesLeft::linger), [lingering; 3]);
        assert_eq!(after(|names| _ = names.end_lingering()), [some, none, none]);
        assert_eq!(after(NamesLeft::regain), [some, lingering, some]);
        assert_eq!(ALL.map(|mut names| names.end_lingering()), [false, true, false]);
        assert_eq!(ALL.map(NamesLeft::is_orphan), [false, true, true]);
    }
}
