//! Inodes that have no name left: what becomes of their records and bytes. After a commit without an answer it may be unknown
//! whether a name is left. For backing files without a known owner see [`crate::space::ledger`].

use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::{FreeFile, Inode, Namespace};
use intarsia_sync::{Instant, Mutex};
use intarsia_types::{BackingRef, Error, InodeId, Result};

use crate::background::queue::Queue;
use crate::inode::departed::Departed;
use crate::inode::live::{Forgotten, LiveState, LiveTable};
use crate::inode::passed::Passed;
use crate::membership::cluster::Cluster;
use crate::space::ledger::{Ledger, is_uncertain};
use crate::space::tiers::Tiers;

/// What a [`Removal`] is made of.
pub(crate) struct RemovalParts<'p> {
    pub(crate) namespace: &'p Arc<Namespace>,
    pub(crate) tiers: &'p Arc<Tiers>,
    /// The other hosts, in a store of several.
    pub(crate) cluster: Option<&'p Arc<Cluster>>,
    pub(crate) ledger: &'p Arc<Ledger>,
    pub(crate) queue: &'p Arc<Queue>,
    pub(crate) live: &'p Arc<LiveTable>,
    pub(crate) passed: &'p Arc<Passed>,
}

/// Removes inodes, and gets rid of what they leave behind.
pub(crate) struct Removal {
    namespace: Arc<Namespace>,
    tiers: Arc<Tiers>,
    cluster: Option<Arc<Cluster>>,
    ledger: Arc<Ledger>,
    queue: Arc<Queue>,
    live: Arc<LiveTable>,
    passed: Arc<Passed>,
    /// Inodes that may have become orphans of this host, and since when that is not known.
    doubtful: Mutex<Vec<(InodeId, Instant)>>,
    /// Inodes that are gone.
    pub(crate) departed: Departed,
}

impl Removal {
    pub(crate) fn new(of: &RemovalParts<'_>) -> Self {
        Self {
            namespace: Arc::clone(of.namespace),
            tiers: Arc::clone(of.tiers),
            cluster: of.cluster.cloned(),
            ledger: Arc::clone(of.ledger),
            queue: Arc::clone(of.queue),
            live: Arc::clone(of.live),
            passed: Arc::clone(of.passed),
            doubtful: Mutex::default(),
            departed: Departed::new(),
        }
    }

    /// Nobody has the file open any more. If it was a deferred create that could not be committed, only this host knows of its
    /// bytes; and the commit may still take effect, with a right to write that nobody here knows of.
    pub(crate) fn note_broken_promise(&self, ino: InodeId, state: &mut LiveState) {
        if !self.namespace.forget_promise(ino) {
            return;
        }
        state.doubt_own();
        self.passed.doubt_right(ino, &self.queue);
    }

    /// As [`forget_bytes`](Self::forget_bytes), for a file that was removed, or that was never recorded and is given up.
    pub(crate) fn forget(&self, ino: InodeId, state: &mut LiveState) {
        self.note_broken_promise(ino, state);
        self.forget_bytes(ino, state);
    }

    /// An entry that nobody needs any more forgets what it has of its file.
    pub(crate) fn forget_bytes(&self, ino: InodeId, state: &mut LiveState) {
        let forgotten = state.forget_body();
        self.discard_unnamed(ino, &forgotten);
    }

    /// Removes the backing file of an entry that is gone, if no record names it.
    fn discard_unnamed(&self, ino: InodeId, forgotten: &Forgotten) {
        let free = |backing: BackingRef| FreeFile::of(ino, backing.file);
        match (forgotten.unnamed, forgotten.doubtful) {
            (Some(backing), _) => self.queue.reclaim(backing.tier, free(backing)),
            (None, Some(backing)) => {
                self.ledger.doubt(backing, free(backing), forgotten.accounted_512.unwrap_or(0));
            }
            (None, None) => {}
        }
    }

    /// Gets rid of the bytes of an inode that the namespace has let go of.
    pub(crate) fn dispose(&self, inode: &Inode, forgotten: Forgotten) {
        let blocks_512 = forgotten.accounted_512.unwrap_or(inode.blocks_512);
        self.departed.add(inode, forgotten.size_bytes.unwrap_or(inode.size_bytes));
        self.discard_unnamed(inode.ino, &forgotten);
        for (at, backing) in inode.layout.files().iter().enumerate() {
            match (self.tiers.get(backing.tier), &self.cluster) {
                (Ok(tier), cluster) => {
                    if cluster.is_none() && at == 0 {
                        tier.account(blocks_512, 0);
                    }
                    let free = FreeFile::of(inode.ino, backing.file);
                    self.queue.reclaim(backing.tier, free);
                }
                // Its host would find it in the ledger by itself, but later than with this message.
                (Err(_), Some(cluster)) => cluster.note_garbage(*backing),
                (Err(_), None) => {}
            }
        }
    }

    /// Removes an orphan for good; `forgotten` is what was known of its bytes.
    pub(crate) fn reap(&self, ino: InodeId, forgotten: Forgotten) {
        match self.namespace.reap(ino) {
            Ok(inode) => self.dispose(&inode, forgotten),
            Err(Error::NotFound) => self.discard_unnamed(ino, &forgotten),
            Err(e) if self.cluster.is_some() => {
                tracing::warn!(%ino, error = %e, "an unlinked file stays for now");
                self.discard_unnamed(ino, &forgotten);
                self.doubt(ino);
            }
            Err(e) => {
                tracing::error!(%ino, error = %e, "an unlinked file stays until the next start");
            }
        }
    }

