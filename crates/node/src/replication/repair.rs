//! Making the replicas that a file lacks: after a host was lost, or after an attempt to make them failed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use intarsia_meta::{Extra, Inode, Owner};
use intarsia_policy::{Census, Named};
use intarsia_types::{BackingRef, Error, InodeId, Layout, Result};

use crate::background::throttle::Pace;
use crate::body::integrity::stored_sums;
use crate::membership::cluster::Cluster;
use crate::replication::Replicas;
use crate::replication::push::CopySource;
use crate::replication::replicator::Attempted;
use crate::space::hints::own_hints;

/// How long the holder of the right to write may take to answer when it is asked to give the right back.
const RECALL_PATIENCE: Duration = Duration::from_secs(2);

/// What is done about rights to write that keep copies from being made.
pub(crate) trait WriteRights {
    /// Makes this host, which has a copy, the home of a file that a lost host may have been writing to. What the lost host
    /// had not published does not count. Its own copy may hold such changes, so the record names it no more.
    fn inherit(&self, ino: InodeId) -> Result<()>;

    /// Gives up this host's right to write a file, unless programs here have it open.
    fn let_go(&self, ino: InodeId) -> Result<()>;
}

impl Replicas {
    fn census(&self, cluster: &Cluster, inode: &Inode) -> Result<Census<BackingRef>> {
        let mut census = Census::default();
        for backing in inode.layout.copies() {
            let home = cluster.home_of(backing.tier)?;
            if cluster.has_given_up(&home) {
                census.lost.push(*backing);
            } else {
                census.alive.push((home, *backing));
            }
        }
        Ok(census)
    }

    /// Makes the copies that a closed file lacks, if this host has a copy of it. Once there are enough, the record names those
    /// on lost hosts no more. `rights` deals with a right to write that stands in the way.
    ///
    /// # Errors
    /// Those of the metadata, of reading the content, and of other hosts. The caller tries again later, as after
    /// [`Attempted::Again`].
    pub(crate) fn make_up(&self, ino: InodeId, rights: &dyn WriteRights) -> Result<Attempted> {
        let Some(cluster) = &self.cluster else { return Ok(Attempted::Done) };
        let Some(turn) = self.turns.lock(ino) else { return Ok(Attempted::Again) };
        let inode = match self.namespace.get(ino) {
            Err(Error::NotFound) => return Ok(Attempted::Done),
            other => other?,
        };
        let mut census = self.census(cluster, &inode)?;
        let Some(own) = inode.layout.copies().iter().find(|copy| self.tiers.has(copy.tier)) else {
            return Ok(Attempted::Done);
        };
        let wanted = self.placing.copies_wanted(&own_hints(&self.namespace, &inode)?);
        if census.lacks_copies(wanted)
            && let Some(writer) = self.namespace.writer(ino)?
        {
            return self.leave_to(&writer, cluster, &inode, &census, *own, rights);
        }
        if !census.lacks_copies(wanted) {
            // Another host asked for this, and may know of a lost host that this one has not noticed yet.
            cluster.meet()?;
            census = self.census(cluster, &inode)?;
            if !census.lacks_copies(wanted) {
                return Ok(Attempted::Done);
            }
        }
        let pace = Pace::Background(&self.throttle, &turn);
        let made = match self.make_missing(cluster, &inode, *own, &census, wanted, pace) {
            // Another thread waits for the turn: a program wants copies of something that it wrote since.
            Err(Error::Busy(_)) if turn.is_wanted() => return Ok(Attempted::Again),
            made => made?,
        };
        self.name_copies(cluster, &inode, &census, wanted, &made)
    }

