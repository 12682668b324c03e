//! What is known of the checksums of a file's blocks.

use std::ops::Range;

use intarsia_codec::{BLOCK_BYTES, BlockSums, block_sum};
use intarsia_store::BackingFile;
use intarsia_types::Result;

use crate::body::integrity::block_len;

/// Whether there are sums, where they are, and whether the record says that they are right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sums {
    /// There are none of the present content.
    #[default]
    None,
    /// The record says that the stored ones are right; they were not read yet.
    Stored,
    /// As [`Stored`](Self::Stored), and here.
    Loaded(BlockSums),
    /// They are here and kept up at every write; the record does not say that the stored ones are right.
    KeptUp(BlockSums),
}

impl Sums {
    /// Those that are here, for reads to be compared with and writes to renew.
    pub(crate) const fn get(&self) -> Option<&BlockSums> {
        match self {
            Self::Loaded(sums) | Self::KeptUp(sums) => Some(sums),
            Self::None | Self::Stored => None,
        }
    }

    /// Whether the record says that the stored ones are right.
    pub(crate) const fn is_stored(&self) -> bool {
        matches!(self, Self::Stored | Self::Loaded(_))
    }

    /// The record says that the stored ones are right, or that they are not.
    pub(crate) fn note_stored(&mut self, is_stored: bool) {
        *self = match (std::mem::take(self), is_stored) {
            (Self::None | Self::Stored, true) => Self::Stored,
            (Self::None | Self::Stored, false) => Self::None,
            (Self::Loaded(sums) | Self::KeptUp(sums), true) => Self::Loaded(sums),
            (Self::Loaded(sums) | Self::KeptUp(sums), false) => Self::KeptUp(sums),
        };
    }

    /// Whether there are none of the present content, so that a record may name none either.
    pub(crate) const fn are_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The stored ones were read.
    pub(crate) fn load(&mut self, sums: BlockSums) {
        *self = Self::Loaded(sums);
    }

    /// They were made of the content that is here, and are to be kept up.
    pub(crate) fn keep_up(&mut self, sums: BlockSums) {
        *self = Self::KeptUp(sums);
    }

    /// Lets go of those that are here; what the record says of the stored ones stays.
    pub(crate) fn unload(&mut self) {
        *self = if self.is_stored() { Self::Stored } else { Self::None };
    }

    /// The content is another one, or gone.
    pub(crate) fn forget(&mut self) {
        *self = Self::None;
    }

    const fn get_mut(&mut self) -> Option<&mut BlockSums> {
        match self {
            Self::Loaded(sums) | Self::KeptUp(sums) => Some(sums),
            Self::None | Self::Stored => None,
        }
    }

    /// Passes on what came of a change of the content. After one that failed nobody knows what the content is, and so no sum
    /// of it: it is summed anew once it has settled.
    pub(crate) fn unless_failed<T>(&mut self, changed: Result<T>) -> Result<T> {
        if changed.is_err() && self.get().is_some() {
            self.forget();
        }
        changed
    }

    /// Renews the sums of the blocks that a write of `len` bytes at `offset_bytes` touched, and of the
    /// old last block if the write began beyond it.
    pub(crate) fn renew(
        &mut self,
        file: &BackingFile,
        offset_bytes: u64,
        len: u64,
        old_size_bytes: u64,
    ) -> Result<()> {
        let end = offset_bytes + len;
        let from = offset_bytes.min(old_size_bytes) / BLOCK_BYTES;
        let renewed = self.read_anew(file, from..end.div_ceil(BLOCK_BYTES));
        self.unless_failed(renewed)
    }

    fn read_anew(&mut self, file: &BackingFile, blocks: Range<u64>) -> Result<()> {
        let Some(sums) = self.get_mut() else { return Ok(()) };
        let mut buffer = vec![0; block_len()];
        for index in blocks {
            let n = file.read_at(&mut buffer, index * BLOCK_BYTES)?;
            sums.set(usize::try_from(index).unwrap_or(usize::MAX), block_sum(&buffer[..n]));
        }
        Ok(())
    }

    /// Renews sums after the length changed.
    pub(crate) fn resize(
        &mut self,
        file: &BackingFile,
        old_size_bytes: u64,
        new_size_bytes: u64,
    ) -> Result<()> {
        let Some(sums) = self.get_mut() else { return Ok(()) };
        let blocks = usize::try_from(new_size_bytes.div_ceil(BLOCK_BYTES)).unwrap_or(usize::MAX);
        sums.truncate(blocks);
        let from = old_size_bytes.min(new_size_bytes);
        let len = new_size_bytes.saturating_sub(from);
        if len > 0 {
            self.renew(file, from, len, from)
        } else if new_size_bytes.is_multiple_of(BLOCK_BYTES) {
            Ok(())
        } else {
            self.renew(file, new_size_bytes - 1, 1, new_size_bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use std::os::unix::fs::FileExt;

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

    #[test]
    fn sums_that_cannot_be_read_anew_are_forgotten() {
        let mut sums = Sums::KeptUp(BlockSums::of(b"old"));
        let unreadable = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
        assert!(sums.renew(&BackingFile::of(unreadable), 0, 3, 3).is_err());
        assert_eq!(sums, Sums::None);
    }

    #[test]
    fn sums_follow_writes_and_changes_of_length() {
        let block = block_len();
        let file = tempfile::tempfile().unwrap();
        let mut content = vec![1; 2 * block + 100];
        file.write_all_at(&content, 0).unwrap();
        let mut sums = Sums::KeptUp(BlockSums::of(&content));
        let backing = BackingFile::of(file.try_clone().unwrap());
        let is_of =
            |sums: &Sums, content: &[u8]| assert_eq!(*sums, Sums::KeptUp(BlockSums::of(content)));
        let write = |sums: &mut Sums, content: &mut Vec<u8>, at: usize, data: &[u8]| {
            let old_len = content.len();
            content.resize(old_len.max(at + data.len()), 0);
            content[at..at + data.len()].copy_from_slice(data);
            file.write_all_at(data, at as u64).unwrap();
            sums.renew(&backing, at as u64, data.len() as u64, old_len as u64).unwrap();
        };
        write(&mut sums, &mut content, block - 2, &[2; 4]);
        is_of(&sums, &content);
        write(&mut sums, &mut content, 5 * block + 7, &[3; 9]);
        is_of(&sums, &content);
        for len in [3 * block + 1, 3 * block, 4 * block + 5, 10, 0] {
            let old_len = content.len();
            content.resize(len, 0);
            file.set_len(len as u64).unwrap();
            sums.resize(&backing, old_len as u64, len as u64).unwrap();
            is_of(&sums, &content);
        }
    }
}
