//! What this host knows of rights to write that no live file here has: those that it has passed on and not asked for since,
//! for which it need not ask the metadata; and those that the metadata may say it has, because a commit had no answer.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use intarsia_meta::{Namespace, WriteLease};
use intarsia_sync::{Instant, Mutex};
use intarsia_types::{Error, InodeId, Result};

use crate::background::queue::Queue;
use crate::space::ledger::is_uncertain;

/// Most files that are remembered; of others the record is asked.
const FILES_MAX: usize = 4096;

pub(crate) struct Passed {
    files: Mutex<HashSet<InodeId>>,
    /// Since when it is not known who has the right.
    unsure: Mutex<HashMap<Unsure, Instant>>,
    /// When this process began, until it has looked for what its lives before may have got since.
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
    /// A file that it asked for.
    File(InodeId),
    /// A new file, if it was created: its directory and name.
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

    /// Another host is about to pass the right on to this one, whether the metadata's answer comes or not.
    pub(super) fn forget(&self, ino: InodeId) {
        self.files.lock().remove(&ino);
    }

    /// Asks for the right to write to a file, which this host has from the moment on that the metadata say so, whether
    /// their answer comes or not.
    pub(crate) fn acquire_write(&self, namespace: &Namespace, ino: InodeId) -> Result<WriteLease> {
        self.forget(ino);
        namespace.acquire_write(ino).inspect_err(|error| self.doubt(ino, error))
    }

    /// A change of who may write failed with `error`; without an answer the metadata may say that this host may, which
    /// nothing here knows of.
    pub(crate) fn doubt(&self, ino: InodeId, error: &Error) {
        if is_uncertain(error) {
            self.doubt_again(Unsure::File(ino));
        }
    }

    /// The same of a file that was to be created.
    pub(crate) fn doubt_new(&self, parent: InodeId, name: &[u8], error: &Error) {
        if is_uncertain(error) {
            self.doubt_again(Unsure::New(parent, name.into()));
        }
    }

    /// This host may have the right to write to a file, or get it yet, without that anybody here knows: the collector asks.
    pub(crate) fn doubt_right(&self, ino: InodeId, collector: &Queue) {
        self.doubt_again(Unsure::File(ino));
        collector.collect();
    }

    /// It is not known, or still not.
    pub(super) fn doubt_again(&self, file: Unsure) {
        self.unsure.lock().insert(file, Instant::now());
    }

    /// Those files whose change was so long ago that it is made by now or never.
    pub(super) fn take_unsure(&self, age: Duration) -> Vec<Unsure> {
        let mut unsure = self.unsure.lock();
        unsure.extract_if(|_, since| since.elapsed() >= age).map(|(file, _)| file).collect()
    }

    /// Whether this process began so long ago, and has not looked since for rights that its lives before got late.
    pub(super) fn awaits_late_rights(&self, age: Duration) -> bool {
        self.begun.lock().is_some_and(|begun| begun.elapsed() >= age)
    }

    /// It has.
    pub(super) fn has_found_late_rights(&self) {
        *self.begun.lock() = None;
    }
}
