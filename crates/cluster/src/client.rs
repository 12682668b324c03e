//! A connection to one metadata server, for administration: bounded in time, errors name the server.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use intarsia_types::{Error, Result};
use redis::{
    Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionLike, FromRedisValue,
    IntoConnectionInfo, RedisConnectionInfo, TlsCertificates,
};

use crate::deployment::ServerAddress;
use crate::private;
use crate::secrets::Secret;

/// The user of the nodes: data, no administration.
pub const CLIENT_USER: &str = "intarsia";
/// The user of supervision and of replication.
pub const KEEPER_USER: &str = "intarsia-keeper";
/// Longest wait for one answer. A loaded server may need seconds, a dead one never answers.
const ANSWER: Duration = Duration::from_secs(3);

/// How one gets at the servers of a deployment.
#[derive(Clone, Debug)]
pub struct Access {
    /// The user.
    pub user: &'static str,
    /// The user's password.
    pub password: Secret,
    /// The deployment's key, certificate and private key in one PEM file, when TLS is used.
    pub key_file: Option<PathBuf>,
}

/// A connection to one server.
pub struct Connection {
    inner: redis::Connection,
    address: ServerAddress,
}

impl Access {
    /// Connects, no longer than a few seconds.
    ///
    /// # Errors
    /// When the server is not there or refuses the user; the message names it.
    pub fn connect(&self, address: &ServerAddress) -> Result<Connection> {
        let failed = |e: &dyn std::fmt::Display| unreachable(address, e);
        let client = self.client(address)?;
        let inner = client.get_connection_with_timeout(ANSWER).map_err(|e| failed(&e))?;
        let connection = Connection { inner, address: *address };
        connection.limit_waits(ANSWER)?;
        Ok(connection)
    }

    fn client(&self, address: &ServerAddress) -> Result<Client> {
        let settings = RedisConnectionInfo::default()
            .set_username(self.user)
            .set_password(self.password.reveal());
        let failed = |e| unreachable(address, &e);
        let host = address.ip.to_string();
        let Some(key_file) = &self.key_file else {
            let place = ConnectionAddr::Tcp(host, address.port);
            let info = place.into_connection_info().map_err(failed)?;
            return Client::open(info.set_redis_settings(settings)).map_err(failed);
        };
        let (port, tls_params) = (address.port, None);
        let place = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params };
        let info = place.into_connection_info().map_err(failed)?.set_redis_settings(settings);
        let client = Client::build_with_tls(info, certificates(key_file)?).map_err(failed)?;
        let info = client.get_connection_info().clone();
        let mut place = info.addr().clone();
        // No certificate but the deployment's is accepted, and every host has the same one, so the
        // name in it says nothing.
        place.set_danger_accept_invalid_hostnames(true);
        Client::open(info.set_addr(place)).map_err(failed)
    }
}

fn certificates(key_file: &Path) -> Result<TlsCertificates> {
    let pem = private::read_file(key_file)?.into_bytes();
    let client_tls = ClientTlsConfig { client_cert: pem.clone(), client_key: pem.clone() };
    Ok(TlsCertificates { client_tls: Some(client_tls), root_cert: Some(pem) })
}

fn unreachable(address: &ServerAddress, why: &dyn std::fmt::Display) -> Error {
    Error::Engine(format!("metadata server at {address} cannot be reached: {why}"))
}

impl Connection {
    /// Where the server is.
    #[must_use]
    pub const fn address(&self) -> &ServerAddress {
        &self.address
    }

    /// Waits for answers until then, but at least the few seconds that every connection grants. For steps that follow
    /// one another and cannot be begun again at will: a server that is slow once must not end them.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn be_patient_until(&self, deadline: Instant) -> Result<()> {
        self.limit_waits(ANSWER.max(deadline.saturating_duration_since(Instant::now())))
    }

    fn limit_waits(&self, longest: Duration) -> Result<()> {
        let failed = |e| unreachable(&self.address, &e);
        self.inner.set_read_timeout(Some(longest)).map_err(failed)?;
        self.inner.set_write_timeout(Some(longest)).map_err(failed)
    }

    /// Sends a command and waits for its answer, no longer than a few seconds or as long as was granted.
    ///
    /// # Errors
    /// When the server refuses it or does not answer.
    pub fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> Result<T> {
        let mut command = Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut self.inner).map_err(|e| {
            let name: Vec<&str> = words.iter().take(2).copied().collect();
            let why = if e.is_timeout() { "no answer in time".into() } else { e.to_string() };
            Error::Engine(format!("metadata server at {}: {}: {why}", self.address, name.join(" ")))
        })
    }

    /// Whether the connection can be used again.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.inner.is_open()
    }

    /// The fields `name:value` of a section of INFO, or of CLUSTER INFO.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn fields(&mut self, words: &[&str]) -> Result<Fields> {
        self.ask::<String>(words).map(Fields)
    }
}

/// Lines `name:value`.
#[derive(Clone, Debug)]
pub struct Fields(String);

impl Fields {
    /// The value of a field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
    }

    /// The value of a field that is a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Values of the fields `name0`, `name1`, ….
    pub fn numbered<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.lines().filter_map(move |line| {
            let (number, value) = line.trim_end().strip_prefix(name)?.split_once(':')?;
            number.parse::<u32>().ok()?;
            Some(value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "role:master\r\nslave0:ip=a,port=1\r\nslave1:ip=b,port=2\r\nslave_x:1\r\nmaster_repl_offset:42\r\n";
        let fields = Fields(text.into());
        assert_eq!(fields.get("role"), Some("master"));
        assert_eq!(fields.get("rol"), None);
        assert_eq!(fields.number("master_repl_offset"), Some(42));
        let slaves: Vec<&str> = fields.numbered("slave").collect();
        assert_eq!(slaves, ["ip=a,port=1", "ip=b,port=2"]);
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let address = ServerAddress { ip: [127, 0, 0, 1].into(), port, bus_port: port };
        let access =
            Access { user: KEEPER_USER, password: Secret::random().unwrap(), key_file: None };
        let message = access.connect(&address).err().unwrap().to_string();
        assert!(message.contains(&format!("127.0.0.1:{port}")), "{message}");
    }
}
