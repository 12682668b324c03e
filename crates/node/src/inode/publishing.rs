//! What other hosts see of a file that may be written here, as far as that depends on its copies: the states, and how one
//! passes to another.
//!
//! ```text
//!              withhold                            note_lacking
//!   any ──────────────────→ Withheld      Current ─────────────→ Lacking
//!   Withheld ── publish ──→ Current       Lacking ── take_lacking ──→ Current
//! ```

/// Whether missing copies keep other hosts from seeing what was written here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Publishing {
    /// Nothing.
    #[default]
    Current,
    /// A copy was found missing while the file was being written; it is made when the file settles.
    Lacking,
    /// A publication failed for want of copies: other hosts see the content of the one before, until this one has its
    /// copies. Then it lacks none.
    Withheld,
}

impl Publishing {
    /// Whether other hosts see an older content.
    pub(crate) const fn is_withheld(self) -> bool {
        matches!(self, Self::Withheld)
    }

    /// A publication failed for want of copies.
    pub(crate) const fn withhold(&mut self) {
        *self = Self::Withheld;
    }

    /// What was withheld is published, or the file was removed.
    pub(crate) const fn publish(&mut self) {
        if self.is_withheld() {
            *self = Self::Current;
        }
    }

    /// It is found to lack a copy. What is withheld gets new ones anyway.
    pub(crate) const fn note_lacking(&mut self) {
        if !self.is_withheld() {
            *self = Self::Lacking;
        }
    }

    /// Whether a copy was found missing. The caller is responsible for it from now on.
    pub(crate) const fn take_lacking(&mut self) -> bool {
        let is_lacking = matches!(self, Self::Lacking);
        if is_lacking {
            *self = Self::Current;
        }
        is_lacking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Publishing; 3] = [Publishing::Current, Publishing::Lacking, Publishing::Withheld];

    fn after(change: impl Fn(&mut Publishing)) -> [Publishing; 3] {
        ALL.map(|mut publishing| {
            change(&mut publishing);
            publishing
        })
    }

    #[test]
    fn every_transition_leads_where_it_is_said_to() {
        let (current, lacking, withheld) = (ALL[0], ALL[1], ALL[2]);
        assert_eq!(after(Publishing::withhold), [withheld; 3]);
        assert_eq!(after(Publishing::publish), [current, lacking, current]);
        assert_eq!(after(Publishing::note_lacking), [lacking, lacking, withheld]);
        assert_eq!(after(|p| _ = p.take_lacking()), [current, current, withheld]);
        assert_eq!(ALL.map(|mut p| p.take_lacking()), [false, true, false]);
        assert_eq!(ALL.map(Publishing::is_withheld), [false, false, true]);
    }
}
