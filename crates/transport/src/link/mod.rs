//! One connection: how it is made, how both sides prove the key, how frames become bytes and bytes frames.
//!
//! This is the boundary behind which another transport can stand: above it are only `connect`, `accept`, a
//! `FrameWriter` that takes frames without blocking, and a `FrameReader` that awaits them.

mod handshake;
mod read;
mod tag;
mod write;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use intarsia_sync::Relapse;
use intarsia_wire::{Hello, Protection, WireError};
use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

pub(crate) use handshake::{Introduction, accept, connect};
pub(crate) use read::FrameReader;
pub(crate) use write::{FrameWriter, Progress};

use crate::PeerFailure;
use tag::TagKey;

/// What every Linux has, and hosts of a cluster use if nobody set anything else; and what is made for far networks.
const CONGESTION_CONTROL: &[u8] = b"cubic";
const FAR_CONTROL: &[u8] = b"bbr";

/// A connection over which both sides proved the key.
pub(crate) struct Link {
    pub(crate) protection: Protection,
    pub(crate) writer: FrameWriter,
    pub(crate) reader: FrameReader,
}

/// What becomes of outgoing frames.
enum Seal {
    Tag(TagKey),
    Tls(Arc<Mutex<rustls::Connection>>),
}

/// What is done to incoming bytes.
enum Open {
    Tag(TagKey),
    Tls(Arc<Mutex<rustls::Connection>>),
}

/// Why a connection could not be made or went away.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("{}", tls_text(.0))]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Refused(String),
    #[error(
        "a frame with a wrong tag: it was changed on its way, or comes from someone without the key"
    )]
    Tag,
    #[error("{0} timed out")]
    Timeout(&'static str),
}

fn tls_text(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_) => {
            format!("the two sides hold different deployment keys ({error})")
        }
        rustls::Error::NoCertificatesPresented => "it showed no deployment key".to_owned(),
        other => format!("TLS: {other}"),
    }
}

impl LinkError {
    /// What a caller learns of a connection that could not be made.
    pub(crate) fn failure(&self) -> PeerFailure {
        match self {
            Self::Io(_) | Self::Timeout(_) => PeerFailure::Unreachable(self.to_string()),
            _ => PeerFailure::Refused(self.to_string()),
        }
    }
}

/// Turns on what finds a dead peer without a thread or timer of ours: the system probes an idle connection and
/// gives up on one that acknowledges nothing for `silence`.
fn tune(socket: &TcpStream, silence: Duration) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let probe_after = Duration::from_secs((silence.as_secs() / 2).max(1));
    let keepalive = TcpKeepalive::new()
        .with_time(probe_after)
        .with_interval(Duration::from_secs(1))
        .with_retries(u32::try_from(silence.as_secs()).unwrap_or(5).clamp(1, 100));
    let socket = SockRef::from(socket);
    // Hosts of a store are near to each other, and a reader has answers of many of them at once. A system may prefer what
    // is for far ones (BBR), with which the queue before the reader overflows: each twentieth segment was lost then.
    let control = if Relapse::FarControl.is_back() { FAR_CONTROL } else { CONGESTION_CONTROL };
    if let Err(error) = socket.set_tcp_congestion(control) {
        tracing::debug!(%error, "connections are controlled as the system has it");
    }
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(silence))
}

/// Who is on the other side of an incoming connection.
pub(crate) struct Caller {
    pub(crate) hello: Hello,
    pub(crate) address: SocketAddr,
}