    /// Passes on the outcome of taking the last name from an inode that is open here, and so was to become an orphan of this
    /// host; without an answer it may have become one.
    pub(crate) fn or_doubt<T>(&self, kept: Option<InodeId>, taken: Result<T>) -> Result<T> {
        taken.inspect_err(|error| {
            if let Some(ino) = kept.filter(|_| is_uncertain(error)) {
                self.doubt(ino);
            }
        })
    }

    /// The inode may be an orphan that this host has to remove; that is found out later. In a store of one host the next start
    /// removes it.
    fn doubt(&self, ino: InodeId) {
        if self.cluster.is_some() {
            self.doubtful.lock().push((ino, Instant::now()));
            self.queue.collect();
        }
    }

    /// Removes the inodes in doubt for at least `age` that have become orphans and are not open here any more.
    pub(crate) fn resolve_doubts(&self, age: Duration) -> Result<()> {
        let is_due = |(_, since): &mut (InodeId, Instant)| since.elapsed() >= age;
        let due: Vec<_> = self.doubtful.lock().extract_if(.., is_due).collect();
        for (at, (ino, _)) in due.iter().enumerate() {
            let is_orphan = match self.namespace.get(*ino) {
                Ok(inode) => inode.nlink == 0,
                Err(Error::NotFound) => false,
                Err(error) => {
                    self.doubtful.lock().extend_from_slice(&due[at..]);
                    return Err(error);
                }
            };
            let waits = |state: &mut LiveState| {
                if is_orphan {
                    state.names.lose();
                }
                state.is_open()
            };
            if is_orphan && self.live.with_existing(*ino, waits) != Some(true) {
                self.reap(*ino, Forgotten::default());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use intarsia_meta::NewInode;
    use intarsia_types::{FileKind, Layout, TierId};

    use super::*;
    use crate::clock::now;
    use crate::membership::cluster::lone::lone;
    use crate::space::ledger::FileEvents;
    use crate::space::tiers::one_tier;

    struct NobodyAsks;

    impl FileEvents for NobodyAsks {
        fn note_gone(&self, _: BackingRef) -> bool {
            false
        }
    }

    /// On a host of several, over a tier in a directory that goes with the first value.
    fn removal() -> (tempfile::TempDir, Removal) {
        let dir = tempfile::tempdir().unwrap();
        let tiers = Arc::new(one_tier(&dir.path().join("tier")));
        let (cluster, namespace) = lone();
        let (namespace, queue) = (Arc::new(namespace), Arc::new(Queue::new(1024)));
        let (names, events) = (Arc::clone(&namespace), Arc::new(NobodyAsks));
        let ledger = Ledger::new(Arc::clone(&tiers), names, Arc::clone(&queue), events, true);
        let removal = Removal::new(&RemovalParts {
            namespace: &namespace,
            tiers: &tiers,
            cluster: Some(&cluster),
            ledger: &Arc::new(ledger),
            queue: &queue,
            live: &Arc::new(LiveTable::new()),
            passed: &Arc::default(),
        });
        (dir, removal)
    }

    /// A file of five bytes in a backing file whose name is gone, while its record waits for its last reader.
    fn orphan(removal: &Removal) -> InodeId {
        let new = NewInode::new(FileKind::Regular, 0o644, 0, 0);
        let ino = removal.namespace.create(InodeId::ROOT, b"f", new, now()).unwrap().ino;
        let (backing, _) = removal.tiers.take_file(TierId(0), &removal.namespace).unwrap();
        let place = |inode: &mut Inode| {
            inode.layout = Layout::Local(backing);
            inode.size_bytes = 5;
            Ok(())
        };
        removal.namespace.update(ino, place).unwrap();
        removal.namespace.unlink(InodeId::ROOT, b"f", |_| true, now()).unwrap();
        ino
    }

    fn has_record(removal: &Removal, ino: InodeId) -> bool {
        !matches!(removal.namespace.get(ino), Err(Error::NotFound))
    }

    #[test]
    fn an_inode_that_may_be_an_orphan_is_removed_once_that_is_known_and_its_attributes_are_told() {
        let (_dir, removal) = removal();
        let ino = orphan(&removal);
        let refused: Result<()> = removal.or_doubt(Some(ino), Err(Error::NotEmpty));
        assert!(refused.is_err());
        removal.resolve_doubts(Duration::ZERO).unwrap();
        assert!(has_record(&removal, ino), "nothing was changed");
        let unanswered: Result<()> = removal.or_doubt(Some(ino), Err(Error::Engine("".into())));
        assert!(unanswered.is_err());
        removal.resolve_doubts(Duration::from_secs(60)).unwrap();
        assert!(has_record(&removal, ino), "the change may be made yet");
        assert!(removal.departed.get(ino).is_none());
        removal.resolve_doubts(Duration::ZERO).unwrap();
        assert!(!has_record(&removal, ino));
        let last = removal.departed.get(ino).unwrap();
        assert_eq!((last.nlink, last.size_bytes), (0, 5));
    }

    #[test]
    fn an_orphan_that_is_open_waits_for_its_last_release() {
        let (_dir, removal) = removal();
        let ino = orphan(&removal);
        removal.live.with(ino, |state| state.handles = 1);
        let _: Result<()> = removal.or_doubt(Some(ino), Err(Error::Engine("".into())));
        removal.resolve_doubts(Duration::ZERO).unwrap();
        assert!(has_record(&removal, ino));
        assert!(removal.live.with(ino, |state| state.names.is_orphan()));
        removal.reap(ino, Forgotten::default());
        assert!(!has_record(&removal, ino));
    }
}
