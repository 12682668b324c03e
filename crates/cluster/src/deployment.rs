//! What `intarsia up` decided: the hosts, their addresses, and the secrets they share.
//!
//! The description is a plain TOML file that anybody may read; the secrets stand in a file of
//! their own with mode 0600. Neither ever shows on a command line.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;

use intarsia_types::{Durability, Error, NodeId, Result};
use serde::{Deserialize, Serialize};

use crate::document::{VERSION, parse, to_toml};
use crate::private;
use crate::secrets::random_hex;

/// Ports of a server: for clients, and for the other servers of the Cluster.
const PORTS_PER_SERVER: u16 = 2;
/// Most servers on one host: a primary, a replica, and replicas for hosts that left.
pub const MAX_SERVERS_PER_HOST: u16 = 4;

/// The description of a deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    version: u32,
    /// Grows with each change of the hosts; of several descriptions of a store the highest counts.
    #[serde(default)]
    pub revision: u64,
    /// The store's name, 128 random bits in hexadecimal.
    pub store: String,
    /// What an acknowledged change survives.
    pub durability: Durability,
    /// Copies of a file when no hint says otherwise.
    pub replicas: u8,
    /// Where the metadata is.
    pub engine: Engine,
    /// What is encrypted.
    #[serde(default)]
    pub encrypt: Encrypt,
    /// The hosts that its metadata servers began on, if it has any; none named means all `members`, as in stores
    /// made before there was a choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meta_hosts: Vec<NodeId>,
    /// The hosts that the store was founded on, in the order given.
    #[serde(rename = "host")]
    pub members: Vec<Member>,
    /// Hosts that joined later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<Member>,
    /// Whether the host that has this description goes on as the only one of several, or joined one that does: changes
    /// of the metadata that it makes count with one copy. Not in the description in the metadata.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_single: bool,
}

/// Where the metadata is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Engine {
    /// On servers that the deployment runs on its own hosts.
    Servers,
    /// On a server or Cluster that exists: its address without the user and the password, which stand in
    /// [`Secrets::url`].
    Url(String),
}

/// What is encrypted between the hosts of a deployment. Nodes prove its key to each other in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encrypt {
    /// Nothing; metadata servers ask for passwords: for a network on which only the users of the store are.
    Off,
    /// Names, attributes and small files: TLS to the metadata servers and among them.
    #[default]
    Metadata,
    /// The bytes of larger files too.
    All,
}

impl FromStr for Encrypt {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "off" => Ok(Self::Off),
            "metadata" => Ok(Self::Metadata),
            "all" => Ok(Self::All),
            _ => Err(Error::Invalid(format!("'{text}' is none of off, metadata, all"))),
        }
    }
}

/// A host of the deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The name that the batch system uses.
    pub name: NodeId,
    /// The address of the interface that everything of the deployment listens at.
    pub address: IpAddr,
    /// Port of the node.
    pub node_port: u16,
    /// First of the ports for metadata servers, two for each of [`MAX_SERVERS_PER_HOST`].
    pub server_port: u16,
}

/// Where a metadata server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServerAddress {
    /// Address of the interface.
    pub ip: IpAddr,
    /// Port for clients.
    pub port: u16,
    /// Port for the other servers of the Cluster.
    pub bus_port: u16,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.ip, self.port).fmt(f)
    }
}

/// One metadata server of a host, by its number on the host.
///
/// Numbers, not roles, name servers and their directories: which one is primary changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName {
    /// The host.
    pub host: NodeId,
    /// 0 begins as primary, 1 as replica of another host's primary, more replace lost hosts.
    pub number: u16,
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "metadata server {} of host {}", self.number, self.host)
    }
}

impl Member {
    /// Where its server with this number listens.
    ///
    /// # Errors
    /// When the number is beyond [`MAX_SERVERS_PER_HOST`].
    pub fn server(&self, number: u16) -> Result<ServerAddress> {
        let port = (number < MAX_SERVERS_PER_HOST)
            .then(|| self.server_port.checked_add(PORTS_PER_SERVER * number))
            .flatten()
            .filter(|port| *port < u16::MAX)
            .ok_or_else(|| {
                Error::Invalid(format!("host {} has no place for server {number}", self.name))
            })?;
        Ok(ServerAddress { ip: self.address, port, bus_port: port + 1 })
    }

