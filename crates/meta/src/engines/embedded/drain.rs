//! Writes the front out to the tables, in the background, when it has grown large.

use std::sync::Arc;
use std::time::Duration;

use intarsia_sync::thread::JoinHandle;
use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Error, Result};

use super::front::Layer;
use super::log::Log;
use super::{Core, State, Tables};
use crate::engines::Changes;

/// With the active layer so many times its size while the sealed one is being written, commits wait.
const FULL_LAYERS: u64 = 3;
/// How long one commit waits at most; then memory grows rather than that anybody hangs.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Records written in one batch.
const BATCH_RECORDS: usize = 2048;
/// So many tables, however small, the store gathers before it merges them with the older ones, twice over.
const MERGE_TABLES: u8 = 8;
/// Between two looks at tables that are crowded, or failed.
const PAUSE: Duration = Duration::from_millis(5);
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Between two attempts to win space back on a disk that is nearly full.
const LOW_PAUSE: Duration = Duration::from_millis(500);

/// How full the front is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fill {
    Fine,
    /// To be written out.
    Large,
    /// Commits are to wait.
    Full,
}

/// Judged by the longer of layer and log: the log also has long values, and the past of what is changed
/// again and again.
pub(super) fn fill(state: &State, layer_bytes: u64) -> Fill {
    let bytes = state.front.active.bytes().max(state.log.newest_bytes());
    match bytes {
        bytes if bytes < layer_bytes => Fill::Fine,
        bytes if bytes < FULL_LAYERS * layer_bytes => Fill::Large,
        _ => Fill::Full,
    }
}

/// Owns the thread. Dropping it stops the thread; what is not written out stays in the log.
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
    is_wanted: bool,
    /// The disk was found nearly full, and nothing was done about it yet.
    is_low: bool,
    /// The last attempt to write out failed: waiting for it helps nobody, least of all who removes things
    /// from a full disk.
    is_failing: bool,
    /// When something was done about it last.
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

    /// After a commit: has the front written out, or waits for that.
    pub(super) fn note_fill(&self, fill: Fill) {
        match fill {
            Fill::Fine => {}
            Fill::Large => self.want(),
            Fill::Full => self.wait(),
        }
    }

    /// The disk is nearly full: what was removed is to leave it soon, however little that is, and a
    /// database whose worker failed on the full disk is to be opened again.
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
    /// Sleeps until there is work; false when the thread must end.
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

    /// Sleeps for a while; false when the thread must end.
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
    // What was removed before the start may still be on the disk as well.
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

/// How many more tables it takes until the store has surely merged the newest removals with what they
/// remove. Without new writes it would wait for them for ever, and a full disk takes none.
struct Merges(u8);

impl Core {
    /// Seals the active layer if it is filled so far, writes the sealed one out, and lets its log files go.
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
                // What came and went since the last time leaves no trace.
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

    /// The sealed layer, and the number of the first log file that holds something newer.
    fn seal(&self, least: Fill) -> Result<Option<(Arc<Layer>, u64)>> {
        let mut state = self.state.write();
        let state = &mut *state;
        if let Some(sealed) = &state.front.sealed {
            // A failure interrupted its writing; the log was turned over for it then.
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
