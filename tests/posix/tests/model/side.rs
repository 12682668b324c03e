//! One of the two directories, and the files that the case keeps open in it.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use intarsia_posix_tests::Mapping;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, RenameFlags, SeekFrom, Timespec, Timestamps, fallocate,
    renameat_with, utimensat,
};

use crate::operation::{Allocate, How, Operation, Rename, SLOTS};

const XATTR_NAMES: [&str; 3] = ["user.one", "user.two", "user.intarsian"];
/// Past this a file is not mapped or read whole.
pub(crate) const MAPPED_MAX_BYTES: u64 = 4 << 20;

/// What an operation answers; equal on both sides.
pub(crate) type Answer = Result<Vec<u8>, i32>;

pub(crate) struct Side {
    root: PathBuf,
    slots: [Option<File>; SLOTS],
}

impl Side {
    pub(crate) fn new(root: PathBuf) -> Self {
        std::fs::create_dir(&root).unwrap();
        Self { root, slots: [const { None }; SLOTS] }
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn file(&self, slot: usize) -> Option<&File> {
        self.slots[slot].as_ref()
    }

    pub(crate) fn close_all(&mut self) {
        self.slots = [const { None }; SLOTS];
    }

    /// Does one step; `seed` is where its bytes come from.
    pub(crate) fn perform(&mut self, operation: &Operation, seed: u64) -> Answer {
        self.attempt(operation, seed).map_err(|e| e.raw_os_error().unwrap_or(0))
    }

    fn attempt(&mut self, operation: &Operation, seed: u64) -> io::Result<Vec<u8>> {
        match operation {
            Operation::Open { slot, path, how } => {
                // The old file first, as both are free to reuse what it held.
                self.slots[*slot] = None;
                self.slots[*slot] = Some(open(&self.at(path), *how)?);
                Ok(Vec::new())
            }
            Operation::Close { slot } => {
                self.slots[*slot] = None;
                Ok(Vec::new())
            }
            Operation::Write { .. }
            | Operation::Append { .. }
            | Operation::Read { .. }
            | Operation::SetLen { .. }
            | Operation::Allocate { .. }
            | Operation::Holes { .. }
            | Operation::CopyRange { .. }
            | Operation::Map { .. }
            | Operation::Sync { .. } => self.on_file(operation, seed),
            Operation::SetXattr { .. }
            | Operation::GetXattr { .. }
            | Operation::RemoveXattr { .. }
            | Operation::ListXattr { .. }
            | Operation::List { .. }
            | Operation::ListWhileRemoving { .. } => self.on_attributes(operation, seed),
            _ => self.on_names(operation),
        }
    }

    fn on_file(&mut self, operation: &Operation, seed: u64) -> io::Result<Vec<u8>> {
        let file = |slot: &usize| self.slots[*slot].as_ref().ok_or(io::Error::from_raw_os_error(9));
        match operation {
            Operation::Write { slot, offset, len } => {
                file(slot)?.write_all_at(&bytes(seed, *len), *offset)?;
            }
            Operation::Append { slot, len } => {
                let mut file = file(slot)?;
                // Where a directory ends is for each file system to say.
                if file.metadata()?.is_file() {
                    rustix::fs::seek(file, SeekFrom::End(0))?;
                }
                file.write_all(&bytes(seed, *len))?;
            }
            Operation::Read { slot, offset, len } => return read_at(file(slot)?, *offset, *len),
            Operation::SetLen { slot, len } => file(slot)?.set_len(*len)?,
            Operation::Allocate { slot, offset, len, how } => {
                fallocate(file(slot)?, flags(*how), *offset, *len)?;
            }
            Operation::Holes { slot } => return holes_are_zero(file(slot)?),
            Operation::CopyRange { from, from_offset, to, to_offset, len } => {
                copy(file(from)?, *from_offset, file(to)?, *to_offset, *len)?;
            }
            Operation::Map { slot, offset, len } => return map(file(slot)?, *offset, *len, seed),
            Operation::Sync { slot } => file(slot)?.sync_all()?,
            _ => unreachable!("not on an open file"),
        }
        Ok(Vec::new())
    }

    fn on_names(&mut self, operation: &Operation) -> io::Result<Vec<u8>> {
        let at = |path: &str| self.root.join(path);
        match operation {
            Operation::Truncate { path, len } => {
                OpenOptions::new().write(true).open(at(path))?.set_len(*len)?;
            }
            Operation::Rename { from, to, how } => {
                let flags = match how {
                    Rename::Replace => RenameFlags::empty(),
                    Rename::NoReplace => RenameFlags::NOREPLACE,
                    Rename::Exchange => RenameFlags::EXCHANGE,
                };
                renameat_with(CWD, at(from), CWD, at(to), flags)?;
            }
            Operation::Link { from, to } => std::fs::hard_link(at(from), at(to))?,
            Operation::Symlink { path, to } => std::os::unix::fs::symlink(to, at(path))?,
            Operation::Unlink { path } => std::fs::remove_file(at(path))?,
            Operation::MakeDir { path, perm } => {
                std::fs::create_dir(at(path))?;
                std::fs::set_permissions(at(path), PermissionsExt::from_mode(*perm))?;
            }
            Operation::RemoveDir { path } => std::fs::remove_dir(at(path))?,
            Operation::Chmod { path, perm } => {
                std::fs::set_permissions(at(path), PermissionsExt::from_mode(*perm))?;
            }
            Operation::SetTimes { path, secs, nanos } => {
                let time = Timespec { tv_sec: *secs, tv_nsec: i64::from(*nanos) };
                let times = Timestamps { last_access: time, last_modification: time };
                utimensat(CWD, at(path), &times, AtFlags::SYMLINK_NOFOLLOW)?;
                let meta = at(path).symlink_metadata()?;
                // Looking at a path reads directories and links, which native file systems note.
                if !meta.is_file() {
                    return Ok(Vec::new());
                }
                return Ok(format!("{}.{}", meta.atime(), meta.atime_nsec()).into_bytes());
            }
            Operation::Stat { path } => {
                return Ok(describe(&at(path).symlink_metadata()?).into_bytes());
            }
            // Done by the pair.
            _ => {}
        }
        Ok(Vec::new())
    }

    fn on_attributes(&mut self, operation: &Operation, seed: u64) -> io::Result<Vec<u8>> {
        match operation {
            Operation::SetXattr { path, name, len } => {
                xattr::set(self.at(path), XATTR_NAMES[*name], &bytes(seed, *len))?;
            }
            Operation::GetXattr { path, name } => {
                return Ok(xattr::get(self.at(path), XATTR_NAMES[*name])?.unwrap_or(vec![0]));
            }
            Operation::RemoveXattr { path, name } => {
                xattr::remove(self.at(path), XATTR_NAMES[*name])?;
            }
            Operation::ListXattr { path } => return self.xattr_names(path),
            Operation::List { path } => return names_in(&self.at(path)),
            Operation::ListWhileRemoving { path } => return self.list_while_removing(path),
            _ => unreachable!("not on attributes"),
        }
        Ok(Vec::new())
    }

    /// The names of the attributes without the hints, which the native side does not have.
    fn xattr_names(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut names: Vec<String> = xattr::list(self.at(path))?
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|name| !name.starts_with("user.intarsia."))
            .collect();
        names.sort();
        Ok(names.join(" ").into_bytes())
    }

