//! The few threads that move bytes between sockets and memory. Handlers and callers run elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::{BufferPool, Network, StartError};

/// Idle payload memory that all connections of a node share.
const IDLE_BUFFER_BYTES: usize = 128 << 20;

/// Reactor threads, each with its own sockets. Cloning gives another handle to the same threads; they end with
/// the last handle, and their connections with them.
#[derive(Clone, Debug)]
pub struct Runtime(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    way: Way,
    next: AtomicUsize,
    buffers: BufferPool,
}

/// What carries messages.
#[derive(Debug)]
pub(crate) enum Way {
    Reactors(Vec<Reactor>),
    Network(Network),
}

#[derive(Debug)]
pub(crate) struct Reactor {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    /// Starts `reactors` threads (at least one); one reactor moves several gigabytes per second.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub fn start(reactors: usize) -> Result<Self, StartError> {
        let reactors = (0..reactors.max(1)).map(Reactor::start).collect::<Result<_, _>>()?;
        Ok(Self::over(Way::Reactors(reactors)))
    }

    /// Messages go through a simulated network and not over sockets.
    #[must_use]
    pub fn simulated(network: &Network) -> Self {
        Self::over(Way::Network(network.clone()))
    }

    fn over(way: Way) -> Self {
        let buffers = BufferPool::new(IDLE_BUFFER_BYTES);
        Self(Arc::new(Inner { way, next: AtomicUsize::new(0), buffers }))
    }

    pub(crate) fn way(&self) -> &Way {
        &self.0.way
    }

    /// The stock of payload buffers.
    #[must_use]
    pub fn buffers(&self) -> &BufferPool {
        &self.0.buffers
    }

    /// The reactor for the next connection, in turn.
    pub(crate) fn reactor(&self) -> Option<&Handle> {
        let turn = self.0.next.fetch_add(1, Ordering::Relaxed);
        let Way::Reactors(reactors) = &self.0.way else { return None };
        reactors.get(turn.checked_rem(reactors.len())?).map(|reactor| &reactor.handle)
    }
}

impl Reactor {
    fn start(number: usize) -> Result<Self, StartError> {
        let cannot = |e| StartError::io("starting a reactor for connections", e);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name(format!("peer-io-{number}"))
            .spawn(move || {
                // Either a word or the sender's end: both mean stop.
                let _ = runtime.block_on(stopped);
                runtime.shutdown_background();
            })
            .map_err(cannot)?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) =
            self.thread.take().filter(|t| t.thread().id() != std::thread::current().id())
        {
            // A panic there was reported by the panic hook already.
            let _ = thread.join();
        }
    }
}
