//! Inodes that are open here or not settled yet.
//!
//! Owns the table of live inodes, this host's rights to write, and the marks of inodes whose record is behind their
//! files.
//! Asks the namespace for records, `body` for bytes, `space` for tiers, `replication` for replicas, and through
//! `membership` other hosts for their leases.
//! Promises that a record is never older than what a close acknowledged, and that one host at a time writes.

pub(crate) mod ahead;
mod alone;
pub(crate) mod attempt;
pub(crate) mod backing_state;
pub(crate) mod bytes;
pub(crate) mod copied_files;
pub(crate) mod creations;
pub(crate) mod departed;
pub(crate) mod early_fold;
pub(crate) mod elsewhere;
pub(crate) mod entry;
pub(crate) mod followers;
pub(crate) mod following;
pub(crate) mod handed;
pub(crate) mod inline_total;
pub(crate) mod lease;
pub(crate) mod live;
pub(crate) mod mark;
pub(crate) mod moving;
pub(crate) mod names_left;
pub(crate) mod naming;
mod new_content;
pub(crate) mod outdating;
pub(crate) mod own;
pub(crate) mod paging;
pub(crate) mod passed;
pub(crate) mod publication;
pub(crate) mod publishing;
pub(crate) mod reclaiming;
pub(crate) mod reconciling;
pub(crate) mod removal;
pub(crate) mod renewal;
pub(crate) mod rights;
pub(crate) mod settling;
mod settling_in;
pub(crate) mod summing;
pub(crate) mod unawaited;
pub(crate) mod unfolding;
pub(crate) mod write_right;

use std::sync::Arc;
use std::time::Duration;

use self::creations::Creations;
use self::elsewhere::{Elsewhere, Shortage};
use self::followers::Followers;
use self::following::Following;
use self::inline_total::InlineTotal;
use self::lease::Leases;
use self::live::LiveTable;
use self::moving::Moving;
use self::paging::Paging;
use self::passed::Passed;
use self::publication::Publisher;
use self::reclaiming::Reclaimer;
use self::removal::Removal;
use self::renewal::Renewal;
use self::rights::Rights;
use self::settling::Settler;
use intarsia_meta::Namespace;
use intarsia_types::NodeId;

use crate::background::queue::Queue;
use crate::background::turns::Turns;
use crate::body::Bodies;
use crate::cache::far_pages::FarPages;
use crate::cache::pages::OldPages;
use crate::cache::remote_cache::RemoteCache;
use crate::cache::vouch::Vouches;
use crate::directory::directory_lease::DirectoryLeases;
use crate::kernel::Kernel;
use crate::members::Members;
use crate::membership::cluster::Cluster;
use crate::metrics::Metrics;
use crate::metrics::hinted::Hinted;
use crate::replication::Replicas;
use crate::replication::arrivals::Receiver;
use crate::replication::copies::Copies;
use crate::space::ledger::Ledger;
use crate::space::placing::Placing;
use crate::space::tiers::Tiers;

/// What [`Inodes`] are made of.
pub(crate) struct InodeParts {
    /// The name of this host.
    pub(crate) me: NodeId,
    /// After so long a change without an answer is made, or never will be.
    pub(crate) uncertain: Duration,
    pub(crate) members: Members,
    /// The other hosts, in a store of several.
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) placing: Arc<Placing>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) directory_leases: Arc<DirectoryLeases>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) remote_cache: Arc<RemoteCache>,
    pub(crate) vouches: Arc<Vouches>,
    pub(crate) far_pages: Arc<FarPages>,
    pub(crate) old_pages: Arc<OldPages>,
    pub(crate) copies: Arc<Copies>,
    /// Takes in what other hosts send.
    pub(crate) receiver: Arc<Receiver>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) live: Arc<LiveTable>,
    pub(crate) paging: Arc<Paging>,
    pub(crate) passed: Arc<Passed>,
    pub(crate) removal: Arc<Removal>,
    /// The finalizer's.
    pub(crate) queue: Arc<Queue>,
    pub(crate) hinted: Arc<Hinted>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) kernel: Arc<Kernel>,
}

