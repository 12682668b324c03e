//! Which copy of a file is read: the one on this host, else the home's, else the first of the others whose host answers.

use std::sync::Arc;

use intarsia_meta::Inode;
use intarsia_types::{BackingRef, Error, HintSet, NodeId, Pattern, Result};

use crate::body::remote::{RemoteFile, is_of_the_host};
use crate::body::{Body, LocalBody, OpensCopies};
use crate::cache::remote_cache::RemoteCache;
use crate::cache::spread::Spreads;
use crate::membership::cluster::Cluster;
use crate::metrics::hinted::Hinted;
use crate::space::tiers::Tiers;

/// Finds and opens the copies of files.
pub(crate) struct Copies {
    /// The name of this host.
    me: NodeId,
    tiers: Arc<Tiers>,
    /// The other hosts, in a store of several.
    cluster: Option<Arc<Cluster>>,
    /// Cached copies of other hosts' files.
    remote_cache: Arc<RemoteCache>,
    /// Files that spread over their readers.
    spreads: Arc<Spreads>,
    hinted: Arc<Hinted>,
}

impl Copies {
    pub(crate) fn new(
        me: &NodeId,
        tiers: &Arc<Tiers>,
        cluster: Option<&Arc<Cluster>>,
        remote_cache: &Arc<RemoteCache>,
        spreads: &Arc<Spreads>,
        hinted: &Arc<Hinted>,
    ) -> Self {
        Self {
            me: me.clone(),
            tiers: Arc::clone(tiers),
            cluster: cluster.cloned(),
            remote_cache: Arc::clone(remote_cache),
            spreads: Arc::clone(spreads),
            hinted: Arc::clone(hinted),
        }
    }

    /// The copy on this host, if there is one.
    pub(crate) fn own(&self, inode: &Inode) -> Option<BackingRef> {
        inode.layout.copies().iter().copied().find(|copy| self.tiers.has(copy.tier))
    }

    /// The hosts that have the bytes of a file: its home first, or those of its parts in stripe order. Only this host if the
    /// layout names no backing files, because each host can read the bytes then: they are beside the inode, or in the lower
    /// file system.
    pub(crate) fn hosts_of(&self, inode: &Inode) -> Result<Vec<NodeId>> {
        let host = |copy: &BackingRef| match &self.cluster {
            Some(cluster) if !self.tiers.has(copy.tier) => cluster.home_of(copy.tier),
            _ => Ok(self.me.clone()),
        };
        let hosts: Vec<_> = inode.layout.files().iter().map(host).collect::<Result<_>>()?;
        Ok(if hosts.is_empty() { vec![self.me.clone()] } else { hosts })
    }
}

impl OpensCopies for Copies {
    fn open_copy(&self, inode: &Inode, hints: &HintSet) -> Result<Body> {
        let own = self.own(inode);
        match (own.or(inode.layout.backing()), &self.cluster) {
            (Some(_), Some(cluster)) if own.is_none() => {
                if let Some(kept) = self.remote_cache.true_copy(inode) {
                    if hints.pattern() == Some(Pattern::Reuse) {
                        self.hinted.note(Pattern::Reuse, Ok(()));
                    }
                    return Ok(Body::kept(kept));
                }
                let hosts = self.hosts_of(inode)?;
                let file = open_elsewhere(cluster, inode, &hosts)?;
                Ok(Body::remote(self.spreads.begin(inode, hints, file)))
            }
            (Some(backing), _) => {
                let file = self.tiers.get(backing.tier)?.open_file(backing.file, false)?;
                Ok(Body::local(LocalBody::new(backing, file)))
            }
            (None, _) => {
                let what = "a list of copies without any".into();
                Err(Error::Corrupt { ino: inode.ino, what })
            }
        }
    }
}

/// Opens the file for reading at the first of `hosts` that serves it. Hosts that are lost, down or about to leave are asked
/// last. Those after the one that serves become its spares, to which the reader goes over if it fails.
pub(crate) fn open_elsewhere(
    cluster: &Arc<Cluster>,
    inode: &Inode,
    hosts: &[NodeId],
) -> Result<RemoteFile> {
    let mut hosts = hosts.to_vec();
    if hosts.len() > 1 {
        hosts.sort_by_key(|host| cluster.has_given_up(host));
    }
    let mut hosts = hosts.into_iter();
    let mut outcome = Err(Error::BadHandle);
    while let Some(host) = hosts.next() {
        outcome = match RemoteFile::open_to_read(cluster, host, inode) {
            Err(error) if is_of_the_host(&error) => Err(error),
            opened => return opened.map(|file| file.with_spares(hosts.collect())),
        };
    }
    outcome
}
