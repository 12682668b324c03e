//! Files that programs have open, and how they are let go.

use std::io::Result as IoResult;
use std::sync::Arc;

use intarsia_node::Node;
use intarsia_sync::thread;
use intarsia_sync::thread::JoinHandle;
use intarsia_types::{InodeId, Result};

use crate::client::call;
use crate::programs::Programs;

/// An open file. It is closed when it goes, as by the kernel.
pub(crate) struct OpenFile {
    node: Arc<Node>,
    programs: Arc<Programs>,
    pub(crate) ino: InodeId,
    pub(crate) offset_bytes: u64,
    is_written: bool,
    is_open: bool,
}

/// A file that was closed and is let go by the kernel, which no program waits for.
pub(crate) struct LettingGo(IoResult<JoinHandle<Result<()>>>);

impl LettingGo {
    /// Waits until the host knows that the file is closed, and whether it counted its reader, if its readers are counted.
    pub(crate) fn await_count(self) -> bool {
        self.0.is_ok_and(|thread| matches!(thread.join(), Ok(Ok(()))))
    }
}

impl OpenFile {
    pub(crate) fn new(
        node: &Arc<Node>,
        programs: &Arc<Programs>,
        ino: InodeId,
        is_written: bool,
    ) -> Self {
        if is_written {
            programs.promises().open(ino);
        }
        let (node, programs) = (Arc::clone(node), Arc::clone(programs));
        Self { node, programs, ino, offset_bytes: 0, is_written, is_open: true }
    }

    /// Closes it, and says how that went. The kernel lets the file go afterwards.
    pub(crate) fn close(&mut self) -> (Result<()>, LettingGo) {
        self.is_open = false;
        let flushed = call(|| self.node.flush(self.ino));
        if self.is_written {
            self.programs.promises().close(self.ino, flushed.is_ok());
        }
        (flushed, self.let_go())
    }

    /// The last reference to the handle goes, which is a request of its own that nobody waits for.
    fn let_go(&self) -> LettingGo {
        let (node, programs) = (Arc::clone(&self.node), Arc::clone(&self.programs));
        let (ino, is_written) = (self.ino, self.is_written);
        programs.begin();
        let release = move || {
            let is_reader = call(|| node.release(ino, is_written));
            let counted = if is_reader { call(|| node.reader_left(ino)) } else { Ok(()) };
            if let Err(error) = &counted {
                tracing::debug!(%ino, %error, "a reader is not counted");
            }
            programs.end();
            counted
        };
        LettingGo(thread::Builder::new().name("release".into()).spawn(release))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if self.is_open
            && let (Err(error), _) = self.close()
        {
            tracing::debug!(%error, "nobody is told how a close ends");
        }
    }
}
