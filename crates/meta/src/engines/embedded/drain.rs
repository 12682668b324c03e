//! The drain: a thread that writes the front out to the tables when it has grown large.

use std::sync::Arc;
use std::time::Duration;

use intarsia_sync::thread::JoinHandle;
use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Error, Result};

use super::front::Layer;
use super::log::Log;
use super::{Core, State, Tables};
use crate::engines::Changes;

/// If the active layer grows to so many times the size at which it is to be written out, commits wait.
const FULL_LAYERS: u64 = 3;
/// How long one commit waits at most. After that memory may grow, which is better than a call that hangs.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Most records that are written in one batch.
const BATCH_RECORDS: usize = 2048;
/// After so many new tables, however small, the LSM store has surely merged the first of them with the older ones: it merges
/// when it has gathered half as many.
const MERGE_TABLES: u8 = 8;
/// The pause between two looks at tables that are crowded.
const PAUSE: Duration = Duration::from_millis(5);
/// The pause after a failure to write out.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The least time between two attempts to win space back on a disk that is nearly full.
const LOW_PAUSE: Duration = Duration::from_millis(500);

/// How full the front is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fill {
    /// Nothing is to be done.
    Fine,
    /// It is to be written out.
    Large,
    /// Commits are to wait until it is written out.
    Full,
}

/// How full the front is, by the active layer or the newest log file, whichever has more bytes: the log also has long values,
/// and all earlier values of a record that is changed again and again.
pub(super) fn fill(state: &State, layer_bytes: u64) -> Fill {
    let bytes = state.front.active.bytes().max(state.log.newest_bytes());
    match bytes {
        bytes if bytes < layer_bytes => Fill::Fine,
        bytes if bytes < FULL_LAYERS * layer_bytes => Fill::Large,
        _ => Fill::Full,
    }
}

/// The thread of the drain. Dropping this ends the thread; what has not been written out stays in the log.
pub(super) struct Drain {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    signals: Mutex<Signals>,
    changed: Condvar,
}

#[derive(Default)]
struct Signals {
    /// The thread is to look whether there is something to write out.
    is_wanted: bool,
    /// The disk was found nearly full, and nothing has been done about that yet.
    is_low: bool,
    /// The last attempt to write out failed. So commits do not wait for the next one, in particular not those that remove
    /// something from a full disk.
    is_failing: bool,
    /// When something was last done about a disk that is nearly full.
    tended: Option<Instant>,
    is_stopping: bool,
    /// Layers written out so far.
    written: u64,
}

impl Drain {
    pub(super) fn start(core: Arc<Core>) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        let thread = intarsia_sync::thread::Builder::new()
            .name("meta-drain".into())
            .spawn(move || run(&core, &for_thread))
            .map_err(|e| Error::io("start the metadata drain", e))?;
        let drain = Self { shared, thread: Some(thread) };
        drain.want();
        Ok(drain)
    }

    /// To be called after a commit: has the front written out if it is large, and waits for that if it is full.
    pub(super) fn note_fill(&self, fill: Fill) {
        match fill {
            Fill::Fine => {}
            Fill::Large => self.want(),
            Fill::Full => self.wait(),
        }
    }

    /// To be called when the disk is nearly full: has the front written out, however little it holds, so that what was removed
    /// leaves the disk soon, and has a database opened again that failed on the full disk.
    pub(super) fn note_low(&self) {
        let mut signals = self.shared.signals.lock();
        let is_due = signals.tended.is_none_or(|at| at.elapsed() >= LOW_PAUSE);
        if !signals.is_low && is_due {
            signals.is_low = true;
            signals.is_wanted = true;
            self.shared.changed.notify_all();
        }
    }

    fn want(&self) {
        let mut signals = self.shared.signals.lock();
        if !signals.is_wanted {
            signals.is_wanted = true;
            self.shared.changed.notify_all();
        }
    }

    fn wait(&self) {
        self.want();
        let deadline = Instant::now() + WAIT_MAX;
        let mut signals = self.shared.signals.lock();
        let before = signals.written;
        while signals.written == before && !signals.is_stopping && !signals.is_failing {
            if self.shared.changed.wait_until(&mut signals, deadline).timed_out() {
                return;
            }
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.shared.signals.lock().is_stopping = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the metadata drain had panicked");
        }
    }
}

