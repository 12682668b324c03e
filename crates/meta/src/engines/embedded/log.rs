//! The log of commits that the tables do not have yet.
//!
//! ```text
//! log-NNNNNNNNNNNNNNNN   records, oldest first; a file is removed when the tables have all of it
//! record                 length u32 · CRC-64/NVME u64 of the payload · payload        (little-endian)
//! payload                changes: 0 · key length u16 · key                     a removal
//!                                 1 · key length u16 · key · value length u32 · value
//! ```
//! A record is written by one call, so the page cache has all of it before its commit is acknowledged, and the death of the
//! process leaves no half of one. After a loss of power the log is read up to the first unsound record. What follows was never
//! acknowledged as durable, since such records had been forced to disk in order.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use intarsia_codec::block_sum;
use intarsia_sync::Mutex;
use intarsia_types::{Error, Result};

use super::front::{Held, Layer};
use crate::engines::Changes;
use crate::{Bytes, Key, Value};

/// Room that is laid out ahead of the end, so that names can still be removed when the disk is full.
const AHEAD_BYTES: u64 = 1 << 20;
const PREFIX: &str = "log-";
const HEAD_BYTES: usize = 12;
const REMOVAL: u8 = 0;
const VALUE: u8 = 1;
/// Longer values, which are the bodies of small files, are not kept in memory but read from the log again when somebody asks
/// for them. They are most of the bytes, and most of them are asked for only once, by the drain.
const HERE_MAX_BYTES: usize = 512;

/// One file of the log.
pub(super) struct LogFile {
    number: u64,
    path: PathBuf,
    file: File,
    /// It may have been written to since it was last forced to disk.
    is_dirty: AtomicBool,
    /// Its name may not be on stable storage yet.
    is_new: AtomicBool,
}

/// Where a value stands in the log.
pub(super) struct Span {
    file: Arc<LogFile>,
    offset_bytes: u64,
    len: usize,
    sum: u64,
}

impl Span {
    /// Reads the value. The file can be read as long as there is a span of it, even after it has been removed.
    pub(super) fn read(&self) -> Result<Value> {
        let mut value = vec![0; self.len];
        let path = &self.file.path;
        self.file.file.read_exact_at(&mut value, self.offset_bytes).map_err(io("read", path))?;
        if block_sum(&value) != self.sum {
            return Err(Error::Engine(format!("'{}' was damaged on the disk", path.display())));
        }
        Ok(value.into())
    }
}

/// The files with changes that the tables do not have, oldest first. Shared with the flusher.
#[derive(Clone, Default)]
pub(super) struct LogFiles(Arc<Mutex<Vec<Arc<LogFile>>>>);

/// Appends records to the newest file, one thread at a time, under the commit lock.
pub(super) struct Log {
    dir: PathBuf,
    files: LogFiles,
    newest: Arc<LogFile>,
    end_bytes: u64,
    /// Up to which offset room on the disk has been laid out.
    laid_out_bytes: u64,
    record: Vec<u8>,
}

impl LogFiles {
    /// How many bytes they hold.
    pub(super) fn bytes(&self) -> u64 {
        let files = self.0.lock();
        files.iter().map(|file| file.file.metadata().map_or(0, |meta| meta.len())).sum()
    }

    /// Forces everything written so far to stable storage, in order.
    pub(super) fn sync(&self) -> Result<()> {
        let files = self.0.lock().clone();
        for file in files.iter().filter(|f| f.is_dirty.swap(false, Ordering::AcqRel)) {
            if let Err(e) = file.file.sync_data() {
                file.is_dirty.store(true, Ordering::Release);
                return Err(io("force to disk", &file.path)(e));
            }
            if file.is_new.swap(false, Ordering::AcqRel)
                && let Some(dir) = file.path.parent()
            {
                File::open(dir).and_then(|d| d.sync_all()).map_err(io("force to disk", dir))?;
            }
        }
        Ok(())
    }
}

impl Log {
    /// Opens the log. Returns also the changes that it holds, and how many unsound bytes were cut off its end.
    pub(super) fn open(dir: &Path) -> Result<(Self, Layer, u64)> {
        let mut held = Layer::default();
        let mut files: Vec<Arc<LogFile>> = Vec::new();
        let (mut cut_bytes, mut end_bytes) = (0, 0);
        for number in numbers(dir)? {
            let path = file_path(dir, number);
            if cut_bytes > 0 {
                cut_bytes += set_aside(&path, 0)?;
                continue;
            }
            let bytes = std::fs::read(&path).map_err(io("read", &path))?;
            let file = Arc::new(LogFile::open(dir, number)?);
            let sound = replay(&file, &bytes, &mut held);
            if sound < bytes.len() {
                cut_bytes += set_aside(&path, sound)?;
            }
            end_bytes = sound as u64;
            files.push(file);
        }
        // Records go on into the last file: on a full disk, the room laid out for it may be all there is.
        let newest = match files.last() {
            Some(last) => Arc::clone(last),
            None => {
                files.push(Arc::new(LogFile::open(dir, 1)?));
                Arc::clone(&files[0])
            }
        };
        let files = LogFiles(Arc::new(Mutex::new(files)));
        let (dir, record) = (dir.to_owned(), Vec::new());
        let mut log = Self { dir, files, newest, end_bytes, laid_out_bytes: end_bytes, record };
        log.lay_out(0);
        Ok((log, held, cut_bytes))
    }

