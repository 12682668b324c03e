//! Builds what serves programs, other hosts and whoever runs the store, from what changes live inodes and below.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use intarsia_sync::{Instant, Mutex, RwLock};

use crate::cache::spread::Spreads;
use crate::directory::promises::Promises;
use crate::inode::summing::Summer;
use crate::inode::{InodeParts, Inodes};
use crate::lifecycle::checking::Checker;
use crate::lifecycle::closing::Closer;
use crate::lifecycle::power_loss::PowerLoss;
use crate::lifecycle::presence::Presence;
use crate::lifecycle::recovery::Recovery;
use crate::lifecycle::threads::Background;
use crate::locks::Locks;
use crate::membership::gate::Gate;
use crate::metrics::outlived::Outlived;
use crate::options::NodeOptions;
use crate::peer::handles::HandleNumbers;
use crate::peer::serving::Peer;
use crate::rebalance::mover::Mover;
use crate::record::{Place, RECORDS_DIRECTORY, Recorder};
use crate::space::inode_count::InodeCount;
use crate::status::Reporter;
use crate::vfs::Calls;
use crate::vfs::attributes::Attributes;
use crate::vfs::executed::Executed;
use crate::vfs::hints::Hinting;
use crate::vfs::locating::Locator;
use crate::vfs::locking::Lockable;
use crate::vfs::names::Names;
use crate::vfs::open::Opener;
use crate::vfs::read::Reader;
use crate::vfs::recollection::Recollections;
use crate::vfs::recording::Recording;
use crate::vfs::release::Releaser;
use crate::vfs::setting::Setter;
use crate::vfs::sync::Syncer;
use crate::vfs::write::Writer;
use crate::vfs::xattrs::Xattrs;

use super::Node;

impl Node {
    /// What brings an earlier life of this host into order.
    pub(super) fn recovery(&self) -> Recovery {
        Recovery {
            members: self.members.clone(),
            namespace: Arc::clone(&self.namespace),
            tiers: Arc::clone(&self.tiers),
            replicas: Arc::clone(&self.replicas),
            live: Arc::clone(&self.live),
            removal: Arc::clone(&self.removal),
            reclaimer: Arc::clone(&self.inode.reclaimer),
            queue: Arc::clone(&self.finalizer_queue),
            power_loss: PowerLoss {
                namespace: Arc::clone(&self.namespace),
                tiers: Arc::clone(&self.tiers),
                replicas: Arc::clone(&self.replicas),
            },
        }
    }
}

/// What they are built from.
pub(super) struct Services<'s> {
    pub(super) options: &'s NodeOptions,
    pub(super) store: &'s str,
    pub(super) parts: &'s InodeParts,
    pub(super) inode: &'s Inodes,
    pub(super) spreads: &'s Arc<Spreads>,
}

