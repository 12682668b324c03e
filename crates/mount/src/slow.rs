//! A few threads for requests that may take long, so that an `fsync` of one file does not keep the
//! event loops from everything else.

use intarsia_sync::thread::JoinHandle;

use crossbeam_channel::{Sender, unbounded};
use intarsia_node::Wait;

use crate::calls;

/// Files of which other hosts get copies or parts at once while programs wait for that.
const COPIES: usize = 16;
/// Calls that wait for a device at once.
const DEVICE: usize = 2;

type Job = Box<dyn FnOnce() + Send>;

/// The lanes of a mount, by what their jobs wait for: who waits for one thing does not hold up the others.
pub(crate) struct Lanes {
    /// For a device, for the metadata.
    slow: SlowLane,
    /// For reads from another host.
    peers: SlowLane,
    /// For copies on other hosts, whichever host makes them, and parts of striped files: each as long as the network needs for a
    /// whole file.
    copies: SlowLane,
}

impl Lanes {
    /// Starts the lanes; those for other hosts, with `remote_reads` threads for reading, in a store of several.
    pub(crate) fn start(is_shared: bool, remote_reads: usize) -> std::io::Result<Self> {
        let remote = |threads| if is_shared { threads } else { 0 };
        Ok(Self {
            slow: SlowLane::start("slow", DEVICE)?,
            peers: SlowLane::start("remote", remote(remote_reads))?,
            copies: SlowLane::start("copies", remote(COPIES))?,
        })
    }

    /// Runs a job on the lane for what it waits for; here and now if that is nothing.
    pub(crate) fn run(&self, wait: Wait, job: impl FnOnce() + Send + 'static) {
        match wait {
            Wait::Nothing => job(),
            Wait::Device => self.slow.run(job),
            Wait::Hosts => self.copies.run(job),
        }
    }

    /// Runs a job that waits for bytes of another host.
    pub(crate) fn run_far_read(&self, job: impl FnOnce() + Send + 'static) {
        self.peers.run(job);
    }
}

/// Threads that run jobs in order of arrival. Dropping it waits for the jobs under way.
struct SlowLane {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl SlowLane {
    /// Starts the threads, named `name-0` and so on.
    fn start(name: &str, threads: usize) -> std::io::Result<Self> {
        let (jobs, queue) = unbounded::<Job>();
        let threads = (0..threads)
            .map(|i| {
                let queue = queue.clone();
                intarsia_sync::thread::Builder::new().name(format!("{name}-{i}")).spawn(move || {
                    for job in queue {
                        job();
                    }
                })
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self { jobs: Some(jobs), threads })
    }

    /// Hands a job over. The job owns its reply; if the lane is gone the reply's drop answers EIO.
    fn run(&self, job: impl FnOnce() + Send + 'static) {
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
