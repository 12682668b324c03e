//! One server: how to connect to it, a pool of connections for reads, and the one connection for writes.

use std::time::Duration;

use intarsia_sync::{Instant, Mutex, Relapse};

use pem::Pem;
use redis::io::tcp::TcpSettings;
use redis::{
    Client, ClientTlsConfig, Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    TlsCertificates, Value,
};

use super::RedisTls;
use super::failure::{Address, Failure};
use super::writer::Writer;

/// The longest waits for each answer and for a connection: long enough for a server that forks, and short enough for several
/// attempts within the time of one operation.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// An attempt has at least this much time, even if less is left of that of its operation.
const LEAST: Duration = Duration::from_millis(20);
/// Idle connections kept for reads.
const READERS: usize = 16;

/// How to reach the servers of one deployment: they differ in their address only.
pub(super) struct Connector {
    template: ConnectionInfo,
    tls: Option<Certificates>,
}

struct Certificates {
    pem: TlsCertificates,
    /// Whether the names in the servers' certificates are those by which the servers are addressed, so that they are compared.
    has_names: bool,
}

impl Certificates {
    /// The certificates of the authorities that the system trusts.
    fn of_the_system() -> Result<Self, String> {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "some of the system's authorities are not believed");
        }
        if found.certs.is_empty() {
            return Err(
                "the system has no certificates of authorities; name one for the servers".into()
            );
        }
        let pems: Vec<_> =
            found.certs.iter().map(|der| Pem::new("CERTIFICATE", der.as_ref())).collect();
        let root_cert = Some(pem::encode_many(&pems).into_bytes());
        Ok(Self { pem: TlsCertificates { client_tls: None, root_cert }, has_names: true })
    }
}

impl From<&RedisTls> for Certificates {
    fn from(tls: &RedisTls) -> Self {
        let (authority, identity, has_names) = match tls {
            RedisTls::Authority { authority, identity } => (authority, identity.clone(), true),
            RedisTls::Deployment(key) => (key, Some((key.clone(), key.clone())), false),
        };
        let client_tls =
            identity.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        let pem = TlsCertificates { client_tls, root_cert: Some(authority.clone()) };
        Self { pem, has_names }
    }
}

impl Connector {
    /// Takes credentials and transport from the first URL. Returns also the addresses in all URLs.
    pub(super) fn new(
        urls: &[String],
        tls: Option<&RedisTls>,
    ) -> Result<(Self, Vec<Address>), String> {
        let mut infos = Vec::new();
        for url in urls {
            // The URL may hold a password: it is never repeated in a message.
            let info = url.as_str().into_connection_info().map_err(|e| e.to_string())?;
            infos.push(info);
        }
        let addresses = infos.iter().map(address_of).collect::<Result<_, _>>()?;
        let first = infos.into_iter().next().ok_or("no address of a server")?;
        // With no linger time, a connection that is given up does not deliver a command later.
        let tcp = TcpSettings::default().set_nodelay(true).set_linger_time(Duration::ZERO);
        let is_encrypted = matches!(first.addr(), ConnectionAddr::TcpTls { .. });
        if is_encrypted {
            // This fails when the program has chosen a provider already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        // Kept also for a URL without TLS: then connecting fails instead of going on unencrypted.
        let tls = match tls {
            Some(tls) => Some(tls.into()),
            None if is_encrypted => Some(Certificates::of_the_system()?),
            None => None,
        };
        Ok((Self { template: first.set_tcp_settings(tcp), tls }, addresses))
    }

    fn client(&self, address: &Address) -> Result<Client, Failure> {
        let (host, port) = (address.host.clone(), address.port);
        let addr = match self.template.addr() {
            ConnectionAddr::TcpTls { insecure, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: None }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        let info = self.template.clone().set_addr(addr);
        let Some(tls) = &self.tls else { return Ok(Client::open(info)?) };
        let client = Client::build_with_tls(info, tls.pem.clone())?;
        if tls.has_names {
            return Ok(client);
        }
        let info = client.get_connection_info().clone();
        let mut addr = info.addr().clone();
        addr.set_danger_accept_invalid_hostnames(true);
        Ok(Client::open(info.set_addr(addr))?)
    }
}

fn address_of(info: &ConnectionInfo) -> Result<Address, String> {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            Ok(Address { host: host.clone(), port: *port })
        }
        _ => Err("the URL of a server begins with redis:// or rediss://".into()),
    }
}

/// One server, and the connections to it.
pub(super) struct Server {
    pub(super) address: Address,
    client: Client,
    readers: Mutex<Vec<Connection>>,
    pub(super) writer: Writer,
    /// When the question was sent after whose answer another server last confirmed that this one is the primary.
    pub(super) confirmed: Mutex<Option<Instant>>,
}

impl Server {
    pub(super) fn new(connector: &Connector, address: Address) -> Result<Self, Failure> {
        let client = connector.client(&address)?;
        let (readers, confirmed) = (Mutex::default(), Mutex::default());
        Ok(Self { address, client, readers, writer: Writer::default(), confirmed })
    }

    /// Makes a new connection, by `deadline`.
    pub(super) fn connect(&self, deadline: Instant) -> Result<Connection, Failure> {
        if Relapse::ForgottenConnections.is_back() {
            // As it was done for every connection once.
            let _ = Certificates::of_the_system();
        }
        let timeout = left(deadline).min(CONNECT_TIMEOUT);
        let connection = self.client.get_connection_with_timeout(timeout)?;
        connection.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        connection.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(connection)
    }

    /// Sends one command on a pooled connection and returns its answer.
    pub(super) fn ask(&self, command: &[u8], deadline: Instant) -> Result<Value, Failure> {
        let pooled = self.readers.lock().pop();
        let mut connection = match pooled {
            Some(connection) => connection,
            None => self.connect(deadline)?,
        };
        let is_late = limit(&connection, deadline)?;
        let answer = ask_on(&mut connection, command);
        let mut readers = self.readers.lock();
        match &answer {
            Err(Failure::Transient(_)) => readers.clear(),
            _ if Relapse::ForgottenConnections.is_back() => {}
            _ if readers.len() < READERS && (!is_late || unlimit(&connection)) => {
                readers.push(connection);
            }
            _ => {}
        }
        answer
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(LEAST)
}

/// Makes the connection wait for an answer no longer than until `deadline`. Returns whether that is less than usual: then it
/// stays so until [`unlimit`].
pub(super) fn limit(connection: &Connection, deadline: Instant) -> Result<bool, Failure> {
    let left = left(deadline);
    if left >= ANSWER_TIMEOUT {
        return Ok(false);
    }
    connection.set_read_timeout(Some(left))?;
    Ok(true)
}

/// Lets the connection wait for an answer as long as usual again; false when it cannot be used any more.
pub(super) fn unlimit(connection: &Connection) -> bool {
    connection.set_read_timeout(Some(ANSWER_TIMEOUT)).is_ok()
}

fn ask_on(connection: &mut Connection, command: &[u8]) -> Result<Value, Failure> {
    connection.send_packed_command(command)?;
    checked(connection.recv_response()?)
}

/// The answer, or the failure that it stands for.
pub(super) fn checked(value: Value) -> Result<Value, Failure> {
    match value {
        Value::ServerError(error) => Err(Failure::from(&error)),
        value => Ok(value),
    }
}
