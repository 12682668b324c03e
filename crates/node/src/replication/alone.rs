//! Tests of replicas without a node: hosts that have tiers, share their metadata, and send each other replicas.

#![cfg(test)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use intarsia_meta::{
    Inode, MemberState, MemberTier, Namespace, NewInode, Owner, TierRecord, WriteLease,
};
use intarsia_store::BackingFile;
use intarsia_sync::Mutex;
use intarsia_transport::{Buffer, Handler, Reply, Session};
use intarsia_types::{BackingRef, Error, FileKind, InodeId, Layout, NodeId, Result, TierClass};
use intarsia_wire::{Request, Response};

use super::arrivals::{Receiver, ReceiverParts};
use super::further::{Further, take_over_copies};
use super::repair::WriteRights;
use super::replicate::{Copied, LiveFiles, Publication};
use super::replicator::{Attempted, Backlog};
use super::survey::{FIRST_SURVEY, SURVEY_RETRY};
use super::{ReplicaParts, Replicas};
use crate::background::queue::Queue;
use crate::body::parts::Parts;
use crate::cache::remote_cache::RemoteCache;
use crate::clock::now;
use crate::membership::Seen;
use crate::membership::cluster::Cluster;
use crate::membership::cluster::lone::Shared;
use crate::membership::fence::MemberEvents;
use crate::options::NodeOptions;
use crate::space::ledger::{FileEvents, Ledger};
use crate::space::placing::Placing;
use crate::space::tiers::{MakesRoom, Tiers, one_tier_as};

/// Takes in what other hosts send, and does nothing else for them.
struct Receives(Arc<Receiver>);

impl Handler for Receives {
    type State = ();

    fn handle(&self, _: &Session<()>, request: Request, payload: Buffer) -> Result<Reply> {
        let response = match request {
            Request::PushWhole { ino, class, sum } => {
                let arrival = self.0.begin(ino, class, payload.len() as u64)?;
                arrival.write(0, &payload)?;
                Response::Pushed { backing: self.0.end(arrival, sum)? }
            }
            Request::Drop { ino, backing, .. } => {
                self.0.refuse(ino, backing)?;
                Response::Done
            }
            other => panic!("nobody asks for {other:?}"),
        };
        Ok(response.into())
    }
}

/// Tells the others what room there is.
struct Reports(Arc<Tiers>);

impl MemberEvents for Reports {
    fn tier_reports(&self) -> Vec<MemberTier> {
        let report = |tier: &intarsia_store::Tier| MemberTier {
            id: tier.id(),
            class: tier.class(),
            capacity_bytes: tier.space().capacity_bytes,
            free_bytes: tier.space().free_bytes,
            is_low: false,
        };
        self.0.iter().map(report).collect()
    }

    fn has_looked(&self, _: Seen) {}

    fn claim_for(&self, _: &Owner) -> Result<()> {
        panic!("nobody gives this host up")
    }
}

/// One file that is open, if any, and what was named of it.
struct Open {
    namespace: Arc<Namespace>,
    file: Mutex<Option<(Inode, BackingRef, Arc<BackingFile>)>>,
    /// What the next attempt to name its copies is to fail with.
    refusal: Mutex<Option<Error>>,
    named: Mutex<Vec<Vec<BackingRef>>>,
}

impl Open {
    fn none(namespace: &Arc<Namespace>) -> Arc<Self> {
        Arc::new(Self {
            namespace: Arc::clone(namespace),
            file: Mutex::default(),
            refusal: Mutex::default(),
            named: Mutex::default(),
        })
    }
}

impl LiveFiles for Open {
    fn begin_publication(&self, ino: InodeId) -> Result<Option<Publication>> {
        let Some((record, backing, file)) = self.file.lock().clone() else { return Ok(None) };
        assert_eq!(record.ino, ino);
        Ok(Some(Publication {
            stat: file.stat()?,
            file,
            backing,
            class: TierClass::Disk,
            mtime: None,
            ctime: None,
            strict_sums: Vec::new(),
            record,
            copied: None,
            wanted: 2,
        }))
    }

    fn name_copies(
        &self,
        ino: InodeId,
        publication: &Publication,
        further: Further<'_>,
        _: Copied,
    ) -> Result<Vec<BackingRef>> {
        if let Some(refusal) = self.refusal.lock().take() {
            return Err(refusal);
        }
        self.named.lock().push(further.copies().to_vec());
        let mut dropped = Vec::new();
        self.namespace.change(ino, |inode, extras| {
            dropped = take_over_copies(&mut inode.layout, publication.backing, further, extras)?;
            Ok(())
        })?;
        Ok(dropped)
    }

