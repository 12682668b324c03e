//! A few threads for requests that may take long, so that an `fsync` of one file does not keep the
//! event loops from everything else.

use std::thread::JoinHandle;

use crossbeam_channel::{Sender, unbounded};

use crate::calls;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that run jobs in order of arrival. Dropping it waits for the jobs under way.
pub(crate) struct SlowLane {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl SlowLane {
    /// Starts the threads, named `name-0` and so on.
    pub(crate) fn start(name: &str, threads: usize) -> std::io::Result<Self> {
        let (jobs, queue) = unbounded::<Job>();
        let threads = (0..threads)
            .map(|i| {
                let queue = queue.clone();
                std::thread::Builder::new().name(format!("{name}-{i}")).spawn(move || {
                    for job in queue {
                        job();
                    }
                })
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self { jobs: Some(jobs), threads })
    }

    /// Hands a job over. The job owns its reply; if the lane is gone the reply's drop answers EIO.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(jobs) = &self.jobs {
            // A send fails only when every thread has ended, and then the unanswered reply says so.
            let _ = jobs.send(Box::new(calls::carried(job)));
        }
    }
}

impl Drop for SlowLane {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
