//! Which of a file's copies is read: one of this host, else the home's, else any that answers.

use std::sync::Arc;

use intarsia_meta::{FreeFile, Inode};
use intarsia_types::{BackingRef, Error, HintSet, NodeId, Pattern, Result, TierId};

use crate::body::remote::{RemoteFile, is_of_the_host};
use crate::body::{Body, LocalBody};
use crate::inode::live::LiveState;
use crate::membership::cluster::Cluster;
use crate::node::Node;

impl Node {
    /// The copy on this host, if there is one.
    pub(crate) fn own_copy(&self, inode: &Inode) -> Option<BackingRef> {
        inode.layout.copies().iter().copied().find(|copy| self.tiers.has(copy.tier))
    }

    /// The hosts that have the bytes of a file, its home first, or its parts in stripe order; this one for what every host has with the
    /// record.
    pub(crate) fn hosts_of(&self, inode: &Inode) -> Result<Vec<NodeId>> {
        let host = |copy: &BackingRef| match &self.cluster {
            Some(cluster) if !self.tiers.has(copy.tier) => cluster.home_of(copy.tier),
            _ => Ok(self.options.name.clone()),
        };
        let hosts: Vec<_> = inode.layout.files().iter().map(host).collect::<Result<_>>()?;
        Ok(if hosts.is_empty() { vec![self.options.name.clone()] } else { hosts })
    }

    /// Opens the copy that is read here.
    pub(crate) fn load_copy(&self, inode: &Inode, hints: &HintSet) -> Result<Body> {
        let own = self.own_copy(inode);
        match (own.or(inode.layout.backing()), &self.cluster) {
            (Some(_), Some(cluster)) if own.is_none() => {
                if let Some(kept) = self.remote_cache.true_copy(inode) {
                    if hints.pattern() == Some(Pattern::Reuse) {
                        self.hinted.note(Pattern::Reuse, Ok(()));
                    }
                    return Ok(Body::kept(kept));
                }
                let hosts = self.hosts_of(inode)?;
                let file = self.open_elsewhere(cluster, inode, &hosts)?;
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

    /// Has a file read from another host, because its copy here cannot be opened; the error `trouble` if no other has it.
    pub(crate) fn read_elsewhere(
        &self,
        inode: &Inode,
        state: &mut LiveState,
        trouble: Error,
    ) -> Result<()> {
        let (Some(cluster), Some(_)) = (&self.cluster, self.own_copy(inode)) else {
            return Err(trouble);
        };
        let mut others = self.hosts_of(inode)?;
        others.retain(|host| *host != self.options.name);
        if others.is_empty() {
            return Err(trouble);
        }
        tracing::error!(ino = %inode.ino, error = %trouble, "the copy here cannot be read; another host's is");
        let file = self.open_elsewhere(cluster, inode, &others)?;
        state.overlay.size_bytes = inode.size_bytes;
        state.body = Some(Body::remote(file));
        state.sums.forget();
        state.record = Some(inode.clone());
        Ok(())
    }

    /// Goes on with a copy that is open here past the process when the record names it no more: it leaves the ledger and
    /// is kept, so that it can be brought to what the record says now.
    ///
    /// # Errors
    /// [`Error::Busy`] when it is gone.
    pub(crate) fn keep_dropped(&self, inode: &Inode, state: &mut LiveState) -> Result<()> {
        let Some(local) = state.local() else { return Ok(()) };
        let BackingRef { tier, file } = local.backing;
        let free = FreeFile::of(inode.ino, file);
        if !self.ledger.take_file(tier, free)? {
            return Err(Error::Busy(
                "another host has moved the file while it is open here; close it first".into(),
            ));
        }
        self.remote_cache.adopt(inode.ino, local)?;
        state.backing.keep();
        state.body = state.take_local().map(Body::kept);
        Ok(())
    }

    /// Takes out of `garbage` what the kernel reads past the process: it is collected when it is closed, and who opens the
    /// file until then goes on with it.
    pub(crate) fn spare_passed(&self, tier: TierId, garbage: &mut Vec<FreeFile>) {
        if garbage.is_empty() {
            return;
        }
        for live in self.live.entries() {
            let mut state = live.lock();
            let Some(backing) = state.local().map(|local| local.backing) else { continue };
            if backing.tier == tier && state.is_passed() {
                let all = garbage.len();
                garbage.retain(|free| free.file != backing.file);
                if garbage.len() < all {
                    state.backing.spare();
                }
            }
        }
    }

    /// Opens the file for reading at the first of `hosts` that serves it; those that are known to be lost are
    /// asked last.
    pub(crate) fn open_elsewhere(
        &self,
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
}
