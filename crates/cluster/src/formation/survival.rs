//! What a store survives, by how many hosts have metadata servers.

use crate::deployment::{Deployment, Engine};
use crate::servers::Replication;

/// What metadata servers on so many hosts survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// One host: the end of processes, not of the host.
    Processes,
    /// Two hosts: each holds everything, but one alone cannot tell the loss of the other from the loss
    /// of the link between them.
    OnDecision,
    /// Three hosts and more: the loss of any one host.
    AnyHost,
}

impl Survival {
    /// What is survived with servers on this many hosts.
    #[must_use]
    pub const fn of(hosts_with_servers: usize) -> Self {
        match hosts_with_servers {
            0 | 1 => Self::Processes,
            2 => Self::OnDecision,
            _ => Self::AnyHost,
        }
    }

    /// What a user of a store over so many hosts must know, if anything.
    #[must_use]
    pub fn warning(self, hosts: usize) -> Option<String> {
        let (servers, lost, fix) = match self {
            Self::AnyHost => return None,
            Self::Processes => (
                "one host",
                "metadata survives the end of any process, not the loss of the host",
                "to survive that",
            ),
            Self::OnDecision => (
                "two hosts",
                "when one is lost, the other keeps all metadata but stops, because it cannot tell a lost host from a lost link",
                "to go on by themselves",
            ),
        };
        Some(if hosts < 3 {
            format!("{servers}: {lost}; use three hosts or more {fix}")
        } else {
            format!(
                "metadata servers on {servers} of {hosts}: {lost}; use --meta-hosts 3 or more {fix}"
            )
        })
    }
}

/// Whether the servers of this deployment need replicas.
#[must_use]
pub fn replication_of(deployment: &Deployment) -> Replication {
    match shards_of(deployment) {
        0 | 1 => Replication::Alone,
        _ if deployment.is_single => Replication::Waived,
        _ => Replication::Required,
    }
}

/// Whether hosts run the metadata servers themselves, and each of these has its copy on another host.
#[must_use]
pub fn has_replicas(deployment: &Deployment) -> bool {
    deployment.engine == Engine::Servers && replication_of(deployment) != Replication::Alone
}

/// Shards of the Cluster of a deployment: one for each host that servers began on.
pub(super) fn shards_of(deployment: &Deployment) -> usize {
    let named = deployment.meta_hosts.len();
    if named > 0 { named } else { deployment.members.len() }
}

/// How many servers a chosen host begins with.
#[must_use]
pub fn servers_per_host(deployment: &Deployment) -> u16 {
    match replication_of(deployment) {
        Replication::Alone => 1,
        Replication::Waived | Replication::Required => 2,
    }
}
