//! Backing files here that are made what a record says, whose present content is at other hosts or elsewhere here.

use std::sync::Arc;

use intarsia_meta::{Inode, Namespace};
use intarsia_types::{BackingRef, Error, Layout, Result};

use crate::body::remote::RemoteFile;
use crate::body::{LocalBody, load_inline};
use crate::cache::remote_cache::RemoteCache;
use crate::membership::cluster::Cluster;
use crate::replication::copies::{Copies, open_elsewhere};
use crate::space::ledger::Ledger;

/// Fills backing files here with what others hold.
pub(crate) struct Renewal {
    pub(super) namespace: Arc<Namespace>,
    /// The other hosts, in a store of several.
    pub(super) cluster: Option<Arc<Cluster>>,
    pub(super) copies: Arc<Copies>,
    pub(super) remote_cache: Arc<RemoteCache>,
    pub(super) ledger: Arc<Ledger>,
}

impl Renewal {
    /// Brings a copy that the kernel reads past us to the present content of `inode`, in place: while the file is open
    /// the kernel can be told of no other one.
    pub(super) fn renew_kept(&self, inode: &Inode, kept: &LocalBody) -> Result<()> {
        self.remote_cache.begin_renewal(inode.ino, kept.backing)?;
        let size_bytes = self.copy_present(inode, kept.backing)?;
        // A copy that a record names does not change.
        let version =
            Some(inode.version).filter(|_| inode.checksummed || self.copies.own(inode).is_some());
        self.remote_cache.end_renewal(inode.ino, kept, version, size_bytes)
    }

    /// Makes a backing file here what the record says; how long that is.
    pub(super) fn copy_present(&self, inode: &Inode, backing: BackingRef) -> Result<u64> {
        match (self.copies.own(inode), &inode.layout) {
            (Some(own), _) => self.ledger.copy(own, backing),
            (None, Layout::Empty) => self.ledger.write_whole(backing, &[]),
            (None, Layout::Inline) => {
                self.ledger.write_whole(backing, &load_inline(&self.namespace, inode)?)
            }
            (None, _) => {
                let cluster = self.cluster.as_ref().ok_or(Error::BadHandle)?;
                let hosts = self.copies.hosts_of(inode)?;
                let source = Arc::new(open_elsewhere(cluster, inode, &hosts)?);
                self.copy_here(&source, backing)
            }
        }
    }

    /// Makes a backing file here what `source` is; how long that is.
    pub(super) fn copy_here(&self, source: &Arc<RemoteFile>, backing: BackingRef) -> Result<u64> {
        self.ledger.copy_from(backing, |buffer, at| source.read_at(buffer, at))
    }
}
