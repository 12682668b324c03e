//! What changes live inodes, without a node: files that are written, published, settled, and whose right to write comes and goes.

#![cfg(test)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

#[path = "../../../meta/tests/common/hooked.rs"]
mod hooked;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{Inode, Mutation, NewInode, Owner, allowance, keys};
use intarsia_sync::{Instant, Mutex};
use intarsia_types::{Error, FileKind, InodeId, Layout, NodeId, PartitionId, Result, TierId};

use self::hooked::{Hook, Hooked};
use super::attempt::Attempt;
use super::lease::Content;
use super::live::{LiveState, LiveTable};
use super::passed::Unsure;
use super::summing::Summer;
use super::{InodeParts, Inodes};
use crate::background::queue::Waiting;
use crate::clock::now;
use crate::membership::cluster::lone::Shared;
use crate::node::building::inode_parts;
use crate::options::NodeOptions;
use crate::replication::repair::WriteRights;
use crate::space::tiers::one_tier;

/// A host over one tier, in a directory that goes with it.
struct Alone {
    _dir: tempfile::TempDir,
    of: InodeParts,
    inode: Inodes,
}

impl Alone {
    /// All by itself, or one of several.
    fn new(is_shared: bool) -> Self {
        Self::of(&Shared::new(), is_shared)
    }

    fn of(shared: &Shared, is_shared: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cluster = is_shared.then(|| shared.options());
        let name = NodeId("a".into());
        let options = NodeOptions { name, cluster, ..NodeOptions::new(dir.path()) };
        let tiers = one_tier(&dir.path().join("tier"));
        let of = inode_parts(&options, shared.namespace(), tiers).unwrap();
        let inode = Inodes::new(&of);
        Self { _dir: dir, of, inode }
    }

    fn create(&self, name: &[u8]) -> InodeId {
        let new = NewInode::new(FileKind::Regular, 0o644, 0, 0);
        self.of.namespace.create(InodeId::ROOT, name, new, now()).unwrap().ino
    }

    /// Gets the right to write as an open does, and leaves the file as `then` does.
    fn open_to_write<T>(
        &self,
        ino: InodeId,
        mut then: impl FnMut(&mut LiveState) -> Result<T>,
    ) -> Result<T> {
        self.inode.leases.with_live(ino, |state| {
            match self.inode.leases.prepare(ino, state, Some(Content::Kept))? {
                Attempt::Done(_) => then(state).map(Attempt::Done),
                Attempt::Again(retry) => Ok(Attempt::Again(retry)),
            }
        })
    }

    /// Writes to a file through a backing file here, as a program does that has closed it since.
    fn write(&self, ino: InodeId, bytes: &[u8]) {
        let written = self.open_to_write(ino, |state| {
            self.inode.following.ensure_loaded(ino, state)?;
            state.unfold_into(&self.of.bodies, ino, TierId(0))?;
            state.writer(&self.of.tiers)?.write_all_at(bytes, 0)?;
            state.overlay.is_dirty = true;
            state.close_writer();
            Ok(())
        });
        written.unwrap();
    }

    fn record(&self, ino: InodeId) -> Inode {
        self.of.namespace.get(ino).unwrap()
    }
}

#[test]
fn a_small_file_goes_beside_its_inode_when_it_settles() {
    let host = Alone::new(false);
    let ino = host.create(b"f");
    host.write(ino, b"hello");
    host.inode.publisher.publish_now(ino).unwrap();
    assert!(host.of.live.contains(ino));
    host.inode.settler.settle_now(ino).unwrap();
    let record = host.record(ino);
    assert_eq!((record.layout, record.size_bytes), (Layout::Inline, 5));
    assert_eq!(host.of.metrics.folded.load(Ordering::Relaxed), 1);
    assert!(!host.of.live.contains(ino), "nothing is left to be done with it");
}

#[test]
fn a_long_file_stays_in_its_backing_file_and_is_summed_later() {
    let host = Alone::new(false);
    let ino = host.create(b"f");
    host.write(ino, &[7; 64 << 10]);
    host.inode.publisher.publish_now(ino).unwrap();
    host.inode.settler.settle_now(ino).unwrap();
    let record = host.record(ino);
    assert!(matches!(record.layout, Layout::Local(backing) if backing.tier == TierId(0)));
    assert_eq!(record.size_bytes, 64 << 10);
    assert!(!record.checksummed);
    assert_eq!(host.of.queue.backlog().1, 1, "it waits for its sums");
}

