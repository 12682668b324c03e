//! Hosts that share an engine, and ask each other for leases.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{
    Extra, Inode, Invalidated, Invalidation, MetaEngine, Mutation, Namespace, NewInode, Owner,
    Recall, Recalled,
};
use intarsia_types::{Error, InodeId, Layout, PartitionId, Result, Timestamp};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::common::{file, namespace};
use super::hooked::Hook;

pub(super) const NAMES: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];

/// In an unreliable world: of the changes that a host is told of those with which it gives its lease back, and those whose end
/// it never hears of.
const GIVEN_BACK: u64 = 7;
const LOST: u64 = 11;

pub(super) type Hosts = Vec<(Owner, OnceLock<Arc<Namespace>>)>;

/// Asks the other namespaces of this process.
pub(super) struct Neighbours {
    pub(super) hosts: Weak<Hosts>,
    pub(super) me: Owner,
    pub(super) asked: Arc<AtomicU32>,
    pub(super) told: Arc<AtomicU32>,
    pub(super) is_unreliable: Arc<AtomicBool>,
    pub(super) silent: Arc<Mutex<Option<Owner>>>,
}

impl Neighbours {
    /// Whether a host does not answer.
    fn hears(&self, holder: &Owner) -> Result<()> {
        match self.silent.lock().unwrap().as_ref() == Some(holder) {
            true => Err(Error::Engine("no answer".into())),
            false => Ok(()),
        }
    }

    /// Whether something else happens than usual to a change.
    fn is_odd(&self, number: u64, each: u64) -> bool {
        self.is_unreliable.load(Ordering::Relaxed) && number.is_multiple_of(each)
    }

    fn namespace(&self, owner: &Owner) -> Option<Arc<Namespace>> {
        let hosts = self.hosts.upgrade()?;
        let (_, host) = hosts.iter().find(|(known, _)| known == owner)?;
        host.get().cloned()
    }
}

impl Recall for Neighbours {
    fn is_current(&self) -> bool {
        true
    }

    fn recall(&self, holder: &Owner, dir: InodeId) -> Result<Recalled> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.hears(holder)?;
        match self.namespace(holder) {
            Some(namespace) => namespace.release_directory(dir).map(|()| Recalled::Released),
            None => Ok(Recalled::Lost),
        }
    }

    fn invalidate(&self, holders: &[Owner], told: &Invalidation) -> Vec<Result<Invalidated>> {
        let tell = |holder: &Owner| match self.namespace(holder) {
            Some(host)
                if !self.is_odd(told.number, GIVEN_BACK) && host.invalidate(&self.me, told) =>
            {
                self.told.fetch_add(1, Ordering::Relaxed);
                Ok(Invalidated::Kept)
            }
            Some(host) => host.release_directory(told.dir).map(|()| Invalidated::Released),
            None => Ok(Invalidated::Lost),
        };
        holders.iter().map(|holder| self.hears(holder).and_then(|()| tell(holder))).collect()
    }

    fn tell_over(&self, holders: &[Owner], number: u64) {
        if self.is_odd(number, LOST) {
            return;
        }
        for host in holders.iter().filter_map(|holder| self.namespace(holder)) {
            host.end_changes(&self.me, &[number]);
        }
    }
}

/// Some hosts, the engine they share, and a namespace that keeps nothing.
pub(super) struct World {
    pub(super) engine: Arc<dyn MetaEngine>,
    pub(super) hosts: Arc<Hosts>,
    pub(super) truth: Namespace,
    pub(super) asked: Arc<AtomicU32>,
    /// How often a host was told of a change, and kept its lease.
    pub(super) told: Arc<AtomicU32>,
    pub(super) is_unreliable: Arc<AtomicBool>,
    /// A host that does not answer the others.
    pub(super) silent: Arc<Mutex<Option<Owner>>>,
}

/// Has threads overtake each other at the engine.
pub(super) struct Pauses(Mutex<Xoshiro256PlusPlus>);

impl Pauses {
    pub(super) fn new(seed: u64) -> Self {
        Self(Mutex::new(Xoshiro256PlusPlus::seed_from_u64(seed)))
    }

    fn pause(&self) {
        let drawn = self.0.lock().unwrap().random_range(0..4000);
        match drawn {
            0..1000 => thread::yield_now(),
            1000..1300 => thread::sleep(Duration::from_micros(drawn - 1000)),
            _ => {}
        }
    }
}

impl Hook for Pauses {
    fn before_get(&self) -> Result<()> {
        self.pause();
        Ok(())
    }

    fn after_read(&self) {
        self.pause();
    }

    fn before_commit(&self, _: PartitionId) -> Result<()> {
        self.pause();
        Ok(())
    }

    fn after_commit(&self, _: &[Mutation]) {
        self.pause();
    }
}

