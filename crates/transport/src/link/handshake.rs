//! From a socket to a link: preamble, TLS 1.3 with both sides proving the key, hello.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use intarsia_types::{Error, NodeId};
use intarsia_wire::{
    Fault, Hello, Lane, PREAMBLE_BYTES, Preamble, Protection, VERSION, Verdict, Welcome, WireError,
};
use parking_lot::Mutex;
use rustls::{ClientConnection, Connection, ServerConnection};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Caller, FrameReader, FrameWriter, Link, LinkError, Open, Seal, TagKey, tune};
use crate::{BufferPool, Config, DeploymentKey, Identity};

/// The label under which the tag keys are exported from the handshake (RFC 5705, RFC 8446 section 7.5).
const EXPORT_LABEL: &[u8] = b"EXPORTER-intarsia-frame-tags";
/// Bytes of the length before a hello or its answer.
const LENGTH_BYTES: usize = 4;

/// Decides whether a peer that holds the key is welcome.
pub(crate) type Admission<'a> = &'a (dyn Fn(&Hello) -> Result<(), Error> + Send + Sync);

/// What a client says of itself.
pub(crate) struct Introduction<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) to: &'a NodeId,
    pub(crate) session: u64,
    pub(crate) lane: Lane,
}

/// Connects to `address` and proves the key in both directions.
pub(crate) async fn connect(
    address: SocketAddr,
    who: Introduction<'_>,
    config: &Config,
    buffers: &BufferPool,
) -> Result<(Link, Welcome), LinkError> {
    let work = async {
        let mut socket = TcpStream::connect(address).await?;
        tune(&socket, config.silence)?;
        exchange_preambles(&mut socket, config.protection).await?;
        let name = DeploymentKey::server_name().map_err(|e| LinkError::Refused(e.to_string()))?;
        let connection = ClientConnection::new(Arc::clone(&who.identity.key.client), name)?;
        let mut tls = Tls { socket, connection: connection.into() };
        tls.handshake().await?;
        let welcome = introduce(&mut tls, &who, config.protection).await?;
        Ok((tls.into_link(config.protection, Side::Client, buffers)?, welcome))
    };
    timeout(config.connect_timeout, work).await.unwrap_or(Err(LinkError::Timeout("connecting")))
}

/// Takes an incoming connection, if its caller proves the key and is welcome.
pub(crate) async fn accept(
    mut socket: TcpStream,
    identity: &Identity,
    admission: Admission<'_>,
    config: &Config,
    buffers: &BufferPool,
) -> Result<(Link, Caller), LinkError> {
    let work = async {
        let address = socket.peer_addr()?;
        tune(&socket, config.silence)?;
        exchange_preambles(&mut socket, config.protection).await?;
        let connection = ServerConnection::new(Arc::clone(&identity.key.server))?;
        let mut tls = Tls { socket, connection: connection.into() };
        tls.handshake().await?;
        let hello = Hello::decode(&tls.receive().await?)?;
        if let Err(refusal) =
            examine(&hello, identity, config.protection).and_then(|()| admission(&hello))
        {
            tls.send(&Verdict::Refused(Fault::from(&refusal)).encode()?).await?;
            return Err(LinkError::Refused(format!("node {}: {refusal}", hello.node)));
        }
        let welcome =
            Welcome { node: identity.node.clone(), store: identity.store, epoch: identity.epoch };
        tls.send(&Verdict::Welcome(welcome).encode()?).await?;
        let link = tls.into_link(config.protection, Side::Server, buffers)?;
        Ok((link, Caller { hello, address }))
    };
    timeout(config.connect_timeout, work).await.unwrap_or(Err(LinkError::Timeout("the handshake")))
}

/// Says who we are and reads whom we reached.
async fn introduce(
    tls: &mut Tls,
    who: &Introduction<'_>,
    protection: Protection,
) -> Result<Welcome, LinkError> {
    let identity = who.identity;
    let hello = Hello {
        node: identity.node.clone(),
        to: who.to.clone(),
        store: identity.store,
        epoch: identity.epoch,
        session: who.session,
        lane: who.lane,
        version: VERSION,
        protection: protection as u8,
    };
    tls.send(&hello.encode()?).await?;
    match Verdict::decode(&tls.receive().await?)? {
        Verdict::Refused(fault) => Err(LinkError::Refused(Error::from(fault).to_string())),
        Verdict::Welcome(welcome) if welcome.node == *who.to && welcome.store == identity.store => {
            Ok(welcome)
        }
        Verdict::Welcome(other) => Err(LinkError::Refused(format!(
            "node {} of store {} answers at that address",
            other.node, other.store
        ))),
    }
}

