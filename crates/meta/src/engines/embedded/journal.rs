//! The end of the LSM store's newest journal after a loss of power.
//!
//! The last batches before the loss may have reached the disk out of order, so that one of them has a hole. The store takes a
//! journal that simply ends, but refuses one with a batch whose checksum is wrong. Everything before the first such batch is
//! sound. Nothing after it was acknowledged as durable, since such batches had been forced to disk in order. So the journal is
//! cut there.

use std::fs;
use std::hash::Hasher;
use std::io::Write;
use std::path::{Path, PathBuf};

use intarsia_types::{Error, Result};

const TAG_START: u8 = 1;
const TAG_ITEM: u8 = 2;
const TAG_END: u8 = 3;
const START_BYTES: usize = 1 + 4 + 8;
const ITEM_HEAD_BYTES: usize = 1 + 1 + 1 + 8 + 2 + 4 + 4;
const TRAILER: &[u8] = b"FJL\x03";

/// What becomes of the bytes that are cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// They are kept in a file beside the journal, since somebody may want to look at them.
    Kept,
    /// They are dropped: our own log has all of them, and the disk was full, so a copy would fill it again.
    Dropped,
}

/// Cuts the newest journal after its last sound batch. Returns the number of bytes that were cut off. The caller holds the
/// database's lock.
pub(super) fn cut_unsound_end(database: &Path, how: Cut) -> Result<u64> {
    let Some(journal) = newest(database)? else { return Ok(0) };
    let bytes = fs::read(&journal).map_err(io("read", &journal))?;
    let sound = sound_length(&bytes);
    let (_, cut) = bytes.split_at(sound);
    // Only zeros: the rest of the journal was never written to.
    if cut.iter().all(|&byte| byte == 0) {
        return Ok(0);
    }
    if how == Cut::Kept {
        keep(&journal.with_extension("cut"), cut)?;
    }
    let file = fs::File::options().write(true).open(&journal).map_err(io("open", &journal))?;
    file.set_len(sound as u64).map_err(io("cut", &journal))?;
    file.sync_all().map_err(io("sync", &journal))?;
    let cut_bytes = cut.len() as u64;
    tracing::warn!(journal = %journal.display(), cut_bytes, "cut the unfinished end of the metadata journal");
    Ok(cut_bytes)
}

/// Keeps what is cut off in a file, if there is room for it.
pub(super) fn keep(path: &Path, cut: &[u8]) -> Result<()> {
    let write = || {
        let mut file = fs::File::create(path)?;
        file.write_all(cut)?;
        file.sync_all()
    };
    match write().map_err(io("write", path)) {
        Err(Error::NoSpace(why)) => {
            tracing::warn!(why, "what is cut is not kept");
            fs::remove_file(path).map_err(io("remove", path))
        }
        outcome => outcome,
    }
}

/// The journal that is being written.
pub(super) fn newest(database: &Path) -> Result<Option<PathBuf>> {
    let entries = fs::read_dir(database).map_err(io("read", database))?;
    let number = |path: &Path| path.file_stem()?.to_str()?.parse::<u64>().ok();
    let journals = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"));
    Ok(journals.max_by_key(|path| number(path)))
}

fn io<'p>(what: &'static str, path: &'p Path) -> impl Fn(std::io::Error) -> Error + 'p {
    move |e| Error::io(format!("{what} '{}'", path.display()), e)
}

/// The length of the beginning of the journal that consists of whole batches with the right checksums.
fn sound_length(journal: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = batch_length(&journal[at..]) {
        at += length;
    }
    at
}

/// The length of the batch at the start of `bytes`, if it is sound.
fn batch_length(bytes: &[u8]) -> Option<usize> {
    let start = bytes.get(..START_BYTES)?;
    if start[0] != TAG_START {
        return None;
    }
    let items = u32::from_le_bytes(start[1..5].try_into().ok()?);
    let mut at = START_BYTES;
    for _ in 0..items {
        at += item_length(bytes.get(at..)?)?;
    }
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(bytes.get(START_BYTES..at)?);
    let mut end = vec![TAG_END];
    end.extend_from_slice(&hasher.finish().to_le_bytes());
    end.extend_from_slice(TRAILER);
    bytes.get(at..)?.starts_with(&end).then_some(at + end.len())
}

fn item_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..ITEM_HEAD_BYTES)?;
    let key = u16::from_le_bytes(head[11..13].try_into().ok()?);
    let value = u32::from_le_bytes(head[17..21].try_into().ok()?);
    let length = ITEM_HEAD_BYTES + usize::from(key) + usize::try_from(value).ok()?;
    (head[0] == TAG_ITEM && length <= bytes.len()).then_some(length)
}
