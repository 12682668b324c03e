//! The bytes of a live file: a vector beside the inode, or a backing file. Moves between the two.

pub(crate) mod beside;
pub(crate) mod integrity;
pub(crate) mod lower;
pub(crate) mod parts;
pub(crate) mod pieces;
pub(crate) mod remote;
pub(crate) mod seam;
pub(crate) mod striped;
pub(crate) mod stripes;
pub(crate) mod sums;

use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::{Extra, Inode, Namespace, allowance};
use intarsia_store::BackingFile;
use intarsia_sync::Instant;
use intarsia_types::{BackingRef, Durability, Error, InodeId, Integrity, Layout, Result, TierId};

use crate::body::integrity::sum_file;
use crate::body::lower::LowerBody;
use crate::body::remote::RemoteFile;
use crate::body::striped::StripedFile;
use crate::inode::early_fold::EarlyFold;
use crate::inode::live::LiveState;
use crate::node::Node;

/// Where the bytes of a live file are.
pub(crate) enum Body {
    /// In memory; the record has them when the overlay is clean.
    Inline(Vec<u8>),
    /// In a backing file.
    Local(LocalBody),
    /// At another host, with a true copy here that nobody writes to.
    Kept(LocalBody),
    /// At another host.
    Remote(Arc<RemoteFile>),
    /// Dealt over several hosts.
    Striped(Arc<StripedFile>),
    /// In the lower file system; never written.
    Lower(LowerBody),
}

/// An open backing file.
pub(crate) struct LocalBody {
    pub(crate) backing: BackingRef,
    /// Read-only, so that a lease can be asked of it; also what the kernel gets for passthrough.
    pub(crate) ro: Arc<BackingFile>,
    /// Opened when the process itself writes, closed with the last writer.
    pub(crate) rw: Option<Arc<BackingFile>>,
}

impl LocalBody {
    pub(crate) fn new(backing: BackingRef, file: BackingFile) -> Self {
        Self { backing, ro: Arc::new(file), rw: None }
    }
}

impl Node {
    /// Makes the body of `inode` accessible in `state`.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the inode was removed since its record was read, [`Error::Busy`] when it was changed.
    pub(crate) fn load_body(&self, state: &mut LiveState, inode: &Inode) -> Result<()> {
        if state.body.is_some() {
            return Ok(());
        }
        self.load_recorded(state, inode).map_err(|error| self.explained(inode, error))
    }

    /// What not finding the bytes of a record means: nothing is wrong with them if the record is not so any more.
    pub(crate) fn explained(&self, inode: &Inode, error: Error) -> Error {
        match self.namespace.version(inode.ino) {
            Err(Error::NotFound) => Error::NotFound,
            Ok(now) if now != inode.version => {
                Error::Busy("the file was changed while it was opened".into())
            }
            _ => error,
        }
    }

    fn load_recorded(&self, state: &mut LiveState, inode: &Inode) -> Result<()> {
        let mut size_bytes = inode.size_bytes;
        let body = match &inode.layout {
            Layout::Empty => Body::Inline(Vec::new()),
            Layout::Inline => Body::Inline(load_inline(&self.namespace, inode)?),
            Layout::Local(_) | Layout::Replicated { .. } => self.load_copy(inode, &state.hints)?,
            Layout::Striped { .. } => Body::Striped(Arc::new(self.open_stripes(inode, false)?)),
            Layout::Lower { .. } => {
                let (body, renewed) = self.open_lower(inode)?;
                size_bytes = renewed.size_bytes;
                Body::Lower(body)
            }
            other => {
                tracing::error!(ino = %inode.ino, layout = other.name(), "this node cannot serve the layout");
                return Err(Error::Corrupt {
                    ino: inode.ino,
                    what: format!("layout {} needs a node of a newer version", other.name()),
                });
            }
        };
        state.overlay.size_bytes = size_bytes;
        // A home verifies what it sends, and the transfer has sums of its own. Of a copy there may be later sums.
        state.sums.note_stored(inode.checksummed && !body.is_elsewhere());
        state.accounted_512 = match &body {
            // The count at the start took it as it was, whatever the record says.
            Body::Local(local) if state.mark.is_foreign() => local.ro.stat()?.blocks_512,
            _ => inode.blocks_512,
        };
        state.body = Some(body);
        // What the record knows of the file is what it was like at its last settling.
        state.seen_ctime = inode.ctime;
        if !state.mark.is_unsettled() {
            state.mark_seen();
        }
        Ok(())
    }

    /// Makes the body accessible that the record says now.
    pub(crate) fn load_present(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        /// How long others may go on changing it meanwhile.
        const CHANGING: Duration = Duration::from_secs(5);
        let deadline = Instant::now() + allowance::of(CHANGING);
        loop {
            let inode = self.namespace.get(ino)?;
            match self.load_body(state, &inode) {
                Err(Error::Busy(_))
                    if self.may_have_changed(&inode) && Instant::now() < deadline => {}
                outcome => return outcome,
            }
        }
    }

    /// Whether the record was changed or removed since it was read, or nobody can say.
    fn may_have_changed(&self, inode: &Inode) -> bool {
        !self.namespace.version(inode.ino).is_ok_and(|now| now == inode.version)
    }