/// Whether a caller means this node, in this store, in this protocol.
fn examine(hello: &Hello, identity: &Identity, protection: Protection) -> Result<(), Error> {
    let refuse = |why: String| Err(Error::Invalid(why));
    if hello.store != identity.store {
        return refuse(format!("this is store {}, not {}", identity.store, hello.store));
    }
    if hello.to != identity.node {
        return refuse(format!("this is node {}, not {}", identity.node, hello.to));
    }
    if (hello.version, hello.protection) != (VERSION, protection as u8) {
        return refuse("the preamble was changed on its way".to_owned());
    }
    Ok(())
}

/// Both sides send theirs at once, so that each can name the other's version.
async fn exchange_preambles(
    socket: &mut TcpStream,
    protection: Protection,
) -> Result<(), LinkError> {
    let ours = Preamble::ours(protection);
    socket.write_all(&ours.encode()).await?;
    let mut theirs = [0; PREAMBLE_BYTES];
    socket.read_exact(&mut theirs).await?;
    Ok(ours.accept(theirs)?)
}

#[derive(Clone, Copy)]
enum Side {
    Client,
    Server,
}

/// A TLS connection as long as single messages go to and fro.
struct Tls {
    socket: TcpStream,
    connection: Connection,
}

impl Tls {
    async fn handshake(&mut self) -> Result<(), LinkError> {
        while self.connection.is_handshaking() {
            self.flush().await?;
            if self.connection.is_handshaking() {
                self.fill().await?;
            }
        }
        self.flush().await
    }

    async fn send(&mut self, message: &[u8]) -> Result<(), LinkError> {
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_le_bytes();
        self.connection.writer().write_all(&length)?;
        self.connection.writer().write_all(message)?;
        self.flush().await
    }

    async fn receive(&mut self) -> Result<Vec<u8>, LinkError> {
        let mut length = [0; LENGTH_BYTES];
        self.read_exact(&mut length).await?;
        let len_bytes = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if len_bytes > Hello::MAX_BYTES {
            let limit_bytes = Hello::MAX_BYTES;
            return Err(WireError::HeaderTooLong { len_bytes, limit_bytes }.into());
        }
        let mut message = vec![0; len_bytes];
        self.read_exact(&mut message).await?;
        Ok(message)
    }

    async fn read_exact(&mut self, mut into: &mut [u8]) -> Result<(), LinkError> {
        while !into.is_empty() {
            match self.connection.reader().read(into) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(n) => into = into.get_mut(n..).unwrap_or_default(),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.fill().await?,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Waits for bytes from the other side and takes what there is.
    async fn fill(&mut self) -> Result<(), LinkError> {
        loop {
            self.socket.readable().await?;
            match self.connection.read_tls(&mut Try(&self.socket)) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(_) => break,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.into()),
            }
        }
        if let Err(error) = self.connection.process_new_packets() {
            // The alert tells the other side why; whether it arrives changes nothing here.
            let _ = self.flush().await;
            return Err(error.into());
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), LinkError> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Try(&self.socket)) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.socket.writable().await?,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// The client sends nothing before the welcome, and the server nothing unasked: so nothing of ours can be left
    /// in the TLS connection when the frames begin.
    fn into_link(
        mut self,
        protection: Protection,
        side: Side,
        buffers: &BufferPool,
    ) -> Result<Link, LinkError> {
        let (seal, open) = match protection {
            Protection::Encrypted => {
                self.connection.set_buffer_limit(None);
                let connection = Arc::new(Mutex::new(self.connection));
                (Seal::Tls(Arc::clone(&connection)), Open::Tls(connection))
            }
            Protection::Tagged => {
                let mut left = [0];
                if self.connection.reader().read(&mut left).is_ok() {
                    return Err(LinkError::Refused("bytes after the handshake".to_owned()));
                }
                let (to_server, to_client) = tag_keys(&self.connection)?;
                match side {
                    Side::Client => (Seal::Tag(to_server), Open::Tag(to_client)),
                    Side::Server => (Seal::Tag(to_client), Open::Tag(to_server)),
                }
            }
        };
        let (incoming, outgoing) = self.socket.into_split();
        Ok(Link {
            protection,
            writer: FrameWriter::new(Arc::new(outgoing), seal),
            reader: FrameReader::new(incoming, open, buffers.clone()),
        })
    }
}

/// One key for each direction, known to these two sides of this connection only.
fn tag_keys(connection: &Connection) -> Result<(TagKey, TagKey), LinkError> {
    let export = |context: &[u8]| {
        connection.export_keying_material([0; blake3::KEY_LEN], EXPORT_LABEL, Some(context))
    };
    Ok((TagKey::new(export(b"client to server")?), TagKey::new(export(b"server to client")?)))
}

/// A socket for one non-blocking attempt.
pub(super) struct Try<'a>(pub(super) &'a TcpStream);

impl io::Read for Try<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }
}

impl io::Write for Try<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
