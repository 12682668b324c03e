//! A live entry is brought up to date with its record, which another host has changed.

use std::sync::Arc;

use intarsia_meta::{FreeFile, Inode, Namespace};
use intarsia_sync::Instant;
use intarsia_types::{BackingRef, Error, FileKind, InodeId, NodeId, Result};

use crate::body::own::OwnFile;
use crate::body::recording::Standing;
use crate::body::{Bodies, Body};
use crate::cache::pages::OldPages;
use crate::cache::remote_cache::RemoteCache;
use crate::inode::live::LiveState;
use crate::inode::paging::Paging;
use crate::inode::renewal::Renewal;
use crate::members::Members;
use crate::membership::cluster::Cluster;
use crate::replication::copies::{Copies, open_elsewhere};
use crate::space::hints::own_hints;
use crate::space::ledger::Ledger;

/// Brings live entries up to date with their records.
pub(crate) struct Following {
    /// The name of this host.
    pub(super) me: NodeId,
    pub(super) members: Members,
    pub(super) namespace: Arc<Namespace>,
    /// The other hosts, in a store of several.
    pub(super) cluster: Option<Arc<Cluster>>,
    pub(super) bodies: Arc<Bodies>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) remote_cache: Arc<RemoteCache>,
    pub(super) copies: Arc<Copies>,
    pub(super) old_pages: Arc<OldPages>,
    pub(super) paging: Arc<Paging>,
    pub(super) renewal: Arc<Renewal>,
}

impl Following {
    /// Opens the bytes of a file as the record says, if they are not open.
    pub(crate) fn ensure_loaded(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        if state.body.is_some() {
            return Ok(());
        }
        let inode = self.namespace.get(ino)?;
        if inode.kind != FileKind::Regular {
            return Err(Error::Invalid("not a regular file".into()));
        }
        self.load(state, &inode)
    }

    /// Opens the bytes of a file that were not open, and takes its hints from the record: an entry with a body has its hints
    /// too.
    pub(crate) fn load(&self, state: &mut LiveState, inode: &Inode) -> Result<()> {
        state.hints = own_hints(&self.namespace, inode)?;
        state.load_body(&self.bodies, inode)
    }

    /// Brings the body up to date with the record, unless the file is being written here.
    pub(crate) fn renew_body(&self, state: &mut LiveState, inode: &Inode) -> Result<()> {
        if state.writes_without_right() {
            state.renew_stripes(inode);
            return Ok(());
        }
        if self.is_outdated(state, inode)? {
            state.hints = own_hints(&self.namespace, inode)?;
            self.replace_body(state, inode)?;
        }
        if state.body.is_none() {
            // In a store of several hosts the host that made it an orphan removes it.
            if inode.nlink == 0 && !self.members.is_shared() {
                state.names.lose();
            }
            self.load(state, inode)?;
        }
        state.record = Some(inode.clone());
        state.followed_at = Some(Instant::now());
        Ok(())
    }

    /// Opens the body that the record says in place of the present one. If the file was removed or changed again meanwhile,
    /// an open file stays readable as it was.
    pub(super) fn replace_body(&self, state: &mut LiveState, inode: &Inode) -> Result<()> {
        let doubtful = state.doubtful();
        let mut old =
            (state.body.take(), state.record.replace(inode.clone()), state.sums.is_stored());
        let loaded = state.load_body(&self.bodies, inode);
        if loaded.is_ok() {
            state.note_former(old.0.take());
        }
        if state.is_open() && matches!(loaded, Err(Error::NotFound | Error::Busy(_))) {
            (state.body, state.record) = (old.0, old.1);
            state.sums.note_stored(old.2);
            return loaded;
        }
        if let Some(backing) = doubtful {
            self.ledger.doubt(backing, FreeFile::of(inode.ino, backing.file), state.accounted_512);
        }
        state.backing.resolve();
        let is_renewed = loaded.is_ok() && state.renews_pages_with_length();
        if state.is_served_by_us() && !is_renewed && !self.paging.is_true(inode.ino, state) {
            self.old_pages.note(inode.ino);
        }
        loaded
    }

    /// For a file that programs here wrote through its home: once all who wrote have closed it, the others read it as the
    /// record says. A handle for writing would be lost with the connection to the home, and readers need none. A file that was
    /// removed stays open as it is.
    pub(crate) fn end_writing_elsewhere(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        if state.writers > 0 || state.handles == 0 || !state.writes_remotely() {
            return Ok(());
        }
        let replaced = self.namespace.get(ino).and_then(|inode| self.replace_body(state, &inode));
        match replaced {
            Err(Error::NotFound | Error::Busy(_)) if state.body.is_some() => Ok(()),
            outcome => outcome,
        }
    }

    /// For a file that is only read here and could not be read at the host where it is open: opens it where the record says
    /// that its bytes are by now. Returns whether that is another host.
    pub(crate) fn follow_moved(&self, ino: InodeId, state: &mut LiveState) -> Result<bool> {
        let Some(remote) = state.read_through() else { return Ok(false) };
        let inode = self.namespace.get(ino)?;
        if self.copies.hosts_of(&inode)?.first() == Some(&remote.home()) {
            return Ok(false);
        }
        self.replace_body(state, &inode).map(|()| true)
    }

