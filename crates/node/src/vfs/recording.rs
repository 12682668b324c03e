//! Tells the recorder what programs do, with what only a node knows: paths and lengths.

use intarsia_trace::NameChange;
use intarsia_types::{FileKind, InodeId, Result};

use crate::node::Node;
use crate::record::{
    ChangedName, Detail, OpenedFile, Place, RECORDS_DIRECTORY, RecordStatus, Recorder,
};

impl Node {
    /// Whether files that are opened now are served by the kernel, as far as the mount goes.
    pub(crate) fn does_passthrough(&self) -> bool {
        self.kernel.has_passthrough() && !self.recorder.wants_requests()
    }

    /// What records calls.
    #[must_use]
    pub const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Begins to record, with a new log below the store's directory; what was recorded before is whole then. With
    /// [`Detail::Off`] only that.
    ///
    /// # Errors
    /// The log cannot be made.
    pub fn record(&self, detail: Detail) -> Result<RecordStatus> {
        let place = Place {
            dir: self.options.dir.join(RECORDS_DIRECTORY),
            host: self.options.name.0.clone(),
            store: self.store.clone(),
            limit_bytes: self.options.record_limit.0,
        };
        self.recorder.begin(&place, detail)?;
        Ok(self.recorder.status())
    }

    /// A file was opened.
    pub fn record_open(&self, opened: &OpenedFile) {
        let Some(session) = self.recorder.session() else { return };
        let is_empty = opened.access.is_new || opened.access.truncates;
        let size_bytes = if is_empty { 0 } else { self.length_of(opened.ino) };
        session.opened(opened, size_bytes, |dir| self.path_below_mount(dir));
    }

    /// The last descriptor of an open file goes; before the node is told.
    pub fn record_close(&self, ino: InodeId, handle: u64) {
        let Some(session) = self.recorder.session() else { return };
        session.closed(handle, || self.length_of(ino));
    }

    /// A name was changed.
    pub fn record_name(&self, changed: &ChangedName<'_>) {
        let Some(session) = self.recorder.session() else { return };
        if let Some((directory, name)) = changed.new
            && let Ok(inode) = self.namespace.lookup(directory, name)
        {
            match inode.kind {
                FileKind::Regular => session.names.learn(inode.ino, directory, name),
                FileKind::Directory => session.names.forget_directories(),
                _ => {}
            }
        }
        if changed.change == NameChange::RemoveDirectory {
            session.names.forget_directories();
        }
        session.name_changed(changed, |dir| self.path_below_mount(dir));
    }

    /// The length of an open file; 0 where nobody here knows it.
    fn length_of(&self, ino: InodeId) -> u64 {
        let length = self.live.with_existing(ino, |state| state.size_bytes());
        length.and_then(Result::ok).unwrap_or_default()
    }

    /// The path of a directory without the slash in front; none where it is gone.
    fn path_below_mount(&self, dir: InodeId) -> Option<Vec<u8>> {
        let path = self.namespace.path_of(dir).ok()?;
        Some(path.strip_prefix(b"/").map_or_else(|| path.clone(), <[u8]>::to_vec))
    }
}
