//! The ends of what programs do with open files, and what is recorded of them.

use intarsia_types::{InodeId, Result};

use super::Node;
use crate::record::{ChangedName, Detail, OpenedFile, RecordStatus, Recorder};
use crate::vfs::sync::Wait;

impl Node {
    /// A close: what was written becomes part of the record, and durable where that was promised.
    ///
    /// # Errors
    /// What went wrong with the data since the last flush, so that `close` reports it.
    pub fn flush(&self, ino: InodeId) -> Result<()> {
        self.syncer.flush(ino)
    }

    /// `fsync`: durable as the deployment promises. With `durability=interval` that is the page cache,
    /// which survives the death of any process; the background flush follows within the interval.
    ///
    /// # Errors
    /// The system's own; a failed flush is final.
    pub fn fsync(&self, ino: InodeId, data_only: bool) -> Result<()> {
        self.syncer.fsync(ino, data_only)
    }

    /// What [`flush`](Self::flush) may wait for.
    #[must_use]
    pub fn flush_waits_for(&self, ino: InodeId) -> Wait {
        self.syncer.flush_waits_for(ino)
    }

    /// What [`fsync`](Self::fsync) may wait for.
    #[must_use]
    pub fn fsync_waits_for(&self, ino: InodeId) -> Wait {
        self.syncer.fsync_waits_for(ino)
    }

    /// The last reference to an open handle is gone. Whether [`reader_left`](Self::reader_left) is to be told, which waits for
    /// the metadata.
    pub fn release(&self, ino: InodeId, was_writer: bool) -> bool {
        self.releaser.release(ino, was_writer)
    }

    /// Counts a reader that has closed a file with `lifetime=reads:N`, and removes the file if it was the N-th.
    ///
    /// # Errors
    /// The engine's own; then the file stays.
    pub fn reader_left(&self, ino: InodeId) -> Result<()> {
        self.releaser.reader_left(ino, |parent, name| self.unlink(parent, name))
    }

    /// What records calls.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recording.recorder
    }

    /// Begins to record, with a new log below the store's directory; what was recorded before is whole then. With
    /// [`Detail::Off`] only that.
    ///
    /// # Errors
    /// The log cannot be made.
    pub fn record(&self, detail: Detail) -> Result<RecordStatus> {
        self.recording.begin(detail)
    }

    /// A file was opened.
    pub fn record_open(&self, opened: &OpenedFile) {
        self.recording.opened(opened);
    }

    /// The last descriptor of an open file goes; before the node is told.
    pub fn record_close(&self, ino: InodeId, handle: u64) {
        self.recording.closed(ino, handle);
    }

    /// A name was changed.
    pub fn record_name(&self, changed: &ChangedName<'_>) {
        self.recording.name_changed(changed);
    }
}