    /// What was there before and stays must be listed once; what goes meanwhile at most once.
    fn list_while_removing(&self, path: &str) -> io::Result<Vec<u8>> {
        let dir = self.at(path);
        if !dir.is_dir() {
            return Err(io::Error::from_raw_os_error(20));
        }
        let at = |i: usize| dir.join(format!("temporary-name-to-fill-some-buffers-{i}"));
        for i in 0..400 {
            File::create(at(i))?;
        }
        let mut seen = BTreeMap::new();
        for (i, entry) in std::fs::read_dir(&dir)?.enumerate() {
            *seen.entry(entry?.file_name()).or_insert(0) += 1;
            if i < 100 {
                std::fs::remove_file(at(i))?;
            }
        }
        (100..400).for_each(|i| assert_eq!(seen.get(at(i).file_name().unwrap()), Some(&1), "{i}"));
        assert!(seen.values().all(|n| *n == 1), "listed twice");
        (100..400).try_for_each(|i| std::fs::remove_file(at(i)))?;
        names_in(&dir)
    }

    /// Everything below, in words that are equal on both sides.
    pub(crate) fn tree(&self) -> BTreeMap<String, Entry> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![String::new()];
        while let Some(dir) = waiting.pop() {
            for entry in std::fs::read_dir(self.at(&dir)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
                let entry = self.entry(&path);
                if entry.is_dir {
                    waiting.push(path.clone());
                }
                found.insert(path, entry);
            }
        }
        found
    }

    fn entry(&self, path: &str) -> Entry {
        let at = self.at(path);
        let meta = at.symlink_metadata().unwrap();
        let content = if meta.is_symlink() {
            std::fs::read_link(&at).unwrap().into_os_string().into_encoded_bytes()
        } else if meta.is_file() {
            let len = usize::try_from(meta.len().min(MAPPED_MAX_BYTES)).unwrap();
            read_at(&File::open(&at).unwrap(), 0, len).unwrap()
        } else {
            Vec::new()
        };
        let xattrs = if meta.is_symlink() { Vec::new() } else { self.xattr_names(path).unwrap() };
        Entry {
            words: format!("{} xattrs [{}]", describe(&meta), String::from_utf8_lossy(&xattrs)),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            content,
            is_dir: meta.is_dir(),
        }
    }
}