#[test]
fn a_close_publishes_the_content_and_settling_gives_the_right_back() {
    let host = Alone::new(true);
    let ino = host.create(b"f");
    host.write(ino, b"hello");
    let me = host.of.namespace.owner();
    assert_eq!(host.of.namespace.writer(ino).unwrap(), Some(me));
    host.inode.publisher.publish_now(ino).unwrap();
    assert_eq!(host.record(ino).layout, Layout::Inline, "others read it beside its inode");
    let unnamed = host.of.live.with(ino, |state| state.unnamed());
    assert!(unnamed.is_some(), "the backing file stays while it may be written");
    host.inode.settler.settle_now(ino).unwrap();
    assert_eq!(host.of.namespace.writer(ino).unwrap(), None);
    assert!(!host.of.live.contains(ino));
}

#[test]
fn what_fails_leaves_no_right_to_write_behind() {
    let host = Alone::new(true);
    let ino = host.create(b"f");
    let refused = host.open_to_write(ino, |state| {
        assert!(state.holds_lease());
        state.body = None;
        Err::<(), _>(Error::BadHandle)
    });
    assert!(matches!(refused, Err(Error::BadHandle)));
    assert_eq!(host.of.namespace.writer(ino).unwrap(), None);
}

#[test]
fn a_right_that_nothing_here_knows_of_is_given_back_once_its_change_is_made() {
    let host = Alone::new(true);
    let ino = host.create(b"f");
    host.of.namespace.acquire_write(ino).unwrap();
    host.inode.passed.doubt(ino, &Error::Engine("no answer".into()));
    host.inode.rights.return_unknown_rights(Duration::from_secs(60));
    assert!(host.of.namespace.writer(ino).unwrap().is_some(), "the change may be made yet");
    host.inode.rights.return_unknown_rights(Duration::ZERO);
    assert_eq!(host.of.namespace.writer(ino).unwrap(), None);
}

#[test]
fn a_right_that_is_used_is_not_given_back_though_its_answer_was_lost() {
    let host = Alone::new(true);
    let ino = host.create(b"f");
    host.write(ino, b"hello");
    host.inode.passed.doubt(ino, &Error::Engine("no answer".into()));
    host.inode.rights.return_unknown_rights(Duration::ZERO);
    assert!(host.of.namespace.writer(ino).unwrap().is_some());
}

/// Its create had no answer, and its program has closed it: if it is recorded yet, it is with a right that nobody here has.
#[test]
fn a_new_file_that_was_given_up_before_it_was_recorded_is_asked_about() {
    let host = Alone::new(true);
    let names = &host.of.namespace;
    assert!(names.lease_directory(InodeId::ROOT).unwrap());
    names.get(InodeId::ROOT).unwrap();
    assert!(names.lookup(InodeId::ROOT, b"f").is_err());
    let plain = NewInode::new(FileKind::Regular, 0o644, 0, 0);
    let new = NewInode { mark_writable: true, may_wait: true, ..plain };
    let ino = names.create(InodeId::ROOT, b"f", new, now()).unwrap().ino;
    assert!(names.has_promises());
    names.break_promises();
    host.of.live.with(ino, |state| host.of.removal.note_broken_promise(ino, state));
    assert_eq!(host.inode.passed.take_unsure(Duration::ZERO), [Unsure::File(ino)]);
}

/// A small file whose close could not be recorded is settled first, also where the right to write is wanted only so that its
/// copies can be made.
#[test]
fn what_is_not_recorded_yet_does_not_go_with_the_right_to_write_it() {
    let host = Alone::new(true);
    let ino = host.create(b"f");
    let written = host.open_to_write(ino, |state| {
        host.inode.following.ensure_loaded(ino, state)?;
        assert!(state.write_beside(b"hello", 0, 5));
        state.overlay.is_dirty = true;
        Ok(())
    });
    written.unwrap();
    host.inode.leases.inherit(ino).unwrap();
    host.inode.settler.settle_now(ino).unwrap();
    assert_eq!(host.record(ino).size_bytes, 5);
    assert_eq!(host.of.namespace.writer(ino).unwrap(), None);
}

