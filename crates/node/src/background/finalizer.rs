//! The thread for work on closed files: it takes the tasks that are due from the queue and has the rooms above do them, one
//! after the other. It sleeps without a time-out while no task waits.

use std::sync::{Arc, Weak};

use intarsia_sync::thread::JoinHandle;
use intarsia_types::{Error, Result};

use super::queue::{Queue, Task};

/// Does what the thread takes from the queue.
pub(crate) trait Chores: Send + Sync + 'static {
    /// Does one task.
    ///
    /// # Errors
    /// Any; it goes into the log, and the thread goes on. A task that failed does not come again by itself.
    fn carry_out(&self, task: Task) -> Result<()>;
}

/// The thread, while it runs.
pub(crate) struct Finalizer {
    queue: Arc<Queue>,
    thread: JoinHandle<()>,
}

impl Finalizer {
    /// Starts the thread. It has `chores` do what is in `queue`, until [`stop`](Self::stop), or until `chores` are gone.
    pub(crate) fn start<C: Chores>(queue: &Arc<Queue>, chores: Weak<C>) -> Result<Self> {
        let for_thread = Arc::clone(queue);
        let thread = intarsia_sync::thread::Builder::new()
            .name("finalizer".into())
            .spawn(move || run(&for_thread, &chores))
            .map_err(|e| Error::io("start the finalizer thread", e))?;
        Ok(Self { queue: Arc::clone(queue), thread })
    }

    /// Ends the thread, and waits for that.
    pub(crate) fn stop(self) {
        self.queue.stop();
        if self.thread.join().is_err() {
            tracing::error!("the finalizer thread panicked");
        }
    }
}

fn run<C: Chores>(queue: &Queue, chores: &Weak<C>) {
    // `chores` are held while the thread waits for a task, so whoever owns them has to stop the thread first.
    while let Some(chores) = chores.upgrade() {
        let Some(task) = queue.next() else { return };
        if let Err(e) = chores.carry_out(task) {
            tracing::warn!(error = %e, "background work");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use intarsia_sync::{Instant, Mutex};
    use intarsia_types::InodeId;

    use super::*;
    use crate::background::queue::Summing;

    #[derive(Default)]
    struct Noted(Mutex<Vec<InodeId>>);

    impl Chores for Noted {
        fn carry_out(&self, task: Task) -> Result<()> {
            if let Task::Sum(ino) = task {
                self.0.lock().push(ino);
            }
            Err(Error::Busy("a failure does not end the thread".into()))
        }
    }

    #[test]
    fn what_comes_up_is_done_in_order_until_the_thread_is_stopped() {
        let (queue, noted) = (Arc::new(Queue::new(1024)), Arc::new(Noted::default()));
        let finalizer = Finalizer::start(&queue, Arc::downgrade(&noted)).unwrap();
        for ino in [1, 2, 3] {
            queue.sum_later(InodeId(ino), Summing::Soon);
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        while noted.0.lock().len() < 3 {
            assert!(Instant::now() < deadline, "{:?}", noted.0.lock());
            intarsia_sync::thread::yield_now();
        }
        finalizer.stop();
        queue.sum_later(InodeId(4), Summing::Soon);
        assert_eq!(*noted.0.lock(), [InodeId(1), InodeId(2), InodeId(3)]);
    }
}