    /// The descriptor that the process writes through.
    pub(crate) fn writable(&self, state: &mut LiveState) -> Result<Arc<BackingFile>> {
        let Some(Body::Local(local)) = &mut state.body else { return Err(Error::BadHandle) };
        if let Some(rw) = &local.rw {
            return Ok(Arc::clone(rw));
        }
        let tier = self.tiers.get(local.backing.tier)?;
        let rw = Arc::new(tier.open_file(local.backing.file, true)?);
        local.rw = Some(Arc::clone(&rw));
        Ok(rw)
    }

    /// Has an inline body, which is about to grow, in a backing file: in a tier here, or at another host where there is
    /// no room here (see [`crate::inode::elsewhere`]). Copies a lower file into one.
    pub(crate) fn unfold(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        match &state.body {
            Some(Body::Inline(_)) => self.give_home(ino, state),
            Some(Body::Lower(_)) => self.copy_up(ino, state),
            _ => Ok(()),
        }
    }

    /// As [`unfold`](Self::unfold), on this host in any case.
    pub(crate) fn unfold_here(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        if !matches!(state.body, Some(Body::Inline(_))) {
            return self.unfold(ino, state);
        }
        self.remote_cache.make_room();
        let tier = self.placing.tier_here(state.hints.tier())?;
        self.unfold_into(ino, state, tier)
    }

    /// Moves an inline body into a backing file of `tier`.
    ///
    /// The bytes are in the file before the record names it; a crash in between leaves a free file. Where the record is
    /// a promise to other hosts it keeps the bytes, and names no file, until others are published: as they stand
    /// beside the inode they outlive this host.
    pub(crate) fn unfold_into(
        &self,
        ino: InodeId,
        state: &mut LiveState,
        tier: TierId,
    ) -> Result<()> {
        let Some(Body::Inline(bytes)) = &state.body else { return Ok(()) };
        let (backing, file) = self.tiers.take_file(tier, &self.namespace)?;
        if !bytes.is_empty() {
            let written = self
                .tiers
                .get(tier)
                .and_then(|t| t.open_file(backing.file, true))
                .and_then(|rw| rw.write_all_at(bytes, 0));
            if let Err(e) = written {
                drop(file);
                self.ledger.discard_unrecorded(ino, backing, &e)?;
                return Err(e);
            }
        }
        let size_bytes = bytes.len() as u64;
        if self.keeps_published(state) {
            let published = EarlyFold::of(bytes);
            if let (Some(record), false) = (&state.record, state.overlay.is_dirty) {
                file.set_mtime(record.mtime)?;
            }
            state.naming.fold(published);
        } else if let Err(error) = self.record_unfolded(ino, state, backing, size_bytes) {
            drop(file);
            self.ledger.discard_unrecorded(ino, backing, &error)?;
            return Err(error);
        }
        state.body = Some(Body::Local(LocalBody::new(backing, file)));
        state.overlay.size_bytes = size_bytes;
        state.mark.set();
        state.sums.note_stored(false);
        state.accounted_512 = 0;
        if state.hints.integrity() == Integrity::Strict
            && let Some(local) = state.local()
        {
            state.sums.keep_up(sum_file(&local.ro)?);
        }
        state.mark_seen();
        Ok(())
    }

    /// Whether the record of a small file keeps its bytes while they are rewritten here. It is marked already as
    /// being written.
    fn keeps_published(&self, state: &LiveState) -> bool {
        self.is_shared()
            && state.holds_lease()
            && !state.right.is_taken_over()
            && !state.sums.is_stored()
            && state.hints.integrity() != Integrity::Strict
            && state.record.as_ref().is_some_and(|record| record.layout == Layout::Inline)
    }

    fn record_unfolded(
        &self,
        ino: InodeId,
        state: &LiveState,
        backing: BackingRef,
        size_bytes: u64,
    ) -> Result<()> {
        let mut extras = self.lease_extras(state);
        extras.extend([Extra::TakeFree(backing), Extra::DeleteBody, Extra::MarkWritable]);
        self.namespace.update_with(ino, &extras, |inode| {
            inode.layout = Layout::Local(backing);
            inode.size_bytes = size_bytes;
            inode.checksummed = false;
            Ok(())
        })?;
        Ok(())
    }

    /// Records durably that the backing file may change from now on.
    pub(crate) fn mark_unsettled(&self, ino: InodeId, state: &mut LiveState) -> Result<()> {
        if state.mark.is_unsettled() || state.local().is_none() {
            return Ok(());
        }
        if state.sums.is_stored() && state.hints.integrity() == Integrity::Strict {
            self.load_sums(ino, state)?;
        } else {
            state.sums.unload();
        }
        let mut extras = self.lease_extras(state);
        extras.push(Extra::MarkWritable);
        self.namespace.update_with(ino, &extras, |inode| {
            inode.checksummed = false;
            Ok(())
        })?;
        if self.options.durability == Durability::Sync {
            // Else power loss could keep new bytes and lose the mark that they are there.
            self.namespace.sync()?;
        }
        state.mark.set();
        state.sums.note_stored(false);
        Ok(())
    }
}

pub(crate) fn load_inline(namespace: &Namespace, inode: &Inode) -> Result<Vec<u8>> {
    let (bytes, wanted_bytes) = (namespace.get_body(inode.ino)?, inode.size_bytes);
    let what = match bytes {
        Some(bytes) if bytes.len() as u64 == wanted_bytes => return Ok(bytes.to_vec()),
        Some(bytes) => format!("inline body of {} bytes, not {wanted_bytes}", bytes.len()),
        None => "the inline body is missing".into(),
    };
    Err(Error::Corrupt { ino: inode.ino, what })
}
