//! What is known of the checksums of a file's blocks.

use intarsia_codec::BlockSums;
use intarsia_types::Result;

pub(crate) mod change;

/// The sums of a file's blocks: whether there are any, where they are, and whether the record says that the stored ones are right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sums {
    /// There are no sums of the present content.
    #[default]
    None,
    /// The record says that the stored sums are right; they were not read yet.
    Stored,
    /// The record says that the stored sums are right, and they are in memory.
    Loaded(BlockSums),
    /// The sums are in memory and kept up at every write; the record does not say that the stored ones are right.
    KeptUp(BlockSums),
}

impl Sums {
    /// The sums that are in memory: reads are compared with them, and writes renew them.
    pub(crate) const fn get(&self) -> Option<&BlockSums> {
        match self {
            Self::Loaded(sums) | Self::KeptUp(sums) => Some(sums),
            Self::None | Self::Stored => None,
        }
    }

    /// Whether the record says that the stored sums are right.
    pub(crate) const fn is_stored(&self) -> bool {
        matches!(self, Self::Stored | Self::Loaded(_))
    }

    /// The record now says that the stored sums are right, or that they are not.
    pub(crate) fn note_stored(&mut self, is_stored: bool) {
        *self = match (std::mem::take(self), is_stored) {
            (Self::None | Self::Stored, true) => Self::Stored,
            (Self::None | Self::Stored, false) => Self::None,
            (Self::Loaded(sums) | Self::KeptUp(sums), true) => Self::Loaded(sums),
            (Self::Loaded(sums) | Self::KeptUp(sums), false) => Self::KeptUp(sums),
        };
    }

    /// Whether there are no sums of the present content, so that the record must not say that there are.
    pub(crate) const fn are_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The stored sums were read.
    pub(crate) fn load(&mut self, sums: BlockSums) {
        *self = Self::Loaded(sums);
    }

    /// Sums were made of the content that is here; writes are to keep them up.
    pub(crate) fn keep_up(&mut self, sums: BlockSums) {
        *self = Self::KeptUp(sums);
    }

    /// Drops the sums that are in memory; what the record says of the stored ones stays.
    pub(crate) fn unload(&mut self) {
        *self = if self.is_stored() { Self::Stored } else { Self::None };
    }

    /// There are no sums of the content any more: it is another one, or gone.
    pub(crate) fn forget(&mut self) {
        *self = Self::None;
    }

    const fn get_mut(&mut self) -> Option<&mut BlockSums> {
        match self {
            Self::Loaded(sums) | Self::KeptUp(sums) => Some(sums),
            Self::None | Self::Stored => None,
        }
    }

    /// Returns `changed`, the outcome of a change of the content. After a change that failed the content is not known, so the sums
    /// in memory are dropped: the file is summed anew once it has settled.
    pub(crate) fn unless_failed<T>(&mut self, changed: Result<T>) -> Result<T> {
        if changed.is_err() && self.get().is_some() {
            self.forget();
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use intarsia_types::Error;

    use super::*;

    #[test]
    fn each_transition_leads_from_each_state_where_it_says() {
        type Change = fn(&mut Sums);
        let (old, new) = (BlockSums::of(b"old"), BlockSums::of(b"new"));
        let loaded = |sums: &BlockSums| Sums::Loaded(sums.clone());
        let kept = |sums: &BlockSums| Sums::KeptUp(sums.clone());
        let from = [Sums::None, Sums::Stored, loaded(&old), kept(&old)];
        let changes: [(&str, Change, [Sums; 4]); 6] = [
            ("is stored", |s| s.note_stored(true), {
                [Sums::Stored, Sums::Stored, loaded(&old), loaded(&old)]
            }),
            ("is not stored", |s| s.note_stored(false), {
                [Sums::None, Sums::None, kept(&old), kept(&old)]
            }),
            ("load", |s| s.load(BlockSums::of(b"new")), [(); 4].map(|()| loaded(&new))),
            ("keep up", |s| s.keep_up(BlockSums::of(b"new")), [(); 4].map(|()| kept(&new))),
            ("unload", Sums::unload, [Sums::None, Sums::Stored, Sums::Stored, Sums::None]),
            ("forget", Sums::forget, [(); 4].map(|()| Sums::None)),
        ];
        for (name, change, to) in changes {
            for (before, after) in from.iter().zip(to) {
                let mut sums = before.clone();
                change(&mut sums);
                assert_eq!(sums, after, "{name} from {before:?}");
            }
        }
    }

    #[test]
    fn nothing_is_known_of_a_content_whose_change_failed() {
        let content = BlockSums::of(b"content");
        let full = || Err::<(), _>(Error::BadHandle);
        for mut sums in [Sums::KeptUp(content.clone()), Sums::Loaded(content.clone())] {
            sums.unless_failed(Ok(())).unwrap();
            assert_eq!(sums.get(), Some(&content));
            assert!(matches!(sums.unless_failed(full()), Err(Error::BadHandle)));
            assert_eq!(sums, Sums::None);
        }
        let mut stored = Sums::Stored;
        assert!(stored.unless_failed(full()).is_err());
        assert_eq!(stored, Sums::Stored, "what is not here is not kept up either");
    }
}