/// What changes live inodes, each part made of those before it.
pub(crate) struct Inodes {
    pub(crate) passed: Arc<Passed>,
    pub(crate) creations: Arc<Creations>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) reclaimer: Arc<Reclaimer>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) settler: Arc<Settler>,
    pub(crate) following: Arc<Following>,
    pub(crate) followers: Arc<Followers>,
    pub(crate) elsewhere: Arc<Elsewhere>,
    pub(crate) leases: Arc<Leases>,
}

impl Inodes {
    pub(crate) fn new(of: &InodeParts) -> Self {
        let (passed, creations) = (Arc::clone(&of.passed), Arc::default());
        let inline_total = Arc::new(InlineTotal::new(&of.namespace, &of.metrics));
        let rights = Arc::new(of.rights(&passed, &creations));
        let reclaimer = Arc::new(of.reclaimer(&rights));
        let publisher = Arc::new(of.publisher(&rights, &inline_total));
        let settler = Arc::new(of.settler(&rights, &reclaimer, &publisher, inline_total));
        let renewal = Arc::new(of.renewal());
        let following = Arc::new(of.following(&renewal));
        let moving = Arc::new(of.moving(renewal, &following));
        let followers = Arc::new(of.followers(&moving));
        let elsewhere = Arc::new(of.elsewhere(&passed, &following));
        let leases = Arc::new(Leases {
            namespace: Arc::clone(&of.namespace),
            live: Arc::clone(&of.live),
            cluster: of.cluster.clone(),
            bodies: Arc::clone(&of.bodies),
            placing: Arc::clone(&of.placing),
            tiers: Arc::clone(&of.tiers),
            replicas: Arc::clone(&of.replicas),
            rights: Arc::clone(&rights),
            queue: Arc::clone(&of.queue),
            removal: Arc::clone(&of.removal),
            copies: Arc::clone(&of.copies),
            following: Arc::clone(&following),
            moving,
            followers: Arc::clone(&followers),
            elsewhere: Arc::clone(&elsewhere),
            passed: Arc::clone(&passed),
            far_pages: Arc::clone(&of.far_pages),
            creations: Arc::clone(&creations),
            settler: Arc::clone(&settler),
        });
        Self {
            passed,
            creations,
            rights,
            reclaimer,
            publisher,
            settler,
            following,
            followers,
            elsewhere,
            leases,
        }
    }
}

impl InodeParts {
    fn rights(&self, passed: &Arc<Passed>, creations: &Arc<Creations>) -> Rights {
        Rights {
            members: self.members.clone(),
            namespace: Arc::clone(&self.namespace),
            live: Arc::clone(&self.live),
            passed: Arc::clone(passed),
            creations: Arc::clone(creations),
            directory_leases: Arc::clone(&self.directory_leases),
            removal: Arc::clone(&self.removal),
            queue: Arc::clone(&self.queue),
            copy_queue: Arc::clone(&self.replicas.queue),
        }
    }

    fn reclaimer(&self, rights: &Arc<Rights>) -> Reclaimer {
        Reclaimer {
            members: self.members.clone(),
            namespace: Arc::clone(&self.namespace),
            live: Arc::clone(&self.live),
            tiers: Arc::clone(&self.tiers),
            rights: Arc::clone(rights),
            queue: Arc::clone(&self.queue),
            metrics: Arc::clone(&self.metrics),
            removal: Arc::clone(&self.removal),
            ledger: Arc::clone(&self.ledger),
            receiver: Arc::clone(&self.receiver),
            remote_cache: Arc::clone(&self.remote_cache),
            directory_leases: Arc::clone(&self.directory_leases),
            uncertain: self.uncertain,
        }
    }

