//! A whole tree, on several threads. What fails is noted, and the rest goes on.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::transfer::{self, Copied};
use super::{Entry, Item, Kind, Manifest, PathText, Recorded, Tree, What, attributes};

/// Something that was not copied, and why.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Failed {
    pub(crate) path: PathText,
    pub(crate) error: String,
}

impl Failed {
    pub(super) fn new(path: &Path, error: &Error) -> Self {
        Self { path: path.into(), error: error.to_string() }
    }
}

/// What was done.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Summary {
    /// Files at the destination that are verified, copied now or there before.
    pub(crate) files: usize,
    /// Bytes of these.
    pub(crate) bytes: u64,
    /// Of these files, those copied now.
    pub(crate) copied: usize,
    /// Bytes copied now.
    pub(crate) copied_bytes: u64,
    pub(crate) directories: usize,
    /// Symbolic and hard links.
    pub(crate) links: usize,
    /// Files that were not tried because the destination is full.
    pub(crate) not_tried: usize,
    pub(crate) failed: Vec<Failed>,
    /// The files and links that are done, by their paths at the destination.
    #[serde(skip)]
    pub(crate) done: Vec<PathBuf>,
}

impl Summary {
    pub(crate) fn is_whole(&self) -> bool {
        self.failed.is_empty() && self.not_tried == 0
    }
}

/// What to copy where, and how.
pub(crate) struct Job<'a> {
    pub(crate) destination: &'a Path,
    pub(crate) manifest: Option<&'a Manifest>,
    /// What the manifest said before.
    pub(crate) recorded: &'a Recorded,
    pub(crate) threads: usize,
    /// Told of bytes that were copied or verified.
    pub(crate) progress: &'a (dyn Fn(u64) + Sync),
}

/// Copies or verifies all of a tree.
pub(crate) fn run(job: &Job<'_>, tree: &Tree) -> Summary {
    let state = State {
        job,
        is_full: AtomicBool::new(false),
        summary: Mutex::new(Summary { failed: tree.failed.clone(), ..Summary::default() }),
    };
    let of = |wanted: fn(&What) -> bool| -> Vec<&Item> {
        tree.items.iter().filter(|item| wanted(&item.what)).collect()
    };
    let directories = of(|what| *what == What::Directory);
    directories
        .iter()
        .for_each(|item| state.note(item, make_directory(&state.place(item), &item.meta)));
    state.in_parallel(&of(|what| matches!(what, What::File | What::Symlink(_))));
    // Their files are there now.
    of(|what| matches!(what, What::HardLink(_))).into_iter().for_each(|item| state.one(item));
    for item in directories.iter().rev() {
        state.note(item, state.finish_directory(item));
    }
    state.sync(tree);
    state.summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}

struct State<'a> {
    job: &'a Job<'a>,
    is_full: AtomicBool,
    summary: Mutex<Summary>,
}