    fn note_lacking(&self, _: InodeId) -> bool {
        self.file.lock().is_some()
    }
}

/// Notes for which files a right to write was dealt with.
#[derive(Default)]
struct Rights {
    inherited: Mutex<Vec<InodeId>>,
    let_go: Mutex<Vec<InodeId>>,
}

impl WriteRights for Rights {
    fn inherit(&self, ino: InodeId) -> Result<()> {
        self.inherited.lock().push(ino);
        Ok(())
    }

    fn let_go(&self, ino: InodeId) -> Result<()> {
        self.let_go.lock().push(ino);
        Ok(())
    }
}

/// A host with one tier, in a directory that goes with it.
pub(super) struct Host {
    _dir: tempfile::TempDir,
    cluster: Arc<Cluster>,
    pub(super) namespace: Arc<Namespace>,
    pub(super) tiers: Arc<Tiers>,
    pub(super) receiver: Arc<Receiver>,
    files: Arc<Open>,
    rights: Rights,
    replicas: Replicas,
}

impl Host {
    /// Joins the hosts of `shared`; files are to have two copies.
    pub(super) fn join(shared: &Shared, name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (cluster, namespace) = shared.host(name);
        let (host, class) = (name.to_owned(), TierClass::Disk);
        let tier = TierRecord { host, dir: "tier".into(), class, capacity_bytes: 0 };
        let id = namespace.register_tier(&tier).unwrap();
        let (namespace, tiers) = (Arc::new(namespace), Arc::new(one_tier_as(dir.path(), id)));
        let options =
            NodeOptions { name: NodeId(name.into()), replicas: 2, ..NodeOptions::new("/nowhere") };
        let placing = Arc::new(Placing::new(
            &options,
            Arc::clone(&tiers),
            Arc::clone(&namespace),
            Some(Arc::clone(&cluster)),
        ));
        let queue = Arc::new(Queue::new(1024));
        let remote_cache = RemoteCache::new(
            Arc::clone(&tiers),
            Arc::clone(&placing),
            Arc::clone(&namespace),
            Arc::default(),
            Arc::clone(&queue),
        );
        let makes_room = Arc::clone(&remote_cache) as Arc<dyn MakesRoom>;
        let parts = Arc::new(Parts::new(&tiers, &namespace, &makes_room));
        let ledger = Arc::new(Ledger::new(
            Arc::clone(&tiers),
            Arc::clone(&namespace),
            Arc::clone(&queue),
            parts as Arc<dyn FileEvents>,
            true,
        ));
        let receiver = Arc::new(Receiver::new(
            &options,
            &ReceiverParts {
                tiers: &tiers,
                placing: &placing,
                namespace: &namespace,
                ledger: &ledger,
                remote_cache: &remote_cache,
                queue: &queue,
            },
        ));
        let files = Open::none(&namespace);
        let replicas = Replicas::new(
            &options,
            ReplicaParts {
                namespace: &namespace,
                tiers: &tiers,
                placing: &placing,
                receiver: &receiver,
                cluster: Some(&cluster),
                metrics: &Arc::default(),
                files: Arc::clone(&files) as Arc<dyn LiveFiles>,
            },
        );
        cluster.join(Arc::new(Receives(Arc::clone(&receiver)))).unwrap();
        cluster.pulse(&Reports(Arc::clone(&tiers)));
        let rights = Rights::default();
        Self { _dir: dir, cluster, namespace, tiers, receiver, files, rights, replicas }
    }

    /// A closed file whose bytes are here.
    fn create(&self, name: &[u8], bytes: &[u8]) -> (Inode, BackingRef) {
        let new = NewInode::new(FileKind::Regular, 0o644, 0, 0);
        let ino = self.namespace.create(InodeId::ROOT, name, new, now()).unwrap().ino;
        let tier = self.tiers.iter().next().unwrap().id();
        let (backing, file) = self.tiers.take_file(tier, &self.namespace).unwrap();
        drop(file);
        let file = self.tiers.get(tier).unwrap().open_file(backing.file, true).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        let place = |inode: &mut Inode| {
            inode.layout = Layout::Local(backing);
            inode.size_bytes = bytes.len() as u64;
            Ok(())
        };
        (self.namespace.update(ino, place).unwrap(), backing)
    }

    /// Makes the file live, as if a program had it open for writing.
    fn open(&self, inode: &Inode, backing: BackingRef) {
        let file = self.tiers.get(backing.tier).unwrap().open_file(backing.file, true).unwrap();
        *self.files.file.lock() = Some((inode.clone(), backing, Arc::new(file)));
    }