    fn publisher(&self, rights: &Arc<Rights>, inline_total: &Arc<InlineTotal>) -> Publisher {
        Publisher {
            members: self.members.clone(),
            namespace: Arc::clone(&self.namespace),
            live: Arc::clone(&self.live),
            bodies: Arc::clone(&self.bodies),
            kernel: Arc::clone(&self.kernel),
            placing: Arc::clone(&self.placing),
            tiers: Arc::clone(&self.tiers),
            replicas: Arc::clone(&self.replicas),
            rights: Arc::clone(rights),
            inline_total: Arc::clone(inline_total),
        }
    }

    fn settler(
        &self,
        rights: &Arc<Rights>,
        reclaimer: &Arc<Reclaimer>,
        publisher: &Arc<Publisher>,
        inline_total: Arc<InlineTotal>,
    ) -> Settler {
        Settler {
            members: self.members.clone(),
            namespace: Arc::clone(&self.namespace),
            live: Arc::clone(&self.live),
            bodies: Arc::clone(&self.bodies),
            kernel: Arc::clone(&self.kernel),
            placing: Arc::clone(&self.placing),
            tiers: Arc::clone(&self.tiers),
            replicas: Arc::clone(&self.replicas),
            rights: Arc::clone(rights),
            inline_total,
            queue: Arc::clone(&self.queue),
            metrics: Arc::clone(&self.metrics),
            removal: Arc::clone(&self.removal),
            publisher: Arc::clone(publisher),
            reclaimer: Arc::clone(reclaimer),
        }
    }

    fn renewal(&self) -> Renewal {
        Renewal {
            namespace: Arc::clone(&self.namespace),
            cluster: self.cluster.clone(),
            copies: Arc::clone(&self.copies),
            remote_cache: Arc::clone(&self.remote_cache),
            ledger: Arc::clone(&self.ledger),
        }
    }

    fn following(&self, renewal: &Arc<Renewal>) -> Following {
        Following {
            me: self.me.clone(),
            members: self.members.clone(),
            namespace: Arc::clone(&self.namespace),
            cluster: self.cluster.clone(),
            bodies: Arc::clone(&self.bodies),
            ledger: Arc::clone(&self.ledger),
            remote_cache: Arc::clone(&self.remote_cache),
            copies: Arc::clone(&self.copies),
            old_pages: Arc::clone(&self.old_pages),
            paging: Arc::clone(&self.paging),
            renewal: Arc::clone(renewal),
        }
    }

    fn moving(&self, renewal: Arc<Renewal>, following: &Arc<Following>) -> Moving {
        Moving {
            namespace: Arc::clone(&self.namespace),
            placing: Arc::clone(&self.placing),
            tiers: Arc::clone(&self.tiers),
            replicas: Arc::clone(&self.replicas),
            ledger: Arc::clone(&self.ledger),
            remote_cache: Arc::clone(&self.remote_cache),
            renewal,
            following: Arc::clone(following),
            fetches: Turns::default(),
        }
    }

    fn followers(&self, moving: &Arc<Moving>) -> Followers {
        Followers {
            namespace: Arc::clone(&self.namespace),
            live: Arc::clone(&self.live),
            cluster: self.cluster.clone(),
            moving: Arc::clone(moving),
            vouches: Arc::clone(&self.vouches),
        }
    }

    fn elsewhere(&self, passed: &Arc<Passed>, following: &Arc<Following>) -> Elsewhere {
        Elsewhere {
            members: self.members.clone(),
            namespace: Arc::clone(&self.namespace),
            live: Arc::clone(&self.live),
            cluster: self.cluster.clone(),
            bodies: Arc::clone(&self.bodies),
            placing: Arc::clone(&self.placing),
            tiers: Arc::clone(&self.tiers),
            queue: Arc::clone(&self.queue),
            metrics: Arc::clone(&self.metrics),
            ledger: Arc::clone(&self.ledger),
            remote_cache: Arc::clone(&self.remote_cache),
            following: Arc::clone(following),
            passed: Arc::clone(passed),
            hinted: Arc::clone(&self.hinted),
            shortage: Shortage::default(),
        }
    }
}
