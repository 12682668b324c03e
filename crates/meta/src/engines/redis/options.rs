//! Where the servers are, and how the engine connects to them.

use std::time::Duration;

/// How to reach the servers and what to demand of them.
#[derive(Clone)]
pub struct RedisOptions {
    /// Addresses of servers, as `redis://user:password@host:port`, or with `rediss://` for TLS. Any server of a Cluster leads
    /// to the others; several are for the case that the first is down. Credentials and transport of the first hold for all.
    pub urls: Vec<String>,
    /// Name of the store; all its keys begin with it, so that stores can share servers.
    pub store: String,
    /// Partitions of a new store: by default 64 on a Cluster and 1 on a single server. A store keeps the
    /// number it was made with; another one here is an error.
    pub partitions: Option<u16>,
    /// Refuses commits while a shard has no replica in sync. Without this a shard without replicas takes them, and if its
    /// primary is lost, so is what was acknowledged.
    pub require_replica: bool,
    /// How long an operation is tried before it fails.
    pub timeout: Duration,
    /// Certificates, where those of the system do not serve.
    pub tls: Option<RedisTls>,
}

/// Which servers are trusted, by certificates in PEM.
#[derive(Clone)]
pub enum RedisTls {
    /// Servers whose certificates an authority has signed for the names by which they are addressed.
    Authority {
        /// The authority.
        authority: Vec<u8>,
        /// Our own certificate and its key, where the servers ask for one.
        identity: Option<(Vec<u8>, Vec<u8>)>,
    },
    /// Servers that have the key of the deployment: one certificate with its private key, which this node has too. No other
    /// certificate is accepted. The name in it is the same on every host, so it is not compared.
    Deployment(Vec<u8>),
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            store: "intarsia".into(),
            partitions: None,
            require_replica: true,
            timeout: Duration::from_secs(9),
            tls: None,
        }
    }
}
