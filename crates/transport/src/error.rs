//! What can go wrong with a call: the peer could not be asked, or it answered with an error.

use std::io;
use std::net::SocketAddr;

use intarsia_types::{Error, NodeId};

/// A call that brought no answer, or an error as its answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The peer could not be asked, or its answer did not arrive.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The peer's own answer: it looked, and this is what it says.
    #[error(transparent)]
    Remote(Error),
}

/// Why there is no answer from a peer. The text names the peer, its address and the request.
#[derive(Clone, Debug, thiserror::Error)]
#[error("peer {node}{}: {doing}: {failure}", at(*address))]
pub struct PeerError {
    /// The peer.
    pub node: NodeId,
    /// Its address, where one is known.
    pub address: Option<SocketAddr>,
    /// What was tried.
    pub doing: &'static str,
    /// Why it failed.
    pub failure: PeerFailure,
}

fn at(address: Option<SocketAddr>) -> String {
    address.map_or_else(String::new, |address| format!(" at {address}"))
}

/// The kinds of failure, by what the caller may conclude.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerFailure {
    /// No member of that name. Nothing was sent.
    #[error("no member of this store has that name")]
    Unknown,
    /// No connection. Nothing was sent.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// One of the sides does not accept the other: key, version, store or identity. Nothing was sent.
    #[error("refused: {0}")]
    Refused(String),
    /// The message cannot be sent as it is. Nothing was sent.
    #[error("cannot be sent: {0}")]
    Unsendable(String),
    /// No answer in time. Whether the peer did it is unknown.
    #[error("no answer within {waited_ms} ms")]
    Timeout {
        /// How long the caller waited.
        waited_ms: u64,
    },
    /// The connection broke before the answer. Whether the peer did it is unknown.
    #[error("connection lost before the answer: {0}")]
    Lost(String),
    /// The answer's payload does not match its checksum.
    #[error("the payload was damaged on its way")]
    Damaged,
    /// The answer makes no sense.
    #[error("an answer that makes no sense: {0}")]
    Nonsense(String),
}

impl PeerFailure {
    /// Whether the peer may have acted on the request although no answer came.
    #[must_use]
    pub const fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Lost(_) | Self::Damaged | Self::Nonsense(_))
    }

    const fn errno(&self) -> Option<i32> {
        const ETIMEDOUT: i32 = 110;
        const EHOSTUNREACH: i32 = 113;
        match self {
            Self::Timeout { .. } => Some(ETIMEDOUT),
            Self::Unknown | Self::Unreachable(_) | Self::Refused(_) | Self::Lost(_) => {
                Some(EHOSTUNREACH)
            }
            Self::Damaged | Self::Nonsense(_) | Self::Unsendable(_) => None,
        }
    }
}

impl From<PeerError> for Error {
    fn from(error: PeerError) -> Self {
        let what = error.to_string();
        let source = match error.failure.errno() {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::new(io::ErrorKind::InvalidData, "no usable answer"),
        };
        Self::Io { what, source }
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Peer(error) => error.into(),
            CallError::Remote(error) => error,
        }
    }
}

/// Why a key, a runtime or a server could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's own error.
        source: io::Error,
    },
    /// The key file is not usable as it is.
    #[error("deployment key: {0}")]
    Key(String),
    /// The address is not one to listen on.
    #[error("listen address {address}: {why}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// What is wrong with it and what to do.
        why: &'static str,
    },
}

impl StartError {
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }

    pub(crate) fn key(why: impl std::fmt::Display) -> Self {
        Self::Key(why.to_string())
    }
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Io { what, source } => Self::io(what, source),
            other => Self::Invalid(other.to_string()),
        }
    }
}
