//! For tests of single rooms: a host of a store of several hosts, where the others exist only as records.

#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use intarsia_meta::engines::MemoryEngine;
use intarsia_meta::{MemberRecord, MemberState, MemberTier, MetaEngine, Namespace, RootSpec};
use intarsia_transport::DeploymentKey;
use intarsia_types::{NodeId, TierClass, TierId};

use super::{Cluster, ClusterOptions};
use crate::clock::now;
use crate::membership::Pace;

/// So slow that no host is given up while a test runs.
const PACE: Pace =
    Pace { interval: Duration::from_secs(60), lost_after: Duration::from_secs(3600) };

/// The host `a`, which serves nobody, and the names that all hosts share.
pub(crate) fn lone() -> (Arc<Cluster>, Namespace) {
    Shared::new().host("a")
}

/// What several hosts within one test share.
pub(crate) struct Shared {
    engine: Arc<dyn MetaEngine>,
    key: String,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self::over(Arc::new(MemoryEngine::new(3)))
    }

    /// A store in this metadata engine.
    pub(crate) fn over(engine: Arc<dyn MetaEngine>) -> Self {
        Self { engine, key: DeploymentKey::generate().unwrap() }
    }

    /// The options of a host of this store.
    pub(crate) fn options(&self) -> ClusterOptions {
        ClusterOptions {
            engine: Arc::clone(&self.engine),
            store: "000102030405060708090a0b0c0d0e0f".into(),
            listen: ([127, 0, 0, 1], 0).into(),
            key: DeploymentKey::from_pem(self.key.as_bytes()).unwrap(),
            network: None,
        }
    }

    /// The names, as a host sees them.
    pub(crate) fn namespace(&self) -> Namespace {
        let root = RootSpec { perm: 0o755, uid: 0, gid: 0 };
        Namespace::open(Arc::clone(&self.engine), root, now()).unwrap()
    }

    /// A host, which serves nobody yet, and the names as it sees them.
    pub(crate) fn host(&self, name: &str) -> (Arc<Cluster>, Namespace) {
        let root = RootSpec { perm: 0o755, uid: 0, gid: 0 };
        let namespace = self.namespace();
        let options = self.options();
        let cluster = Cluster::new(&options, &NodeId(name.into()), root, PACE).unwrap();
        namespace.set_owner(cluster.owner());
        (Arc::new(cluster), namespace)
    }
}

/// Records a host that serves and has a tier with `free_bytes`.
pub(crate) fn record_host(namespace: &Namespace, name: &str, free_bytes: u64) {
    let tier = MemberTier {
        id: TierId(9),
        class: TierClass::Ssd,
        capacity_bytes: u64::MAX,
        free_bytes,
        is_low: false,
    };
    let joining = MemberRecord { tiers: vec![tier], ..MemberRecord::new(1, now()) };
    let serving = joining.entering(MemberState::Serving, now());
    assert!(namespace.put_member(&NodeId(name.into()), None, &serving).unwrap());
}
