//! Block checksums: taken when a file has settled, kept up at every write with `integrity=strict`,
//! verified on every read through the process.

use std::ops::Range;
use std::sync::LazyLock;

use intarsia_codec::{BLOCK_BYTES, BlockSums, block_sum};
use intarsia_meta::{Extra, Namespace};
use intarsia_store::BackingFile;
use intarsia_types::{Error, InodeId, Result};

/// Longest file that is summed, in blocks (4 TiB): sums are held in memory as a whole, and those of holes count.
const SUMMED_BLOCKS_MAX: u64 = 1 << 26;
/// Blocks read at once while summing a whole file.
const BATCH_BLOCKS: u64 = 16;

/// Reads a range and verifies it. Sums are those of whole blocks, so the blocks around the range are read with it. Returns how
/// many bytes were read; fewer than asked for only at the end of the file.
///
/// # Errors
/// [`Error::Corrupt`], naming the block, for bytes that do not have their sums.
pub(crate) fn read_verified(
    ino: InodeId,
    sums: &BlockSums,
    file: &BackingFile,
    offset_bytes: u64,
    buffer: &mut [u8],
) -> Result<usize> {
    let first = offset_bytes / BLOCK_BYTES;
    if offset_bytes.is_multiple_of(BLOCK_BYTES) && buffer.len().is_multiple_of(block_len()) {
        let n = file.read_at(buffer, offset_bytes)?;
        verify(ino, sums, first, &buffer[..n], buffer.len())?;
        return Ok(n);
    }
    let end = (offset_bytes + buffer.len() as u64).div_ceil(BLOCK_BYTES);
    let span = usize::try_from((end - first) * BLOCK_BYTES).unwrap_or(usize::MAX);
    let mut blocks = vec![0; span];
    let n = file.read_at(&mut blocks, first * BLOCK_BYTES)?;
    blocks.truncate(n);
    verify(ino, sums, first, &blocks, span)?;
    let skip = usize::try_from(offset_bytes - first * BLOCK_BYTES).unwrap_or(usize::MAX);
    let wanted = blocks.get(skip..).unwrap_or(&[]);
    let len = wanted.len().min(buffer.len());
    buffer[..len].copy_from_slice(&wanted[..len]);
    Ok(len)
}

/// Compares `blocks`, of which the first has the number `first`, with their sums. If they are fewer than the `wanted` bytes the
/// file has ended; it is damaged if there are sums of further blocks.
fn verify(ino: InodeId, sums: &BlockSums, first: u64, blocks: &[u8], wanted: usize) -> Result<()> {
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    let refuse = |index: usize| Err(corrupt_block(ino, index as u64));
    for (i, block) in blocks.chunks(block_len()).enumerate() {
        if !sums.verify(first + i, block) {
            return refuse(first + i);
        }
    }
    let end = first.saturating_add(blocks.len().div_ceil(block_len()));
    if blocks.len() < wanted && end < sums.len() { refuse(end) } else { Ok(()) }
}

/// The error for a block that does not have its sum.
pub(super) fn corrupt_block(ino: InodeId, index: u64) -> Error {
    Error::Corrupt { ino, what: format!("block {index} of the content") }
}

/// Whether a file of this length is short enough to be summed.
pub(crate) const fn is_summable(size_bytes: u64) -> bool {
    size_bytes.div_ceil(BLOCK_BYTES) <= SUMMED_BLOCKS_MAX
}

/// The further changes of a commit that store `sums` with the inode's record, in place of all former ones.
pub(crate) fn checksum_extras(sums: &BlockSums) -> Vec<Extra> {
    let lists = (0u32..).zip(sums.records());
    std::iter::once(Extra::DeleteChecksums { from: 0 })
        .chain(lists.map(|(index, list)| Extra::PutChecksums { index, list: list.into() }))
        .collect()
}

/// The sums of a whole file.
pub(crate) struct Summed {
    pub(crate) sums: BlockSums,
    /// How many bytes were read for them.
    pub(crate) read_bytes: u64,
}

/// The sums that are stored with an inode.
pub(crate) fn stored_sums(namespace: &Namespace, ino: InodeId) -> Result<BlockSums> {
    let mut sums = BlockSums::default();
    for index in 0.. {
        let Some(list) = namespace.get_checksums(ino, index)? else { break };
        if !sums.push_record(&list) {
            return Err(Error::Corrupt { ino, what: "a checksum record".into() });
        }
    }
    Ok(sums)
}

/// Sums a whole file, without reading its holes.
///
/// # Errors
/// [`Error::FileTooLarge`] for a file that is too long to be summed, and the system's own.
pub(crate) fn sum_file(file: &BackingFile) -> Result<BlockSums> {
    let summed = sum_file_unless(file, || false)?;
    summed.map(|summed| summed.sums).ok_or(Error::FileTooLarge)
}