    /// Lays out room for `len` more bytes and [`AHEAD_BYTES`] beyond them, unless there is enough. On a full disk it may fail.
    fn lay_out(&mut self, len: u64) {
        use rustix::fs::FallocateFlags;
        if self.end_bytes + len < self.laid_out_bytes {
            return;
        }
        let wanted = len + AHEAD_BYTES;
        let file = &self.newest.file;
        // The length of the file stays, so that it does not end with zeros.
        if rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, self.end_bytes, wanted).is_ok() {
            self.laid_out_bytes = self.end_bytes + wanted;
        }
    }

    pub(super) fn files(&self) -> LogFiles {
        self.files.clone()
    }

    /// Appends one commit. Returns what the front is to hold of each change. After a failure nothing of the commit counts, and
    /// the next record is written over it.
    pub(super) fn append(&mut self, changes: &Changes) -> Result<Vec<Held>> {
        let values_at = encode(changes, &mut self.record)?;
        self.lay_out(self.record.len() as u64);
        self.newest
            .file
            .write_all_at(&self.record, self.end_bytes)
            .map_err(io("write", &self.newest.path))?;
        self.newest.is_dirty.store(true, Ordering::Release);
        let hold = |(change, at): (&(Key, Option<Value>), usize)| match &change.1 {
            None => Held::Removed,
            Some(value) => self.newest.hold(self.end_bytes + at as u64, value, || value.clone()),
        };
        let held = changes.iter().zip(values_at).map(hold).collect();
        self.end_bytes += self.record.len() as u64;
        Ok(held)
    }

    /// The length of the newest file, in bytes.
    pub(super) const fn newest_bytes(&self) -> u64 {
        self.end_bytes
    }

    /// Begins a new file, so that the older ones can be removed once the tables have what they hold. Returns the number of the
    /// new one.
    pub(super) fn rotate(&mut self) -> Result<u64> {
        let next = Arc::new(LogFile::open(&self.dir, self.newest.number + 1)?);
        // A failed append may have left bytes after the last record. In an older file they would count as damage.
        self.newest.file.set_len(self.end_bytes).map_err(io("cut", &self.newest.path))?;
        self.files.0.lock().push(Arc::clone(&next));
        self.newest = next;
        self.end_bytes = 0;
        self.laid_out_bytes = 0;
        self.lay_out(0);
        Ok(self.newest.number)
    }

    /// The number of the file that records go to now. It was begun when the front was last sealed.
    pub(super) fn first_after_seal(&self) -> u64 {
        self.newest.number
    }

    /// Removes the files older than `number`.
    pub(super) fn retire(files: &LogFiles, number: u64) -> Result<()> {
        let mut files = files.0.lock();
        while let Some(oldest) = files.first().filter(|f| f.number < number) {
            std::fs::remove_file(&oldest.path).map_err(io("remove", &oldest.path))?;
            files.remove(0);
        }
        Ok(())
    }
}

impl LogFile {
    fn open(dir: &Path, number: u64) -> Result<Self> {
        let path = file_path(dir, number);
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(io("open", &path))?;
        let (is_dirty, is_new) = (AtomicBool::new(true), AtomicBool::new(true));
        Ok(Self { number, path, file, is_dirty, is_new })
    }

    /// What the front is to hold of a value that stands at `offset_bytes`: a short one itself, which `here` returns, or the
    /// place of a long one.
    fn hold(
        self: &Arc<Self>,
        offset_bytes: u64,
        value: &[u8],
        here: impl FnOnce() -> Value,
    ) -> Held {
        if value.len() <= HERE_MAX_BYTES {
            return Held::Here(here());
        }
        let (file, len, sum) = (Arc::clone(self), value.len(), block_sum(value));
        Held::InLog(Span { file, offset_bytes, len, sum })
    }
}

fn file_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{number:016x}"))
}