impl World {
    pub(super) fn new(hosts: usize, partitions: u16) -> Self {
        Self::over(hosts, Arc::new(MemoryEngine::new(partitions)))
    }

    pub(super) fn over(hosts: usize, engine: Arc<dyn MetaEngine>) -> Self {
        let truth = namespace(Arc::clone(&engine));
        let named = |n: usize| (Owner::new(format!("host{n}"), 1), OnceLock::new());
        let hosts: Arc<Hosts> = Arc::new((0..hosts).map(named).collect());
        let (asked, told, is_unreliable, silent) = Default::default();
        let world = Self { engine, hosts, truth, asked, told, is_unreliable, silent };
        for (owner, place) in world.hosts.iter() {
            assert!(place.set(Arc::new(world.host(owner.clone()))).is_ok());
        }
        world
    }

    pub(super) fn host(&self, owner: Owner) -> Namespace {
        let (hosts, me) = (Arc::downgrade(&self.hosts), owner.clone());
        let (asked, told) = (Arc::clone(&self.asked), Arc::clone(&self.told));
        let is_unreliable = Arc::clone(&self.is_unreliable);
        let silent = Arc::clone(&self.silent);
        let recall = Neighbours { hosts, me, asked, told, is_unreliable, silent };
        namespace(Arc::clone(&self.engine)).with_owner(owner).with_leases(Arc::new(recall))
    }

    /// From now on hosts give leases back that they are told of, and miss that changes are over.
    pub(super) fn unreliable(self) -> Self {
        self.is_unreliable.store(true, Ordering::Relaxed);
        self
    }

    pub(super) fn at(&self, n: usize) -> &Namespace {
        self.hosts[n].1.get().unwrap()
    }

    /// Everything below the root as `namespace` sees it.
    pub(super) fn tree(namespace: &Namespace) -> Vec<(Vec<u8>, Inode, Option<Vec<u8>>)> {
        let mut found = Vec::new();
        let mut to_list = vec![(Vec::new(), InodeId::ROOT)];
        while let Some((path, dir)) = to_list.pop() {
            found.push((path.clone(), namespace.get(dir).unwrap(), None));
            let mut after = 0;
            loop {
                let page = namespace.list_plus(dir, after, 3, |_| ()).unwrap();
                let Some((last, ..)) = page.last() else { break };
                after = last.cookie;
                for (entry, inode, ()) in page {
                    let path = [&path[..], b"/", &entry.name].concat();
                    assert_eq!(namespace.lookup(dir, &entry.name).unwrap(), inode);
                    if inode.is_directory() {
                        to_list.push((path, inode.ino));
                    } else {
                        let body = namespace.get_body(inode.ino).unwrap().map(|b| b.to_vec());
                        found.push((path, inode, body));
                    }
                }
            }
            for name in NAMES {
                let is_listed = found.iter().any(|(p, ..)| *p == [&path[..], b"/", name].concat())
                    || to_list.iter().any(|(p, _)| *p == [&path[..], b"/", name].concat());
                assert_eq!(namespace.lookup(dir, name).is_ok(), is_listed);
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    pub(super) fn keep_promises(&self) {
        for n in 0..self.hosts.len() {
            self.at(n).keep_promises_older_than(Duration::ZERO);
            assert!(!self.at(n).has_promises());
        }
    }

    pub(super) fn check(&self) {
        let truth = Self::tree(&self.truth);
        for n in 0..self.hosts.len() {
            assert_eq!(Self::tree(self.at(n)), truth, "host {n}");
        }
    }

    pub(super) fn dirs(&self) -> Vec<InodeId> {
        let tree = Self::tree(&self.truth);
        tree.iter().filter(|(_, inode, _)| inode.is_directory()).map(|(_, i, _)| i.ino).collect()
    }
}

/// Makes a file that need not be committed at once, as a program does that finds none.
pub(super) fn make(host: &Namespace, dir: InodeId, name: &[u8], now: Timestamp) -> Result<Inode> {
    host.lease_directory(dir)?;
    host.get(dir)?;
    match host.lookup(dir, name) {
        Err(Error::NotFound) => {}
        other => return other,
    }
    host.create(dir, name, NewInode { may_wait: true, mark_writable: true, ..file() }, now)
}

pub(super) fn write(host: &Namespace, inode: &Inode, secs: i64) -> Result<()> {
    if inode.is_directory() {
        return Err(Error::IsDirectory);
    }
    let body = secs.to_be_bytes();
    let extras = [Extra::PutBody(body.as_slice().into())];
    let written = host.update_with(inode.ino, &extras, |inode| {
        inode.layout = Layout::Inline;
        inode.size_bytes = body.len() as u64;
        Ok(())
    });
    written.map(|_| ())
}