/// Sums a whole file, without reading its holes. `None` if the file is too long, or once `is_cancelled` returns true; that is
/// called before each read.
pub(crate) fn sum_file_unless(
    file: &BackingFile,
    is_cancelled: impl Fn() -> bool,
) -> Result<Option<Summed>> {
    let size_bytes = file.stat()?.size_bytes;
    if !is_summable(size_bytes) {
        return Ok(None);
    }
    let mut summed = Summed { sums: BlockSums::default(), read_bytes: 0 };
    let mut buffer = vec![0; block_len() * usize::try_from(BATCH_BLOCKS).unwrap_or(1)];
    let (mut at, end) = (0, size_bytes.div_ceil(BLOCK_BYTES));
    while at < end {
        let data = next_data(file, at, size_bytes)?;
        for index in at..data.start {
            summed.push(hole_sum(size_bytes - index * BLOCK_BYTES));
        }
        at = data.start;
        while at < data.end {
            if is_cancelled() {
                return Ok(None);
            }
            let next = data.end.min(at + BATCH_BLOCKS);
            let wanted_bytes = size_bytes.min(next * BLOCK_BYTES) - at * BLOCK_BYTES;
            let wanted = usize::try_from(wanted_bytes).unwrap_or(usize::MAX).min(buffer.len());
            let n = file.read_at(&mut buffer[..wanted], at * BLOCK_BYTES)?;
            summed.read_bytes += n as u64;
            for block in buffer[..n].chunks(block_len()) {
                summed.push(block_sum(block));
            }
            if n < wanted {
                // The file was cut meanwhile; the caller finds out that it has changed.
                return Ok(Some(summed));
            }
            at = next;
        }
    }
    Ok(Some(summed))
}

impl Summed {
    fn push(&mut self, sum: u64) {
        self.sums.set(self.sums.len(), sum);
    }
}

/// The next blocks, at or after the block `from`, that are not wholly in a hole; an empty range at the end if there are none.
fn next_data(file: &BackingFile, from: u64, size_bytes: u64) -> Result<Range<u64>> {
    let end = size_bytes.div_ceil(BLOCK_BYTES);
    let data = match file.seek(from * BLOCK_BYTES, false) {
        Ok(data) => data.min(size_bytes),
        Err(Error::NoData) => return Ok(end..end),
        // The file system cannot tell where holes are, so all is read.
        Err(_) => return Ok(from..end),
    };
    let hole = match file.seek(data, true) {
        Ok(hole) => hole.min(size_bytes),
        // The file was cut meanwhile.
        Err(Error::NoData) => size_bytes,
        Err(error) => return Err(error),
    };
    Ok(data / BLOCK_BYTES..hole.div_ceil(BLOCK_BYTES))
}

/// The sum of a block of zeros with `left_bytes` of the file left from its start on; the last block may be shorter than others.
pub(super) fn hole_sum(left_bytes: u64) -> u64 {
    static WHOLE: LazyLock<u64> = LazyLock::new(|| block_sum(&vec![0; block_len()]));
    if left_bytes >= BLOCK_BYTES {
        return *WHOLE;
    }
    block_sum(&vec![0; usize::try_from(left_bytes).unwrap_or(0)])
}

pub(super) const fn block_len() -> usize {
    #[allow(clippy::cast_possible_truncation, reason = "64 KiB fits every usize")]
    {
        BLOCK_BYTES as usize
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use std::os::unix::fs::FileExt;

    use super::*;

    /// A file of `size` bytes with data in `pieces`, each an offset and a length, and all its content.
    fn sparse(size: usize, pieces: &[(usize, usize)]) -> (BackingFile, Vec<u8>) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size as u64).unwrap();
        let mut content = vec![0; size];
        for (at, len) in pieces {
            let data: Vec<u8> = (0..=250u8).cycle().take(*len).map(|byte| byte | 1).collect();
            file.write_all_at(&data, *at as u64).unwrap();
            content[*at..at + len].copy_from_slice(&data);
        }
        (BackingFile::of(file), content)
    }

    #[test]
    fn the_sums_of_a_file_with_holes_are_those_of_its_bytes() {
        let block = block_len();
        let cases: [(usize, &[(usize, usize)]); 8] = [
            (0, &[]),
            (100, &[]),
            (3 * block + 17, &[]),
            (3 * block + 17, &[(0, 3 * block + 17)]),
            (40 * block, &[(0, 1), (5 * block + 9000, 70_000), (39 * block + 60_000, 1)]),
            (40 * block + 1, &[(30 * block - 1, 2)]),
            (64 * block, &[(2 * block, 33 * block)]),
            (64 * block + 5000, &[(10 * block, 4096), (11 * block, 4096)]),
        ];
        for (size, pieces) in cases {
            let (file, content) = sparse(size, pieces);
            assert_eq!(sum_file(&file).unwrap(), BlockSums::of(&content), "{size} {pieces:?}");
        }
    }

    #[test]
    fn holes_are_not_read_and_a_long_sum_can_be_cancelled() {
        let (file, _) = sparse(0, &[]);
        file.set_len(10 << 30).unwrap();
        file.write_all_at(b"in the middle", 5 << 30).unwrap();
        let summed = sum_file_unless(&file, || false).unwrap().unwrap();
        assert_eq!(summed.sums.len(), 10 << 14);
        assert!(summed.read_bytes <= 4 * BLOCK_BYTES, "{} bytes read", summed.read_bytes);
        assert!(sum_file_unless(&file, || true).unwrap().is_none());
        // A file is not summed if its sums alone would fill the memory.
        file.set_len(i64::MAX.cast_unsigned()).or_else(|_| file.set_len(15 << 40)).unwrap();
        assert!(sum_file_unless(&file, || false).unwrap().is_none());
        assert!(matches!(sum_file(&file), Err(Error::FileTooLarge)));
    }
}