impl Services<'_> {
    pub(super) fn reporter(&self, outlived: &Arc<Outlived>) -> Reporter {
        Reporter {
            me: self.options.name.clone(),
            store: self.store.to_owned(),
            dir: self.options.dir.clone(),
            durability: self.options.durability,
            started: Instant::now(),
            members: self.parts.members.clone(),
            cluster: self.parts.cluster.clone(),
            namespace: Arc::clone(&self.parts.namespace),
            inode_count: InodeCount::new(self.parts.members.is_shared()),
            tiers: Arc::clone(&self.parts.tiers),
            bodies: Arc::clone(&self.parts.bodies),
            copies: Arc::clone(&self.parts.copies),
            remote_cache: Arc::clone(&self.parts.remote_cache),
            spreads: Arc::clone(self.spreads),
            replicas: Arc::clone(&self.parts.replicas),
            live: Arc::clone(&self.parts.live),
            reclaimer: Arc::clone(&self.inode.reclaimer),
            queue: Arc::clone(&self.parts.queue),
            counters: Arc::clone(&self.parts.metrics),
            hinted: Arc::clone(&self.parts.hinted),
            outlived: Arc::clone(outlived),
        }
    }

    pub(super) fn checker(&self) -> Checker {
        Checker {
            members: self.parts.members.clone(),
            namespace: Arc::clone(&self.parts.namespace),
            tiers: Arc::clone(&self.parts.tiers),
            copies: Arc::clone(&self.parts.copies),
            remote_cache: Arc::clone(&self.parts.remote_cache),
            settler: Arc::clone(&self.inode.settler),
            kernel: Arc::clone(&self.parts.kernel),
        }
    }

    fn peer(&self, mover: &Mover, locks: Option<&Arc<Locks>>) -> Peer {
        let life = self.parts.cluster.as_ref().map_or(0, |cluster| cluster.owner().epoch);
        Peer {
            durability: self.options.durability,
            members: self.parts.members.clone(),
            handles: HandleNumbers::of_life(life),
            metrics: Arc::clone(&self.parts.metrics),
            locks: locks.cloned(),
            directory_leases: Arc::clone(&self.parts.directory_leases),
            parts: Arc::clone(&self.parts.bodies.parts),
            spreads: Arc::clone(self.spreads),
            vouches: Arc::clone(&self.parts.vouches),
            receiver: Arc::clone(&self.parts.receiver),
            copy_queue: Arc::clone(&self.parts.replicas.queue),
            paging: Arc::clone(&self.parts.paging),
            leases: Arc::clone(&self.inode.leases),
            followers: Arc::clone(&self.inode.followers),
            elsewhere: Arc::clone(&self.inode.elsewhere),
            fetches: Arc::clone(&mover.fetches),
            tier_changes: Arc::clone(&mover.tier_changes),
        }
    }

    pub(super) fn syncer(&self) -> Syncer {
        Syncer {
            durability: self.options.durability,
            namespace: Arc::clone(&self.parts.namespace),
            bodies: Arc::clone(&self.parts.bodies),
            live: Arc::clone(&self.parts.live),
            rights: Arc::clone(&self.inode.rights),
            publisher: Arc::clone(&self.inode.publisher),
            copy_queue: Arc::clone(&self.parts.replicas.queue),
        }
    }

    pub(super) fn releaser(&self, outlived: Arc<Outlived>) -> Releaser {
        Releaser {
            members: self.parts.members.clone(),
            namespace: Arc::clone(&self.parts.namespace),
            tiers: Arc::clone(&self.parts.tiers),
            ledger: Arc::clone(&self.parts.ledger),
            queue: Arc::clone(&self.parts.queue),
            copies: Arc::clone(&self.parts.copies),
            remote_cache: Arc::clone(&self.parts.remote_cache),
            old_pages: Arc::clone(&self.parts.old_pages),
            far_pages: Arc::clone(&self.parts.far_pages),
            placing: Arc::clone(&self.parts.placing),
            live: Arc::clone(&self.parts.live),
            removal: Arc::clone(&self.parts.removal),
            publisher: Arc::clone(&self.inode.publisher),
            outlived,
        }
    }

    pub(super) fn lockable(&self, syncer: &Arc<Syncer>) -> Lockable {
        Lockable {
            namespace: Arc::clone(&self.parts.namespace),
            cluster: self.parts.cluster.clone(),
            live: Arc::clone(&self.parts.live),
            rights: Arc::clone(&self.inode.rights),
            publisher: Arc::clone(&self.inode.publisher),
            following: Arc::clone(&self.inode.following),
            leases: Arc::clone(&self.inode.leases),
            syncer: Arc::clone(syncer),
        }
    }

    pub(super) fn recording(&self) -> Recording {
        Recording {
            recorder: Recorder::default(),
            place: Place {
                dir: self.options.dir.join(RECORDS_DIRECTORY),
                host: self.options.name.0.clone(),
                store: self.store.to_owned(),
                limit_bytes: self.options.record_limit.0,
            },
            kernel: Arc::clone(&self.parts.kernel),
            namespace: Arc::clone(&self.parts.namespace),
            live: Arc::clone(&self.parts.live),
        }
    }

    pub(super) fn presence(&self, mover: &Arc<Mover>, locks: Option<&Arc<Locks>>) -> Presence {
        Presence {
            durability: self.options.durability,
            interval: self.options.pace().interval,
            cluster: self.parts.cluster.clone(),
            queue: Arc::clone(&self.parts.queue),
            remote_cache: Arc::clone(&self.parts.remote_cache),
            copy_queue: Arc::clone(&self.parts.replicas.queue),
            rights: Arc::clone(&self.inode.rights),
            mover: Arc::clone(mover),
            peer: Arc::new(self.peer(mover, locks)),
        }
    }

    pub(super) fn background(
        &self,
        (mover, releaser, syncer): (&Mover, &Arc<Releaser>, &Arc<Syncer>),
        locks: Option<&Arc<Locks>>,
        summer: Summer,
        promises: Promises,
    ) -> Background {
        Background {
            namespace: Arc::clone(&self.parts.namespace),
            tiers: Arc::clone(&self.parts.tiers),
            cluster: self.parts.cluster.clone(),
            locks: locks.cloned(),
            lockable: Arc::new(self.lockable(syncer)),
            queue: Arc::clone(&self.parts.queue),
            promises,
            replicas: Arc::clone(&self.parts.replicas),
            summer,
            reclaimer: Arc::clone(&self.inode.reclaimer),
            publisher: Arc::clone(&self.inode.publisher),
            settler: Arc::clone(&self.inode.settler),
            leases: Arc::clone(&self.inode.leases),
            tier_changes: Arc::clone(&mover.tier_changes),
            releaser: Arc::clone(releaser),
            finalizer: Mutex::default(),
            keeper: Mutex::default(),
        }
    }

    pub(super) fn closer(
        &self,
        gate: Option<Arc<Gate>>,
        (releaser, recording): (&Arc<Releaser>, &Arc<Recording>),
        (presence, background): (&Arc<Presence>, &Arc<Background>),
    ) -> Closer {
        Closer {
            durability: self.options.durability,
            gate,
            is_closed: AtomicBool::new(false),
            members: self.parts.members.clone(),
            namespace: Arc::clone(&self.parts.namespace),
            tiers: Arc::clone(&self.parts.tiers),
            ledger: Arc::clone(&self.parts.ledger),
            directory_leases: Arc::clone(&self.parts.directory_leases),
            remote_cache: Arc::clone(&self.parts.remote_cache),
            spreads: Arc::clone(self.spreads),
            live: Arc::clone(&self.parts.live),
            rights: Arc::clone(&self.inode.rights),
            publisher: Arc::clone(&self.inode.publisher),
            settler: Arc::clone(&self.inode.settler),
            releaser: Arc::clone(releaser),
            recording: Arc::clone(recording),
            presence: Arc::clone(presence),
            background: Arc::clone(background),
        }
    }

    /// The calls of programs.
    pub(super) fn calls(&self, with: &Ends<'_>) -> Calls {
        let recollections = Arc::new(Recollections::new(&self.parts.namespace));
        let attributes = Arc::new(self.attributes(&recollections));
        let reader = Arc::new(self.reader());
        let writer = Arc::new(self.writer(&attributes, &reader));
        let hinting = Arc::new(self.hinting(with, &attributes));
        let xattrs = Arc::new(self.xattrs(&recollections, &attributes, &hinting));
        let setter = Arc::new(self.setter(&attributes, &writer, &xattrs));
        let opener = Arc::new(self.opener(&recollections, with, &attributes, &writer));
        let names = Arc::new(self.names(&recollections, with, &attributes, &hinting, &opener));
        let locator = Arc::new(self.locator(&attributes, &xattrs, &names));
        Calls { attributes, reader, writer, hinting, xattrs, setter, opener, names, locator }
    }

    fn attributes(&self, recollections: &Arc<Recollections>) -> Attributes {
        Attributes {
            live: Arc::clone(&self.parts.live),
            namespace: Arc::clone(&self.parts.namespace),
            members: self.parts.members.clone(),
            bodies: Arc::clone(&self.parts.bodies),
            recollections: Arc::clone(recollections),
            removal: Arc::clone(&self.parts.removal),
            following: Arc::clone(&self.inode.following),
            paging: Arc::clone(&self.parts.paging),
            kernel: Arc::clone(&self.parts.kernel),
        }
    }

    fn reader(&self) -> Reader {
        Reader {
            paging: Arc::clone(&self.parts.paging),
            metrics: Arc::clone(&self.parts.metrics),
            live: Arc::clone(&self.parts.live),
            bodies: Arc::clone(&self.parts.bodies),
            namespace: Arc::clone(&self.parts.namespace),
            following: Arc::clone(&self.inode.following),
            members: self.parts.members.clone(),
            far_pages: Arc::clone(&self.parts.far_pages),
            kernel: Arc::clone(&self.parts.kernel),
        }
    }

    fn writer(&self, attributes: &Arc<Attributes>, reader: &Arc<Reader>) -> Writer {
        Writer {
            attributes: Arc::clone(attributes),
            members: self.parts.members.clone(),
            live: Arc::clone(&self.parts.live),
            metrics: Arc::clone(&self.parts.metrics),
            namespace: Arc::clone(&self.parts.namespace),
            following: Arc::clone(&self.inode.following),
            bodies: Arc::clone(&self.parts.bodies),
            tiers: Arc::clone(&self.parts.tiers),
            inline_bytes: self.options.inline_bytes.0,
            elsewhere: Arc::clone(&self.inode.elsewhere),
            remote_cache: Arc::clone(&self.parts.remote_cache),
            publisher: Arc::clone(&self.inode.publisher),
            queue: Arc::clone(&self.parts.queue),
            reader: Arc::clone(reader),
            leases: Arc::clone(&self.inode.leases),
            followers: Arc::clone(&self.inode.followers),
        }
    }

    fn hinting(&self, with: &Ends<'_>, attributes: &Arc<Attributes>) -> Hinting {
        Hinting {
            rules: RwLock::new(Arc::new(self.options.rules.clone())),
            namespace: Arc::clone(&self.parts.namespace),
            live: Arc::clone(&self.parts.live),
            members: self.parts.members.clone(),
            tier_changes: Arc::clone(&with.mover.tier_changes),
            copy_queue: Arc::clone(&self.parts.replicas.queue),
            attributes: Arc::clone(attributes),
        }
    }

    fn xattrs(
        &self,
        recollections: &Arc<Recollections>,
        attributes: &Arc<Attributes>,
        hinting: &Arc<Hinting>,
    ) -> Xattrs {
        Xattrs {
            cluster: self.parts.cluster.clone(),
            tiers: Arc::clone(&self.parts.tiers),
            namespace: Arc::clone(&self.parts.namespace),
            hinting: Arc::clone(hinting),
            bodies: Arc::clone(&self.parts.bodies),
            recollections: Arc::clone(recollections),
            attributes: Arc::clone(attributes),
            copies: Arc::clone(&self.parts.copies),
            live: Arc::clone(&self.parts.live),
            members: self.parts.members.clone(),
            me: self.options.name.clone(),
            store: self.store.to_owned(),
            dir: self.options.dir.clone(),
        }
    }

    fn setter(
        &self,
        attributes: &Arc<Attributes>,
        writer: &Arc<Writer>,
        xattrs: &Arc<Xattrs>,
    ) -> Setter {
        Setter {
            attributes: Arc::clone(attributes),
            writer: Arc::clone(writer),
            live: Arc::clone(&self.parts.live),
            bodies: Arc::clone(&self.parts.bodies),
            namespace: Arc::clone(&self.parts.namespace),
            xattrs: Arc::clone(xattrs),
        }
    }

    fn opener(
        &self,
        recollections: &Arc<Recollections>,
        with: &Ends<'_>,
        attributes: &Arc<Attributes>,
        writer: &Arc<Writer>,
    ) -> Opener {
        Opener {
            members: self.parts.members.clone(),
            leases: Arc::clone(&self.inode.leases),
            followers: Arc::clone(&self.inode.followers),
            recollections: Arc::clone(recollections),
            bodies: Arc::clone(&self.parts.bodies),
            namespace: Arc::clone(&self.parts.namespace),
            attributes: Arc::clone(attributes),
            live: Arc::clone(&self.parts.live),
            rights: Arc::clone(&self.inode.rights),
            cluster: self.parts.cluster.clone(),
            elsewhere: Arc::clone(&self.inode.elsewhere),
            writer: Arc::clone(writer),
            tiers: Arc::clone(&self.parts.tiers),
            placing: Arc::clone(&self.parts.placing),
            recording: Arc::clone(with.recording),
            metrics: Arc::clone(&self.parts.metrics),
            syncer: Arc::clone(with.syncer),
            paging: Arc::clone(&self.parts.paging),
            far_pages: Arc::clone(&self.parts.far_pages),
            executed: Executed::default(),
        }
    }

    fn names(
        &self,
        recollections: &Arc<Recollections>,
        with: &Ends<'_>,
        attributes: &Arc<Attributes>,
        hinting: &Arc<Hinting>,
        opener: &Arc<Opener>,
    ) -> Names {
        Names {
            attributes: Arc::clone(attributes),
            bodies: Arc::clone(&self.parts.bodies),
            namespace: Arc::clone(&self.parts.namespace),
            recollections: Arc::clone(recollections),
            locks: with.locks.cloned(),
            directory_leases: Arc::clone(&self.parts.directory_leases),
            hinting: Arc::clone(hinting),
            members: self.parts.members.clone(),
            settler: Arc::clone(&self.inode.settler),
            defers_creates: self.options.directory_leases,
            creations: Arc::clone(&self.inode.creations),
            promises: with.promises.clone(),
            passed: Arc::clone(&self.inode.passed),
            opener: Arc::clone(opener),
            recording: Arc::clone(with.recording),
            placing: Arc::clone(&self.parts.placing),
            remote_cache: Arc::clone(&self.parts.remote_cache),
            tiers: Arc::clone(&self.parts.tiers),
            elsewhere: Arc::clone(&self.inode.elsewhere),
            queue: Arc::clone(&self.parts.queue),
            ledger: Arc::clone(&self.parts.ledger),
            removal: Arc::clone(&self.parts.removal),
            live: Arc::clone(&self.parts.live),
        }
    }

    fn locator(
        &self,
        attributes: &Arc<Attributes>,
        xattrs: &Arc<Xattrs>,
        names: &Arc<Names>,
    ) -> Locator {
        Locator {
            names: Arc::clone(names),
            attributes: Arc::clone(attributes),
            copies: Arc::clone(&self.parts.copies),
            xattrs: Arc::clone(xattrs),
            namespace: Arc::clone(&self.parts.namespace),
        }
    }
}

/// What the calls of programs need besides.
pub(super) struct Ends<'e> {
    pub(super) mover: &'e Mover,
    pub(super) syncer: &'e Arc<Syncer>,
    pub(super) recording: &'e Arc<Recording>,
    pub(super) locks: Option<&'e Arc<Locks>>,
    pub(super) promises: &'e Promises,
}
