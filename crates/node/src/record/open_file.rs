//! An open file of which requests are recorded.

use std::collections::HashMap;

use intarsia_sync::Mutex;
use intarsia_trace::{Access, Counted, How, Range, Record, Runs};

use super::counting::{ProcessIo, Served};

/// Of files that are shorter, what a process has moved is not asked: it takes as long as reading them.
pub(super) const ASKED_FROM_BYTES: u64 = 8 << 20;
const SHARDS: usize = 16;

pub(super) struct OpenFile {
    pub(super) pid: u32,
    pub(super) access: Access,
    pub(super) size_bytes: u64,
    pub(super) runs: Runs,
    /// What the process had moved when it opened the file.
    pub(super) moved: Option<ProcessIo>,
}

impl OpenFile {
    /// The record of its close.
    pub(super) fn close(&self, handle: u64, closed_bytes: u64, at_ns: u64) -> Record {
        let [read, written] = self.runs.bytes.map(|bytes| Counted { bytes, how: How::Seen });
        let mut close = Record::Close { handle, size_bytes: closed_bytes, at_ns, read, written };
        if let Record::Close { read, written, .. } = &mut close
            && self.access.is_passthrough
        {
            let since = |now: ProcessIo| self.moved.map(|then| now.since(then));
            let moved = self.moved.and_then(|_| ProcessIo::of(self.pid)).and_then(since);
            let opened_bytes = self.size_bytes;
            let served = Served { access: self.access, opened_bytes, closed_bytes, moved };
            (*read, *written) = (served.read(), served.written());
        }
        close
    }
}

/// Files that are open, by number.
#[derive(Default)]
pub(super) struct OpenFiles {
    shards: [Mutex<HashMap<u64, OpenFile>>; SHARDS],
}

impl OpenFiles {
    fn shard(&self, handle: u64) -> &Mutex<HashMap<u64, OpenFile>> {
        &self.shards[usize::try_from(handle).unwrap_or_default() % SHARDS]
    }

    pub(super) fn insert(&self, handle: u64, file: OpenFile) {
        self.shard(handle).lock().insert(handle, file);
    }

    pub(super) fn remove(&self, handle: u64) -> Option<OpenFile> {
        self.shard(handle).lock().remove(&handle)
    }

    pub(super) fn with<T>(&self, handle: u64, work: impl FnOnce(&mut OpenFile) -> T) -> Option<T> {
        self.shard(handle).lock().get_mut(&handle).map(work)
    }

    /// What goes on in all of them, which then begins anew.
    pub(super) fn take_runs(&self) -> Vec<Range> {
        let mut taken = Vec::new();
        for shard in &self.shards {
            shard.lock().values_mut().for_each(|file| taken.extend(file.runs.take()));
        }
        taken
    }
}