/// Does something once a right to write to one file has been asked for, before whoever asked hears of that.
#[derive(Default)]
struct Meanwhile(Mutex<Option<(InodeId, Work)>>);

type Work = Box<dyn FnOnce() + Send>;

impl Hook for Meanwhile {
    fn before_commit(&self, _: PartitionId) -> Result<()> {
        Ok(())
    }

    fn after_commit(&self, mutations: &[Mutation]) {
        let gives = |ino: &InodeId| {
            let key = keys::by_inode(keys::WRITABLE, *ino);
            mutations.iter().any(|m| matches!(m, Mutation::Put(put, _) if put[..] == key[..]))
        };
        let work = self.0.lock().take_if(|(ino, _)| gives(ino));
        if let Some((_, work)) = work {
            std::thread::spawn(work).join().unwrap();
        }
    }
}

/// A host that was given up claims its rights to two files for its next life. Meanwhile somebody publishes one of them: the
/// `published`-th that is claimed, when the other one is.
fn claim_while_one_is_published(published: usize) {
    let engine = Hooked::new(Arc::new(MemoryEngine::new(3)), Meanwhile::default());
    let host = Alone::of(&Shared::over(Arc::clone(&engine) as _), true);
    for name in [b"f", b"g"] {
        host.write(host.create(name), b"hello");
    }
    let order: Vec<_> = host.of.live.entries().iter().map(|live| live.ino).collect();
    let (one, other) = (order[published], order[1 - published]);
    let publisher = Arc::clone(&host.inode.publisher);
    let publish = move || publisher.publish_now(one).unwrap();
    *engine.hook.0.lock() = Some((other, Box::new(publish)));
    let before = host.of.namespace.owner();
    let next = Owner::new(before.node.0, before.epoch + 1);
    host.inode.rights.claim_leases(&next).unwrap();
    assert!(engine.hook.0.lock().is_none(), "it was published meanwhile");
    for ino in order {
        assert_eq!(host.of.namespace.writer(ino).unwrap().as_ref(), Some(&next));
        host.inode.publisher.publish_now(ino).unwrap();
        assert_eq!(host.record(ino).size_bytes, 5);
        host.inode.settler.settle_now(ino).unwrap();
        assert_eq!(host.of.namespace.writer(ino).unwrap(), None);
    }
}

#[test]
fn a_file_that_is_published_after_its_right_was_claimed_for_the_next_life_is_this_hosts() {
    claim_while_one_is_published(0);
}

#[test]
fn a_file_that_is_published_before_its_right_is_claimed_for_the_next_life_is_this_hosts() {
    claim_while_one_is_published(1);
}

/// Whoever is at work on a file may wait for another host for long; `statfs` and `status` do not.
#[test]
fn an_answer_about_space_waits_for_no_file_that_somebody_is_at_work_on() {
    let host = Alone::new(true);
    let (busy, free) = (host.create(b"busy"), host.create(b"free"));
    for ino in [busy, free] {
        host.write(ino, &[7; 64 << 10]);
        host.of.live.with(ino, |state| {
            state.writers = 1;
            state.handles = 1;
            state.accounted_512 = 0;
        });
    }
    let accounted = |ino| host.of.live.with(ino, |state| state.accounted_512);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let answered = host.of.live.with(busy, |_| {
            scope.spawn(|| {
                host.inode.reclaimer.account_writers();
                sender.send(()).unwrap();
            });
            receiver.recv_timeout(Duration::from_secs(30))
        });
        answered.unwrap();
    });
    assert_eq!(accounted(busy), 0, "asked the next time");
    assert!(accounted(free) > 0);
    host.inode.reclaimer.account_writers();
    assert!(accounted(busy) > 0);
}

/// Metadata servers that do not answer, from a moment on, whoever holds the entry of a file; they note until when he would wait.
#[derive(Default)]
struct Unanswering {
    held: Mutex<Option<(Arc<LiveTable>, InodeId)>>,
    until: Mutex<Vec<Option<Instant>>>,
}