    /// Whether another host has changed the file since its body was opened. A file that is being written here is newer than
    /// any record.
    fn is_outdated(&self, state: &mut LiveState, inode: &Inode) -> Result<bool> {
        let is_ours =
            state.mark.is_unsettled() || state.overlay.is_dirty || state.writes_remotely();
        let is_known = state.record.as_ref().is_some_and(|known| known.version == inode.version);
        let is_kept_true = |kept| self.remote_cache.is_true_of(inode, kept);
        let is_known = is_known && state.copy_backing().is_none_or(is_kept_true);
        if state.body.is_none() || is_ours || is_known {
            return Ok(false);
        }
        let is_passed = state.is_passed();
        if is_passed {
            self.keep_dropped(inode, state)?;
        }
        let Some(body) = &state.body else { return Ok(true) };
        let standing = body.standing(inode);
        let stays = self.stays(&standing, inode, is_passed)?;
        if !stays && is_passed {
            return Err(moved_while_open());
        }
        let is_named = matches!(standing, Standing::Named);
        state.sums.forget();
        state.sums.note_stored(is_named && inode.checksummed);
        Ok(!stays)
    }

    /// Whether the body goes on being read, which the kernel may read past the process (`is_passed`): it has the recorded
    /// content, or gets it now.
    fn stays(&self, standing: &Standing<'_>, inode: &Inode, is_passed: bool) -> Result<bool> {
        match standing {
            Standing::Named => Ok(true),
            Standing::Dropped(_) | Standing::Unknown => Ok(false),
            // The kernel cannot be given another backing file while this one is open.
            Standing::Cached(copy) if is_passed => {
                if !self.remote_cache.is_true_of(inode, copy.backing) {
                    self.renewal
                        .renew_kept(inode, copy)
                        .map_err(|error| self.bodies.explained(inode, error))?;
                }
                Ok(true)
            }
            // A copy on this host that the record names now is read instead of the cached one.
            Standing::Cached(copy) => Ok(self.copies.own(inode).is_none()
                && self.remote_cache.is_true_of(inode, copy.backing)),
        }
    }

    /// Opens what another host has made of a file that is open here. At once, because the file has to stay readable if it is
    /// removed next. Not for a file that is written here: that would drop the kernel's pages while the kernel asks for the
    /// length; it would then ignore the answer, and a program with a lock would not see the end of the file.
    pub(crate) fn follow(&self, state: &mut LiveState, inode: &Inode) -> Result<()> {
        if !self.members.is_shared()
            || !state.is_served_by_us()
            || state.holds_lease()
            || state.writes_without_right()
            || state.right.is_taken_over()
        {
            return Ok(());
        }
        let followed = match self.is_outdated(state, inode) {
            Ok(true) => self.replace_body(state, inode),
            Ok(false) => Ok(()),
            // Removed meanwhile; it stays as it was.
            Err(Error::NotFound) => return Ok(()),
            Err(error) => return Err(error),
        };
        match followed {
            Ok(()) => state.followed_at = Some(Instant::now()),
            Err(error) => {
                tracing::debug!(ino = %inode.ino, %error, "whoever reads the file tries again");
            }
        }
        Ok(())
    }

    /// Reads a file from another host, because its copy here cannot be opened; gives the error `trouble` if no other has it.
    pub(crate) fn read_elsewhere(
        &self,
        inode: &Inode,
        state: &mut LiveState,
        trouble: Error,
    ) -> Result<()> {
        let (Some(cluster), Some(_)) = (&self.cluster, self.copies.own(inode)) else {
            return Err(trouble);
        };
        let mut others = self.copies.hosts_of(inode)?;
        others.retain(|host| *host != self.me);
        if others.is_empty() {
            return Err(trouble);
        }
        tracing::error!(ino = %inode.ino, error = %trouble, "the copy here cannot be read; another host's is");
        let file = open_elsewhere(cluster, inode, &others)?;
        state.overlay.size_bytes = inode.size_bytes;
        state.body = Some(Body::remote(file));
        state.sums.forget();
        state.record = Some(inode.clone());
        Ok(())
    }

    /// If the copy that the kernel reads by passthrough is no longer named by the record, takes it out of the ledger and keeps it
    /// as a cached copy, which can be brought to the recorded content.
    ///
    /// # Errors
    /// [`Error::Busy`] when it is no longer in the ledger.
    fn keep_dropped(&self, inode: &Inode, state: &mut LiveState) -> Result<()> {
        let Some(Standing::Dropped(local)) = state.body.as_ref().map(|body| body.standing(inode))
        else {
            return Ok(());
        };
        let BackingRef { tier, file } = local.backing;
        let free = FreeFile::of(inode.ino, file);
        if !self.ledger.take_file(tier, free)? {
            return Err(moved_while_open());
        }
        self.remote_cache.adopt(inode.ino, local)?;
        state.backing.keep();
        state.body = state.take_own().map(Body::kept);
        Ok(())
    }
}

fn moved_while_open() -> Error {
    Error::Busy("another host has moved the file while it is open here; close it first".into())
}

impl LiveState {
    /// Closes a copy here that is longer or shorter than the record says, if other hosts have copies too.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; then the entry has no body, and the file can be read from another host.
    pub(crate) fn require_whole_copy(&mut self, inode: &Inode) -> Result<()> {
        let is_settled = !self.mark.is_unsettled() && !self.holds_lease() && !self.is_open();
        let has_others = inode.layout.copies().len() > 1;
        if !is_settled || !has_others {
            return Ok(());
        }
        let Some(OwnFile { backing, stat, .. }) = self.own_now()? else { return Ok(()) };
        let size_bytes = stat.size_bytes;
        if size_bytes == inode.size_bytes || !inode.layout.copies().contains(&backing) {
            return Ok(());
        }
        let what = format!(
            "the copy here, {}, has {size_bytes} bytes, its record says {} (version {})",
            backing.file, inode.size_bytes, inode.version
        );
        self.body = None;
        Err(Error::Corrupt { ino: inode.ino, what })
    }
}
