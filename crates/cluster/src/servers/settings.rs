//! The configuration of a server, in files that only its owner can read.

use std::fmt::Write;
use std::path::PathBuf;

use intarsia_types::{ByteCount, Durability, Error, Result};

use crate::client::{CLIENT_USER, KEEPER_USER};
use crate::deployment::ServerAddress;
use crate::private;
use crate::secrets::Secrets;

/// Milliseconds after which a silent server counts as failed.
pub(crate) const NODE_TIMEOUT_MS: u32 = 2000;

/// The setting by which a server stands for no election. The others see it as the flag `nofailover`.
pub(crate) const NO_ELECTION: &str = "cluster-replica-no-failover";

/// What the administration may do: nothing with data.
const KEEPER_RIGHTS: &str = "resetkeys resetchannels -@all +@connection +info +role +wait +dbsize \
     +cluster +psync +replconf +config|set";
/// What a node may do: everything with data, nothing with the server, and nothing that destroys all.
const CLIENT_RIGHTS: &str = "~* &* +@all -@dangerous -@admin -function|flush -function|delete \
     -function|restore -function|kill -script|flush -script|kill -script|debug +info +role \
     +cluster|info +cluster|keyslot +cluster|myid +cluster|nodes +cluster|shards +cluster|slots";

/// Whether a copy of every change must be elsewhere before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// The deployment has one host, and this server is all there is.
    Alone,
    /// Of several hosts one is left, and goes on by itself: servers have replicas where there is a host for them, and
    /// need none.
    Waived,
    /// A primary without a replica takes no writes.
    Required,
}

/// What a server is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where its files are: configuration, data, log.
    pub dir: PathBuf,
    /// Where it listens, and nowhere else.
    pub address: ServerAddress,
    /// What an acknowledged change survives.
    pub durability: Durability,
    /// Whether there are replicas.
    pub replication: Replication,
    /// Most memory for data; writes fail beyond it, nothing is evicted. No limit when absent.
    pub memory: Option<ByteCount>,
    /// The passwords.
    pub secrets: Secrets,
    /// The deployment's key, for TLS to clients, in replication and in the Cluster's own messages.
    ///
    /// Without it the servers' own messages prove nothing: whoever reaches the ports can forge them.
    pub key_file: Option<PathBuf>,
}

