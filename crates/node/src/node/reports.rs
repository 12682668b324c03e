//! What whoever runs the store asks of it: its state, its counters, where files are and which are lost.

use intarsia_meta::{CheckProgress, CheckReport};
use intarsia_store::Space;
use intarsia_types::Result;

use super::Node;
use crate::lifecycle::checking::CheckOptions;
use crate::status::lost::{LostFile, LostSummary};
use crate::status::{Location, Status};

impl Node {
    /// The node's state now.
    ///
    /// # Errors
    /// The engine's own.
    pub fn status(&self) -> Result<Status> {
        self.reporter.status()
    }

    /// Space and inodes for `statfs`: capacity, use and free bytes, of all hosts that are alive, and inodes in use. What
    /// is told of other hosts is at most some beats old, and so is the number of inodes that hosts share. A file system
    /// that several tiers share counts as each of them says.
    ///
    /// # Errors
    /// The engine's own.
    pub fn space(&self) -> Result<(Space, u64)> {
        self.reporter.space()
    }

    /// The counters in Prometheus text form.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.reporter.metrics()
    }

    /// Where a file is, by its path within the store.
    ///
    /// # Errors
    /// [`intarsia_types::Error::NotFound`].
    pub fn locate(&self, path: &str) -> Result<Location> {
        let before = self.calls.attributes.before_reading();
        let inode = self.namespace.resolve(path.as_bytes())?;
        let (attr, _) = self.calls.attributes.overlaid(&inode, before)?;
        self.reporter.location(path, &inode, &attr)
    }

    /// Calls `each` with every file whose bytes are at lost hosts only, and with `removes` removes it then.
    /// `progress` hears how many records have been looked at.
    ///
    /// # Errors
    /// The engine's own; one that names the hosts that do not answer, when the metadata does not.
    /// [`intarsia_types::Error::NotSupported`] in a store of one host.
    pub fn lost_files(
        &self,
        removes: bool,
        each: &mut dyn FnMut(LostFile),
        progress: &mut dyn FnMut(u64),
    ) -> Result<LostSummary> {
        let unlink = |parent, name: &[u8]| self.unlink(parent, name);
        self.lost.report(removes.then_some(&unlink), each, progress)
    }

    /// Checks the namespace and, for each tier, that every known backing file exists and every existing
    /// one is known; with `repair`, mends what can be mended without guessing.
    ///
    /// A store in use changes under the check, so there only what is found twice is reported.
    ///
    /// # Errors
    /// [`Error::Busy`](intarsia_types::Error::Busy) for a repair of a mounted store; the engine's or the system's own.
    /// Findings are no errors.
    pub fn check(
        &self,
        options: CheckOptions,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        self.checker.check(options, progress)
    }
}