    fn read(&self, backing: BackingRef) -> Option<Vec<u8>> {
        let file = self.tiers.get(backing.tier).unwrap().open_file(backing.file, false).ok()?;
        let mut bytes = vec![0; usize::try_from(file.stat().unwrap().size_bytes).unwrap()];
        file.read_at(&mut bytes, 0).unwrap();
        Some(bytes)
    }

    fn make_up(&self, ino: InodeId) -> Attempted {
        self.replicas.make_up(ino, &self.rights).unwrap()
    }

    fn copies_of(&self, ino: InodeId) -> Vec<BackingRef> {
        self.namespace.get(ino).unwrap().layout.copies().to_vec()
    }

    fn made(&self) -> u64 {
        self.replicas.counts.made.load(Ordering::Relaxed)
    }
}

#[test]
fn a_file_gets_the_copies_that_it_lacks_and_no_more() {
    let shared = Shared::new();
    let (a, b) = (Host::join(&shared, "a"), Host::join(&shared, "b"));
    let (inode, backing) = a.create(b"f", b"some bytes");
    assert_eq!(a.make_up(inode.ino), Attempted::Done);
    let copies = a.copies_of(inode.ino);
    assert_eq!((copies.len(), copies[0]), (2, backing));
    assert_eq!(b.read(copies[1]).unwrap(), b"some bytes");
    assert!(b.namespace.free_files(copies[1].tier).unwrap().is_empty(), "it was claimed");
    assert_eq!(a.make_up(inode.ino), Attempted::Done);
    assert_eq!((a.copies_of(inode.ino), a.made()), (copies, 1));
}

#[test]
fn a_file_whose_copies_cannot_be_made_keeps_what_it_has() {
    let a = Host::join(&Shared::new(), "a");
    let (inode, backing) = a.create(b"f", b"some bytes");
    assert_eq!(a.make_up(inode.ino), Attempted::Again);
    assert_eq!(a.copies_of(inode.ino), [backing]);
    a.replicas.survey().unwrap();
    assert_eq!(a.replicas.queue.backlog(), Backlog { files: 1, bytes: 10 });
}

#[test]
fn a_host_that_stopped_with_copies_to_make_finds_all_files_that_it_is_to_make_them_of() {
    let shared = Shared::new();
    let (_a, b) = (Host::join(&shared, "a"), Host::join(&shared, "b"));
    let (host, dir) = ("lost".to_owned(), "tier".into());
    let tier = TierRecord { host, dir, class: TierClass::Disk, capacity_bytes: 0 };
    let lost = b.namespace.register_tier(&tier).unwrap();
    // In its own share of all files, and in that of the other host.
    for n in 0..16 {
        let (inode, own) = b.create(format!("f{n}").as_bytes(), b"some bytes");
        let first = BackingRef { tier: lost, file: own.file };
        let place = |inode: &mut Inode| {
            inode.layout = Layout::of_copies(vec![first, own]);
            Ok(())
        };
        b.namespace.update(inode.ino, place).unwrap();
    }
    b.replicas.note_earlier_life(true);
    b.replicas.survey().unwrap();
    assert_eq!(b.replicas.queue.backlog().files, 16);
}

/// The next survey goes on without the host that is gone too, instead of telling it again and again.
#[test]
fn copies_are_made_where_one_is_left_if_the_host_that_was_to_make_them_is_lost_too() {
    let b = Host::join(&Shared::new(), "b");
    let (host, dir) = ("lost".to_owned(), "tier".into());
    let tier = TierRecord { host, dir, class: TierClass::Disk, capacity_bytes: 0 };
    let lost = b.namespace.register_tier(&tier).unwrap();
    let (inode, own) = b.create(b"f", b"some bytes");
    let first = BackingRef { tier: lost, file: own.file };
    let place = |inode: &mut Inode| {
        inode.layout = Layout::of_copies(vec![first, own]);
        Ok(())
    };
    b.namespace.update(inode.ino, place).unwrap();
    b.replicas.note_lost(first, inode.ino, 10);
    b.replicas.note_lost(first, InodeId(12345), 10);
    b.replicas.survey().unwrap();
    assert_eq!(b.replicas.queue.backlog().files, 1);
    assert!(!b.replicas.queue.surveys_within(SURVEY_RETRY), "all was told");
}