    /// Leaves the copies of a file to the host that may write to it, which makes them once the file has settled. If that host
    /// is lost, or has come back without claiming the file, the first living host with a copy takes the file over and makes
    /// them.
    fn leave_to(
        &self,
        writer: &Owner,
        cluster: &Cluster,
        inode: &Inode,
        census: &Census<BackingRef>,
        own: BackingRef,
        rights: &dyn WriteRights,
    ) -> Result<Attempted> {
        let ino = inode.ino;
        if self.files.note_lacking(ino) {
            return Ok(Attempted::Done);
        }
        if census.is_first(&own) && cluster.has_let_go(writer) {
            rights.inherit(ino)?;
        } else if cluster.has_let_go(writer)
            && let Some(first) = census.maker()
        {
            // `first` is to take the file over. The host that asked this one may have taken it for lost.
            let is_told = self.tell_lacking(cluster, first, vec![(ino, inode.size_bytes)]);
            return Ok(if is_told { Attempted::Done } else { Attempted::Again });
        } else if writer.node == self.me {
            rights.let_go(ino)?;
        } else if !cluster.is_over(writer) {
            // The writer may hold the right without knowing it, as after an answer that was lost. Then it gives it back now.
            let recalled = cluster.recall(&writer.node, ino, None, RECALL_PATIENCE);
            tracing::debug!(%ino, ?recalled, "asked the writer of a file that lacks copies");
        }
        Ok(Attempted::Again)
    }

    fn make_missing(
        &self,
        cluster: &Arc<Cluster>,
        inode: &Inode,
        own: BackingRef,
        census: &Census<BackingRef>,
        wanted: usize,
        pace: Pace<'_>,
    ) -> Result<Vec<BackingRef>> {
        let count = census.missing(wanted);
        if count == 0 {
            return Ok(Vec::new());
        }
        let file = self.tiers.get(own.tier)?.open_file(own.file, false)?;
        let size_bytes = file.stat()?.size_bytes;
        if size_bytes != inode.size_bytes {
            let what = format!("a copy of {size_bytes} bytes, not {}", inode.size_bytes);
            return Err(Error::Corrupt { ino: inode.ino, what });
        }
        let sums =
            if inode.checksummed { Some(stored_sums(&self.namespace, inode.ino)?) } else { None };
        let class = own_hints(&self.namespace, inode)?.tier();
        let source = CopySource {
            ino: inode.ino,
            version: inode.version,
            file: &file,
            size_bytes,
            sums: sums.as_ref(),
            class: class.unwrap_or(self.tiers.get(own.tier)?.class()),
        };
        let made = self.make_copies(cluster, &source, &census.holders(), count, pace)?;
        Ok(made.copies)
    }

    /// Commits a record that names the new copies. It names those on lost hosts no more if there are enough without them.
    fn name_copies(
        &self,
        cluster: &Cluster,
        inode: &Inode,
        census: &Census<BackingRef>,
        wanted: usize,
        made: &[BackingRef],
    ) -> Result<Attempted> {
        let Named { copies, is_enough } = census.named_with(made, wanted);
        let known = inode.layout.copies();
        if copies == known {
            return Ok(if is_enough { Attempted::Done } else { Attempted::Again });
        }
        let dropped: Vec<_> = known.iter().copied().filter(|copy| !copies.contains(copy)).collect();
        let mut extras = vec![Extra::HoldUnwritten];
        extras.extend(made.iter().map(|copy| Extra::ClaimFree(*copy)));
        extras.extend(dropped.iter().map(|copy| Extra::PutFree(*copy)));
        let named = self.namespace.update_with(inode.ino, &extras, |now| {
            if now.version != inode.version {
                return Err(Error::Busy("the file was changed while its copies were made".into()));
            }
            now.layout = Layout::of_copies(copies.clone());
            Ok(())
        });
        match named {
            Ok(_) => {}
            Err(Error::NotFound | Error::Busy(_)) => {
                cluster.refuse_copies(inode.ino, inode, made);
                return Ok(Attempted::Again);
            }
            Err(error) => return Err(error),
        }
        self.note_dropped(&dropped);
        if is_enough && !census.lost.is_empty() {
            self.counts.repaired.fetch_add(1, Ordering::Relaxed);
        }
        Ok(if is_enough { Attempted::Done } else { Attempted::Again })
    }
}