impl State<'_> {
    fn place(&self, item: &Item) -> PathBuf {
        self.job.destination.join(&item.path)
    }

    fn count(&self, change: impl FnOnce(&mut Summary)) {
        change(&mut self.summary.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn note(&self, item: &Item, outcome: Result<()>) {
        let Err(error) = outcome else { return };
        if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            self.is_full.store(true, Ordering::Release);
        }
        self.count(|summary| summary.failed.push(Failed::new(&item.source, &error)));
    }

    fn in_parallel(&self, items: &[&Item]) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.one(item);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.job.threads.min(items.len()).max(1) {
                scope.spawn(work);
            }
        });
    }

    fn one(&self, item: &Item) {
        if self.is_full.load(Ordering::Acquire) {
            return self.count(|summary| summary.not_tried += 1);
        }
        let outcome = match &item.what {
            What::File => self.file(item),
            What::Symlink(target) => self.symlink(item, target),
            What::HardLink(first) => self.hard_link(item, first),
            What::Directory => Ok(()),
        };
        if outcome.is_ok() {
            self.count(|summary| summary.done.push(item.path.clone()));
        }
        self.note(item, outcome);
    }

    fn file(&self, item: &Item) -> Result<()> {
        let path = self.place(item);
        let (entry, is_copied) = match self.verify_there(item, &path)? {
            Some(entry) => (entry, false),
            None => {
                let Copied { meta, sum, xattrs } =
                    transfer::copy(&item.source, &path, &self.job.progress)?;
                let entry = Entry::new(&item.path, Kind::File, &meta).with_xattrs(&xattrs);
                (Entry { sum: Some(sum), ..entry }, true)
            }
        };
        if is_copied || self.job.recorded.entries.get(&item.path) != Some(&entry) {
            self.record(&entry)?;
        }
        self.count(|summary| {
            summary.files += 1;
            summary.bytes += entry.bytes;
            summary.copied += usize::from(is_copied);
            summary.copied_bytes += if is_copied { entry.bytes } else { 0 };
        });
        Ok(())
    }

    /// What the destination has already, if it is the same by length, time and sum.
    fn verify_there(&self, item: &Item, path: &Path) -> Result<Option<Entry>> {
        let there = match std::fs::symlink_metadata(path) {
            Ok(there) if there.is_file() => there,
            Ok(there) if there.is_dir() => {
                return Err(Error::new(ErrorKind::IsADirectory, "a directory is in its place"));
            }
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => return Ok(None),
        };
        let time = |m: &Metadata| (m.len(), m.mtime(), m.mtime_nsec());
        if time(&there) != time(&item.meta) {
            return Ok(None);
        }
        let recorded = self.job.recorded.entries.get(&item.path).filter(|e| e.fits(&item.meta));
        let expected = match recorded.and_then(|entry| entry.sum.clone()) {
            Some(sum) => sum,
            None => transfer::sum_file(&item.source)?,
        };
        if transfer::sum_file(path)? != expected {
            return Ok(None);
        }
        (self.job.progress)(item.meta.len());
        let source = File::open(&item.source)?;
        let xattrs = attributes::xattrs(&source)?;
        attributes::apply(File::open(path)?, &item.meta, &xattrs)?;
        let entry = Entry::new(&item.path, Kind::File, &item.meta).with_xattrs(&xattrs);
        Ok(Some(Entry { sum: Some(expected), ..entry }))
    }

    fn symlink(&self, item: &Item, target: &Path) -> Result<()> {
        let path = self.place(item);
        if std::fs::read_link(&path).ok().as_deref() != Some(target) {
            transfer::symlink(target, &path, &item.meta)?;
        }
        let entry = Entry::new(&item.path, Kind::Symlink, &item.meta);
        self.link_done(&Entry { target: Some(target.into()), ..entry })
    }

    fn hard_link(&self, item: &Item, first: &Path) -> Result<()> {
        let (path, first_path) = (self.place(item), self.job.destination.join(first));
        let id = |path: &Path| std::fs::symlink_metadata(path).map(|m| (m.dev(), m.ino()));
        let original = id(&first_path)?;
        if id(&path).ok() != Some(original) && transfer::hard_link(&first_path, &path).is_err() {
            // A file system without hard links gets another copy.
            return self.file(item);
        }
        let entry = Entry::new(&item.path, Kind::Hardlink, &item.meta);
        self.link_done(&Entry { target: Some(first.into()), ..entry })
    }

    fn link_done(&self, entry: &Entry) -> Result<()> {
        if self.job.recorded.entries.get(&entry.path.path()) != Some(entry) {
            self.record(entry)?;
        }
        self.count(|summary| summary.links += 1);
        Ok(())
    }

    /// After what is in it, because that changes its times.
    fn finish_directory(&self, item: &Item) -> Result<()> {
        let path = self.place(item);
        let xattrs = attributes::xattrs(File::open(&item.source)?)?;
        attributes::apply(File::open(&path)?, &item.meta, &xattrs)?;
        let entry = Entry::new(&item.path, Kind::Directory, &item.meta).with_xattrs(&xattrs);
        if self.job.recorded.entries.get(&item.path) != Some(&entry) {
            self.record(&entry)?;
        }
        self.count(|summary| summary.directories += 1);
        Ok(())
    }

    fn record(&self, entry: &Entry) -> Result<()> {
        self.job.manifest.map_or(Ok(()), |manifest| manifest.add(entry))
    }

    /// The names too are to last before success is said.
    fn sync(&self, tree: &Tree) {
        let parents = tree.items.iter().filter_map(|item| item.path.parent());
        let parents: BTreeSet<&Path> = parents.chain([Path::new("")]).collect();
        for parent in parents {
            let path = self.job.destination.join(parent);
            match File::open(&path).and_then(|dir| dir.sync_all()) {
                Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
                    self.count(|summary| summary.failed.push(Failed::new(&path, &e)));
                }
                _ => {}
            }
        }
        if let Some(Err(e)) = self.job.manifest.map(Manifest::sync) {
            let failed = Failed { path: PathText::Text("manifest".into()), error: e.to_string() };
            self.count(|summary| summary.failed.push(failed));
        }
    }
}

/// Writable for the caller until all is in it; the attributes of its source come after.
fn make_directory(path: &Path, meta: &Metadata) -> Result<()> {
    let mode = (meta.mode() & 0o777) | 0o700;
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    }
}