impl Shared {
    /// Sleeps until there is work; false when the thread has to end.
    fn wait_for_work(&self) -> bool {
        let mut signals = self.signals.lock();
        while !signals.is_wanted && !signals.is_stopping {
            self.changed.wait(&mut signals);
        }
        signals.is_wanted = false;
        !signals.is_stopping
    }

    /// Whether the disk is nearly full and it is time to do something about it.
    fn take_low(&self) -> bool {
        let mut signals = self.signals.lock();
        let is_low = std::mem::take(&mut signals.is_low);
        if is_low {
            signals.tended = Some(Instant::now());
        }
        is_low
    }

    /// Sleeps for `pause`; false when the thread has to end.
    fn rest(&self, pause: Duration) -> bool {
        let mut signals = self.signals.lock();
        self.changed.wait_while_for(&mut signals, |s| !s.is_stopping, pause);
        !signals.is_stopping
    }

    fn note_written(&self) {
        let mut signals = self.signals.lock();
        signals.written += 1;
        signals.is_failing = false;
        self.changed.notify_all();
    }

    fn note_failure(&self) {
        self.signals.lock().is_failing = true;
        self.changed.notify_all();
    }
}

fn run(core: &Core, shared: &Shared) {
    // What was removed before the start may still be on the disk.
    let mut merges = Merges(MERGE_TABLES);
    while shared.wait_for_work() {
        let least = if shared.take_low() { Fill::Fine } else { Fill::Large };
        match core.drain_once(shared, least, &mut merges) {
            Ok(true) => shared.note_written(),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "the metadata stays in the log for now");
                shared.note_failure();
                if shared.rest(RETRY_PAUSE) {
                    shared.signals.lock().is_wanted = true;
                }
            }
        }
    }
}

/// How many more tables it takes until the LSM store has surely merged the newest removals with what they remove. It merges
/// only when new tables come, and on a full disk none come by themselves.
struct Merges(u8);

impl Core {
    /// Seals the active layer if it is filled at least to `least`, writes the sealed one out to the tables, and removes the log
    /// files that hold nothing else. Returns whether something was written out.
    fn drain_once(&self, shared: &Shared, least: Fill, merges: &mut Merges) -> Result<bool> {
        let Some((layer, first_needed)) = self.seal(least)? else {
            if least == Fill::Fine && merges.0 > 0 {
                merges.0 -= 1;
                self.tables()?.seal_with_nothing()?;
            }
            return Ok(false);
        };
        let mut records = layer.iter();
        loop {
            let batch: Vec<_> = records.by_ref().take(BATCH_RECORDS).collect();
            if batch.is_empty() {
                break;
            }
            let tables = self.tables()?;
            let mut changes = Changes::with_capacity(batch.len());
            for (key, held) in batch {
                // What was made and removed since the last time need not be removed from the tables.
                if !held.is_removed() || tables.get(key)?.is_some() {
                    if held.is_removed() {
                        merges.0 = MERGE_TABLES;
                    }
                    changes.push((key.clone(), held.value()?));
                }
            }
            tables.write(&changes).map_err(super::failed("write out"))?;
            tables.seal_full()?;
            while tables.is_crowded() {
                if tables.has_failed() {
                    return Err(super::closed());
                }
                if !shared.rest(PAUSE) {
                    return Ok(false);
                }
            }
        }
        let tables = self.tables()?;
        tables.persist()?;
        if least == Fill::Fine {
            tables.seal_all()?;
        }
        let files = {
            let mut state = self.state.write();
            state.front.sealed = None;
            state.log.files()
        };
        Log::retire(&files, first_needed)?;
        Ok(true)
    }

    /// The layer that is to be written out, and the number of the first log file that holds something newer; `None` if there is
    /// nothing to write out.
    fn seal(&self, least: Fill) -> Result<Option<(Arc<Layer>, u64)>> {
        let mut state = self.state.write();
        let state = &mut *state;
        if let Some(sealed) = &state.front.sealed {
            // Writing it out has failed before. A new log file was begun when it was sealed.
            return Ok(Some((Arc::clone(sealed), state.log.first_after_seal())));
        }
        if fill(state, self.layer_bytes) < least || state.front.active.is_empty() {
            return Ok(None);
        }
        let first_needed = state.log.rotate()?;
        let sealed = Arc::new(std::mem::take(&mut state.front.active));
        state.front.sealed = Some(Arc::clone(&sealed));
        Ok(Some((sealed, first_needed)))
    }

    fn tables(&self) -> Result<Arc<Tables>> {
        let mut state = self.state.write();
        self.usable(&mut state.tables)
    }
}
