//! A fixed number of threads that run handlers, so that a slow disk stalls neither a socket nor the other lane.

use std::collections::VecDeque;
use std::sync::Arc;

use intarsia_sync::{Condvar, Mutex, thread};

use crate::StartError;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Threads with one queue. What waits in the queue is bounded by the byte limits of the connections. The threads
/// end when this value and its clones are gone and the queue is empty; nobody waits for one that hangs in a disk.
#[derive(Clone)]
pub(crate) struct Workers(Arc<Handle>);

/// Told from the threads' own references, so that the last user's end is seen.
struct Handle(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle_threads: usize,
    /// A thread was woken and has not looked yet. Until it has, no other is woken: it will find several short jobs
    /// and do them all, and wakes the next thread itself when jobs are left.
    is_waking: bool,
    is_closed: bool,
}

impl Workers {
    pub(crate) fn start(name: &str, threads: usize) -> Result<Self, StartError> {
        let workers = Self(Arc::new(Handle(Arc::default())));
        for number in 0..threads.max(1) {
            let queue = Arc::clone(&workers.0.0);
            thread::Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(move || queue.work())
                .map_err(|e| StartError::io("starting a thread for requests of peers", e))?;
        }
        Ok(workers)
    }

    /// Queues a job, which must not panic.
    pub(crate) fn run(&self, job: Job) {
        let queue = &self.0.0;
        let mut state = queue.state.lock();
        state.jobs.push_back(job);
        queue.wake_one(&mut state);
    }
}

impl Queue {
    fn wake_one(&self, state: &mut State) {
        if state.idle_threads > 0 && !state.is_waking && !state.jobs.is_empty() {
            state.is_waking = true;
            self.wake.notify_one();
        }
    }

    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                self.wake_one(&mut state);
                drop(state);
                job();
                state = self.state.lock();
            } else if state.is_closed {
                return;
            } else {
                state.idle_threads += 1;
                self.wake.wait(&mut state);
                state.idle_threads -= 1;
                state.is_waking = false;
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn jobs_that_need_each_other_run_at_the_same_time() {
        let workers = Workers::start("test", 4).unwrap();
        let (barrier, (sender, receiver)) = (Arc::new(Barrier::new(4)), channel());
        for _ in 0..4 {
            let (barrier, sender) = (Arc::clone(&barrier), sender.clone());
            workers.run(Box::new(move || {
                barrier.wait();
                sender.send(()).unwrap();
            }));
        }
        for _ in 0..4 {
            receiver.recv_timeout(LIMIT).unwrap();
        }
    }

    #[test]
    fn every_job_runs_also_those_queued_before_the_end() {
        let (sender, receiver) = channel();
        for _ in 0..50 {
            let workers = Workers::start("test", 3).unwrap();
            for number in 0..100 {
                let sender = sender.clone();
                workers.run(Box::new(move || sender.send(number).unwrap()));
            }
        }
        drop(sender);
        for _ in 0..5000 {
            receiver.recv_timeout(LIMIT).unwrap();
        }
        // The threads are gone, and with them all senders.
        assert!(receiver.recv_timeout(LIMIT).is_err());
    }
}
