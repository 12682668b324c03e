//! Rights to write that no live file here has. Either this host passed the right on and has not asked for it since: then it
//! need not ask the metadata whether it has it. Or a commit had no answer, and the metadata may say that this host has the
//! right: then that is found out, and the right is given back.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use intarsia_meta::{Namespace, WriteLease};
use intarsia_sync::{Instant, Mutex};
use intarsia_types::{Error, InodeId, Result};

use crate::background::queue::Queue;
use crate::space::ledger::is_uncertain;

/// Most files that are remembered; for others the record is read.
const FILES_MAX: usize = 4096;

pub(crate) struct Passed {
    files: Mutex<HashSet<InodeId>>,
    /// Files of which it is not known whether this host has the right, and since when.
    unsure: Mutex<HashMap<Unsure, Instant>>,
    /// When this process began; none once it has looked for rights that earlier lives of this host may have got since.
    begun: Mutex<Option<Instant>>,
}

impl Default for Passed {
    fn default() -> Self {
        let begun = Mutex::new(Some(Instant::now()));
        Self { files: Mutex::default(), unsure: Mutex::default(), begun }
    }
}

/// A file that this host may have the right to write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unsure {
    /// A file whose right it asked for.
    File(InodeId),
    /// A new file, which may have been created or not: its directory and name.
    New(InodeId, Box<[u8]>),
}

impl Passed {
    pub(super) fn note(&self, ino: InodeId) {
        let mut files = self.files.lock();
        if files.len() >= FILES_MAX {
            files.clear();
        }
        files.insert(ino);
    }

    pub(super) fn contains(&self, ino: InodeId) -> bool {
        self.files.lock().contains(&ino)
    }

    /// This host is about to get the right: it is not known any more to be passed on.
    pub(super) fn forget(&self, ino: InodeId) {
        self.files.lock().remove(&ino);
    }

    /// Asks the metadata for the right to write to a file. If no answer comes, this host may have the right all the same, and
    /// that is noted.
    pub(crate) fn acquire_write(&self, namespace: &Namespace, ino: InodeId) -> Result<WriteLease> {
        self.forget(ino);
        namespace.acquire_write(ino).inspect_err(|error| self.doubt(ino, error))
    }

    /// A change of who may write failed with `error`. If that means that there was no answer, this host may have the right
    /// without knowing.
    pub(crate) fn doubt(&self, ino: InodeId, error: &Error) {
        if is_uncertain(error) {
            self.doubt_again(Unsure::File(ino));
        }
    }

    /// As [`doubt`](Self::doubt), for a file that was to be created.
    pub(crate) fn doubt_new(&self, parent: InodeId, name: &[u8], error: &Error) {
        if is_uncertain(error) {
            self.doubt_again(Unsure::New(parent, name.into()));
        }
    }

    /// This host may have the right to write to a file, or may still get it, without knowing: the collector finds out.
    pub(crate) fn doubt_right(&self, ino: InodeId, collector: &Queue) {
        self.doubt_again(Unsure::File(ino));
        collector.collect();
    }

    /// It is not known, or still not known, whether this host has the right.
    pub(super) fn doubt_again(&self, file: Unsure) {
        self.unsure.lock().insert(file, Instant::now());
    }

    /// Takes the files whose change is at least `age` old: by then it has taken effect, or never will.
    pub(super) fn take_unsure(&self, age: Duration) -> Vec<Unsure> {
        let mut unsure = self.unsure.lock();
        unsure.extract_if(|_, since| since.elapsed() >= age).map(|(file, _)| file).collect()
    }

    /// Whether this process began at least `age` ago and has not looked yet for rights that earlier lives got late.
    pub(super) fn awaits_late_rights(&self, age: Duration) -> bool {
        self.begun.lock().is_some_and(|begun| begun.elapsed() >= age)
    }

    /// This process has looked for them.
    pub(super) fn has_found_late_rights(&self) {
        *self.begun.lock() = None;
    }
}
