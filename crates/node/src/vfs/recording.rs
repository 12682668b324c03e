//! Tells the recorder what programs do, with what only a node knows: paths and lengths.

use std::sync::Arc;

use intarsia_meta::Namespace;
use intarsia_trace::NameChange;
use intarsia_types::{FileKind, InodeId, Result};

use crate::inode::live::LiveTable;
use crate::kernel::Kernel;
use crate::record::{ChangedName, Detail, OpenedFile, Place, RecordStatus, Recorder};

/// Tells a [`Recorder`].
pub(crate) struct Recording {
    pub(crate) recorder: Recorder,
    /// Where records go.
    pub(crate) place: Place,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) live: Arc<LiveTable>,
}

impl Recording {
    /// Whether files that are opened now are served by the kernel, as far as the mount goes.
    pub(crate) fn does_passthrough(&self) -> bool {
        self.kernel.has_passthrough() && !self.recorder.wants_requests()
    }

    /// Begins to record, with a new log below the store's directory; what was recorded before is whole then. With
    /// [`Detail::Off`] only that.
    ///
    /// # Errors
    /// The log cannot be made.
    pub(crate) fn begin(&self, detail: Detail) -> Result<RecordStatus> {
        self.recorder.begin(&self.place, detail)?;
        Ok(self.recorder.status())
    }

    /// A file was opened.
    pub(crate) fn opened(&self, opened: &OpenedFile) {
        let Some(session) = self.recorder.session() else { return };
        let is_empty = opened.access.is_new || opened.access.truncates;
        let size_bytes = if is_empty { 0 } else { self.length_of(opened.ino) };
        session.opened(opened, size_bytes, |dir| self.path_below_mount(dir));
    }

    /// The last descriptor of an open file goes; before the node is told.
    pub(crate) fn closed(&self, ino: InodeId, handle: u64) {
        let Some(session) = self.recorder.session() else { return };
        session.closed(handle, || self.length_of(ino));
    }

    /// A name was changed.
    pub(crate) fn name_changed(&self, changed: &ChangedName<'_>) {
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