impl Unanswering {
    fn answer(&self) -> Result<()> {
        let held = self.held.lock().clone();
        let live = held.and_then(|(live, ino)| live.get(ino));
        if live.is_none_or(|live| live.try_lock().is_some()) {
            return Ok(());
        }
        self.until.lock().push(allowance::until());
        Err(Error::Engine("no answer in time".into()))
    }
}

impl Hook for Unanswering {
    fn before_get(&self) -> Result<()> {
        self.answer()
    }

    fn before_scan(&self) -> Result<()> {
        self.answer()
    }

    fn before_commit(&self, _: PartitionId) -> Result<()> {
        self.answer()
    }
}

/// Does `job` with a file of so many bytes that was closed here, beside metadata servers that do not answer once it says so. What
/// it asks while it holds the file is to end in less than the time of a call of a program, which may be waiting for the file.
fn ends_in_time(len_bytes: usize, job: impl FnOnce(&Alone, InodeId, &dyn Fn())) {
    let engine = Hooked::new(Arc::new(MemoryEngine::new(3)), Unanswering::default());
    let host = Alone::of(&Shared::over(Arc::clone(&engine) as _), true);
    let ino = host.create(b"f");
    host.write(ino, &vec![7; len_bytes]);
    host.inode.publisher.publish_now(ino).unwrap();
    let live = Arc::clone(&host.of.live);
    let fall_silent = || *engine.hook.held.lock() = Some((Arc::clone(&live), ino));
    job(&host, ino, &fall_silent);
    let latest = Instant::now() + Duration::from_secs(5);
    let until = engine.hook.until.lock();
    assert!(!until.is_empty(), "it asked nothing");
    let is_bounded = |until: &Option<Instant>| until.is_some_and(|until| until < latest);
    assert!(until.iter().all(is_bounded), "{until:?}");
}

#[test]
fn a_file_that_settles_keeps_nobody_waiting_for_longer_than_a_call_takes() {
    for len_bytes in [5, 64 << 10] {
        ends_in_time(len_bytes, |host, ino, fall_silent| {
            fall_silent();
            let first = Waiting { due: Instant::now(), ino, retry: Duration::from_secs(60) };
            host.inode.settler.settle_some(first).unwrap_err();
        });
    }
}

#[test]
fn a_file_that_is_summed_keeps_nobody_waiting_for_longer_than_a_call_takes() {
    ends_in_time(64 << 10, |host, ino, fall_silent| {
        host.inode.settler.settle_now(ino).unwrap();
        fall_silent();
        let of = &host.of;
        let summer = Summer {
            namespace: Arc::clone(&of.namespace),
            tiers: Arc::clone(&of.tiers),
            live: Arc::clone(&of.live),
            queue: Arc::clone(&of.queue),
            metrics: Arc::clone(&of.metrics),
        };
        summer.sum(ino).unwrap_err();
    });
}

#[test]
fn a_file_whose_right_is_claimed_keeps_nobody_waiting_for_longer_than_a_call_takes() {
    ends_in_time(5, |host, _, fall_silent| {
        fall_silent();
        let before = host.of.namespace.owner();
        let next = Owner::new(before.node.0, before.epoch + 1);
        host.inode.rights.claim_leases(&next).unwrap_err();
    });
}

#[test]
fn a_right_that_goes_back_keeps_nobody_waiting_for_longer_than_a_call_takes() {
    ends_in_time(5, |host, ino, fall_silent| {
        host.inode.settler.settle_now(ino).unwrap();
        host.of.namespace.acquire_write(ino).unwrap();
        host.inode.passed.doubt(ino, &Error::Engine("no answer".into()));
        fall_silent();
        host.inode.rights.return_unknown_rights(Duration::ZERO);
    });
    ends_in_time(5, |host, ino, fall_silent| {
        host.inode.settler.settle_now(ino).unwrap();
        let refused = host.open_to_write(ino, |state| {
            state.body = None;
            fall_silent();
            Err::<(), _>(Error::BadHandle)
        });
        assert!(matches!(refused, Err(Error::BadHandle)));
    });
}