#[test]
fn a_host_looks_again_once_its_share_of_all_files_is_another() {
    let shared = Shared::new();
    let a = Host::join(&shared, "a");
    let is_due = || {
        a.replicas.queue.survey_among(&a.cluster.living().unwrap());
        a.replicas.queue.surveys_within(FIRST_SURVEY)
    };
    assert!(!is_due(), "the first one is to come anyway");
    a.replicas.survey().unwrap();
    assert!(!is_due());
    let _b = Host::join(&shared, "b");
    assert!(is_due());
}

#[test]
fn a_host_that_was_given_up_looks_again_soon() {
    let a = Host::join(&Shared::new(), "a");
    let (node, record) = a.namespace.members().unwrap().pop().unwrap();
    let lost = record.entering(MemberState::Lost, now());
    assert!(a.namespace.put_member(&node, Some(&record), &lost).unwrap());
    a.replicas.survey().unwrap();
    assert!(a.replicas.queue.surveys_within(SURVEY_RETRY));
}

#[test]
fn a_host_that_is_to_leave_makes_the_copies_that_only_it_can_make() {
    let shared = Shared::new();
    let (a, b) = (Host::join(&shared, "a"), Host::join(&shared, "b"));
    let (inode, backing) = a.create(b"f", b"some bytes");
    a.cluster.order(&NodeId("a".into()), true).unwrap();
    a.replicas.survey().unwrap();
    assert_eq!(a.replicas.queue.backlog().files, 1, "it may stay after all");
    assert_eq!(a.make_up(inode.ino), Attempted::Again);
    let copies = a.copies_of(inode.ino);
    assert_eq!((copies.len(), copies[1]), (2, backing), "until there are enough without it");
    assert_eq!(b.read(copies[0]).unwrap(), b"some bytes");
}

#[test]
fn what_is_written_is_named_once_its_copies_are_made() {
    let shared = Shared::new();
    let a = Host::join(&shared, "a");
    let (inode, backing) = a.create(b"f", b"some bytes");
    a.open(&inode, backing);
    let refused = a.replicas.publish(inode.ino).unwrap_err();
    assert!(refused.to_string().contains("1 of 2 copies"), "{refused}");
    assert!(a.files.named.lock().is_empty(), "others see what they saw before");

    let b = Host::join(&shared, "b");
    a.replicas.publish(inode.ino).unwrap();
    let copies = a.copies_of(inode.ino);
    assert_eq!(*a.files.named.lock(), [&copies[1..]]);
    assert_eq!(b.read(copies[1]).unwrap(), b"some bytes");
}

#[test]
fn copies_that_are_not_named_are_removed() {
    let shared = Shared::new();
    let (a, b) = (Host::join(&shared, "a"), Host::join(&shared, "b"));
    let (inode, backing) = a.create(b"f", b"some bytes");
    a.open(&inode, backing);
    *a.files.refusal.lock() = Some(Error::Busy("it was taken from this host".into()));
    assert!(matches!(a.replicas.publish(inode.ino), Err(Error::Busy(_))));
    assert_eq!((a.copies_of(inode.ino), a.made()), (vec![backing], 1));
    let tier = b.tiers.iter().next().unwrap().id();
    let deadline = intarsia_sync::Instant::now() + std::time::Duration::from_secs(30);
    while !b.namespace.free_files(tier).unwrap().is_empty() {
        assert!(intarsia_sync::Instant::now() < deadline, "the copy at b is not taken back");
        intarsia_sync::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn who_may_write_to_a_file_sees_to_its_copies_while_that_host_lives() {
    let shared = Shared::new();
    let (a, b) = (Host::join(&shared, "a"), Host::join(&shared, "b"));
    let (inode, backing) = a.create(b"f", b"some bytes");
    let asked = || {
        let inherited = a.rights.inherited.lock().clone();
        (inherited, a.rights.let_go.lock().clone())
    };
    assert!(matches!(a.namespace.acquire_write(inode.ino), Ok(WriteLease::Held(_))));
    a.open(&inode, backing);
    assert_eq!(a.make_up(inode.ino), Attempted::Done);
    assert_eq!(asked(), (vec![], vec![]), "it is open here");
    *a.files.file.lock() = None;
    assert_eq!(a.make_up(inode.ino), Attempted::Again);
    assert_eq!(asked(), (vec![], vec![inode.ino]));

    let (other, _) = a.create(b"g", b"some bytes");
    assert!(matches!(b.namespace.acquire_write(other.ino), Ok(WriteLease::Held(_))));
    a.cluster.give_up_hosts(&[NodeId("b".into())]).unwrap();
    assert_eq!(a.make_up(other.ino), Attempted::Again);
    assert_eq!(asked(), (vec![other.ino], vec![inode.ino]));
    assert_eq!(a.made(), 0);
}
