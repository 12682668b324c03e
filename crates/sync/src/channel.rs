//! A queue from many threads to many.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Condvar, Instant, Mutex};

/// Puts values into a queue.
pub struct Sender<T>(Arc<Queue<T>>);

/// Takes values out of a queue, each value once.
pub struct Receiver<T>(Arc<Queue<T>>);

/// Why there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// The deadline passed.
    Timeout,
    /// The queue is empty and nobody can put anything into it any more.
    Disconnected,
}

struct Queue<T> {
    values: Mutex<VecDeque<T>>,
    changed: Condvar,
    senders: AtomicUsize,
}

/// A queue without a bound.
#[must_use]
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    let queue = Arc::new(Queue {
        values: Mutex::new(VecDeque::new()),
        changed: Condvar::new(),
        senders: AtomicUsize::new(1),
    });
    (Sender(Arc::clone(&queue)), Receiver(queue))
}

impl<T> Sender<T> {
    /// Puts a value into the queue.
    pub fn send(&self, value: T) {
        self.0.values.lock().push_back(value);
        self.0.changed.notify_one();
    }
}

impl<T> Receiver<T> {
    /// Waits for a value; none when there can be none any more.
    #[must_use]
    pub fn recv(&self) -> Option<T> {
        self.take(None).ok()
    }

    /// As [`Self::recv`], until `deadline` at the latest.
    ///
    /// # Errors
    /// There is no value.
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvError> {
        self.take(Some(deadline))
    }

    fn take(&self, deadline: Option<Instant>) -> Result<T, RecvError> {
        let mut values = self.0.values.lock();
        loop {
            if let Some(value) = values.pop_front() {
                return Ok(value);
            }
            if self.0.senders.load(Ordering::Acquire) == 0 {
                return Err(RecvError::Disconnected);
            }
            match deadline {
                None => self.0.changed.wait(&mut values),
                Some(deadline) if Instant::now() >= deadline => return Err(RecvError::Timeout),
                Some(deadline) => drop(self.0.changed.wait_until(&mut values, deadline)),
            }
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Under the lock, so that nobody is between looking and waiting.
            let _values = self.0.values.lock();
            self.0.changed.notify_all();
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
