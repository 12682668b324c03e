//! Whether the record of a live file names its backing file: the states, and how one passes to another.
//!
//! ```text
//!             fold                                 keep_name
//!   Named ──────────→ Folded        Named, Folded ───────────→ Mapped, MappedUnnamed
//!         ←────────── name                  Mapped ←── name ── MappedUnnamed
//! ```
//! A file that is still mapped after its last close may be written to for a long time, and has to be found after a crash: so
//! once a file is `Mapped` or `MappedUnnamed` it is not folded any more. Only [`forget`](Naming::forget), when the backing file
//! is gone, leads back to `Named`.

use crate::inode::early_fold::EarlyFold;

/// Whether a record names the backing file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Naming {
    /// The record names it, or there is no backing file.
    #[default]
    Named,
    /// No record names it: the file was published beside its inode (see [`crate::inode::early_fold`]).
    Folded(EarlyFold),
    /// A record names it and must go on doing so: the file is still mapped after its last close.
    Mapped,
    /// As [`Mapped`](Self::Mapped), but the record does not name it yet: the file was published beside its inode before.
    MappedUnnamed(EarlyFold),
}

impl Naming {
    /// What was published beside the inode; none while a record names the file.
    pub(crate) const fn published(self) -> Option<EarlyFold> {
        match self {
            Self::Named | Self::Mapped => None,
            Self::Folded(published) | Self::MappedUnnamed(published) => Some(published),
        }
    }

    /// Whether the file may be published beside its inode.
    pub(crate) const fn may_fold(self) -> bool {
        matches!(self, Self::Named | Self::Folded(_))
    }

    /// It was published beside its inode, and no record names the backing file.
    pub(crate) const fn fold(&mut self, published: EarlyFold) {
        *self =
            if self.may_fold() { Self::Folded(published) } else { Self::MappedUnnamed(published) };
    }

    /// A record names the backing file now.
    pub(crate) const fn name(&mut self) {
        *self = if self.may_fold() { Self::Named } else { Self::Mapped };
    }

    /// The file is still mapped after its last close: from now on a record has to name it.
    pub(crate) const fn keep_name(&mut self) {
        *self = match *self {
            Self::Named | Self::Mapped => Self::Mapped,
            Self::Folded(published) | Self::MappedUnnamed(published) => {
                Self::MappedUnnamed(published)
            }
        };
    }

    /// The backing file is gone.
    pub(crate) const fn forget(&mut self) {
        *self = Self::Named;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [Naming; 4] {
        let old = EarlyFold::of(b"old");
        [Naming::Named, Naming::Folded(old), Naming::Mapped, Naming::MappedUnnamed(old)]
    }

    fn after(change: impl Fn(&mut Naming)) -> [Naming; 4] {
        all().map(|mut naming| {
            change(&mut naming);
            naming
        })
    }

    #[test]
    fn every_transition_leads_where_it_is_said_to() {
        let (old, new) = (EarlyFold::of(b"old"), EarlyFold::of(b"new"));
        let (folded, unnamed) = (Naming::Folded(new), Naming::MappedUnnamed(new));
        assert_eq!(after(|n| n.fold(new)), [folded, folded, unnamed, unnamed]);
        let named = [Naming::Named, Naming::Named, Naming::Mapped, Naming::Mapped];
        assert_eq!(after(Naming::name), named);
        let still = Naming::MappedUnnamed(old);
        assert_eq!(after(Naming::keep_name), [Naming::Mapped, still, Naming::Mapped, still]);
        assert_eq!(after(Naming::forget), [Naming::Named; 4]);
    }

    #[test]
    fn what_is_mapped_is_not_folded_and_what_was_published_is_known_until_it_is_named() {
        let old = EarlyFold::of(b"old");
        assert_eq!(all().map(Naming::may_fold), [true, true, false, false]);
        assert_eq!(all().map(Naming::published), [None, Some(old), None, Some(old)]);
    }
}
