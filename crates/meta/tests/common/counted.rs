//! Notes what an engine is asked, and by which thread.

use std::thread::ThreadId;

use intarsia_types::{PartitionId, Result};
use parking_lot::Mutex;

use crate::hooked::Hook;

/// Each request is a word and the tables that it is about: `get I`, `commit DI`.
#[derive(Default)]
pub(crate) struct Requests(Mutex<Vec<(ThreadId, String)>>);

impl Requests {
    /// All requests so far.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().iter().map(|(_, request)| request.clone()).collect()
    }

    /// What this thread asks for while `work` is done.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Vec<String>) {
        let me = std::thread::current().id();
        let before = self.0.lock().len();
        let done = work();
        let asked = self.0.lock();
        let mine = asked[before..].iter().filter(|(thread, _)| *thread == me);
        (done, mine.map(|(_, request)| request.clone()).collect())
    }
}

impl Hook for Requests {
    fn before_request(&self, what: &str, keys: &mut dyn Iterator<Item = &[u8]>) {
        let tables = keys.filter_map(|key| key.first()).map(|table| char::from(*table));
        let request = format!("{what} {}", tables.collect::<String>());
        self.0.lock().push((std::thread::current().id(), request));
    }

    fn before_commit(&self, _: PartitionId) -> Result<()> {
        Ok(())
    }
}
