//! A log of what programs do with files: who opens what, which bytes move, what becomes of names.
//!
//! Owns that log while one is written, the thread that writes it, and what is known of open files and processes
//! meanwhile.
//! Asks nothing of other rooms: the mount tells it of each call.
//! Promises that it holds up and fails no call, and costs one look at a flag while nothing is recorded. What cannot be
//! written is counted, and the log says how much that was. A simulation does not record: the thread waits for the
//! system.

mod counting;
mod names;
mod open_file;
mod processes;
mod session;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use intarsia_meta::RenameMode;
use intarsia_sync::{Instant, Mutex, RwLock};
use intarsia_trace::NameChange;
pub use intarsia_trace::{Access, Detail, Direction};
use intarsia_types::{Attr, ByteCount, Error, FileKind, InodeId, Result};
use serde::Serialize;

pub(crate) use session::Place;
use session::Session;

/// The directory of logs in a store's directory.
pub const RECORDS_DIRECTORY: &str = "record";

/// What is told of a file that was opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenedFile {
    /// Number of the open file, never used again.
    pub handle: u64,
    /// Who opens it: the system's number of a thread.
    pub thread: u32,
    /// The file.
    pub ino: InodeId,
    /// What for.
    pub access: Access,
    /// When the request came.
    pub came: Instant,
}

/// A name that was changed.
#[derive(Clone, Copy, Debug)]
pub struct ChangedName<'a> {
    /// Who: the system's number of a thread.
    pub thread: u32,
    /// How.
    pub change: NameChange,
    /// The directory and the name there.
    pub old: (InodeId, &'a [u8]),
    /// Of a move or link the new ones.
    pub new: Option<(InodeId, &'a [u8])>,
    /// When the request came.
    pub came: Instant,
}

/// How a recording stands. Field names are stable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordStatus {
    /// How much is recorded.
    pub detail: Detail,
    /// The log that is written, or the last one.
    pub log: Option<PathBuf>,
    /// Its length so far.
    pub log_bytes: u64,
    /// Records that were left out for want of room.
    pub lost_records: u64,
    /// Why a recording ended by itself, in words.
    pub ended: Option<String>,
}

/// Records what is done, when asked to.
#[derive(Default)]
pub struct Recorder {
    /// The detail that is in force, where every call looks.
    detail: AtomicU8,
    session: RwLock<Option<Arc<Session>>>,
    /// What the last recording came to.
    last: Mutex<RecordStatus>,
}

impl Recorder {
    /// Whether files are to be served through the process, so that each request is seen.
    #[must_use]
    pub fn wants_requests(&self) -> bool {
        self.detail.load(Ordering::Relaxed) == Detail::Fine as u8
    }

    /// What goes on, if anything is recorded.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        if self.detail.load(Ordering::Relaxed) == Detail::Off as u8 {
            return None;
        }
        self.session.read().clone().filter(|session| !session.has_ended())
    }

    /// A name was looked up, listed or made.
    pub fn named(&self, directory: InodeId, name: &[u8], attr: &Attr) {
        if attr.kind == FileKind::Regular
            && let Some(session) = self.session()
        {
            session.names.learn(attr.ino, directory, name);
        }
    }

    /// Bytes of an open file were read or written through the process.
    pub fn moved(&self, handle: u64, direction: Direction, bytes: (u64, usize), came: Instant) {
        if let Some(session) = self.session() {
            session.moved(handle, direction, bytes, came);
        }
    }

    /// How the recording stands.
    #[must_use]
    pub fn status(&self) -> RecordStatus {
        match &*self.session.read() {
            Some(session) => session.status(),
            None => self.last.lock().clone(),
        }
    }

    pub(crate) fn begin(&self, place: &Place, detail: Detail) -> Result<()> {
        self.end();
        if detail == Detail::Off {
            return Ok(());
        }
        let session = Session::start(place, detail)
            .map_err(|e| Error::io(format!("begin a record in {}", place.dir.display()), e))?;
        *self.session.write() = Some(session);
        self.detail.store(detail as u8, Ordering::Release);
        Ok(())
    }

    /// Ends what goes on; its log is whole then.
    pub(crate) fn end(&self) {
        self.detail.store(Detail::Off as u8, Ordering::Release);
        let ended = self.session.write().take();
        if let Some(session) = ended {
            session.end();
            *self.last.lock() = RecordStatus { detail: Detail::Off, ..session.status() };
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.end();
    }
}

/// How a rename is recorded.
#[must_use]
pub const fn recorded_as(mode: RenameMode) -> NameChange {
    match mode {
        RenameMode::Exchange => NameChange::Exchange,
        RenameMode::Replace | RenameMode::NoReplace => NameChange::Rename,
    }
}

/// The most that a log may take, where nobody says.
pub(crate) const LIMIT: ByteCount = ByteCount::mib(256);

/// A log of a host in a directory, by the moment when it begins.
fn log_name(dir: &Path, host: &str, unix_ns: u64) -> PathBuf {
    // Names of hosts have no slashes; whatever they have does not lead elsewhere.
    let host: String = host.chars().map(|c| if c == '/' { '_' } else { c }).collect();
    dir.join(format!("{host}-{unix_ns}.trace"))
}
