//! Forces the log to stable storage: at once for callers of `sync`, and in the background for all other commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use intarsia_sync::thread::JoinHandle;
use intarsia_sync::{Condvar, Mutex};
use intarsia_types::{Error, Result};

use super::log::LogFiles;

/// The background thread, if there is one. Dropping this ends the thread and forces out what is left.
pub(super) struct Flusher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    log: LogFiles,
    /// The number of commits so far.
    committed: AtomicU64,
    /// Whether the background thread sleeps because there is nothing to do, so that a commit has to wake it.
    parked: AtomicBool,
    syncs: AtomicU64,
    group: Mutex<Group>,
    group_done: Condvar,
    stop: Mutex<bool>,
    wake: Condvar,
}

/// The callers that wait for a flush: one of them makes it, for all.
#[derive(Default)]
struct Group {
    /// All commits up to this number are on stable storage.
    synced: u64,
    flushing: bool,
}

impl Flusher {
    /// Starts the background thread if there is an interval to keep.
    pub(super) fn start(log: LogFiles, interval: Option<Duration>) -> Result<Self> {
        let shared = Arc::new(Shared {
            log,
            committed: AtomicU64::new(0),
            parked: AtomicBool::new(false),
            syncs: AtomicU64::new(0),
            group: Mutex::default(),
            group_done: Condvar::new(),
            stop: Mutex::new(false),
            wake: Condvar::new(),
        });
        let thread = interval.map(|interval| spawn(Arc::clone(&shared), interval)).transpose()?;
        Ok(Self { shared, thread })
    }

    /// Counts a commit and wakes the background thread if it is parked.
    pub(super) fn note_commit(&self) {
        self.shared.committed.fetch_add(1, Ordering::SeqCst);
        if self.shared.parked.swap(false, Ordering::SeqCst) {
            // Under the lock, so that the thread is not woken between its check and its wait, when it would miss that.
            let _stop = self.shared.stop.lock();
            self.shared.wake.notify_one();
        }
    }

    /// Returns when all commits that were noted before are on stable storage.
    pub(super) fn sync(&self) -> Result<()> {
        self.shared.sync()
    }

    pub(super) fn syncs(&self) -> u64 {
        self.shared.syncs.load(Ordering::Relaxed)
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        *self.shared.stop.lock() = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the metadata flusher had panicked");
        }
        if let Err(error) = self.shared.sync() {
            tracing::error!(%error, "cannot force the metadata log to disk at the end");
        }
    }
}

impl Shared {
    fn sync(&self) -> Result<()> {
        let wanted = self.committed.load(Ordering::SeqCst);
        let mut group = self.group.lock();
        while group.synced < wanted {
            if group.flushing {
                self.group_done.wait(&mut group);
                continue;
            }
            group.flushing = true;
            drop(group);
            let flushed = self.flush();
            group = self.group.lock();
            group.flushing = false;
            self.group_done.notify_all();
            group.synced = group.synced.max(flushed?);
        }
        Ok(())
    }

    /// Flushes once. Returns the number of commits that are on stable storage then.
    fn flush(&self) -> Result<u64> {
        let upto = self.committed.load(Ordering::SeqCst);
        self.log.sync()?;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(upto)
    }

    fn is_clean(&self) -> bool {
        self.group.lock().synced >= self.committed.load(Ordering::SeqCst)
    }

    /// Sleeps until there is something to flush; false when the thread has to end.
    fn wait_for_work(&self) -> bool {
        let mut stop = self.stop.lock();
        loop {
            if *stop {
                return false;
            }
            self.parked.store(true, Ordering::SeqCst);
            if !self.is_clean() {
                self.parked.store(false, Ordering::SeqCst);
                return true;
            }
            self.wake.wait(&mut stop);
        }
    }

    /// Lets commits gather for one interval; false when the thread has to end.
    fn gather(&self, interval: Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop {
            self.wake.wait_while_for(&mut stop, |stop| !*stop, interval);
        }
        !*stop
    }
}

fn spawn(shared: Arc<Shared>, interval: Duration) -> Result<JoinHandle<()>> {
    let run = move || {
        while shared.wait_for_work() && shared.gather(interval) {
            if let Err(error) = shared.sync() {
                tracing::error!(%error, "cannot force the metadata log to disk");
            }
        }
    };
    intarsia_sync::thread::Builder::new()
        .name("meta-flush".into())
        .spawn(run)
        .map_err(|e| Error::io("start the metadata flusher", e))
}
