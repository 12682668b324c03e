//! A host that hardly gets to run: its processes are stopped again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use intarsia_posix_tests::Random;
use rustix::process::Signal;

use crate::{Cluster, signal};

/// The longest time that the host does not run, in milliseconds.
const STOPPED_MS: u64 = 900;
/// And that it runs in between.
const RUNS_MS: u64 = 150;

/// The processes of a host, stopped again and again until this is dropped.
pub(crate) struct Stutter {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stutter {
    pub(crate) fn begin(cluster: &Cluster, host: usize, seed: u64) -> Self {
        let mut processes = cluster.servers(host);
        processes.push(cluster.node_pid(host));
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let mut random = Random::new(seed);
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                signal(&processes, Signal::STOP);
                std::thread::sleep(Duration::from_millis(random.below(STOPPED_MS)));
                signal(&processes, Signal::CONT);
                std::thread::sleep(Duration::from_millis(random.below(RUNS_MS)));
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Stutter {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