impl Settings {
    /// Writes the configuration and returns its path. A server that does not have all of its shard stands for no
    /// election until its host allows it.
    ///
    /// # Errors
    /// When a path cannot stand in a configuration or a file cannot be written.
    pub(super) fn write(&self, is_complete: bool) -> Result<PathBuf> {
        let path = self.dir.join("server.conf");
        private::write_file(&self.dir.join("users.acl"), self.users().as_bytes())?;
        let barred = if is_complete { "no" } else { "yes" };
        let text = format!("{}{NO_ELECTION} {barred}\n", self.text()?);
        private::write_file(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Anybody who does not name a user and its password gets nothing.
    ///
    /// The default user is off, so nobody can be it, but has all rights: the server acts as that user when it
    /// reads its log at a start, and leaves out every transaction that the user may not do.
    fn users(&self) -> String {
        let (client, keeper) = (&self.secrets.client_password, &self.secrets.keeper_password);
        format!(
            "user default off resetpass ~* &* +@all\n\
             user {KEEPER_USER} on >{} {KEEPER_RIGHTS}\n\
             user {CLIENT_USER} on >{} {CLIENT_RIGHTS}\n",
            keeper.reveal(),
            client.reveal()
        )
    }

    fn text(&self) -> Result<String> {
        let dir = quoted(&self.dir)?;
        let ServerAddress { ip, port, bus_port } = self.address;
        let (plain, tls) = if self.key_file.is_some() { (0, port) } else { (port, 0) };
        // With `hz 5` half of what an idle server costs is saved; it looks at the others every 200 ms, a tenth of
        // the time after which one is taken for dead.
        let mut text = format!(
            "# Written by intarsia at every start; changes are lost.\n\
             bind {ip}\n\
             bind-source-addr {ip}\n\
             port {plain}\n\
             tls-port {tls}\n\
             protected-mode yes\n\
             daemonize no\n\
             dir {dir}\n\
             logfile server.log\n\
             aclfile users.acl\n\
             databases 1\n\
             hz 5\n\
             save \"\"\n\
             shutdown-timeout 3\n\
             masteruser {KEEPER_USER}\n\
             masterauth {keeper}\n\
             replica-announce-ip {ip}\n\
             replica-announce-port {port}\n\
             repl-backlog-size 64mb\n\
             repl-diskless-sync-delay 0\n\
             repl-ping-replica-period 2\n\
             repl-timeout 15\n\
             min-replicas-max-lag 5\n\
             min-replicas-to-write {min_replicas}\n\
             maxmemory {memory}\n\
             maxmemory-policy noeviction\n\
             cluster-enabled yes\n\
             cluster-config-file nodes.conf\n\
             cluster-port {bus_port}\n\
             cluster-announce-ip {ip}\n\
             cluster-node-timeout {NODE_TIMEOUT_MS}\n\
             cluster-require-full-coverage no\n\
             cluster-allow-replica-migration no\n\
             zset-max-listpack-entries 256\n",
            keeper = self.secrets.keeper_password.reveal(),
            min_replicas = u8::from(self.replication == Replication::Required),
            memory = self.memory.map_or(0, |m| m.0),
        );
        text.push_str(self.log_policy());
        if let Some(key_file) = &self.key_file {
            let file = quoted(key_file)?;
            // One certificate for all, so it is its own authority.
            for name in ["tls-ca-cert-file", "tls-cert-file", "tls-key-file"] {
                let _ = writeln!(text, "{name} {file}");
            }
            text.push_str("tls-auth-clients yes\ntls-replication yes\ntls-cluster yes\n");
        }
        Ok(text)
    }

    /// When the log of changes reaches the disk.
    ///
    /// The log must hold every answered change when the process dies: a server may come back with it
    /// while its replica, which has more, is not in sight. `everysec` may answer while a write to the
    /// log still waits for the disk, up to two seconds; `no` never does, and supervision forces the log
    /// out every second instead.
    const fn log_policy(&self) -> &'static str {
        match self.durability {
            Durability::Memory => "appendonly no\n",
            Durability::Interval => "appendonly yes\nappendfsync no\n",
            Durability::Sync => "appendonly yes\nappendfsync always\n",
        }
    }
}

/// A path in the quotes of a configuration file.
fn quoted(path: &std::path::Path) -> Result<String> {
    let text =
        path.to_str().filter(|t| !t.contains(|c: char| c.is_control())).ok_or_else(|| {
            Error::Invalid(format!(
                "the path {} cannot stand in a server's configuration; choose one of plain letters",
                path.display()
            ))
        })?;
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            dir: "/var/a \"b\"".into(),
            address: ServerAddress { ip: [10, 0, 0, 1].into(), port: 7401, bus_port: 7402 },
            durability: Durability::Interval,
            replication: Replication::Required,
            memory: None,
            secrets: Secrets::generate("s").unwrap(),
            key_file: None,
        }
    }

    #[test]
    fn listens_at_the_given_address_only_and_needs_a_replica() {
        let text = settings().text().unwrap();
        for line in [
            "bind 10.0.0.1",
            "port 7401",
            "tls-port 0",
            "dir \"/var/a \\\"b\\\"\"",
            "min-replicas-to-write 1",
            "appendfsync no",
            "maxmemory-policy noeviction",
        ] {
            assert!(text.lines().any(|l| l == line), "'{line}' is missing in:\n{text}");
        }
    }

    #[test]
    fn alone_it_needs_no_replica() {
        let alone = Settings { replication: Replication::Alone, ..settings() };
        let text = alone.text().unwrap();
        assert!(text.contains("min-replicas-to-write 0\n"));
        let last = Settings { replication: Replication::Waived, ..alone };
        assert_eq!(last.text().unwrap(), text);
    }

    #[test]
    fn a_log_is_never_behind_what_was_answered() {
        let text = settings().text().unwrap();
        assert!(text.contains("appendonly yes\nappendfsync no\n"));
        let sync = Settings { durability: Durability::Sync, ..settings() };
        assert!(sync.text().unwrap().contains("appendfsync always\n"));
    }

    #[test]
    fn with_tls_no_port_is_plain() {
        let with_tls = Settings { key_file: Some("/etc/key.pem".into()), ..settings() };
        let text = with_tls.text().unwrap();
        for line in [
            "port 0",
            "tls-port 7401",
            "tls-cluster yes",
            "tls-replication yes",
            "tls-auth-clients yes",
        ] {
            assert!(text.lines().any(|l| l == line), "'{line}' is missing in:\n{text}");
        }
    }

    #[test]
    fn a_path_cannot_smuggle_in_a_line() {
        assert!(quoted(std::path::Path::new("/a\nrequirepass x")).is_err());
    }
}
