//! The sums of a file's blocks after a change of its content.
//!
//! They are computed before the change, from the bytes that are to be written and from what else the blocks hold, which is
//! verified by its sums first. So a sum is always that of what programs wrote, whatever the disk makes of it, and damage of before
//! is not taken for content.

use std::ops::Range;

use intarsia_codec::{BLOCK_BYTES, BlockSums, block_sum};
use intarsia_store::BackingFile;
use intarsia_types::{InodeId, Result};

use super::Sums;
use crate::body::integrity::{corrupt_block, hole_sum, is_summable};

/// A file that is about to change.
pub(crate) struct Before<'f> {
    pub(crate) ino: InodeId,
    pub(crate) file: &'f BackingFile,
    pub(crate) size_bytes: u64,
}

/// A change of the content.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'c> {
    /// These bytes are written from this offset on.
    Bytes(u64, &'c [u8]),
    /// From the first offset up to the second there are zeros.
    Zeros(u64, u64),
    /// The file is cut, or made longer by zeros, to this length.
    Length(u64),
}

/// The sums after a change.
#[derive(Debug)]
pub(crate) enum Renewed {
    /// No sums are kept.
    None,
    /// The file then has `count` blocks, of which those in `changed` have new sums.
    Blocks { count: usize, changed: Vec<(usize, u64)> },
}

impl Change<'_> {
    fn size_after(self, old_size_bytes: u64) -> u64 {
        match self {
            Self::Length(size_bytes) => size_bytes,
            _ => old_size_bytes.max(self.written(old_size_bytes).end),
        }
    }

    /// The range that is written, be it with zeros.
    fn written(self, old_size_bytes: u64) -> Range<u64> {
        match self {
            Self::Bytes(_, []) => 0..0,
            Self::Bytes(at, bytes) => at..at.saturating_add(bytes.len() as u64),
            Self::Zeros(from, to) if from < to => from..to,
            Self::Length(size_bytes) if old_size_bytes < size_bytes => old_size_bytes..size_bytes,
            Self::Zeros(..) | Self::Length(_) => 0..0,
        }
    }

    /// The blocks whose sums change.
    fn touched(self, old_size_bytes: u64) -> Range<u64> {
        match self {
            Self::Length(size_bytes) if size_bytes < old_size_bytes => {
                size_bytes / BLOCK_BYTES..size_bytes.div_ceil(BLOCK_BYTES)
            }
            _ => {
                let written = self.written(old_size_bytes);
                // With the last block that the file had, and those that it grows by before the written range.
                let from = written.start.min(old_size_bytes) / BLOCK_BYTES;
                from..written.end.div_ceil(BLOCK_BYTES)
            }
        }
    }
}

impl Sums {
    /// The sums after a change that is about to be made; none of a file that gets too long to be summed.
    ///
    /// # Errors
    /// [`Error::Corrupt`](intarsia_types::Error::Corrupt) when a block that stays in part does not have its sum; the disk's own
    /// when such a block cannot be read.
    pub(crate) fn after(&self, before: &Before<'_>, change: Change<'_>) -> Result<Renewed> {
        let Some(sums) = self.get() else { return Ok(Renewed::None) };
        let size_bytes = change.size_after(before.size_bytes);
        if !is_summable(size_bytes) {
            return Ok(Renewed::None);
        }
        let changing = Changing { before, sums, change, size_bytes };
        let renewed = |index| Ok((to_usize(index), changing.sum_of(index)?));
        let changed = change.touched(before.size_bytes).map(renewed).collect::<Result<_>>()?;
        Ok(Renewed::Blocks { count: to_usize(size_bytes.div_ceil(BLOCK_BYTES)), changed })
    }

    /// Takes the sums over that [`after`](Self::after) returned, once the change was made.
    pub(crate) fn renew(&mut self, renewed: Renewed) {
        let Some(sums) = self.get_mut() else { return };
        match renewed {
            Renewed::None => self.forget(),
            Renewed::Blocks { count, changed } => {
                sums.truncate(count);
                changed.into_iter().for_each(|(index, sum)| sums.set(index, sum));
            }
        }
    }
}

struct Changing<'c> {
    before: &'c Before<'c>,
    sums: &'c BlockSums,
    change: Change<'c>,
    /// The length of the file after the change.
    size_bytes: u64,
}

impl Changing<'_> {
    /// The sum of a block after the change.
    fn sum_of(&self, index: u64) -> Result<u64> {
        let start = index * BLOCK_BYTES;
        let end = (start + BLOCK_BYTES).min(self.size_bytes);
        let old_end = (start + BLOCK_BYTES).min(self.before.size_bytes);
        let all = self.change.written(self.before.size_bytes);
        let written = all.start.max(start)..all.end.min(end);
        let bytes = match self.change {
            Change::Bytes(at, bytes) if !written.is_empty() => {
                &bytes[to_usize(written.start - at)..to_usize(written.end - at)]
            }
            _ => &[],
        };
        let is_kept =
            old_end > start && !(written.start <= start && written.end >= old_end.min(end));
        if written == (start..end) && !bytes.is_empty() {
            return Ok(block_sum(bytes));
        }
        if !is_kept && bytes.is_empty() {
            return Ok(hole_sum(end - start));
        }
        let mut block = if is_kept { self.old(index, old_end - start)? } else { Vec::new() };
        block.resize(to_usize(end - start), 0);
        if !written.is_empty() {
            let part = &mut block[to_usize(written.start - start)..to_usize(written.end - start)];
            if bytes.is_empty() { part.fill(0) } else { part.copy_from_slice(bytes) }
        }
        Ok(block_sum(&block))
    }

    /// What a block of `len_bytes` holds before the change, verified by its sum.
    fn old(&self, index: u64, len_bytes: u64) -> Result<Vec<u8>> {
        let mut block = vec![0; to_usize(len_bytes)];
        let n = self.before.file.read_at(&mut block, index * BLOCK_BYTES)?;
        if n < block.len() || !self.sums.verify(to_usize(index), &block) {
            return Err(corrupt_block(self.before.ino, index));
        }
        Ok(block)
    }
}

fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use std::os::unix::fs::FileExt;

    use intarsia_types::Error;

    use super::*;
    use crate::body::integrity::block_len;

    /// A file, what it holds, and its sums.
    struct Kept {
        file: BackingFile,
        content: Vec<u8>,
        sums: Sums,
    }

    impl Kept {
        fn of(content: Vec<u8>) -> Self {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&content, 0).unwrap();
            let sums = Sums::KeptUp(BlockSums::of(&content));
            Self { file: BackingFile::of(file), content, sums }
        }

        fn after(&self, change: Change<'_>) -> Result<Renewed> {
            let size_bytes = self.content.len() as u64;
            self.sums.after(&Before { ino: InodeId(7), file: &self.file, size_bytes }, change)
        }

        /// Makes a change, and looks whether the sums are those of what is there then.
        fn make(&mut self, change: Change<'_>) {
            let renewed = self.after(change).unwrap();
            let old_size_bytes = self.content.len() as u64;
            self.content.resize(to_usize(change.size_after(old_size_bytes)), 0);
            let written = change.written(old_size_bytes);
            let part = &mut self.content[to_usize(written.start)..to_usize(written.end)];
            match change {
                Change::Bytes(_, bytes) => part.copy_from_slice(bytes),
                _ => part.fill(0),
            }
            let file = self.file.file();
            file.set_len(self.content.len() as u64).unwrap();
            file.write_all_at(&self.content, 0).unwrap();
            self.sums.renew(renewed);
            assert_eq!(self.sums, Sums::KeptUp(BlockSums::of(&self.content)), "{change:?}");
        }
    }

    #[test]
    fn sums_follow_every_change() {
        let block = BLOCK_BYTES;
        let data = vec![3; 3 * block_len()];
        let mut kept = Kept::of(vec![1; 2 * block_len() + 100]);
        let changes = [
            Change::Bytes(block - 2, &data[..4]),
            Change::Bytes(block, &data[..block_len() + 100]),
            Change::Bytes(block + 5, &[]),
            Change::Bytes(9 * block + 5, &[]),
            Change::Bytes(5 * block + 7, &data[..9]),
            Change::Bytes(7, &data),
            Change::Bytes(7 * block, &data[..1]),
            Change::Zeros(block + 5, 3 * block + 5),
            Change::Zeros(5 * block, 9 * block + 1),
            Change::Zeros(block, block),
            Change::Zeros(12 * block + 3, 12 * block + 9),
            Change::Length(4 * block + 1),
            Change::Length(4 * block),
            Change::Length(4 * block),
            Change::Length(6 * block + 5),
            Change::Length(10),
            Change::Length(0),
            Change::Bytes(0, &data[..20]),
        ];
        changes.into_iter().for_each(|change| kept.make(change));
    }

    #[test]
    fn what_a_disk_made_of_a_write_shows_against_its_sum() {
        let mut kept = Kept::of(vec![1; 100]);
        let renewed = kept.after(Change::Bytes(20, &[2; 30])).unwrap();
        kept.file.write_all_at(&[2; 29], 20).unwrap();
        kept.sums.renew(renewed);
        let mut found = vec![0; 100];
        kept.file.read_at(&mut found, 0).unwrap();
        assert!(!kept.sums.get().unwrap().verify(0, &found));
    }

    #[test]
    fn what_went_wrong_in_a_block_stays_known_when_another_part_of_it_is_written() {
        let kept = Kept::of(vec![1; 2 * block_len()]);
        kept.file.write_all_at(&[9], 10).unwrap();
        let data = vec![2; block_len()];
        for change in [
            Change::Bytes(20, &data[..30]),
            Change::Zeros(0, 10),
            Change::Length(100),
            Change::Bytes(100, &data),
        ] {
            let refused = kept.after(change);
            assert!(matches!(refused, Err(Error::Corrupt { .. })), "{change:?}: {refused:?}");
        }
        for change in [Change::Bytes(0, &data), Change::Zeros(0, BLOCK_BYTES), Change::Length(0)] {
            assert!(kept.after(change).is_ok(), "{change:?}: nothing of it stays");
        }
        assert!(kept.after(Change::Bytes(BLOCK_BYTES + 1, &[2])).is_ok(), "another block");
    }

    #[test]
    fn nothing_is_kept_of_a_file_that_gets_too_long_for_it() {
        let mut kept = Kept::of(vec![1; 100]);
        let end = i64::MAX.cast_unsigned();
        for change in [Change::Length(end), Change::Bytes(end - 1, &[1]), Change::Zeros(100, end)] {
            assert!(matches!(kept.after(change), Ok(Renewed::None)), "{change:?}");
        }
        kept.sums.renew(Renewed::None);
        assert_eq!(kept.sums, Sums::None);
    }

    #[test]
    fn holes_in_a_long_file_are_summed_without_being_read() {
        let kept = Kept::of(vec![1; 100]);
        let size_bytes = 1 << 40;
        let Renewed::Blocks { count, changed } = kept.after(Change::Length(size_bytes)).unwrap()
        else {
            unreachable!("it is not too long")
        };
        assert_eq!((count, changed.len()), (1 << 24, 1 << 24));
        assert_eq!(changed[1].1, changed[(1 << 24) - 1].1);
    }
}