/// One path of a tree.
pub(crate) struct Entry {
    pub(crate) words: String,
    pub(crate) mtime: (i64, i64),
    pub(crate) content: Vec<u8>,
    is_dir: bool,
}

/// What must be equal. The length of a directory is each file system's own affair.
pub(crate) fn describe(meta: &Metadata) -> String {
    let len = if meta.is_dir() { 0 } else { meta.len() };
    format!(
        "mode {:o} links {} length {len} owner {}:{}",
        meta.mode(),
        meta.nlink(),
        meta.uid(),
        meta.gid()
    )
}

fn open(path: &std::path::Path, how: How) -> io::Result<File> {
    let mut flags = if how.creates { libc_flag::CREAT } else { 0 };
    if how.is_exclusive {
        flags |= libc_flag::EXCL;
    }
    if how.truncates && how.writes {
        flags |= libc_flag::TRUNC;
    }
    if how.appends {
        flags |= libc_flag::APPEND;
    }
    // The standard library refuses combinations that the kernel takes, so these pass it by.
    OpenOptions::new().read(true).write(how.writes).mode(0o644).custom_flags(flags).open(path)
}

mod libc_flag {
    use rustix::fs::OFlags;
    pub(super) const CREAT: i32 = OFlags::CREATE.bits().cast_signed();
    pub(super) const EXCL: i32 = OFlags::EXCL.bits().cast_signed();
    pub(super) const TRUNC: i32 = OFlags::TRUNC.bits().cast_signed();
    pub(super) const APPEND: i32 = OFlags::APPEND.bits().cast_signed();
}

const fn flags(how: Allocate) -> FallocateFlags {
    match how {
        Allocate::Grow => FallocateFlags::empty(),
        Allocate::KeepSize => FallocateFlags::KEEP_SIZE,
        Allocate::Punch => FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE),
        Allocate::Zero => FallocateFlags::ZERO_RANGE,
    }
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    intarsia_posix_tests::pattern(seed, len)
}

fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; len];
    let mut done = 0;
    while done < len {
        match file.read_at(&mut buffer[done..], offset + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    buffer.truncate(done);
    Ok(buffer)
}

/// Where data and holes are may differ; that holes read as zeros and follow each other may not.
fn holes_are_zero(file: &File) -> io::Result<Vec<u8>> {
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Ok(Vec::new());
    }
    let len = meta.len();
    let mut at = 0;
    while at < len {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => len,
            Err(e) => return Err(e.into()),
        };
        assert!(data >= at && data <= len, "data at {data} sought from {at} of {len}");
        let sample = usize::try_from((data - at).min(MAPPED_MAX_BYTES)).unwrap();
        assert!(read_at(file, at, sample)?.iter().all(|b| *b == 0), "a hole with data in it");
        if data == len {
            break;
        }
        at = rustix::fs::seek(file, SeekFrom::Hole(data))?;
        assert!(at > data && at <= len, "a hole at {at} after data at {data} of {len}");
    }
    Ok(Vec::new())
}

fn copy(from: &File, from_offset: u64, to: &File, to_offset: u64, len: usize) -> io::Result<()> {
    let (mut from_offset, mut to_offset, mut left) = (from_offset, to_offset, len);
    while left > 0 {
        match rustix::fs::copy_file_range(
            from,
            Some(&mut from_offset),
            to,
            Some(&mut to_offset),
            left,
        )? {
            0 => break,
            n => left -= n,
        }
    }
    Ok(())
}

/// Stores through a mapping within the file, and answers what the mapping then shows.
fn map(file: &File, offset: u64, len: usize, seed: u64) -> io::Result<Vec<u8>> {
    let meta = file.metadata()?;
    let size = meta.len().min(MAPPED_MAX_BYTES);
    if !meta.is_file() || offset >= size {
        return Ok(Vec::new());
    }
    let (size, offset) = (usize::try_from(size).unwrap(), usize::try_from(offset).unwrap());
    let mut mapping = Mapping::new(file, 0, size)?;
    mapping.store(offset, &bytes(seed, len.min(size - offset)));
    mapping.sync()?;
    Ok(mapping.load(0, size))
}

fn names_in(dir: &std::path::Path) -> io::Result<Vec<u8>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        names.push(format!("{} {:?}", entry.file_name().display(), entry.file_type()?));
    }
    names.sort();
    Ok(names.join(" ").into_bytes())
}
