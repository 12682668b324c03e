//! A fixed number of threads that run handlers, so that a slow disk stalls neither a socket nor the other lane.

use crossbeam_channel::{Sender, unbounded};

use crate::StartError;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Threads with one queue. What waits in the queue is bounded by the byte limits of the connections. The threads
/// end when this value and its clones are gone and the queue is empty; nobody waits for one that hangs in a disk.
#[derive(Clone, Debug)]
pub(crate) struct Workers(Sender<Job>);

impl Workers {
    pub(crate) fn start(name: &str, threads: usize) -> Result<Self, StartError> {
        let (sender, receiver) = unbounded::<Job>();
        for number in 0..threads.max(1) {
            let receiver = receiver.clone();
            std::thread::Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(move || receiver.iter().for_each(|job| job()))
                .map_err(|e| StartError::io("starting a thread for requests of peers", e))?;
        }
        Ok(Self(sender))
    }

    /// Queues a job, which must not panic.
    pub(crate) fn run(&self, job: Job) {
        // Fails only when all threads are gone, and with them everyone who could want the result.
        let _ = self.0.send(job);
    }
}