/// The numbers of the files, in order.
fn numbers(dir: &Path) -> Result<Vec<u64>> {
    let entries = std::fs::read_dir(dir).map_err(io("read", dir))?;
    let mut numbers: Vec<u64> = entries
        .flatten()
        .filter_map(|e| {
            let name = e.file_name();
            let digits = name.to_str()?.strip_prefix(PREFIX)?;
            (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
        })
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Cuts a file at `sound` bytes, and keeps what was cut off in a file beside it. Returns how many bytes that is.
fn set_aside(path: &Path, sound: usize) -> Result<u64> {
    let bytes = std::fs::read(path).map_err(io("read", path))?;
    let cut = bytes.get(sound..).unwrap_or(&[]);
    let aside = path.with_extension("cut");
    super::journal::keep(&aside, cut)?;
    let file = File::options().write(true).open(path).map_err(io("open", path))?;
    file.set_len(sound as u64).and_then(|()| file.sync_all()).map_err(io("cut", path))?;
    tracing::warn!(log = %path.display(), cut_bytes = cut.len(), "cut the unsound end of the metadata log");
    Ok(cut.len() as u64)
}

/// Builds the record of a commit in `record`. Returns the offset in it of each value.
fn encode(changes: &Changes, record: &mut Vec<u8>) -> Result<Vec<usize>> {
    let mut values_at = Vec::with_capacity(changes.len());
    record.clear();
    record.resize(HEAD_BYTES, 0);
    for (key, value) in changes {
        let key_len = u16::try_from(key.len()).map_err(|_| too_long("key"))?;
        record.push(if value.is_some() { VALUE } else { REMOVAL });
        record.extend_from_slice(&key_len.to_le_bytes());
        record.extend_from_slice(key);
        if let Some(value) = value {
            let len = u32::try_from(value.len()).map_err(|_| too_long("value"))?;
            record.extend_from_slice(&len.to_le_bytes());
        }
        values_at.push(record.len());
        record.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    let len = u32::try_from(record.len() - HEAD_BYTES).map_err(|_| too_long("commit"))?;
    let sum = block_sum(&record[HEAD_BYTES..]);
    record[..4].copy_from_slice(&len.to_le_bytes());
    record[4..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
    Ok(values_at)
}

fn too_long(what: &str) -> Error {
    Error::TooBig(format!("a {what} beyond what the log can hold"))
}

/// Applies the sound records at the start of `bytes`, the content of `file`, to `layer`; returns their
/// length. Never panics.
fn replay(file: &Arc<LogFile>, bytes: &[u8], layer: &mut Layer) -> usize {
    let mut at = 0;
    while let Some((changes, len)) = decode(&bytes[at..]) {
        for (key, value) in changes {
            layer.set(key.into(), hold_again(file, at, value));
        }
        at += len;
    }
    at
}

/// What the front is to hold of a value in the record at `record_at`.
fn hold_again(file: &Arc<LogFile>, record_at: usize, value: Option<(usize, &[u8])>) -> Held {
    match value {
        None => Held::Removed,
        Some((at, value)) => file.hold((record_at + at) as u64, value, || Bytes::copy_from(value)),
    }
}

/// A change in a record: its key, and its value with the offset of that in the record.
type Decoded<'r> = (&'r [u8], Option<(usize, &'r [u8])>);

/// The record at the start of `bytes` and its length, if it is sound.
fn decode(bytes: &[u8]) -> Option<(Vec<Decoded<'_>>, usize)> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    let mut payload = rest.get(..len)?;
    // No commit is empty, so zeros after the end of the log are no record.
    if len == 0 || block_sum(payload) != u64::from_le_bytes(*sum) {
        return None;
    }
    let record_len = HEAD_BYTES + len;
    let mut changes = Vec::new();
    while let Some((tag, rest)) = payload.split_first() {
        let (key_len, rest) = rest.split_first_chunk::<2>()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*key_len)))?;
        let (value, rest) = match *tag {
            REMOVAL => (None, rest),
            VALUE => {
                let (len, rest) = rest.split_first_chunk::<4>()?;
                let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
                let at = record_len - rest.len();
                let (value, rest) = rest.split_at_checked(len)?;
                (Some((at, value)), rest)
            }
            _ => return None,
        };
        changes.push((key, value));
        payload = rest;
    }
    Some((changes, record_len))
}

fn io<'p>(what: &'static str, path: &'p Path) -> impl Fn(std::io::Error) -> Error + 'p {
    move |e| Error::io(format!("{what} '{}'", path.display()), e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change() -> impl Strategy<Value = (Bytes, Option<Bytes>)> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
        (bytes(), proptest::option::of(bytes()))
    }

    proptest! {
        #[test]
        fn a_record_survives_the_round_trip(changes in proptest::collection::vec(change(), 1..8)) {
            let mut record = Vec::new();
            let values_at = encode(&changes, &mut record).unwrap();
            let len = record.len();
            record.extend([0; 20]);
            let (decoded, decoded_len) = decode(&record).unwrap();
            prop_assert_eq!(decoded_len, len);
            prop_assert_eq!(decoded.len(), changes.len());
            for (((key, value), at), (decoded_key, decoded)) in
                changes.iter().zip(values_at).zip(decoded)
            {
                prop_assert_eq!(&key[..], decoded_key);
                prop_assert_eq!(value.as_deref().map(|value| (at, value)), decoded);
            }
        }

        #[test]
        fn a_damaged_record_is_refused(
            changes in proptest::collection::vec(change(), 1..8),
            at in any::<prop::sample::Index>(),
            bit in 0u8..8,
        ) {
            let mut record = Vec::new();
            encode(&changes, &mut record).unwrap();
            let at = at.index(record.len());
            record[at] ^= 1 << bit;
            prop_assert!(decode(&record).is_none());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