    /// The number of the server that listens there, if it is one of this host's.
    #[must_use]
    pub fn number_of(&self, ip: IpAddr, port: u16) -> Option<u16> {
        let offset = port.checked_sub(self.server_port).filter(|_| ip == self.address)?;
        (offset % PORTS_PER_SERVER == 0 && offset / PORTS_PER_SERVER < MAX_SERVERS_PER_HOST)
            .then_some(offset / PORTS_PER_SERVER)
    }
}

impl Deployment {
    /// A new deployment with a name of its own.
    ///
    /// # Errors
    /// When `members` is empty or names a host or an address with overlapping ports twice.
    pub fn new(
        durability: Durability,
        replicas: u8,
        engine: Engine,
        members: Vec<Member>,
    ) -> Result<Self> {
        let store = random_hex::<16>()?;
        let encrypt = Encrypt::default();
        let deployment = Self {
            version: VERSION,
            revision: 0,
            store,
            durability,
            replicas,
            engine,
            encrypt,
            meta_hosts: Vec::new(),
            members,
            joined: Vec::new(),
            is_single: false,
        };
        deployment.check()?;
        Ok(deployment)
    }

    /// The same deployment with one more host, as its next revision.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_joined(mut self, host: Member) -> Result<Self> {
        self.joined.push(host);
        self.revision += 1;
        self.check()?;
        Ok(self)
    }

    /// The same deployment without a host that has left, or that is lost for good, as its next revision.
    ///
    /// # Errors
    /// When it is the last one.
    pub fn without(mut self, host: &NodeId) -> Result<Self> {
        // How many shards there are does not change by it.
        if self.meta_hosts.is_empty() {
            self.meta_hosts = self.members.iter().map(|member| member.name.clone()).collect();
        }
        self.members.retain(|member| member.name != *host);
        self.joined.retain(|member| member.name != *host);
        if self.members.is_empty() {
            self.members.append(&mut self.joined);
        }
        self.revision += 1;
        self.check()?;
        Ok(self)
    }

    /// The same deployment for the host that has `mine`: whether it goes on as the only one is its own matter.
    #[must_use]
    pub fn single_as(mut self, mine: &Self) -> Self {
        self.is_single = mine.is_single;
        self
    }

    /// All hosts: those that the store was founded on, then those that joined.
    pub fn hosts(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().chain(&self.joined)
    }

    /// The host of this name.
    #[must_use]
    pub fn member(&self, host: &NodeId) -> Option<&Member> {
        self.hosts().find(|m| m.name == *host)
    }

    /// Whether a host may run metadata servers: any host of a store that has some of its own.
    #[must_use]
    pub fn has_servers(&self, host: &NodeId) -> bool {
        self.engine == Engine::Servers && self.member(host).is_some()
    }

    /// The server that listens there.
    #[must_use]
    pub fn server_at(&self, ip: IpAddr, port: u16) -> Option<ServerName> {
        self.hosts().find_map(|member| {
            let number = member.number_of(ip, port)?;
            Some(ServerName { host: member.name.clone(), number })
        })
    }

    /// Reads the description.
    ///
    /// # Errors
    /// When the file cannot be read or is malformed; the message names file, line and column.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::io(format!("deployment file {}", path.display()), e))?;
        Self::read_text(path, &text)
    }

    /// Reads the description from the text of its file.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn parse(text: &str) -> Result<Self> {
        Self::read_text(Path::new("the deployment's description"), text)
    }

    fn read_text(path: &Path, text: &str) -> Result<Self> {
        let deployment: Self = parse(path, text)?;
        deployment.check().map_err(|e| Error::Invalid(format!("{}: {e}", path.display())))?;
        Ok(deployment)
    }

    /// Writes the description, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        private::write_file(path, self.to_text()?.as_bytes())
    }

    /// The description as the text of its file.
    ///
    /// # Errors
    /// When it cannot be written as TOML.
    pub fn to_text(&self) -> Result<String> {
        to_toml(self)
    }

    fn check(&self) -> Result<()> {
        let invalid = |message: String| Err(Error::Invalid(message));
        if self.version != VERSION {
            return invalid(format!(
                "version {} of the description is unknown here; this program writes version {VERSION}, use the one that wrote it",
                self.version
            ));
        }
        if self.members.is_empty() {
            return invalid("a deployment needs a host".into());
        }
        let mut names = HashSet::new();
        let mut ports = HashSet::new();
        for member in self.hosts() {
            if !names.insert(&member.name) {
                return invalid(format!("host {} is named twice; name it once", member.name));
            }
            let mut taken = vec![member.node_port];
            for number in 0..MAX_SERVERS_PER_HOST {
                let server = member.server(number)?;
                taken.extend([server.port, server.bus_port]);
            }
            for port in taken {
                if port == 0 || !ports.insert((member.address, port)) {
                    return invalid(format!(
                        "host {}: port {port} of {} is 0 or taken by another part of the deployment; choose other ports",
                        member.name, member.address
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    use crate::secrets::Secrets;

    fn member(name: &str, last: u8) -> Member {
        Member {
            name: NodeId(name.into()),
            address: IpAddr::from([10, 0, 0, last]),
            node_port: 7400,
            server_port: 7401,
        }
    }

    fn deployment() -> Deployment {
        let members = vec![member("n1", 1), member("n2", 2)];
        Deployment::new(Durability::Interval, 2, Engine::Servers, members).unwrap()
    }

    #[test]
    fn both_files_survive_being_written_and_read() {
        let dir = tempfile::tempdir().unwrap();
        let (path, secret_path) =
            (dir.path().join("deployment.toml"), dir.path().join("secrets.toml"));
        let deployment = deployment();
        deployment.write(&path).unwrap();
        assert_eq!(Deployment::read(&path).unwrap(), deployment);
        let secrets = Secrets::generate(&deployment.store).unwrap();
        secrets.write(&secret_path).unwrap();
        assert_eq!(Secrets::read(&secret_path).unwrap(), secrets);
        assert_eq!(std::fs::metadata(&secret_path).unwrap().mode() & 0o777, 0o600);
        assert!(
            !std::fs::read_to_string(&path).unwrap().contains(secrets.client_password.reveal())
        );
        let by_url = Deployment { engine: Engine::Url("redis://h:1".into()), ..deployment };
        by_url.write(&path).unwrap();
        assert_eq!(Deployment::read(&path).unwrap(), by_url);
    }

    #[test]
    fn secrets_do_not_show() {
        let secrets = Secrets::generate("s").unwrap();
        let shown = format!("{secrets:?}");
        assert!(!shown.contains(secrets.keeper_password.reveal()), "{shown}");
        assert_ne!(secrets.client_password, secrets.keeper_password);
    }

    #[test]
    fn a_malformed_secret_is_not_shown_either() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secrets.toml");
        private::write_file(&path, b"version = 1\nstore = \"s\"\nclient_password = hunter2\n")
            .unwrap();
        let message = Secrets::read(&path).unwrap_err().to_string();
        assert!(message.contains("line 3, column") && !message.contains("hunter2"), "{message}");
    }

    #[test]
    fn servers_have_ports_of_their_own_and_are_found_by_them() {
        let deployment = deployment();
        let second = deployment.members.get(1).unwrap();
        let address = second.server(1).unwrap();
        assert_eq!((address.port, address.bus_port), (7403, 7404));
        let name = ServerName { host: NodeId("n2".into()), number: 1 };
        assert_eq!(deployment.server_at(address.ip, address.port), Some(name));
        assert_eq!(deployment.server_at(address.ip, address.bus_port), None);
        assert_eq!(deployment.server_at(address.ip, 7409), None);
        assert!(second.server(MAX_SERVERS_PER_HOST).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let new = |members| Deployment::new(Durability::Interval, 2, Engine::Servers, members);
        assert!(new(vec![]).is_err());
        assert!(new(vec![member("a", 1), member("a", 2)]).is_err());
        let message = new(vec![member("a", 1), member("b", 1)]).unwrap_err().to_string();
        assert!(message.contains("host b: port 7400"), "{message}");
        assert!(new(vec![Member { server_port: 65_530, ..member("a", 1) }]).is_err());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deployment.toml");
        let text = to_toml(&deployment()).unwrap();
        for (from, to, word) in [
            ("version = 1", "version = 2", "version 2"),
            ("store", "stare", "stare"),
            ("10.0.0.2", "10.0.0", "line"),
        ] {
            std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let message = Deployment::read(&path).unwrap_err().to_string();
            assert!(message.contains(word) && message.contains("deployment.toml"), "{message}");
        }
    }
}
