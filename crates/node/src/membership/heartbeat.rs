//! The thread of the heartbeat: it renews this host's record, and runs the failure detector over the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use intarsia_sync::thread::JoinHandle;
use intarsia_sync::{Condvar, Instant, Mutex};
use intarsia_types::{Error, Result};

/// Heartbeats are held back.
type IsPaused = bool;
/// The node whose heartbeat it is still exists.
type IsAlive = bool;

#[derive(Default)]
struct Control {
    is_stopping: Mutex<bool>,
    changed: Condvar,
    is_paused: AtomicBool,
}

/// The thread of the heartbeat. If this is dropped without [`Heartbeat::stop`], the thread runs until its node is gone.
pub(crate) struct Heartbeat {
    control: Arc<Control>,
    thread: JoinHandle<()>,
}

impl Heartbeat {
    /// Starts a thread that calls `beat` every `interval`, until that returns false because the node is gone.
    pub(crate) fn start(
        beat: impl Fn(IsPaused) -> IsAlive + Send + 'static,
        interval: Duration,
    ) -> Result<Self> {
        let control = Arc::new(Control::default());
        let for_thread = Arc::clone(&control);
        let thread = intarsia_sync::thread::Builder::new()
            .name("heartbeat".into())
            .spawn(move || run(beat, &for_thread, interval))
            .map_err(|e| Error::io("start the heartbeat thread", e))?;
        Ok(Self { control, thread })
    }

    /// Ends the thread and waits for its end.
    pub(crate) fn stop(self) {
        *self.control.is_stopping.lock() = true;
        self.control.changed.notify_all();
        if self.thread.join().is_err() {
            tracing::error!("the heartbeat thread panicked");
        }
    }

    /// Holds heartbeats back, or lets them go on.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.control.is_paused.store(is_paused, Ordering::Release);
    }
}

fn run(beat: impl Fn(IsPaused) -> IsAlive, control: &Control, interval: Duration) {
    let mut next = Instant::now();
    loop {
        let mut is_stopping = control.is_stopping.lock();
        while !*is_stopping && Instant::now() < next {
            control.changed.wait_until(&mut is_stopping, next);
        }
        if *is_stopping {
            return;
        }
        drop(is_stopping);
        if !beat(control.is_paused.load(Ordering::Acquire)) {
            return;
        }
        next = (next + interval).max(Instant::now());
    }
}
