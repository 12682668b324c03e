//! The frames that wait for one socket. Whoever adds a frame writes it, unless someone is writing already; what the
//! socket does not take at once is written by a task. So a lone message costs no change of thread, and many at once
//! leave in few system calls.

use std::collections::VecDeque;
use std::net::Shutdown;
use std::sync::Arc;

use parking_lot::Mutex;
use socket2::SockRef;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;

use crate::frame::Frame;
use crate::link::{FrameWriter, Progress};

/// How often a caller goes on for others before it leaves the rest to the task.
const CALLER_ROUNDS: usize = 8;

pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    writer: Mutex<FrameWriter>,
    socket: Arc<OwnedWriteHalf>,
    wake: Notify,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    /// Someone has taken it on to write until nothing is left.
    is_written: bool,
    is_closed: bool,
}

/// What a round of writing came to.
enum Round {
    /// Nothing is left, and nobody writes now.
    Empty,
    /// Frames came meanwhile.
    More,
    /// The socket takes no more.
    Blocked,
    /// The connection is gone.
    Closed,
}

impl Outbox {
    pub(crate) fn new(writer: FrameWriter) -> Self {
        Self {
            socket: Arc::clone(writer.socket()),
            queue: Mutex::default(),
            writer: Mutex::new(writer),
            wake: Notify::new(),
        }
    }

    /// Sends a frame without waiting. False when the connection is closed and the frame was dropped; true does
    /// not mean that it arrives.
    pub(crate) fn send(&self, frame: Frame) -> bool {
        let is_open = self.queue(frame);
        if is_open {
            self.flush();
        }
        is_open
    }

    /// Adds a frame that leaves with the next flush, whoever does it. False when the connection is closed.
    pub(crate) fn queue(&self, frame: Frame) -> bool {
        let mut queue = self.queue.lock();
        if !queue.is_closed {
            queue.frames.push_back(frame);
        }
        !queue.is_closed
    }

    /// Writes what is queued, unless someone is writing already; never waits.
    pub(crate) fn flush(&self) {
        {
            let mut queue = self.queue.lock();
            if queue.frames.is_empty() || std::mem::replace(&mut queue.is_written, true) {
                return;
            }
        }
        for _ in 0..CALLER_ROUNDS {
            match self.write() {
                Round::Empty | Round::Closed => return,
                Round::More => {}
                Round::Blocked => break,
            }
        }
        self.wake.notify_one();
    }

    /// The task that writes what callers leave; ends when the connection is closed.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.wake.notified().await;
            loop {
                match self.write() {
                    Round::Empty => break,
                    Round::Closed => return,
                    Round::More => tokio::task::yield_now().await,
                    Round::Blocked => {
                        if self.socket.writable().await.is_err() {
                            return self.close();
                        }
                    }
                }
            }
        }
    }

    /// Closes the connection in both directions and drops what waits.
    pub(crate) fn close(&self) {
        let dropped = {
            let mut queue = self.queue.lock();
            queue.is_closed = true;
            std::mem::take(&mut queue.frames)
        };
        drop(dropped);
        // Whoever holds the lock sees the mark when it writes next.
        if let Some(mut writer) = self.writer.try_lock() {
            writer.clear();
        }
        // Fails where the other side was faster.
        let _ = SockRef::from((*self.socket).as_ref()).shutdown(Shutdown::Both);
        self.wake.notify_one();
    }

    fn write(&self) -> Round {
        let mut writer = self.writer.lock();
        {
            let mut queue = self.queue.lock();
            if queue.is_closed {
                writer.clear();
                return Round::Closed;
            }
            for frame in queue.frames.drain(..) {
                writer.push(frame);
            }
        }
        match writer.flush() {
            Ok(Progress::Blocked) => Round::Blocked,
            Ok(Progress::Done) => {
                let mut queue = self.queue.lock();
                if queue.frames.is_empty() {
                    queue.is_written = false;
                    Round::Empty
                } else {
                    Round::More
                }
            }
            Err(error) => {
                tracing::debug!(%error, "writing to a peer");
                drop(writer);
                self.close();
                Round::Closed
            }
        }
    }
}
