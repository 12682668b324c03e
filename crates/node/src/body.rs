//! The bytes of files: beside the inode, in a backing file here, at other hosts, or in the lower file system.
//!
//! Owns the open bodies, and [`Bodies`], which makes backing files, has records name them, and opens them.
//! Asks `space` for backing files, and `membership` for what other hosts have.
//! Promises that a record names a backing file only once its bytes are in it, and that a file that no record names is given
//! back. It knows nothing of live inodes: its callers say what is to become of a body.

mod alone;
pub(crate) mod beside;
pub(crate) mod changing;
pub(crate) mod integrity;
pub(crate) mod lower;
mod making;
pub(crate) mod own;
pub(crate) mod parts;
pub(crate) mod pieces;
pub(crate) mod recording;
pub(crate) mod remote;
pub(crate) mod seam;
pub(crate) mod striped;
pub(crate) mod stripes;
pub(crate) mod sums;

use std::sync::Arc;

use intarsia_codec::{BLOCK_BYTES, BlockSums};
use intarsia_meta::{Inode, Namespace};
use intarsia_store::BackingFile;
use intarsia_types::{BackingRef, Durability, Error, HintSet, InodeId, Layout, Result};

use crate::body::integrity::stored_sums;
use crate::body::lower::{Lower, LowerBody};
use crate::body::parts::Parts;
use crate::body::remote::RemoteFile;
use crate::body::striped::StripedFile;
use crate::body::stripes::Stripes;
use crate::membership::cluster::Cluster;
use crate::metrics::hinted::Hinted;
use crate::options::NodeOptions;
use crate::space::ledger::Ledger;
use crate::space::placing::Placing;
use crate::space::tiers::{MakesRoom, Tiers};

/// Where the bytes of a live file are.
pub(crate) enum Body {
    /// In memory; the metadata has the same bytes unless the overlay is dirty.
    Inline(Vec<u8>),
    /// In a backing file of this host.
    Local(LocalBody),
    /// At another host, with a valid cached copy here, which is read and never written.
    Kept(LocalBody),
    /// At another host.
    Remote(Arc<RemoteFile>),
    /// In chunks that are dealt over several hosts.
    Striped(Arc<StripedFile>),
    /// In the lower file system; never written.
    Lower(LowerBody),
}

/// An open backing file of this host.
pub(crate) struct LocalBody {
    pub(crate) backing: BackingRef,
    /// The descriptor for reading, which the kernel gets for passthrough as well. It is read-only because the kernel grants a
    /// lease on a file, which shows that the file has settled, only on such a descriptor.
    pub(crate) ro: Arc<BackingFile>,
    /// The descriptor for writing: opened when this process writes for the first time, closed with the last writer.
    pub(crate) rw: Option<Arc<BackingFile>>,
}

impl LocalBody {
    pub(crate) fn new(backing: BackingRef, file: BackingFile) -> Self {
        Self { backing, ro: Arc::new(file), rw: None }
    }

    /// The descriptor for writing, which is opened if it is not open yet.
    pub(crate) fn writer(&mut self, tiers: &Tiers) -> Result<Arc<BackingFile>> {
        if let Some(rw) = &self.rw {
            return Ok(Arc::clone(rw));
        }
        let tier = tiers.get(self.backing.tier)?;
        let rw = Arc::new(tier.open_file(self.backing.file, true)?);
        self.rw = Some(Arc::clone(&rw));
        Ok(rw)
    }
}

/// Chooses which copy of a file this host reads: its own, a cached copy, or one at another host.
pub(crate) trait OpensCopies: Send + Sync {
    /// Opens, for reading, the copy that this host reads of a file that is in backing files.
    fn open_copy(&self, inode: &Inode, hints: &HintSet) -> Result<Body>;
}

/// What [`Bodies`] is made of.
pub(crate) struct BodyParts<'p> {
    pub(crate) namespace: &'p Arc<Namespace>,
    pub(crate) tiers: &'p Arc<Tiers>,
    pub(crate) placing: &'p Arc<Placing>,
    pub(crate) ledger: &'p Arc<Ledger>,
    /// Parts of striped files that are open here.
    pub(crate) parts: &'p Arc<Parts>,
    pub(crate) hinted: &'p Arc<Hinted>,
    /// The other hosts, in a store of several.
    pub(crate) cluster: Option<&'p Arc<Cluster>>,
    pub(crate) makes_room: Arc<dyn MakesRoom>,
    pub(crate) copies: Arc<dyn OpensCopies>,
    pub(crate) lower: Lower,
}

/// Opens the bodies of files, makes backing files on this host, and has records name them.
pub(crate) struct Bodies {
    namespace: Arc<Namespace>,
    tiers: Arc<Tiers>,
    placing: Arc<Placing>,
    ledger: Arc<Ledger>,
    makes_room: Arc<dyn MakesRoom>,
    copies: Arc<dyn OpensCopies>,
    /// Whether other hosts work in the same store.
    is_shared: bool,
    /// Whether the mark of an unsettled inode has to be on stable storage before the file may change (durability `sync`).
    is_durable: bool,
    pub(crate) lower: Lower,
    pub(crate) stripes: Stripes,
    /// Parts of striped files that are open here.
    pub(crate) parts: Arc<Parts>,
}

