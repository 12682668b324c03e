//! Backing files made in advance, so that creating a file costs no file creation below.
//!
//! Every pooled file stands in the ledger of free files (the metadata engine keeps it) from before it
//! exists until an inode takes it, so a crash leaves no file that nobody knows of.

use std::collections::VecDeque;

use intarsia_types::BackingFileId;
use parking_lot::Mutex;

use crate::BackingFile;

/// An empty backing file, ready for an owner, open for reading.
#[derive(Debug)]
pub struct PooledFile {
    /// Its number.
    pub id: BackingFileId,
    /// Its descriptor.
    pub file: BackingFile,
}

/// The pool of one tier.
#[derive(Debug)]
pub struct Pool {
    ready: Mutex<VecDeque<PooledFile>>,
    target: usize,
}

impl Pool {
    /// A pool that aims at `target` ready files.
    #[must_use]
    pub const fn new(target: usize) -> Self {
        Self { ready: Mutex::new(VecDeque::new()), target }
    }

    /// A ready file, if there is one.
    pub fn take(&self) -> Option<PooledFile> {
        self.ready.lock().pop_front()
    }

    /// Takes a clean file back; `false` when the pool is full and the file must be removed instead.
    #[must_use]
    pub fn put(&self, file: PooledFile) -> bool {
        let mut ready = self.ready.lock();
        let has_room = ready.len() < self.target * 2;
        if has_room {
            ready.push_back(file);
        }
        has_room
    }

    /// Ready files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ready.lock().len()
    }

    /// Whether a file is one of them.
    #[must_use]
    pub fn holds(&self, id: BackingFileId) -> bool {
        self.ready.lock().iter().any(|file| file.id == id)
    }

    /// Whether no file is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many files are missing; 0 until half of the pool is used, so that refills come in batches.
    #[must_use]
    pub fn shortage(&self) -> usize {
        let ready = self.len();
        if ready * 2 > self.target { 0 } else { self.target - ready }
    }

    /// Adds files that were just made.
    pub fn add(&self, files: Vec<PooledFile>) {
        self.ready.lock().extend(files);
    }

    /// Empties the pool, for a clean stop.
    pub fn drain(&self) -> Vec<PooledFile> {
        self.ready.lock().drain(..).collect()
    }
}
