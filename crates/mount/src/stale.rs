//! Calls of programs that name an inode which is gone: its name was taken from it after the kernel had looked it up.
//!
//! Told ESTALE, the kernel looks the path up once more, past all that it keeps, so that the program is told what the
//! name means now. It does so once in a call. A name that `rename` replaces is not met as gone, because what it meant
//! stays for a moment; so whoever meets a second inode that is gone within one call has seen a name that was removed
//! and made again, and that was absent in between: ENOENT, and not an error that no program expects. If the second look
//! took longer than what is replaced stays, nothing is known ([`intarsia_node::gone_twice`]).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use intarsia_node::gone_twice;
use intarsia_sync::{Instant, Mutex};

use fuser::Errno;

/// A call lasts no longer: what is promised of calls.
const CALL: Duration = Duration::from_secs(10);
/// With so many threads noted, those of calls that are over are forgotten.
const SWEPT_FROM: usize = 256;

/// The threads of programs whose call the kernel has been told to begin again, and when.
#[derive(Default)]
pub(crate) struct StaleCalls {
    threads: Mutex<HashMap<u32, Instant>>,
    /// How many there are, so that nobody takes the lock while there are none.
    count: AtomicUsize,
}

impl StaleCalls {
    /// What a call of `thread` is told that met an inode which is gone.
    pub(crate) fn errno(&self, thread: u32) -> Errno {
        let mut threads = self.threads.lock();
        let told_before = threads.remove(&thread).map(|told| told.elapsed());
        let told_before = told_before.filter(|ago| *ago < CALL);
        if told_before.is_none() {
            if threads.len() >= SWEPT_FROM {
                threads.retain(|_, told| told.elapsed() < CALL);
            }
            threads.insert(thread, Instant::now());
        }
        self.count.store(threads.len(), Ordering::Relaxed);
        told_before.map_or(Errno::ESTALE, |ago| Errno::from_i32(gone_twice(ago).errno()))
    }

    /// The thread's call has come to an end. That a name is absent is no sign of that: the kernel asks twice for a name
    /// that it knew.
    pub(crate) fn forget(&self, thread: u32) {
        if self.count.load(Ordering::Relaxed) > 0 {
            let mut threads = self.threads.lock();
            threads.remove(&thread);
            self.count.store(threads.len(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_to_look_a_path_up_again_once_in_a_call() {
        let calls = StaleCalls::default();
        for _ in 0..3 {
            assert_eq!(calls.errno(7).code(), libc::ESTALE);
            assert_eq!(calls.errno(8).code(), libc::ESTALE, "another thread");
            assert_eq!(calls.errno(7).code(), libc::ENOENT);
            assert_eq!(calls.errno(8).code(), libc::ENOENT);
        }
        assert_eq!(calls.errno(7).code(), libc::ESTALE);
        calls.forget(7);
        assert_eq!(calls.errno(7).code(), libc::ESTALE, "another call");
    }
}