/// The error for a file that is kept in a way that this version does not know.
fn unserved(inode: &Inode, what: &str, name: &str) -> Error {
    tracing::error!(ino = %inode.ino, "this node cannot serve the {what} {name}");
    Error::Corrupt {
        ino: inode.ino,
        what: format!("{what} {name} needs a node of a newer version"),
    }
}

/// A body that was opened, and the length in bytes that counts for it: the record's, or for a file of the lower file system the
/// one that was found there.
pub(crate) struct Loaded {
    pub(crate) body: Body,
    pub(crate) size_bytes: u64,
}

impl Bodies {
    pub(crate) fn new(options: &NodeOptions, of: BodyParts<'_>) -> Self {
        Self {
            namespace: Arc::clone(of.namespace),
            tiers: Arc::clone(of.tiers),
            placing: Arc::clone(of.placing),
            ledger: Arc::clone(of.ledger),
            is_shared: of.cluster.is_some(),
            is_durable: options.durability == Durability::Sync,
            stripes: Stripes::new(options, &of),
            parts: Arc::clone(of.parts),
            makes_room: of.makes_room,
            copies: of.copies,
            lower: of.lower,
        }
    }

    /// Whether other hosts work in the same store.
    pub(crate) const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The tiers here.
    pub(crate) fn tiers(&self) -> &Tiers {
        &self.tiers
    }

    /// The record of an inode.
    pub(crate) fn record(&self, ino: InodeId) -> Result<Inode> {
        self.namespace.get(ino)
    }

    /// Opens the body of `inode`.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the inode was removed since its record was read, [`Error::Busy`] when its record was changed
    /// since, [`Error::Corrupt`] for a body that is damaged or needs a newer version of this program.
    pub(crate) fn load(&self, inode: &Inode, hints: &HintSet) -> Result<Loaded> {
        self.load_recorded(inode, hints).map_err(|error| self.explained(inode, error))
    }

    /// The error to report if the body of `inode` could not be opened because of `error`. If the record was changed or removed
    /// since it was read, that is the reason, and nothing is damaged.
    pub(crate) fn explained(&self, inode: &Inode, error: Error) -> Error {
        match self.namespace.version(inode.ino) {
            Err(Error::NotFound) => Error::NotFound,
            Ok(now) if now != inode.version => {
                Error::Busy("the file was changed while it was opened".into())
            }
            _ => error,
        }
    }

    /// Whether the record was changed or removed since it was read, or this cannot be found out.
    pub(crate) fn may_have_changed(&self, inode: &Inode) -> bool {
        !self.namespace.version(inode.ino).is_ok_and(|now| now == inode.version)
    }

    fn load_recorded(&self, inode: &Inode, hints: &HintSet) -> Result<Loaded> {
        let size_bytes = inode.size_bytes;
        if !inode.encoding.is_plain() {
            return Err(unserved(inode, "encoding", inode.encoding.name()));
        }
        let body = match &inode.layout {
            Layout::Empty => Body::Inline(Vec::new()),
            Layout::Inline => Body::Inline(load_inline(&self.namespace, inode)?),
            Layout::Local(_) | Layout::Replicated { .. } => self.copies.open_copy(inode, hints)?,
            Layout::Striped { .. } => Body::striped(self.stripes.open(inode, false)?),
            Layout::Lower { .. } => {
                let (body, renewed) = self.lower.open(inode)?;
                return Ok(Loaded { body: Body::Lower(body), size_bytes: renewed.size_bytes });
            }
            other => return Err(unserved(inode, "layout", other.name())),
        };
        Ok(Loaded { body, size_bytes })
    }

    /// The stored sums of the inode with the record `known`. None if the record has changed since: the sums may then be those of
    /// content that another host has published, and not of the bytes that are open here. None too if some sums are missing
    /// because the file is being removed: then the record that is kept here is older for a moment than the engine's.
    pub(crate) fn stored_sums(
        &self,
        ino: InodeId,
        known: Option<&Inode>,
    ) -> Result<Option<BlockSums>> {
        let sums = stored_sums(&self.namespace, ino)?;
        let blocks = known.map_or(0, |known| known.size_bytes).div_ceil(BLOCK_BYTES);
        let version = known.map(|known| known.version);
        let is_still = if (sums.len() as u64) < blocks {
            self.namespace.version(ino).map(|now| Some(now) == version)
        } else if self.is_shared {
            self.namespace.get(ino).map(|now| now.checksummed && Some(now.version) == version)
        } else {
            Ok(true)
        };
        match is_still {
            Ok(is_still) => Ok(Some(sums).filter(|_| is_still)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The bytes of an inline body.
///
/// # Errors
/// [`Error::Corrupt`] if they are missing, or not as many as the record says.
pub(crate) fn load_inline(namespace: &Namespace, inode: &Inode) -> Result<Vec<u8>> {
    let (bytes, wanted_bytes) = (namespace.get_body(inode.ino)?, inode.size_bytes);
    let what = match bytes {
        Some(bytes) if bytes.len() as u64 == wanted_bytes => return Ok(bytes.to_vec()),
        Some(bytes) => format!("inline body of {} bytes, not {wanted_bytes}", bytes.len()),
        None => "the inline body is missing".into(),
    };
    Err(Error::Corrupt { ino: inode.ino, what })
}
